"""ERM++: empirical risk minimisation with a better schedule and averaged weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, rate, steps
from shiftproof.learners.algorithms.lp_ft import LPFT, TrainedCopy, interpolate, state_of


@ALGORITHMS.register("erm-plus-plus")
class ERMPlusPlus(TrainedCopy):
    """Warm the head up, then minimise L_E, and predict with the mean of the weights.

    1. The first t₁ steps train the head alone, with its own Adam (LP-FT).
    2. Predictions use θ̄ = the mean of the weights θ after the steps t₂, t₂ + 1, …; before, θ.
    3. Batch norms use and update the statistics of their batch.  Those of θ̄ are averaged too, and
       then updated by one more pass of the batch, if the network has batch norms.

    The paper also selects the number of steps on held-out samples, then trains on these too, and
    starts from stronger weights; set `steps`, `holdout` and `weights` of a run for that.  The
    optional LARS optimiser and learning-rate schedule of DomainBed's code are left out.
    DomainBed's counters are off by one: the head has t₁ + 1 steps and the mean starts at t₂ − 1.

    Paper: Teterwak et al. (2023), *ERM++: An Improved Baseline for Domain Generalization*.
    """

    paper = "Teterwak et al. (2023)"
    starts_at = ("head_warmup", "average_warmup")
    averages_weights = True

    @dataclass(frozen=True)
    class Hparams(LPFT.Hparams):
        """t₁, t₂, the learning rate of the head, and batch norms."""

        head_warmup: int = steps(500, help="t₁, first steps, which train only the head")
        # DomainBed's learning rate does not depend on the data, but suits images.
        head_lr: float = rate(
            5e-5,
            Float(-5, -3.5, base=10),
            regimes={"table": (1e-3, Float(-4.5, -2.5, base=10))},
            help="learning rate of Adam in the first steps",
        )
        average_warmup: int = steps(600, help="t₂, step at which weight averaging starts")
        freeze_norms: bool = hparam(False, help="batch norms keep their statistics")

    hparams: Hparams

    def train(self, mode: bool = True) -> Self:
        """Set the mode, also for the usually frozen batch norms of pretrained networks."""
        super().train(mode)
        if not self.hparams.freeze_norms:
            for norm in batch_norms(self.trained):
                norm.train(mode)
        return self

    def follow(self, batch: Batch) -> None:
        """Add the weights to their mean, and update the batch norms of the mean."""
        averaged = max(self.updates - self.hparams.average_warmup, 0)
        mean = state_of(self.featurizer, self.head)
        interpolate(mean, mean, state_of(self.trained), 1 / (averaged + 1))
        norms = [] if self.hparams.freeze_norms else batch_norms(self.featurizer)
        if norms:
            for norm in norms:
                norm.train()
            self.featurizer(batch.x.flatten(0, 1))
            self.featurizer.eval()


def batch_norms(network: nn.Module) -> list[nn.Module]:
    """Return all batch norms of a network."""
    return [module for module in network.modules() if isinstance(module, _BatchNorm)]
