"""PDM of a linear head's per-sample gradients, without holding them all.

A linear head with c outputs and k features has gradients G = e rᵀ of c·k numbers per sample
(`matching.head_gradients`).  For DomainNet these take half a gigabyte, of which autograd would keep
several copies.  But PDM is a sum over dimensions, so the gradients can be computed, sorted and
matched block by block.  The penalty is a scalar, so its derivatives with respect to e and r can be
computed along with it.  What remains is [samples, c] and [samples, k], and one copy of the memory.

The blocks reuse one `Workspace`: freed large tensors return to the operating system, which supplies
new memory page by page, and this takes several times as long as writing to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shiftproof.matching._sort import side_by_side, sort_rows, sorted_rows
from shiftproof.matching.head_gradients import LinearGradients
from shiftproof.matching.levels import Matching, centred, from_levels, slope, to_levels


class Workspace:
    """Tensors that reuse the memory of the last one of the same name; its type must be the same.

    >>> space, like = Workspace(), torch.zeros(1)
    >>> first, second = space.empty("x", like, (2, 3)), space.empty("x", like, (4,))
    >>> second.shape, second.data_ptr() == first.data_ptr()
    (torch.Size([4]), True)
    """

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def empty(
        self, name: str, like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None
    ) -> Tensor:
        """Return an empty tensor on the device of `like`, of its type unless `dtype` is given."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size:
            held = self._held[name] = like.new_empty(size, dtype=dtype or like.dtype)
        return held[:size].view(tuple(shape))


Block = tuple[slice, slice]
# Derivatives with respect to features and residuals, for each bundle.
Slopes = list[tuple[Tensor, Tensor]]
# Fewer values than this are transposed in one thread.
_WORTH_A_THREAD = 1 << 20


def match_linear_head(x: LinearGradients, how: Matching) -> Tensor:
    """Return the penalty of a linear head's gradients, and update the memory, if any."""
    is_asked = torch.is_grad_enabled() and (x.features.requires_grad or x.residual.requires_grad)
    penalty: Tensor = _LinearHeadMatch.apply(x.features, x.residual, x, how, is_asked)
    return penalty


class _LinearHeadMatch(torch.autograd.Function):
    """The penalty as a function of features and residuals, with its derivative."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, residual: Tensor, x: LinearGradients, how: Matching, asked: bool
    ) -> Tensor:
        bundles, blocks = _bundles(x, how.rules), x.blocks()
        # If each feature is in one block only, its derivative overwrites it, for all threads.
        shared = all(outputs == slice(0, residual.shape[1]) for outputs, _ in blocks)

        def match(blocks: Sequence[Block]) -> list[Tensor]:
            total = torch.zeros((), dtype=_accumulator(features), device=features.device)
            slopes = [
                (bundle.r if shared else torch.zeros_like(bundle.r), torch.zeros_like(bundle.e))
                for bundle in bundles
            ]
            spaces = [Workspace() for _ in bundles]
            for block in blocks:
                total += _match(bundles, block, how, slopes if asked else None, spaces)
            return [total, *itertools.chain(*slopes)]

        by_thread = side_by_side(match, _split(blocks, features))
        total, *slopes = by_thread[0]
        for others in by_thread[1:]:
            for whole, part in zip((total, *slopes), others, strict=True):
                if whole is not part:
                    whole += part
        domains, levels = len(x.sizes), x.sizes[0]
        if how.memory is not None:
            domains, _, levels = how.memory.sums.shape
        count = domains * x.dims * (levels - 2 * how.trim if how.widths is None else 1)
        ctx.save_for_backward(*slopes)
        ctx.count, ctx.features = count, features.shape[1]
        return (total / count).to(features.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the derivative computed in the forward pass."""
        factor = gradients[0] / ctx.count
        slopes = ctx.saved_tensors
        of_features = [slope[:, : ctx.features] for slope in slopes[::2]]  # without the bias
        return (
            _row_by_row(of_features).mul_(factor),
            _row_by_row(slopes[1::2]).mul_(factor),
            None,
            None,
            None,
        )


class _Bundle(NamedTuple):
    """Domains of equal sizes: r [domains, k, batch], e [domains, c, batch], and their rule."""

    r: Tensor
    e: Tensor
    rule: Tensor | None

    def points(self, block: Block, space: Workspace) -> Tensor:
        """Return the gradients in the dimensions of a block, [domains, dims, batch]."""
        outputs, features = block
        e, r = self.e[:, outputs, None], self.r[:, None, features]
        shape = len(e), e.shape[1], r.shape[2], r.shape[3]
        return torch.mul(e, r, out=space.empty("points", r, shape)).flatten(1, 2)


