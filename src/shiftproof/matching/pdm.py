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

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import widened
from shiftproof.matching._sort import sort_rows, sorted_rows
from shiftproof.matching.head_gradients import LinearGradients
from shiftproof.matching.levels import (
    Matching,
    Order,
    check_order,
    check_trim,
    merged_levels,
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
    kept = moved[..., how.trim : moved.shape[-1] - how.trim]
    return spread(kept, how.order, how.shares, how.widths)


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
    place = torch.searchsorted(levels, middles).clamp(max=rows.shape[2] - 1)
    pieces = ranked.gather(2, place.unsqueeze(1).expand(-1, rows.shape[1], -1))
    return spread(pieces, order, widths=widths)


def _places(rows: Tensor, y: Tensor) -> Tensor:
    """Return the order by class, then value, of rows [domains, dims, batch] of classes y."""
    by_value = sort_rows(rows)[1]
    # Classes start at 1, because `sort_rows` keeps the order of equal values only above 0.
    classes = y.unsqueeze(1).expand_as(rows).gather(2, by_value).float() + 1
    return by_value.gather(2, sort_rows(classes)[1])
