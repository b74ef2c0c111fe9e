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
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import widened
from shiftproof.matching.call import Matching
from shiftproof.matching.gradients import LinearGradients
from shiftproof.matching.linear_head import match_linear_head
from shiftproof.matching.quantiles import merged_levels, to_levels
from shiftproof.matching.sorting import sorted_rows
from shiftproof.matching.spread import Order, check_order, check_trim, spread

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
