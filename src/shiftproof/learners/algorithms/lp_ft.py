"""LP-FT: train the head on fixed features first, then everything.

`TrainedCopy` is the base of algorithms that also predict with other weights than those they train.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from shiftproof.core.space import Float, Int
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, overwrite, rate, steps


@ALGORITHMS.register("lp-ft")
class LPFT(ERM):
    """Probe, then fine-tune: min_ψ L_E for t₁ steps with φ fixed, then min_{φ,ψ} L_E.

    A new head has large gradients, which change pretrained features before it has learnt to use
    them.  Features of training inputs change and those of other inputs hardly do, so that the head
    no longer fits the latter.  A head that already fits the features distorts them less.  Each
    stage has its own Adam, so fine-tuning starts without moments.  With t₁ = 0 it is ERM.

    It is meant for a pretrained featurizer.  By default, half of the protocol's steps train the
    head.

    Paper: Kumar et al. (2022), *Fine-Tuning can Distort Pretrained Features and Underperform
    Out-of-Distribution*.
    """

    family = "baseline"
    paper = "Kumar et al. (2022)"
    starts_at: ClassVar[tuple[str, ...]] = ("head_warmup",)
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """t₁ and the learning rate of the head in these steps."""

        head_warmup: int = steps(
            2500, Int(2.5, 3.5, base=10), help="t₁, first steps, which train only the head"
        )
        head_lr: float = rate(
            1e-3, Float(-4.5, -2.5, base=10), help="learning rate of Adam in the first steps"
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the head's own Adam."""
        h = self.hparams
        self.optimizers["head"] = self.adam(self.head.parameters(), h.head_lr, h.weight_decay)

    @property
    def probes(self) -> bool:
        """Whether the next step trains the head alone."""
        return self.updates < self.hparams.head_warmup

    @property
    def trains(self) -> tuple[nn.Module, nn.Module]:
        """The featurizer and the head that the optimisers change."""
        return self.featurizer, self.head

    def objective(self, batch: Batch) -> Losses:
        """Return L_E, without gradient to the featurizer while only the head is trained."""
        featurizer, head = self.trains
        with torch.set_grad_enabled(not self.probes):
            flat = featurizer(batch.x.flatten(0, 1))
        representations = flat.view(*batch.y.shape[:2], *flat.shape[1:])
        losses = self.sample_loss.risk(head(representations), batch.y)
        return Losses(batch.weighted(losses).mean(), {})

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step on the head alone, or on the whole network."""
        losses = self.objective(batch)
        self.descend(losses.total, "head" if self.probes else "main")
        self.updates += 1
        return losses.measured()


class TrainedCopy(LPFT):
    """Train the weights of `trained`, and predict with `featurizer` and `head`, set by `follow`.

    A subclass defines `follow`, which is called after every step.  The predicting network has no
    gradients and is always in eval mode.
    """

    weighs_samples = True
    divides_batches = False  # training uses `trained`, not `featurizer`

    def setup(self) -> None:
        """Copy the network: the copy predicts."""
        super().setup()
        # The optimisers hold the weights of the given network, so that network is trained.
        self.trained = nn.Sequential(self.featurizer, self.head)
        self.featurizer, self.head = copy.deepcopy(self.trained).requires_grad_(False)

    @property
    def trains(self) -> tuple[nn.Module, nn.Module]:
        """The featurizer and the head that the optimisers change."""
        featurizer, head = self.trained
        return featurizer, head

    def train(self, mode: bool = True) -> Self:
        """Set the mode of everything except the predicting network."""
        super().train(mode)
        self.featurizer.eval()
        self.head.eval()
        return self

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step, then update the predicting weights."""
        measured = super().update(batch)
        with torch.no_grad():
            self.follow(batch)
        return measured

    @abstractmethod
    def follow(self, batch: Batch) -> None:
        """Update the predicting weights after a step on `batch`."""


def state_of(*networks: nn.Module) -> list[Tensor]:
    """Return the parameters and the statistics of normalisation layers, without copying them."""
    states = (network.state_dict().values() for network in networks)
    return [value for state in states for value in state if value.is_floating_point()]


def interpolate(into: list[Tensor], start: list[Tensor], end: list[Tensor], share: float) -> None:
    """Set each tensor of `into` to (1 − share) · start + share · end; exact at both ends."""
    overwrite(into, (torch.lerp(*pair, share) for pair in zip(start, end, strict=True)))
