"""The predictor of a learner that is fitted at once to rows, without a network or torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import log_softmax  # type: ignore[import-untyped]

from shiftproof.core.types import CLASSIFICATION
from shiftproof.data import Domain
from shiftproof.data.domain import as_float_rows
from shiftproof.data.input_forms import InputForm, Inputs, TableForm
from shiftproof.learners.exact import Exact
from shiftproof.training.evaluation_sets import EvaluationSet, batches_of


class RowPredictor:
    """Map from rows [n, …] to representations for typicality, and probabilities or numbers."""

    # No network computes features, and the learner calibrates itself.
    stem = None
    temperature = 1.0

    def __init__(self, algorithm: Exact) -> None:
        self.algorithm = algorithm

    def answers(
        self, inputs: Inputs, form: InputForm, device: str, workers: int | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield representations, and probabilities or numbers in label units, batch by batch."""
        subset = without_labels(inputs)
        for rows in batches_of(subset):
            x = np.asarray(subset.domain.rows(rows))
            yield represented_rows(x, form), self.answer(as_float_rows(x))

    def described(
        self, subset: EvaluationSet, form: InputForm, device: str, *, answered: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the representations of training samples; probabilities are not needed."""
        for rows in batches_of(subset):
            yield represented_rows(subset.domain.rows(rows), form), np.empty((len(rows), 0))

    def answer(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities [n, c] as float32, or numbers in label units."""
        outputs, task = self.algorithm.predict(x).astype(np.float32), self.algorithm.task
        if task.kind == CLASSIFICATION:
            chances: np.ndarray = np.exp(log_softmax(outputs.astype(np.float64), axis=1))
            return chances.astype(np.float32)
        return task.in_units(outputs.astype(np.float64))

    def weights(self) -> dict[str, np.ndarray]:
        """Return everything that predictions depend on, by name."""
        return self.algorithm.weights()

    def load(self, weights: Mapping[str, Any]) -> None:
        """Load the weights that `weights` returned."""
        self.algorithm.load(weights)


def without_labels(inputs: Inputs) -> EvaluationSet:
    """Return all inputs as samples of one domain, with labels 0 that are not used."""
    domain = Domain("inputs", inputs, np.zeros(len(inputs), dtype=np.int64))
    return EvaluationSet(domain.name, domain, np.arange(len(domain)))


def represented_rows(x: np.ndarray, form: InputForm) -> np.ndarray:
    """Return the representations for typicality of stored inputs, [n, k] as float32."""
    seen = form.features(x) if isinstance(form, TableForm) else x.reshape(len(x), -1)
    return as_float_rows(seen)
