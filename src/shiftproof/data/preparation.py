"""Transforms that prepare inputs for a network, such as scaling and one-hot encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np


class Preparation(ABC):
    """A transform of the inputs that is fitted to training samples.

    It is fitted only to the samples that a run trains on, so that no information about held-out
    samples leaks into training.
    """

    @abstractmethod
    def fit(self, x: np.ndarray) -> FittedPreparation:
        """Fit the transform to the training samples `x` [n, …]."""

    @abstractmethod
    def from_json(self, value: Mapping[str, Any]) -> FittedPreparation:
        """Rebuild a fitted transform from the values of `FittedPreparation.to_json`."""

    @abstractmethod
    def digest(self) -> bytes:
        """Return a hash of everything that determines what `fit` returns for given samples."""


class FittedPreparation(ABC):
    """A transform fitted to the training samples."""

    notes: tuple[str, ...] = ()

    @abstractmethod
    def apply(self, x: np.ndarray) -> np.ndarray:
        """Transform inputs to what the network expects: float32 [n, …]."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the transform and its notes as JSON values."""
