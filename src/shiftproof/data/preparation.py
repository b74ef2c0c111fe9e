"""What inputs need before a network can take them, such as scaling and one-hot encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np


class Preparation(ABC):
    """A transform of the inputs that is fitted to training samples.

    It is fitted to the samples that a run trains on and to no others, so that no information about
    held-out samples leaks into training.
    """

    @abstractmethod
    def fit(self, x: np.ndarray) -> FittedPreparation:
        """Fit the transform to the training samples `x` [n, …]."""

    @abstractmethod
    def from_json(self, value: Mapping[str, Any]) -> FittedPreparation:
        """Rebuild what `fit` returned from its `FittedPreparation.to_json`."""

    @abstractmethod
    def digest(self) -> bytes:
        """Return a hash of everything that decides what `fit` returns for given samples."""


class FittedPreparation(ABC):
    """A transform with all that was learnt from the training samples."""

    notes: tuple[str, ...] = ()

    @abstractmethod
    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return what the network takes: [n, …] float32."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the transform and its notes as JSON values."""
