"""Algorithms that are fitted in one call: no steps, no gradients, no torch.

They share runs, model files, sweeps and reports with the other algorithms.  Their runs
have a single step, which fits the model to all samples of the training domains.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shiftproof.core.types import Task
from shiftproof.data.base import Progress, silent
from shiftproof.learners.base import Family, Learner
from shiftproof.learners.candidate import MOST_FOLDS
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.samples import Samples, held_out_folds

# Probabilities are clipped to this before the logarithm, because log 0 is not finite.
SMALLEST = 1e-7


class Exact(Learner):
    """An algorithm that is fitted in one call to the samples of all training domains.

    Rows are raw: missing values are NaN, categories are codes.  The seed is the only source of
    randomness, so the same samples and seed give the same model.
    """

    family: ClassVar[Family] = "exact"
    paper: ClassVar[str] = ""
    exact = True
    full_batches = True
    weighs_samples = True

    # Set by `fit`, or read from a model file.
    ensemble: Ensemble

    @dataclass(frozen=True)
    class Hparams(Learner.Hparams):
        """No learning rate, no batches."""

    def __init__(self, task: Task, hparams: Hparams, seed: int) -> None:
        self.task = task
        self.hparams = hparams
        self.held_out: dict[str, np.ndarray] = {}
        self._draws = np.random.RandomState(seed)

    @abstractmethod
    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return a model fitted to all samples, with settings selected on held-out domains."""

    def fit(self, samples: Samples, progress: Progress = silent) -> dict[str, float]:
        """Fit to all samples; return the loss.

        `held_out` are predictions for the training rows, from models not trained on the row's
        domain: ``predicted`` [n, k], ``y`` [n] the classes or numbers, ``domain`` [n] the domain
        indices, and ``fold`` [n] the folds: each row is predicted by a model trained on the other
        folds.  Empty if no domain was held out.  No file stores these arrays, because they reveal
        single rows.
        """
        # Torch's generator (Mersenne Twister, two words per draw) draws the same from this seed.
        high, low = (int(self._draws.randint(2**32, dtype=np.uint32)) for _ in range(2))
        seed = (high << 32 | low) % (2**31 - 1)
        self.ensemble = self.fitted(samples, seed, progress)
        if self.ensemble.held_out is not None:
            self.held_out = {
                "predicted": self.ensemble.held_out.astype(np.float32).astype(float),
                "y": samples.y,
                "domain": samples.domain.astype(np.int64),
                "fold": held_out_folds(samples, MOST_FOLDS, seed).astype(np.int64),
            }
        return {"loss": self.loss(self.ensemble, samples)}

    def loss(self, ensemble: Ensemble, samples: Samples) -> float:
        """Return the loss on held-out training domains, averaged over members by weight."""
        risks = (m.weight * m.risk for m in ensemble.members if m.risk is not None)
        return float(np.float32(sum(risks)))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return float32 log-probabilities of rows x [n, …], which are valid logits, or numbers.

        Numbers are float64, in standard units.
        """
        outputs = self.ensemble.predict(x.reshape(len(x), -1).astype(np.float64))
        if self.ensemble.classes == 0:
            return outputs
        logs: np.ndarray = np.log(np.maximum(outputs, SMALLEST)).astype(np.float32)
        return logs
