"""The two-stage training of IRM's Colored MNIST experiments, with one of five penalties."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, Outputs, decay, rate, weight
from shiftproof.matching.head_gradients import gradients_of, head_gradients
from shiftproof.matching.levels import check_trim
from shiftproof.matching.pdm import pdm
from shiftproof.penalties.formulas import irm_slopes, variance_across_domains

PENALTIES = ("irm", "vrex", "iga", "fishr", "idm")


@ALGORITHMS.register("two-stage")
class TwoStage(ERM):
    """Train on (L_E + c ‖W‖² + λₜ P) / max(1, λₜ), with λₜ = 1 for t₁ steps and λ from then on.

    P is one of five penalties, computed as in the scripts for the paper's Table 1.  With m domains,
    Lᵢ the risk of domain i, Gⁱ [b, P] its per-sample gradients with respect to the P parameters of
    the head, and Gⁱ₍ⱼ₎ these sorted in each dimension, without the t smallest and largest:

    | `penalty` | P |
    |---|---|
    | `irm` | (1/m) Σᵢ (∂Lᵢ(w·f)/∂w at w = 1)² |
    | `vrex` | Σ_{i<k} (Lᵢ − Lₖ)² |
    | `iga` | Σ_{i<k} ‖mean_j Gⁱ₍ⱼ₎ − mean_j Gᵏ₍ⱼ₎‖² / P |
    | `fishr` | Σᵢ ‖vᵢ − v̄‖², with vᵢ the variance of Gⁱ in each dimension |
    | `idm` | Σ_{i<k} mean_j ‖Gⁱ₍ⱼ₎ − Gᵏ₍ⱼ₎‖² / P |

    `none` is empirical risk minimisation with a penalty on the norm.  The scripts are for two
    domains; for more, we sum over pairs.

    Dividing by λₜ matters only through Adam's moments: the squared gradients of the first stage
    stay in its moving average and slow down the second stage.  The algorithms of the same names do
    not divide, and restart Adam.

    `track_penalties` records all five penalties at each step (Figure 1 of the paper).

    Paper: Arjovsky et al. (2019), *Invariant Risk Minimization*; the penalties as in Rame et al.
    (2022) and Dong et al. (2024).
    """

    family = "gradient"
    full_batches = True
    paper = "Dong et al. (2024)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """P, λ, t₁, c and t; the defaults are those that the paper selected for IDM."""

        lr: float = rate(0.000449, Float(-3.5, -2.5, base=10), help="learning rate of Adam")
        penalty: str = hparam("idm", choices=("none", *PENALTIES), help="P, the penalty")
        penalty_weight: float = weight(
            2888595.180638, Float(4, 8, base=10), help="λ, strength in the second stage"
        )
        # Without the unit "steps", which scales with 5,001 steps: these runs have 500.
        anneal_steps: int = hparam(
            154, Int(50, 250), within=(0, 1e12), help="t₁, steps of the first stage, where λ is 1"
        )
        norm_weight: float = decay(
            0.00034, Float(-5, -2, base=10), help="c, weight of the squared norm"
        )
        trim: int = hparam(
            1, within=(0, 1e9), help="t, extreme gradients left out at each end by idm and iga"
        )
        track_penalties: bool = hparam(False, help="record all five penalties")

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the loss of this stage."""
        h = self.hparams
        outputs = self.outputs(batch)
        risk = outputs.risks.mean()
        trained = [*self.featurizer.parameters(), *self.head.parameters()]
        norm = torch.stack([w.square().sum() for w in trained]).sum()
        total = risk + h.norm_weight * norm
        parts = {"risk": risk}
        if h.penalty != "none":
            weight = h.penalty_weight if self.updates >= h.anneal_steps else 1.0
            parts["penalty"] = self._penalty(h.penalty, outputs)
            total = (total + weight * parts["penalty"]) / max(weight, 1.0)
        if h.track_penalties:
            with torch.no_grad():
                gradients = self._gradients(outputs)  # once for all
                parts |= {
                    f"{name}_penalty": parts["penalty"]
                    if name == h.penalty
                    else self._penalty(name, outputs, gradients)
                    for name in PENALTIES
                }
        return Losses(total, parts)

    def _gradients(self, outputs: Outputs) -> Tensor:
        """Return the per-sample gradients of the head, [m, b, P]."""
        return head_gradients(
            self.head, outputs.representations, outputs.labels, outputs.logits, self.sample_loss
        )

    def _penalty(self, name: str, outputs: Outputs, gradients: Tensor | None = None) -> Tensor:
        if name == "irm":
            slopes = irm_slopes(outputs.logits, outputs.labels, self.sample_loss).mean(dim=1)
            return slopes.square().mean()
        domains = len(outputs.risks)
        pairs = domains**2  # Σ_{i<k} (xᵢ − xₖ)² = m² · (the variance across m domains)
        if name == "vrex":
            return pairs * variance_across_domains(outputs.risks)
        if name == "idm":
            of_head = (outputs.representations, outputs.labels, outputs.logits, self.sample_loss)
            return pairs * pdm(gradients_of(self.head, *of_head), trim=self.hparams.trim)
        gradients = self._gradients(outputs) if gradients is None else gradients
        if name == "iga":
            return pairs * variance_across_domains(_trimmed_mean(gradients, self.hparams.trim))
        variances = gradients.var(dim=1, correction=0)
        return domains * variances.shape[1] * variance_across_domains(variances)


def _trimmed_mean(x: Tensor, trim: int) -> Tensor:
    """Return the trimmed mean of each dimension: [m, b, d] → [m, d]."""
    size = x.shape[1]
    check_trim(trim, size)
    if trim == 0:
        return x.mean(dim=1)
    if trim == 1:  # one contiguous pass over memory; topk gathers each dimension
        largest, smallest = x.amax(dim=1), x.amin(dim=1)
    else:
        largest = x.topk(trim, dim=1).values.sum(dim=1)
        smallest = x.topk(trim, dim=1, largest=False).values.sum(dim=1)
    return (x.sum(dim=1) - largest - smallest) / (size - 2 * trim)
