"""PDM: per-sample distribution matching (Algorithm 1 of the IDM paper).

Slice the data into dimensions, sort each, and match the sorted points across domains.  With
x^i₍₁₎ ≤ … ≤ x^i₍b₎ the sorted values of domain i in one dimension and x̄₍j₎ = (1/m) Σᵢ x^i₍j₎ their
mean over domains,

    PDM_p = (1 / (m·d·b)) Σ_dimensions Σᵢ Σⱼ |x^i₍j₎ − x̄₍j₎|^p.

The paper's theorem on bijections bounds the distance between the kernel density estimates P̄, Q̄ of
two domains by that of any pairing of their points, and the theorem on the minimiser shows that
sorting is the best pairing.  For two domains in one dimension and kernels of variance σ²:

    KL(P̄ ‖ Q̄) ≤ (1/b) Σⱼ (x¹₍j₎ − x²₍j₎)² / (2σ²) = (2/σ²) · PDM₂,
    W(P̄, Q̄)  ≤ (1/b) Σⱼ |x¹₍j₎ − x²₍j₎|         = 2 · PDM₁.

`pdm_by_class` matches the samples of each class, whatever its share of each domain.  Matching all
samples at once mixes up the classes if domains have different class proportions: with
representations that separate the classes, the quantiles of a domain of 90% class 1 are not those of
a domain of 40% class 1, and making them equal undoes the separation.  The decomposition
I(R,Y;D) = I(Y;D) + I(R;D|Y) shows what can be matched without harm: the second term.

    PDM_p(x | y) = (1/|S|) Σ_{c ∈ S} PDM_p({xⁱ of class c} for each domain i),

with S the classes present in every domain of the batch; 0 if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import LateBuffers, widened
from shiftproof.matching._sort import sort_rows, sorted_rows
from shiftproof.matching.head_gradients import LinearGradients
from shiftproof.matching.levels import (
    Matching,
    Memory,
    Order,
    check_order,
    check_trim,
    merged_levels,
    overlap,
    spread,
    to_levels,
)
from shiftproof.matching.linear_head import match_linear_head

Points = Tensor | Sequence[Tensor] | LinearGradients


def pdm(x: Points, order: Order = 2, trim: int = 0) -> Tensor:
    """Return the matching penalty PDM_p of several groups of points, a scalar ≥ 0.

    Args:
        x: [domains, batch, dims], or a sequence of [batchᵢ, dims], one per domain, of any sizes,
            or the gradients of a linear head.  The penalty of a single domain is 0.  Groups of
            unequal sizes are matched by quantiles: with Fᵢ⁻¹ the (step) quantile function of
            group i, the sum over j becomes ∫₀¹ |Fᵢ⁻¹(u) − F̄⁻¹(u)|^p du, which is the same number
            for equal sizes.
        order: 2 for the KL form, 1 for the Wasserstein form.
        trim: number of values to leave out at each end, per dimension, in the smallest group;
            larger groups leave out the same share.

    For two domains in one dimension, order 1 is half their Wasserstein distance:

    >>> x = torch.tensor([[[0.0], [1.0]], [[3.0], [2.0]]])
    >>> pdm(x, order=1), pdm(x, order=2)
    (tensor(1.), tensor(1.))
    """
    check_order(order)
    sizes = group_sizes(x)
    check_trim(trim, min(sizes))
    if len(set(sizes)) == 1:
        return match(x, Matching([None] * len(sizes), order, trim))
    rules, widths = merged_levels(sizes, trim, like(x))
    return match(x, Matching(rules, order, widths=widths))


def match(x: Points, how: Matching) -> Tensor:
    """Return the penalty of points that `how.rules` bring to common levels."""
    if isinstance(x, LinearGradients):
        return match_linear_head(x, how)
    if all(rule is None for rule in how.rules):
        ranked = _sorted(x if isinstance(x, Tensor) else torch.stack(tuple(x)))
    else:
        pairs = zip(x, how.rules, strict=True)
        ranked = torch.stack([to_levels(_sorted(group), rule) for group, rule in pairs])
    moved = how.moved(ranked)
    trimmed = moved[..., how.trim : moved.shape[-1] - how.trim]
    return spread(trimmed, how.order, how.shares, how.widths)


def group_sizes(x: Points) -> tuple[int, ...]:
    """Return the number of samples in each domain."""
    sizes = x.sizes if isinstance(x, LinearGradients) else tuple(len(group) for group in x)
    if not sizes:
        raise InvalidValue("matching needs at least one domain, not 0")
    return sizes


def like(x: Points) -> Tensor:
    """Return an empty tensor with the precision and device in which x is matched."""
    return widened((x.features if isinstance(x, LinearGradients) else x[0])[:0])


def _sorted(x: Tensor) -> Tensor:
    """Sort each dimension of x [..., batch, dims]: [..., dims, batch]."""
    # Sorting a contiguous copy along its last axis is faster than sorting along a strided axis.
    return sorted_rows(widened(x).transpose(-1, -2).contiguous())


def pdm_by_class(
    x: Tensor | Sequence[Tensor], y: Tensor | Sequence[Tensor], classes: int, order: Order = 2
) -> Tensor:
    """Return the mean of PDM over the classes present in all domains, a scalar ≥ 0.

    x [domains, batch, dims], y [domains, batch] in 0 … classes − 1; or groups of any sizes,
    [batchᵢ, dims] and [batchᵢ].  Nothing waits for the device: shapes do not depend on the labels.

    The samples of each domain are sorted by class, then value, and weighted such that each shared
    class covers the same share of [0, 1] in every domain.  So one pass over the quantile functions
    compares every class with itself, exactly as `pdm` does for groups of unequal sizes.

    >>> x = torch.tensor([[[0.0], [0.0], [9.0]], [[1.0], [9.0], [9.0]]])
    >>> pdm_by_class(x, torch.tensor([[0, 0, 1], [0, 1, 1]]), classes=2)
    tensor(0.1250)
    """
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        # The padding of small groups gets an extra class, which has no share.
        x = pad_sequence(list(x), batch_first=True)
        y = pad_sequence(list(y), batch_first=True, padding_value=classes)
    rows = widened(x).transpose(1, 2).contiguous()  # [domains, dims, batch]
    counts = torch.zeros(len(x), classes + 1, dtype=rows.dtype, device=rows.device)
    counts.scatter_add_(1, y, torch.ones_like(y, dtype=rows.dtype))
    counts[:, classes] = 0
    shared = (counts > 0).all(dim=0)
    share = shared / (counts * shared.sum()).clamp(min=1)  # of [0, 1], for each sample
    ranked = rows.gather(2, _places(rows, y))
    levels = share.gather(1, y.sort(dim=1).values).cumsum(dim=1)  # where each sample's share ends
    edges = levels.flatten().sort().values.clamp(max=1)
    if edges.device.type == "cpu":
        edges = torch.unique(edges)  # a GPU would have to wait for the shape
    widths = edges.diff(prepend=edges.new_zeros(1))
    middles = (edges - widths / 2).expand(len(x), -1).contiguous()
    position = torch.searchsorted(levels, middles).clamp(max=rows.shape[2] - 1)
    pieces = ranked.gather(2, position.unsqueeze(1).expand(-1, rows.shape[1], -1))
    return spread(pieces, order, widths=widths)


def _places(rows: Tensor, y: Tensor) -> Tensor:
    """Return the order by class, then value, of rows [domains, dims, batch] of classes y."""
    by_value = sort_rows(rows)[1]
    # Classes start at 1, because `sort_rows` keeps the order of equal values only above 0.
    classes = y.unsqueeze(1).expand_as(rows).gather(2, by_value).float() + 1
    return by_value.gather(2, sort_rows(classes)[1])


class MovingMatch(LateBuffers):
    """PDM on a moving average of the sorted points (Algorithm 1, line 5).

    For each domain i it keeps the sum Sᵢ = Σₖ γᵏ sort(xⁱ) over the calls with samples of i, k calls
    ago, and their mass wᵢ = Σₖ γᵏ.  With x̄ = Σᵢ Sᵢ / Σᵢ wᵢ the common centre of the m domains seen
    so far, in d dimensions and at b levels,

        penalty = (1 / (m·d·b)) Σᵢ ‖Sᵢ − wᵢ x̄‖ₚᵖ,

    where only the points of this call carry a gradient.  A domain that is absent still counts, but
    less with every call.  With γ = 0 nothing is kept, and `pdm` matches the domains of this call.

    If every call holds every domain, Sᵢ is the moving average of the paper,
    x̄ₜ = γ x̄ₜ₋₁ + (1 − γ) sort(xₜ), divided by 1 − γ.  The authors' code divides by it too, which
    makes the gradient of the newest points independent of γ; `corrected` does the same.  Without
    it, the penalty is that of the paper's average, (1 − γ)ᵖ times as large.

    The number of levels is the largest group's size in the first call.  Groups of other sizes are
    brought to these levels (`matching.levels`).  Calls in evaluation mode, and calls with NaN or
    infinity, do not change the state.

    The state is `sums` [domains, dims, levels], `masses` [domains] and `domains`, the domain ids.
    """

    late = ("sums", "masses", "domains")
    sums: Tensor | None
    masses: Tensor | None
    domains: Tensor | None

    def __init__(
        self, gamma: float = 0.95, order: int = 2, trim: int = 0, *, corrected: bool = False
    ) -> None:
        super().__init__()
        if not 0 <= gamma < 1:
            raise InvalidValue(f"a moving average needs 0 ≤ γ < 1, not {gamma}")
        self.gamma = gamma
        self.order = check_order(order)
        self.trim = trim
        self.scale = 1.0 if corrected else (1 - gamma) ** order
        self._known: list[int] = []  # `domains` as a list, readable without waiting for a device

    def forward(self, x: Points, domains: Sequence[int] | None = None) -> Tensor:
        """Add x to the moving average and return the penalty.

        x: [domains, batch, dims], or groups [batchᵢ, dims], or the gradients of a linear head.
        `domains` are the domain ids, by default 0, 1, …
        """
        if self.gamma == 0:
            return pdm(x, self.order, self.trim)
        sizes = group_sizes(x)
        levels = max(sizes) if self.sums is None else self.sums.shape[2]
        check_trim(self.trim, levels)
        rules = [overlap(size, levels, like(x)) for size in sizes]
        memory = self._memory(x, range(len(sizes)) if domains is None else domains, levels)
        return self.scale * match(x, Matching(rules, self.order, self.trim, memory=memory))

    def _memory(self, x: Points, present: Sequence[int], levels: int) -> Memory:
        """Return the memory of this call, extended by new domains, and update the masses."""
        known = [*self._known, *(domain for domain in present if domain not in self._known)]
        sums, masses = self._past(x, len(known), levels)
        rows = None
        if list(present) == known:
            moved = self.gamma * masses + 1
        else:
            rows = torch.tensor([known.index(domain) for domain in present], device=masses.device)
            moved = (self.gamma * masses).index_add(0, rows, masses.new_ones(len(rows)))
        stored = self.training and _is_finite(x)
        if stored is not False:
            self.sums = sums
            self.masses = moved if stored is True else torch.where(stored, moved, masses)
            if known != self._known:
                self._known, self.domains = known, torch.tensor(known)
        return Memory(sums, self.gamma, rows, _shares(moved), stored)

    def _past(self, x: Points, count: int, levels: int) -> tuple[Tensor, Tensor]:
        """Return the sums and masses of `count` domains, 0 for new ones."""
        dims = x.dims if isinstance(x, LinearGradients) else x[0].shape[1]
        if self.sums is None or self.masses is None:
            return like(x).new_zeros(count, dims, levels), like(x).new_zeros(count)
        if self.sums.shape[1] != dims:
            raise InvalidValue(
                f"what is matched had {self.sums.shape[1]} dimensions in earlier calls and has"
                f" {dims} now: build a new matching for another network"
            )
        # A checkpoint may have been loaded on another device.
        sums, masses = self.sums.to(like(x)), self.masses.to(like(x))
        new = count - len(sums)
        if new > 0:
            sums = torch.cat([sums, sums.new_zeros(new, dims, levels)])
            masses = torch.cat([masses, masses.new_zeros(new)])
        return sums, masses

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self._known = [] if self.domains is None else self.domains.tolist()


def _is_finite(x: Points) -> bool | Tensor:
    """Return whether all values are finite; off the CPU as a tensor, so as not to wait for it."""
    parts = (x.features, x.residual) if isinstance(x, LinearGradients) else tuple(x)
    finite = torch.stack([part.isfinite().all() for part in parts]).all()
    return bool(finite) if finite.device.type == "cpu" else finite


def _shares(masses: Tensor) -> Tensor | None:
    """Return each domain's share of the mass; None if the shares are known to be equal."""
    if masses.device.type == "cpu" and bool((masses == masses[0]).all()):
        return None
    return (masses / masses.sum()).view(-1, 1, 1)
