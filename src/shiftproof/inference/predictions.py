"""Predictions of a model.

Predictions are stored as arrays.  Tensors of the same values are created on first use, because
torch takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.inference.adaptation.label_shift import Adapted

if TYPE_CHECKING:
    from torch import Tensor


def _tensor(array: np.ndarray) -> Tensor:
    import torch

    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


class AnyPredictions:
    """Typicality of each input [n], and whether it is far; `…_array` attributes are arrays."""

    def __init__(self, typicality: np.ndarray, far: np.ndarray) -> None:
        self.typicality_array, self.far_array = typicality, far

    @cached_property
    def typicality(self) -> Tensor:
        """How typical each input is of the training domains, [n]."""
        return _tensor(self.typicality_array)

    @cached_property
    def far(self) -> Tensor:
        """Whether each input is unlike the training domains, [n]."""
        return _tensor(self.far_array)

    @property
    def far_share(self) -> float:
        """The share of inputs that are far."""
        return float(self.far_array.astype(np.float64).mean())


class Predictions(AnyPredictions):
    """Class probabilities [n, c], typicality of each input [n], and whether it is far.

    `adapted` describes the adaptation to each site; it is empty if adaptation was not requested.
    """

    def __init__(
        self,
        probabilities: np.ndarray,
        typicality: np.ndarray,
        far: np.ndarray,
        adapted: Mapping[str, Adapted] = MappingProxyType({}),
    ) -> None:
        super().__init__(typicality, far)
        self.probability_array, self.adapted = probabilities, adapted

    @cached_property
    def probabilities(self) -> Tensor:
        """The probability of each class, [n, c]."""
        return _tensor(self.probability_array)

    @property
    def predicted(self) -> Tensor:
        """The index of the most probable class, [n]."""
        return _tensor(self.predicted_array)

    @property
    def predicted_array(self) -> np.ndarray:
        """The index of the most probable class, as an array [n]."""
        found: np.ndarray = self.probability_array.argmax(axis=1)
        return found


class NumberPredictions(AnyPredictions):
    """Predicted numbers [n] in the units of the labels, typicality [n], and which are far [n]."""

    def __init__(self, values: np.ndarray, typicality: np.ndarray, far: np.ndarray) -> None:
        super().__init__(typicality, far)
        self.value_array = values

    @cached_property
    def values(self) -> Tensor:
        """The predicted numbers."""
        return _tensor(self.value_array)
