"""RDM: risk distribution matching of the worst domain with all domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from shiftproof.core.space import Float, Int
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, rate, steps, weight
from shiftproof.learners.algorithms.hparams import samples
from shiftproof.penalties.formulas import INVERSE_WIDTHS, mmd, variance_within_domains

# The kernels of MMD and a wider one, as published.
RISK_INVERSE_WIDTHS = (0.0001, *INVERSE_WIDTHS)


class RiskPenalties(NamedTuple):
    """The penalties that RDM (Nguyen et al., 2024) adds to the risk, both scalars ≥ 0."""

    matching: Tensor  # MMD² of the worst domain's losses and the losses of all domains
    variance: Tensor  # the variance of the former plus that of the latter


def worst_against_all(losses: Tensor) -> RiskPenalties:
    """Compare the losses of the worst domain with those of all: losses [domains, batch ≥ 2].

    The worst domain has the largest mean loss, and is included in all domains.  MMD² is the biased
    estimate of `mmd`, with the kernels of `RISK_INVERSE_WIDTHS`; the variances are unbiased.
    """
    worst = losses.index_select(0, losses.mean(dim=1).argmax().unsqueeze(0)).view(1, -1, 1)
    everything = losses.view(1, -1, 1)
    return RiskPenalties(
        mmd([worst[0], everything[0]], RISK_INVERSE_WIDTHS),
        variance_within_domains(worst) + variance_within_domains(everything),
    )


@ALGORITHMS.register("rdm")
class RDM(ERM):
    """Match the losses of the worst domain with those of all: L_E + λ MMD²(ℓʷ, ℓ) + μ V.

    w is the domain with the largest risk, ℓʷ [b] its losses and ℓ [mb] those of all domains.
    Losses are scalars, so few samples show how their distributions differ.  V = Var ℓʷ + Var ℓ
    penalises losses that match but are widely spread.  `learners.algorithms.rdm` has the
    formulas.

    Both penalties act from step `anneal_steps` on, where Adam restarts with learning rate
    `annealed_lr`.  `rdm-pdm` matches all domains, by sorting.

    DomainBed has a search space per dataset.  Here large images use that of VLCS, and huge images
    that of DomainNet.  In DomainBed, λ is at least 1 on PACS and TerraIncognita, μ is 0 on
    OfficeHome and TerraIncognita, and TerraIncognita uses the batch sizes of DomainNet.

    Paper: Nguyen et al. (2024), *Domain Generalisation via Risk Distribution Matching*.
    """

    family = "predictor"
    paper = "Nguyen et al. (2024)"
    restarts_at = ("anneal_steps",)

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, μ, when they take effect, and the learning rate from then on."""

        batch_size: int = samples(
            regimes={"large-image": (88, Int(70, 100)), "huge-image": (40, Int(30, 60))},
            help="samples per domain and step, at least 2; 0 takes the whole domain",
        )
        penalty_weight: float = weight(
            5.0,
            Float(0.1, 10.0),
            regimes={"huge-image": (0.5, Float(0.1, 1.0))},
            help="λ, weight of the matching",
        )
        variance_weight: float = weight(
            0.004,
            Float(0.001, 0.007),
            regimes={"huge-image": (0.0, None)},
            help="μ, weight of the variances",
        )
        anneal_steps: int = steps(
            1500,
            Int(800, 2700),
            regimes={"huge-image": (2400, Int(1500, 3000))},
            help="first steps, which minimise the mean risk",
        )
        annealed_lr: float = rate(
            1.5e-5, Float(8e-6, 2e-5), help="learning rate after the first steps"
        )

    hparams: Hparams

    @property
    def annealed(self) -> bool:
        """Whether the penalties act at this step."""
        return self.updates >= self.hparams.anneal_steps

    def objective(self, batch: Batch) -> Losses:
        """Return L_E, plus the penalties once they act."""
        losses = self.outputs(batch).losses
        risk, penalties = losses.mean(), worst_against_all(losses)
        total = risk
        if self.annealed:
            total = total + self.hparams.penalty_weight * penalties.matching
            total = total + self.hparams.variance_weight * penalties.variance
        return Losses(total, {"risk": risk, **penalties._asdict()})

    @property
    def learning_rate(self) -> float:
        """The learning rate of the current stage."""
        return self.hparams.annealed_lr if self.annealed else self.hparams.lr