def _bundles(x: LinearGradients, rules: Sequence[Tensor | None]) -> list[_Bundle]:
    """Return one bundle of all domains if their sizes are equal, else one for each domain."""
    lengths = [sum(x.sizes)] if len(set(x.sizes)) == 1 else list(x.sizes)
    parts = zip(torch.split(x.features, lengths), torch.split(x.residual, lengths), strict=True)
    bundles = []
    for size, rule, pair in zip(x.sizes, rules, parts, strict=False):
        r, e = (part.view(-1, size, part.shape[1]) for part in pair)
        r, e = _transposed(r, x.inputs), _transposed(e, e.shape[2])
        bundles.append(_Bundle(r, e, rule))
    return bundles


def _match(
    bundles: list[_Bundle],
    block: Block,
    how: Matching,
    slopes: Slopes | None,
    spaces: list[Workspace],
) -> Tensor:
    """Return Σ |D|^p over the dimensions of a block; add its derivative to `slopes`, if given."""
    points, ranked, positions = [], [], []
    for bundle, space in zip(bundles, spaces, strict=True):
        unsorted = bundle.points(block, space)
        points.append(unsorted)
        if slopes is None:
            values = sorted_rows(unsorted)
        else:
            values = space.empty("values", unsorted, unsorted.shape)
            positions.append(space.empty("positions", unsorted, unsorted.shape, torch.int64))
            sort_rows(unsorted, (values, positions[-1]))
        ranked.append(to_levels(values, bundle.rule))
    outputs, features = block
    k = bundles[0].r.shape[1]
    dims = slice(outputs.start * k + features.start, (outputs.stop - 1) * k + features.stop)
    moved = how.moved(ranked[0] if len(ranked) == 1 else torch.cat(ranked), dims)
    deviation = centred(moved, how.shares, overwrite=True)
    if how.trim:
        deviation[..., : how.trim] = 0
        deviation[..., deviation.shape[-1] - how.trim :] = 0
    powered = deviation.square() if how.order == 2 else deviation.abs()
    if how.widths is not None:
        powered = powered * how.widths
    total = powered.sum(dtype=_accumulator(powered))
    del powered  # frees memory for what follows
    if slopes is not None:
        by_level = how.present(slope(deviation, how.order, how.shares))
        if how.widths is not None:
            by_level = by_level * how.widths
        parts = torch.split(by_level, [len(bundle.r) for bundle in bundles])
        for i, (bundle, part) in enumerate(zip(bundles, parts, strict=True)):
            by_value = from_levels(part, bundle.rule, points[i].shape[2])
            _add_slopes(bundle, block, points[i].scatter_(2, positions[i], by_value), slopes[i])
    return total


def _add_slopes(
    bundle: _Bundle, block: Block, by_point: Tensor, slopes: tuple[Tensor, Tensor]
) -> None:
    """Add the derivatives by r and e, given the one by the points e rᵀ [domains, dims, batch].

    `by_point` is overwritten.  If `own` holds r itself, the derivative by r replaces it.
    """
    outputs, features = block
    by_r, by_e = slopes
    e, r = bundle.e[:, outputs, None], bundle.r[:, None, features]
    by_point = by_point.view(len(e), e.shape[1], r.shape[2], -1)
    by_e[:, outputs] += (by_point * r).sum(dim=2)
    by_point *= e
    new = by_point.sum(dim=1) if e.shape[1] > 1 else by_point[:, 0]
    if by_r is bundle.r:
        by_r[:, features] = new
    else:
        by_r[:, features] += new


def _transposed(x: Tensor, rows: int) -> Tensor:
    """Return x [domains, n, k] as contiguous [domains, rows, n]; rows after the k-th are 1."""
    new = x.new_empty(x.shape[0], rows, x.shape[1])
    new[:, x.shape[2] :] = 1
    # One matrix at a time: torch transposes single matrices block by block, which is faster.
    pairs = list(zip(new, x.detach(), strict=True))
    in_threads = x.device.type == "cpu" and x.numel() >= _WORTH_A_THREAD
    for part in [pairs] if in_threads else [[pair] for pair in pairs]:
        side_by_side(lambda pair: pair[0][: x.shape[2]].copy_(pair[1].T), part)
    return new


def _row_by_row(parts: Sequence[Tensor]) -> Tensor:
    """Return parts [domains, k, n] as one tensor [samples, k]."""
    rows = [_transposed(part, part.shape[2]).flatten(0, 1) for part in parts]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def _split(blocks: list[Block], like: Tensor) -> list[list[Block]]:
    """Split the blocks across as many threads as torch uses, keeping neighbours together."""
    threads = torch.get_num_threads() if like.device.type == "cpu" else 1
    if len(blocks) < 2 * threads:
        return [blocks]
    bounds = [len(blocks) * i // threads for i in range(threads + 1)]
    return [blocks[low:high] for low, high in itertools.pairwise(bounds)]


def _accumulator(x: Tensor) -> torch.dtype:
    """Return the precision for sums: float64, except on MPS, which lacks it."""
    return x.dtype if x.device.type == "mps" else torch.float64
