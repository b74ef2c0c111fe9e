"""PDM of a linear head's per-sample gradients, without ever holding them all.

A linear head of c outputs on k features has gradients G = e rᵀ (and e, for the bias), c·k + c
numbers a sample (`matching.gradients`): at the size of DomainNet half a gigabyte,
of which autograd would keep several copies.  But PDM is a sum over dimensions, so they can be made,
sorted, matched and forgotten a few outputs at a time; and since the penalty is a number, its
derivative by e and r can be had on the way.  What remains is [domains, batch, c] and
[domains, batch, k], and the moving average, kept once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shiftproof.matching.parallel import side_by_side
from shiftproof.matching.sorting import sort_rows, sorted_values

# So many numbers are worked on at a time: enough to be worth a call, few enough for the cache.
BLOCK = 1 << 19


class Matching(NamedTuple):
    """How to match: see `MovingMatch`."""

    gamma: float
    order: int
    trim: int
    corrected: bool


class LinearHeadMatch(torch.autograd.Function):
    """The penalty of the gradients of a linear head; its derivative is computed along with it."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        residual: Tensor,
        average: Tensor | None,
        bias: bool,
        matching: Matching,
    ) -> Tensor:
        """Return the penalty of features [m, b, k] and residuals e [m, b, c].

        ``average`` [m, c·k (+ c), b], if there is one, is moved in place; at first it is 0.
        """
        m, b, k = features.shape
        c = residual.shape[-1]
        r = features.transpose(1, 2).contiguous()
        e = residual.transpose(1, 2).contiguous()
        dims = c * k + (c if bias else 0)
        count = m * dims * (b - 2 * matching.trim)
        asked = any(ctx.needs_input_grad)

        def match(blocks: Sequence[tuple[slice, slice]]) -> tuple[Tensor, Tensor, Tensor]:
            zero = torch.zeros((), dtype=_accumulator(r), device=r.device)
            own = zero, torch.zeros_like(r), torch.zeros_like(e)
            for some, part in blocks:
                dims_here = slice(some.start * k + part.start, (some.stop - 1) * k + part.stop)
                here = None if average is None else average[:, dims_here]
                points = (e[:, some, None] * r[:, None, part]).flatten(1, 2)
                penalty, slope = _match(points, here, matching, count, asked)
                own[0].add_(penalty)
                if slope is not None:
                    slope = slope.view(m, some.stop - some.start, -1, b)
                    own[1][:, part] += (slope * e[:, some, None]).sum(dim=1)
                    own[2][:, some] += (slope * r[:, None, part]).sum(dim=2)
            return own

        (total, slope_r, slope_e), *others = side_by_side(match, _dealt(_blocks(c, k, m * b), r))
        for found in others:
            for whole, own in zip((total, slope_r, slope_e), found, strict=True):
                whole += own
        if bias:
            here = None if average is None else average[:, c * k :]
            penalty, slope = _match(e, here, matching, count, asked)
            total += penalty
            if slope is not None:
                slope_e += slope
        ctx.save_for_backward(slope_r, slope_e)
        return total.to(features.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the derivative that is already there."""
        slopes = [
            (slope * gradients[0]).transpose(1, 2).contiguous() for slope in ctx.saved_tensors
        ]
        return slopes[0], slopes[1], None, None, None


def _match(
    points: Tensor, average: Tensor | None, matching: Matching, count: int, asked: bool
) -> tuple[Tensor, Tensor | None]:
    """Return these dimensions' share of the penalty, and if asked its derivative by each point.

    points [m, dims, b].  With S the sorted points, Ā their average and X = Ā / (1 − γ) or Ā, the
    penalty is Σ |X − X̄|^p / count over the levels that are not trimmed, X̄ the mean over domains.
    """
    ranked, order = sort_rows(points) if asked else (sorted_values(points), None)
    pull = 1.0  # ∂X/∂S
    if average is not None:
        ranked = ranked.mul_(1 - matching.gamma).add_(average, alpha=matching.gamma)
        average.copy_(ranked)
        if matching.corrected:
            ranked = ranked.div_(1 - matching.gamma)
        else:
            pull = 1 - matching.gamma
    deviation = ranked.sub_(ranked.mean(dim=0))
    if matching.trim:
        deviation[..., : matching.trim] = 0
        deviation[..., deviation.shape[-1] - matching.trim :] = 0
    if matching.order == 2:
        penalty = deviation.square().sum(dtype=_accumulator(points)) / count
        slope = deviation.mul_(2 * pull / count)  # sums to 0 over domains, as does the deviation
    else:
        penalty = deviation.abs().sum(dtype=_accumulator(points)) / count
        sign = deviation.sign()
        slope = sign.sub_(sign.mean(dim=0)).mul_(pull / count)
    return penalty, None if order is None else torch.empty_like(slope).scatter_(-1, order, slope)


def _blocks(c: int, k: int, points: int) -> list[tuple[slice, slice]]:
    """Return outputs and features whose dimensions, of so many points each, fit a block.

    All features of several outputs, or some features of one: neighbours in the average.
    """
    features = min(k, max(1, BLOCK // points))
    outputs = max(1, BLOCK // (k * points))
    return [
        (slice(o, min(o + outputs, c)), slice(f, min(f + features, k)))
        for o in range(0, c, outputs)
        for f in range(0, k, features)
    ]


def _dealt(blocks: list[tuple[slice, slice]], like: Tensor) -> list[list[tuple[slice, slice]]]:
    """Deal blocks to as many threads as torch uses, neighbours together; few are not worth it."""
    threads = torch.get_num_threads() if like.device.type == "cpu" else 1
    if len(blocks) < 2 * threads:
        return [blocks]
    bounds = [len(blocks) * i // threads for i in range(threads + 1)]
    return [blocks[low:high] for low, high in itertools.pairwise(bounds)]


def _accumulator(x: Tensor) -> torch.dtype:
    """Return in which precision to sum up; MPS has no float64."""
    return x.dtype if x.device.type == "mps" else torch.float64
