"""Formulas that several methods other than IDM use: spreads, distances, mixtures and averages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import LateBuffers, in_full_precision
from shiftproof.models.risk import CROSS_ENTROPY_LOSS, Loss


def variance_across_domains(x: Tensor) -> Tensor:
    """Return (1/m) Σᵢ ‖xᵢ − x̄‖² / d, with x̄ the mean over domains: x [domains, …] → scalar.

    d is the number of elements of one xᵢ.  For risks xᵢ this is the penalty of V-REx (Krueger et
    al., 2021), for gradient variances that of Fishr (Rame et al., 2022).

    >>> variance_across_domains(torch.tensor([1.0, 3.0]))
    tensor(1.)
    """
    # For so few values, `var` and its derivative take three times as long.
    return (x - x.mean(dim=0)).square().mean()


def variance_within_domains(x: Tensor) -> Tensor:
    """Return the unbiased variance of each dimension in each domain, averaged over both.

    x [domains, batch, d], batch ≥ 2 → scalar.  A low variance bounds the entropy of x from above:
    the information bottleneck of Ahuja et al. (2021).

    >>> variance_within_domains(torch.tensor([[[1.0], [3.0]], [[5.0], [5.0]]]))
    tensor(1.)
    """
    if x.shape[1] < 2:
        raise InvalidValue(
            "a variance needs at least 2 samples per domain, not 1; raise `batch_size`"
        )
    return x.var(dim=1).mean()


def gradient_spread(risks: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Return Σᵢ ‖gᵢ − ḡ‖², with gᵢ = ∇Lᵢ by all parameters and ḡ their mean over domains.

    It is m times the trace of the covariance of the domains' gradients (Koyama and Yamaguchi,
    2020), and can be differentiated again.

    risks [domains], each a function of the parameters → scalar.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    per_domain = [
        torch.autograd.grad(risk, trained, create_graph=True, materialize_grads=True)
        for risk in risks
    ]
    spreads = []
    for gradients in zip(*per_domain, strict=True):
        stacked = torch.stack(gradients)
        spreads.append((stacked - stacked.mean(dim=0)).square().sum())
    return torch.stack(spreads).sum()


def beta_weights(alpha: float, size: int, generator: torch.Generator) -> Tensor:
    """Return [size] draws from Beta(α, α) in float64, determined by the generator's state.

    Torch's Beta takes no generator, and its Gamma draws underflow for small α.  NumPy's do not, so
    a NumPy generator is seeded from ours.
    """
    seed = torch.randint(2**63 - 1, (2,), generator=generator)
    return torch.from_numpy(np.random.default_rng(seed.tolist()).beta(alpha, alpha, size))


class MovingAverage(LateBuffers):
    """x̄ₜ = γ x̄ₜ₋₁ + (1 − γ) xₜ with x̄₀ = 0; only xₜ carries a gradient.

    With `corrected`, the result is x̄ₜ / (1 − γ), as in the code of Fishr (Rame et al., 2022)
    and of IDM: the gradient of xₜ then does not depend on γ.

    The average is a buffer, so it is saved, moved and restored with the model.

    >>> import torch
    >>> average = MovingAverage(0.5)
    >>> average(torch.tensor([4.0])), average(torch.tensor([4.0]))
    (tensor([2.]), tensor([3.]))
    """

    late = ("average",)
    average: Tensor | None

    def __init__(self, gamma: float, *, corrected: bool = False) -> None:
        super().__init__()
        self.gamma = gamma
        self.corrected = corrected

    def forward(self, x: Tensor) -> Tensor:
        """Update the average with `x` and return it, in the same shape."""
        if self.gamma == 0:
            return x
        current = (1 - self.gamma) * x
        if self.average is not None:
            # If loaded from a checkpoint, the average may still be on another device.
            current = current + self.gamma * self.average.to(current)
        self.average = current.detach()
        return current / (1 - self.gamma) if self.corrected else current


def mix(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return w · first + (1 − w) · second, with one weight for each leading entry.

    first and second [*lead, *rest], weight [*lead] (a scalar: one weight for all) → [*lead, *rest].

    >>> mix(torch.tensor([[0.0], [0.0]]), torch.tensor([[4.0], [8.0]]), torch.tensor([0.5, 0.25]))
    tensor([[2.],
            [6.]])
    """
    weight = weight.view(weight.shape + (1,) * (first.dim() - weight.dim()))
    return weight * first + (1 - weight) * second


def irm_slopes(logits: Tensor, labels: Tensor, loss: Loss = CROSS_ENTROPY_LOSS) -> Tensor:
    """Return each sample's slope s = ⟨z, e⟩: logits z [..., c], labels [...] → [...].

    Arjovsky et al. (2019) multiply the logits by a scale w = 1 and penalise the slope of each
    domain's risk there.  For one sample with logits z and e = ∂ℓ/∂z = softmax(z) − onehot(y) (or
    σ(z) − y for one logit, and ŷ − y for a number under the squared loss), that slope is s.  So no
    second derivative is needed.
    """
    return (logits * loss.residual(logits, labels)).sum(dim=-1)


