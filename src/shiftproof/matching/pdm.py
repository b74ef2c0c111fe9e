"""PDM: per-sample distribution matching (Algorithm 1 of the IDM paper).

Slice the data into dimensions, sort each, and match the sorted points across domains.  With
x^i₍₁₎ ≤ … ≤ x^i₍b₎ the sorted values of domain i in one dimension and x̄₍j₎ = (1/m) Σᵢ x^i₍j₎ their
mean over domains,

    PDM_p = (1 / (m·d·b)) Σ_dimensions Σᵢ Σⱼ |x^i₍j₎ − x̄₍j₎|^p.

The paper's theorem on bijections bounds the distance of the kernel density estimators P̄, Q̄ of
two domains by that of any pairing of their points, and the theorem on the minimiser shows that
sorting is the best pairing.  For two domains in one dimension and kernels of variance σ²:

    KL(P̄ ‖ Q̄) ≤ (1/b) Σⱼ (x¹₍j₎ − x²₍j₎)² / (2σ²) = (2/σ²) · PDM₂,
    W(P̄, Q̄)  ≤ (1/b) Σⱼ |x¹₍j₎ − x²₍j₎|         = 2 · PDM₁.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.upcast import widened
from shiftproof.matching.gradients import linear_head_gradients
from shiftproof.matching.linear_head import LinearHeadMatch, Matching
from shiftproof.matching.moving import MovingAverage
from shiftproof.matching.sorting import sorted_rows

Order = Literal[1, 2]


def pdm(x: Tensor | Sequence[Tensor], order: Order = 2, trim: int = 0) -> Tensor:
    """Return the matching penalty PDM_p of several groups of points, a scalar ≥ 0.

    Args:
        x: [domains, batch, dims], or a sequence of [batchᵢ, dims], one per domain, of any sizes;
            a single domain has nothing to match, and its penalty is 0.  Unequal groups are matched
            by quantiles: with Fᵢ⁻¹ the (step) quantile function of group i, the sum over j becomes
            ∫₀¹ |Fᵢ⁻¹(u) − F̄⁻¹(u)|^p du, which for equal sizes is the same number.
        order: 2 for the KL form, 1 for the Wasserstein form.
        trim: how many of the smallest, and of the largest, values to leave out per dimension
            (of the smallest group; of a larger one the same share).

    For two domains in one dimension, order 1 is half their Wasserstein distance:

    >>> x = torch.tensor([[[0.0], [1.0]], [[3.0], [2.0]]])
    >>> pdm(x, order=1), pdm(x, order=2)
    (tensor(1.), tensor(1.))
    """
    _check(len(x), order)
    if isinstance(x, Tensor):
        _check_trim(trim, x.shape[1])
        ranked = sorted_points(x)
        return spread(ranked[:, trim : x.shape[1] - trim], order)
    _check_trim(trim, min(len(group) for group in x))
    ranked, widths = _merge_quantiles(x, trim)
    return spread(ranked, order, widths)


def spread(ranked: Tensor, order: Order = 2, widths: Tensor | None = None) -> Tensor:
    """Return the mean over all elements of |xᵢ − x̄|^p, with x̄ the mean over domains.

    ranked [domains, levels, dims]; ``widths`` [levels], summing to 1, weighs the levels where
    they are not equally wide.
    """
    deviation = ranked - ranked.mean(dim=0)
    powered = deviation.square() if order == 2 else deviation.abs()
    if widths is None:
        return powered.mean()
    return (powered.mean(dim=(0, 2)) * widths).sum()


@torch.no_grad()
def matching_information(x: Tensor) -> Tensor:
    """Bound the information that one dimension of x holds on the domain, in nats, on average.

    x [domains, batch, dims].  The density estimates of the domains with Gaussian kernels of
    standard deviation h have I(x;D) ≤ PDM₂ / (2h²) in one dimension, with h = s · b^(−1/5) (Scott's
    rule; s the dimension's standard deviation, b the batch).  A dimension that does not vary
    holds none.
    """
    ranked = sorted_points(x)
    variance = ranked.flatten(0, 1).var(dim=0, correction=0)
    bandwidth = variance * x.shape[1] ** (-2 / 5)
    penalty = (ranked - ranked.mean(dim=0)).square().mean(dim=(0, 1))
    return torch.where(variance > 0, penalty / (2 * bandwidth), 0).mean()


class MovingMatch(nn.Module):
    """PDM on a moving average of the sorted points (Algorithm 1, line 5).

    x̄ₜ = γ x̄ₜ₋₁ + (1 − γ) sort(xₜ), matched across domains; ``corrected`` divides by 1 − γ as the
    authors' code does (see `MovingAverage`).  The
    average is a buffer of shape [domains, levels, dims] in ``state_dict``.

    The number of levels is that of the first call (the largest group's size).  Later groups of
    another size are brought to it by their nearest equal-weight distribution in the W₂ sense:
    each level takes the mean of the quantile function over its share.
    """

    def __init__(
        self, gamma: float = 0.95, order: Order = 2, trim: int = 0, *, corrected: bool = False
    ) -> None:
        super().__init__()
        if not 0 <= gamma < 1:
            raise InvalidValue(f"a moving average needs 0 ≤ γ < 1, not {gamma}")
        self.order: Order = order
        self.trim = trim
        self.average = MovingAverage(gamma, corrected=corrected)

    def forward(self, x: Tensor | Sequence[Tensor]) -> Tensor:
        """Take in x [domains, batch, dims] (or groups [batchᵢ, dims]) and return the penalty."""
        _check(len(x), self.order)
        remembered = self.average.average
        levels = max(len(g) for g in x) if remembered is None else remembered.shape[1]
        if isinstance(x, Tensor) and x.shape[1] == levels:
            ranked = sorted_points(x)
        else:
            ranked = torch.stack([resample(sorted_points(group), levels) for group in x])
        _check_trim(self.trim, levels)
        averaged: Tensor = self.average(ranked)
        return spread(averaged[:, self.trim : levels - self.trim], self.order)

    def of_linear_head(self, features: Tensor, residual: Tensor, *, bias: bool = True) -> Tensor:
        """Take in the gradients of a linear head, and return their penalty.

        features [domains, batch, k], residual [domains, batch, c].  It is that of
        `linear_head_gradients`, which are never held as a
        whole (`matching.linear_head`).
        """
        _check(len(features), self.order)
        _check_trim(self.trim, features.shape[1])
        remembered = self.average.average
        if remembered is not None and remembered.shape[1] != features.shape[1]:
            gradients: Tensor = linear_head_gradients(features, residual, bias=bias)
            penalty: Tensor = self(gradients)
            return penalty
        features, residual = widened(features), widened(residual)
        average = None
        if self.average.gamma > 0:
            average = self._rows(remembered, features, residual.shape[2], bias)
            self.average.average = average.transpose(1, 2)
        settings = Matching(self.average.gamma, self.order, self.trim, self.average.corrected)
        matched: Tensor = LinearHeadMatch.apply(features, residual, average, bias, settings)
        return matched

    @staticmethod
    def _rows(remembered: Tensor | None, features: Tensor, outputs: int, bias: bool) -> Tensor:
        """Return the average as rows to be sorted into, [domains, dims, levels]; 0 at first."""
        domains, levels, k = features.shape
        if remembered is None:
            return features.new_zeros(domains, outputs * (k + 1 if bias else k), levels)
        # Already so, unless it comes from a checkpoint.
        return remembered.to(features).transpose(1, 2).contiguous()


def sorted_points(x: Tensor) -> Tensor:
    """Sort each dimension (the last axis holds them): [..., batch, dims] → the same shape."""
    x = widened(x)
    # Sorting along the last axis of a contiguous copy beats sorting along a strided one.
    return sorted_rows(x.transpose(-1, -2).contiguous()).transpose(-1, -2)


def _merge_quantiles(groups: Sequence[Tensor], trim: int) -> tuple[Tensor, Tensor]:
    """Return the groups' quantile functions on the pieces where all are constant.

    Group i steps at the levels k/bᵢ.  Between two neighbouring levels of the union every Fᵢ⁻¹ is
    constant, so the values [domains, pieces, dims] and the widths [pieces] hold all there is.
    """
    sizes = [len(group) for group in groups]
    edges = np.unique(np.concatenate([np.arange(b + 1) / b for b in sizes]))
    cut = trim / min(sizes)
    edges = np.unique(np.clip(edges, cut, 1 - cut))
    middles = (edges[1:] + edges[:-1]) / 2
    ranked = [sorted_points(group) for group in groups]
    pieces = torch.stack(
        [
            values[torch.as_tensor(np.floor(middles * b).astype(np.int64), device=values.device)]
            for values, b in zip(ranked, sizes, strict=True)
        ]
    )
    widths = torch.as_tensor(np.diff(edges) / (1 - 2 * cut), dtype=pieces.dtype)
    return pieces, widths.to(pieces.device)


def resample(ranked: Tensor, levels: int) -> Tensor:
    """Return the mean of the quantile function over each of ``levels`` equal shares.

    ranked [batch, dims], sorted → [levels, dims].
    """
    size = len(ranked)
    if size == levels:
        return ranked
    share = np.arange(levels + 1)[:, None] / levels * size - np.arange(size)[None, :]
    overlap = np.diff(np.clip(share, 0, 1), axis=0) * levels / size
    return torch.as_tensor(overlap, dtype=ranked.dtype, device=ranked.device) @ ranked


def _check(domains: int, order: int) -> None:
    if domains < 1:
        raise InvalidValue("matching needs at least one domain, not 0")
    if order not in (1, 2):
        raise InvalidValue(f"the order of matching must be 1 or 2, not {order}")


def _check_trim(trim: int, size: int) -> None:
    if not 0 <= 2 * trim < size:
        raise InvalidValue(f"cannot trim {trim} values from each end of {size}")
