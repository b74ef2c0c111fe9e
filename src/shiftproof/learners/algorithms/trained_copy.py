"""Base class of algorithms that predict with other weights than those they train."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor, nn

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.lp_ft import LPFT


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

    def predicting(self) -> list[Tensor]:
        """Return the state of the predicting network, in the order of `state_of`."""
        return [*state_of(self.featurizer), *state_of(self.head)]


def state_of(network: nn.Module) -> list[Tensor]:
    """Return the parameters and the statistics of normalisation layers, without copying them."""
    return [value for value in network.state_dict().values() if value.is_floating_point()]


def interpolate(into: list[Tensor], start: list[Tensor], end: list[Tensor], share: float) -> None:
    """Set each tensor of `into` to (1 − share) · start + share · end; exact at both ends."""
    for target, first, last in zip(into, start, end, strict=True):
        target.copy_(torch.lerp(first, last, share))
