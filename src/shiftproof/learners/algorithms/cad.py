"""CAD: the contrastive adversarial domain bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.core.space import Choice, hparam
from shiftproof.core.tensors import in_full_precision
from shiftproof.learners.algorithms import ALGORITHMS, Outputs, PenalisedRisk, weight

# The temperature to which the gradients of others are scaled (Khosla et al., 2020).
BASE_TEMPERATURE = 0.07


@in_full_precision
def domain_bottleneck(
    groups: Tensor,
    labels: Tensor | None = None,
    *,
    temperature: float,
    normalized: bool = False,
    flipped: bool = True,
) -> Tensor:
    """Return the contrastive bottleneck of Ruan et al. (2022), a scalar that falls with I(D;Z).

    Sample i picks another sample j of its pool with probability p(j|i) ∝ exp(zᵢ·zⱼ / τ).  With sᵢ
    the probability that j is from the domain of i, the result is the mean over samples of

        −(τ/τ₀) log(1 − sᵢ)  (`flipped`, ≥ 0),  or  (τ/τ₀) log sᵢ  (≤ 0),  τ₀ = 0.07.

    Both decrease as domains mix.  The former has the larger slope where domains are apart.

    groups [domains, batch, k] are the z, scaled to length 1 if `normalized`.  The pool of a sample
    is the rest of the batch.  With labels [domains, batch] it is the rest of its class: then the
    result bounds I(D;Z|Y).  Samples whose pool has no sample of another domain (or, if not
    `flipped`, of their own) are left out; if all are, the result is 0.
    """
    domains, size, _ = groups.shape
    z = groups.flatten(0, 1)
    z = F.normalize(z, dim=1) if normalized else z
    similar = z @ z.T / temperature
    pool = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    if labels is not None:
        pool = pool & (labels.flatten().unsqueeze(1) == labels.flatten())
    domain = torch.arange(domains, device=z.device).repeat_interleave(size)
    elsewhere = domain.unsqueeze(1) != domain
    sought = pool & (elsewhere if flipped else ~elsewhere)
    logs = log_sum(similar, sought) - log_sum(similar, pool)
    counted = sought.any(dim=1)
    mean = torch.where(counted, logs, 0).sum() / counted.sum().clamp_min(1)
    return (-1 if flipped else 1) * temperature / BASE_TEMPERATURE * mean


def log_sum(x: Tensor, chosen: Tensor) -> Tensor:
    """Return log Σⱼ exp(xᵢⱼ) over the chosen j of each row: x, chosen [n, l] → [n].

    A row with no chosen j gets an arbitrary finite number, so that its gradient can be dropped.

    >>> log_sum(torch.zeros(1, 3), torch.tensor([[True, True, False]])).exp()
    tensor([2.])
    """
    return x.masked_fill(~chosen, torch.finfo(x.dtype).min).logsumexp(dim=1)


@ALGORITHMS.register("cad")
class CAD(PenalisedRisk):
    """Let samples look like those of other domains: L_E − λ (τ/τ₀) mean log(1 − sᵢ).

    sᵢ is the probability that sample i picks a sample of its own domain, if it picks another sample
    j with probability proportional to exp(zᵢ·zⱼ / τ).  This domain classifier has no weights, so it
    needs no adversary.  A small penalty means little information I(D;Z) about the domain
    (`domain_bottleneck`).

    With `flipped=False` the penalty is (τ/τ₀) mean log sᵢ, which has the same minimum.  DomainBed
    leaves out samples that are the only one of their class in the batch, and counts i itself in sᵢ
    if not flipped; here labels do not matter, and i is not counted.  DomainBed's setting
    `is_project` is omitted, because it fails there.

    Paper: Ruan et al. (2022), *Optimal Representations for Covariate Shift*.
    """

    family = "representation"
    paper = "Ruan et al. (2022)"

    @dataclass(frozen=True)
    class Hparams(PenalisedRisk.Hparams):
        """λ, τ and the form of the bottleneck."""

        penalty_weight: float = weight(
            0.1, Choice((1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)), help="λ, weight of the bottleneck"
        )
        temperature: float = hparam(
            0.1, Choice((0.05, 0.1)), within=(1e-6, 1e6), help="τ, temperature of the similarities"
        )
        normalized: bool = hparam(False, help="compare directions: scale z to length 1")
        flipped: bool = hparam(True, help="maximise log(1 − s) instead of minimising log s")

    hparams: Hparams
    # Whether samples are compared with the others of their class only.
    within_classes: ClassVar[bool] = False

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the bottleneck of the representations."""
        h = self.hparams
        return domain_bottleneck(
            outputs.representations,
            outputs.labels if self.within_classes else None,
            temperature=h.temperature,
            normalized=h.normalized,
            flipped=h.flipped,
        )
