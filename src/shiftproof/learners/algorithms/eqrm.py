"""EQRM: empirical quantile risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, rate, steps

HALVINGS = 32


def kernel_quantile(x: Tensor, quantile: float) -> Tensor:
    """Return t with F(t) = α, for F the kernel density estimate of x [n], n ≥ 2: a scalar.

    F(t) = (1/n) Σᵢ Φ((t − xᵢ)/h), with h = 1.06 s n^(−1/5) the optimal bandwidth for normal data
    and s the unbiased standard deviation.  With z = Φ⁻¹(α), F ≤ α at min x + z h and F ≥ α at
    max x + z h, so

        t = (1 − w)(min x + z h) + w (max x + z h)   for some w in [0, 1],

    found by bisection to 2⁻³³ of the range.  The derivative treats w as a constant, as the code of
    Eastwood et al. (2022) does: it reaches the extreme points, and all points through h.
    """
    bandwidth = 1.06 * x.std() * len(x) ** -0.2
    shift = NormalDist().inv_cdf(quantile) * bandwidth
    low, high = x.min() + shift, x.max() + shift
    return torch.lerp(low, high, _share(x, bandwidth, low, high, quantile))


@torch.no_grad()
def _share(x: Tensor, bandwidth: Tensor, low: Tensor, high: Tensor, quantile: float) -> Tensor:
    """Return w with F((1 − w) low + w high) = α, without waiting for the device."""
    lower, upper = torch.zeros_like(low), torch.ones_like(low)
    for _ in range(HALVINGS):
        middle = (lower + upper) / 2
        point = torch.lerp(low, high, middle)
        above = torch.special.ndtr((point - x) / bandwidth).mean() > quantile
        lower, upper = torch.where(above, lower, middle), torch.where(above, middle, upper)
    return (lower + upper) / 2


@ALGORITHMS.register("eqrm")
class EQRM(ERM):
    """Minimise the α-quantile of the domains' risks: F⁻¹(α), for F smooth through L₁ … Lₘ.

    F comes from a kernel density estimate: with probability α, a new domain from the same
    distribution has a risk below the loss.  Until step `burn_in_steps` the loss is the mean risk;
    then Adam restarts with learning rate `burnt_in_lr`.

    Paper: Eastwood et al. (2022), *Probable Domain Generalization via Quantile Risk Minimization*.
    """

    family = "robust"
    paper = "Eastwood et al. (2022)"
    restarts_at = ("burn_in_steps",)
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """α, the burn-in steps and the learning rate after them."""

        quantile: float = hparam(
            0.75, Float(0.5, 0.99), within=(1e-6, 1 - 1e-6), help="α, the quantile of risks"
        )
        burn_in_steps: int = steps(
            2500, Int(2.5, 3.5, base=10), help="first steps, which minimise the mean risk"
        )
        burnt_in_lr: float = rate(
            1e-6, Float(-7, -5, base=10), help="learning rate after the first steps"
        )

    hparams: Hparams

    @property
    def burnt_in(self) -> bool:
        """Whether this step minimises the quantile."""
        return self.updates >= self.hparams.burn_in_steps

    def objective(self, batch: Batch) -> Losses:
        """Return the mean of the domains' risks, or, once burnt in, their quantile."""
        risks = self.outputs(batch).risks
        risk = risks.mean()
        total = kernel_quantile(risks, self.hparams.quantile) if self.burnt_in else risk
        return Losses(total, {"risk": risk})

    @property
    def learning_rate(self) -> float:
        """The learning rate of the current stage."""
        return self.hparams.burnt_in_lr if self.burnt_in else self.hparams.lr