def irm_penalty(logits: Tensor, labels: Tensor, loss: Loss = CROSS_ENTROPY_LOSS) -> Tensor:
    """Return (1/m) Σᵢ Lᵢ′(1; even samples) · Lᵢ′(1; odd samples), a scalar of any sign.

    The two halves of a minibatch are independent, so their product is an unbiased estimate of the
    squared slope; the square of one estimate is not.

    logits [domains, batch, c] (or [..., 1]), labels [domains, batch], batch ≥ 2.
    """
    if logits.shape[1] < 2:
        raise InvalidValue(
            "the penalty of IRM needs at least 2 samples per domain, not 1; raise `batch_size`"
        )
    slope = irm_slopes(logits, labels, loss)
    return (slope[:, ::2].mean(dim=1) * slope[:, 1::2].mean(dim=1)).mean()


# From nearly linear to nearly discrete, for features of any scale.
INVERSE_WIDTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


@in_full_precision
def mmd(
    groups: Tensor | Sequence[Tensor], inverse_widths: Sequence[float] = INVERSE_WIDTHS
) -> Tensor:
    """Return the mean over pairs of groups of K̄ᵢᵢ + K̄ⱼⱼ − 2 K̄ᵢⱼ, a scalar ≥ 0.

    K̄ᵢⱼ is the mean of `gaussian_kernels` between the points of groups i and j, so the term
    of a pair is ‖mean embedding of i − mean embedding of j‖² (Gretton et al., 2012; the biased
    estimate, which pairs points with themselves).  The mean over all pairs is twice the mean kernel
    within groups minus twice the mean kernel between groups.

    groups [domains, batch, k], or a sequence of [batchᵢ, k] of any sizes ≥ 1.  For one group the
    result is 0.
    """
    within = [gaussian_kernels(x, x, inverse_widths).mean() for x in groups]
    if len(groups) == 1:
        return 0 * within[0]
    between = [gaussian_kernels(x, y, inverse_widths).mean() for x, y in combinations(groups, 2)]
    return 2 * (torch.stack(within).mean() - torch.stack(between).mean())


def gaussian_kernels(
    x: Tensor, y: Tensor, inverse_widths: Sequence[float] = INVERSE_WIDTHS
) -> Tensor:
    """Return Σ_γ exp(−γ ‖xᵢ − yⱼ‖²) over `inverse_widths`: x [n, k], y [l, k] → [n, l].

    The default is γ = 10⁻³ … 10³.

    >>> gaussian_kernels(torch.zeros(1, 2), torch.zeros(1, 2))
    tensor([[7.]])
    """
    squares = x.square().sum(dim=1, keepdim=True) + y.square().sum(dim=1)
    # Rounding can make the distance between equal points negative.
    distances = (squares - 2 * x @ y.T).clamp_min(0)
    return torch.stack([torch.exp(-gamma * distances) for gamma in inverse_widths]).sum(dim=0)


@in_full_precision
def coral(groups: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the mean over pairs of groups of (1/k)‖μᵢ − μⱼ‖² + (1/k²)‖Cᵢ − Cⱼ‖², a scalar ≥ 0.

    μᵢ [k] and Cᵢ [k, k] are the mean and the (unbiased) covariance of group i.  Sun and Saenko
    (2016) match covariances; the means are added as in DomainBed.

    The mean of ‖aᵢ − aⱼ‖² over all pairs is twice the unbiased variance of the aᵢ, which needs one
    pass over the groups instead of m(m − 1)/2.

    Args:
        groups: [domains, batch, k], or a sequence of [batchᵢ, k] of any sizes ≥ 2.  For one group
            the result is 0.

    >>> coral(torch.tensor([[[0.0], [2.0]], [[3.0], [5.0]]]))  # same spread, means 3 apart
    tensor(9.)
    """
    if min(len(group) for group in groups) < 2:
        raise InvalidValue(
            "a covariance needs at least 2 samples per group, not 1; raise `batch_size`"
        )
    means = torch.stack([group.mean(dim=0) for group in groups])
    if len(groups) == 1:
        return 0 * means.sum()
    # `torch.cov` would wait for the device.
    centred = [group - mean for group, mean in zip(groups, means, strict=True)]
    covariances = torch.stack([(x.T @ x / (len(x) - 1)).view(-1) for x in centred])
    unbiased = len(groups) / (len(groups) - 1)
    return 2 * unbiased * (variance_across_domains(means) + variance_across_domains(covariances))
