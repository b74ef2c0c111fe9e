"""Small networks for tables: averaged over seeds, with the steps selected on held-out domains.

Many networks are trained together (`learners.networks_together`) and evaluated after several
numbers of steps, from which held-out domains select one.  Predictions are means over seeds of the
probabilities, or of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from shiftproof.learners.candidate import OPERATIONS_A_SECOND, Candidate, Size
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.encoding import fitted_encoder
from shiftproof.learners.network_models import network_classifier, network_regressor
from shiftproof.learners.networks_together import (
    BATCH,
    Layers,
    mean_predictions,
    trained_networks,
)
from shiftproof.learners.samples import Samples

# Values sorted, matched and differentiated per second on one core.
SORTED_A_SECOND = 2e7


def stops(rows: int) -> tuple[int, ...]:
    """Return the numbers of steps to select from for this many rows: up to 20 epochs.

    The largest number is at least 400, and at most 3,200 to limit the time.

    >>> stops(500), stops(10_000)
    ((50, 100, 200, 400), (97, 195, 390, 781))
    """
    most = min(max(20 * rows // BATCH, 400), 3200)
    return most // 8, most // 4, most // 2, most


@dataclass(frozen=True)
class NetworkCandidate(Candidate):
    """An ensemble of small networks; the variants are numbers of steps.

    With ``matched``, networks match gradients and representations across domains.
    """

    name: str = "networks"
    variants: Sequence[int] = stops(0)
    width: int = 64
    seeds: int = 4
    matched: bool = False

    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Train once and predict ``x`` after each number of steps."""
        ready = fitted_encoder(train, ranks=True)
        rows = ready.transform(x)
        stops = self._train(ready.transform(train.x), train, train.weights()[None], seed)
        return np.stack(
            [mean_predictions(layers, rows, self.seeds, train.loss)[0] for layers in stops]
        )

    def seconds(self, size: Size) -> float:
        """Estimate the time: three matrix products forward and six backward per step."""
        weights = self.width * (size.columns + self.width + size.outputs)
        products = 6 * weights / OPERATIONS_A_SECOND
        sorting = (self.width + 1) * (size.outputs + 1) / SORTED_A_SECOND if self.matched else 0.0
        return max(self.variants) * BATCH * self.seeds * (products + sorting)

    @contextmanager
    def limited(self, threads: int) -> Iterator[None]:
        """Limit torch's threads within the context."""
        before = torch.get_num_threads()
        torch.set_num_threads(min(threads, before))
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def held_out(self, samples: Samples, folds: np.ndarray, seed: int) -> np.ndarray:
        """Predict all folds with networks that are trained together.

        Columns are scaled once, on all rows, because the number of steps is evaluated, not the
        scale.  Training stops once more steps did worse; the remaining, slowest variants get the
        last predictions.
        """
        rows = fitted_encoder(samples, ranks=True).transform(samples.x)
        names = np.unique(folds)
        weights = np.stack([folds != fold for fold in names]) * samples.weights()
        found = np.empty((len(self.variants), len(samples), samples.outputs))
        criterion = criterion_of(samples)
        risks: list[float] = []
        for variant, layers in enumerate(self._train(rows, samples, weights, seed)):
            predicted = mean_predictions(layers, rows, self.seeds, samples.loss)
            for place, fold in enumerate(names):
                found[variant, folds == fold] = predicted[place, folds == fold]
            risks.append(criterion.calibrated_risk(found[variant], samples))
            if risks[-1] > min(risks):
                found[variant + 1 :] = found[variant]
                break
        return found

    def fit(self, train: Samples, variant: int, seed: int) -> Any:
        """Return a pipeline of encoder and networks."""
        from sklearn.pipeline import Pipeline  # type: ignore[import-untyped]

        ready = fitted_encoder(train, ranks=True)
        short = replace(self, variants=(variant,))
        (layers,) = short._train(ready.transform(train.x), train, train.weights()[None], seed)
        made = (
            network_classifier(layers, train.classes)
            if train.classes
            else network_regressor(layers)
        )
        return Pipeline([("encoder", ready), ("model", made)])

    def _train(
        self, rows: np.ndarray, samples: Samples, weights: np.ndarray, seed: int
    ) -> Iterator[Layers]:
        sizes = (rows.shape[1], self.width, self.width, samples.outputs)
        return trained_networks(
            torch.from_numpy(rows).float(),
            torch.from_numpy(samples.y),
            torch.from_numpy(weights).float(),
            sizes,
            self.seeds,
            self.variants,
            seed,
            torch.from_numpy(np.unique(samples.domain, return_inverse=True)[1])
            if self.matched
            else None,
            samples.loss,
        )
