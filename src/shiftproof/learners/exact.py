"""Algorithms that are fitted at once: no steps, no gradients, no torch.

They go through the same runs, checkpoints, model files, sweeps and reports as the others.  A run
of one has a single step, which fits it to all samples of the training domains.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.types import Task
from shiftproof.learners.base import Family, Learner
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.judging import MOST_FOLDS
from shiftproof.learners.samples import Samples, held_out_folds

# Called with what is done now, and how many parts of how many are done; may raise to stop.
Progress = Callable[[str, int, int], None]
# The smallest probability that becomes a logit: log 0 is not a number that can be averaged.
SMALLEST = 1e-7
# The arrays of a fitted learner: all that a prediction needs, and what a checkpoint keeps beside.
STORED, HELD_OUT = "head.stored", "held_out."


def silent(what: str, done: int, total: int) -> None:
    """Report no progress."""


def held_out_arrays(ensemble: Ensemble, samples: Samples, seed: int) -> dict[str, np.ndarray]:
    """Return predictions for the training rows, each by models not trained on its domain.

    ``predicted`` [n, k], the classes ``y`` [n] or numbers [n] or [n, k], the positions ``domain``
    [n] of the domains, and ``fold`` [n]: the model of a row was trained on the rows of the other
    folds.  None where no domain was held out.  They are in the checkpoint, and never in a model's
    file: they tell of single rows.
    """
    if ensemble.held_out is None:
        return {}
    return {
        "predicted": ensemble.held_out.astype(np.float32),
        "y": samples.y,
        "domain": samples.domain.astype(np.int64),
        "fold": held_out_folds(samples, MOST_FOLDS, seed).astype(np.int64),
    }


class EnsembleHead:
    """A fitted ensemble and its file: rows [n, d] → log-probabilities [n, c], or numbers [n, k]."""

    def __init__(self) -> None:
        self.stored: np.ndarray | None = None
        self._ensemble: Ensemble | None = None

    def take(self, ensemble: Ensemble) -> None:
        """Hold a fitted ensemble."""
        self.stored = np.frombuffer(ensemble.to_bytes(), dtype=np.uint8)
        self._ensemble = ensemble

    def load(self, stored: np.ndarray) -> None:
        """Hold the ensemble of a file."""
        self.stored, self._ensemble = stored, None

    @property
    def ensemble(self) -> Ensemble:
        """The ensemble, read from its file when first used."""
        if self._ensemble is None:
            if self.stored is None:
                raise InvalidValue("the model has not been fitted yet")
            self._ensemble = Ensemble.from_bytes(self.stored.tobytes())
        return self._ensemble

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return log-probabilities, which are logits: softmax gives the probabilities back.

        They are float32.  Of numbers, return them in standard units, float64.
        """
        rows = x.reshape(len(x), -1).astype(np.float64)
        if self.ensemble.classes == 0:
            return self.ensemble.predict(rows)
        chances = np.maximum(self.ensemble.predict_proba(rows), SMALLEST)
        found: np.ndarray = np.log(chances).astype(np.float32)
        return found


class Exact(Learner):
    """An algorithm that is fitted at once to the samples of all training domains.

    Rows come raw: missing values as NaN, categories as codes.  Randomness comes from the seed
    alone, so the same samples and seed give the same model.
    """

    family: ClassVar[Family] = "exact"
    paper: ClassVar[str] = ""
    exact = True
    full_batches = True
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(Learner.Hparams):
        """No learning rate, no batches."""

    def __init__(self, task: Task, hparams: Hparams, seed: int) -> None:
        self.task = task
        self.hparams = hparams
        self.updates = 0
        self.head = EnsembleHead()
        self.held_out: dict[str, np.ndarray] = {}
        self._draws = np.random.RandomState(seed)

    @abstractmethod
    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return a model of all samples, its settings chosen by held-out training domains."""

    def fit(self, samples: Samples, progress: Progress = silent) -> dict[str, float]:
        """Fit to all samples; return the loss."""
        seed = self._draw()
        ensemble = self.fitted(samples, seed, progress)
        self.head.take(ensemble)
        self.held_out = held_out_arrays(ensemble, samples, seed)
        self.updates += 1
        return {"loss": self.loss(ensemble, samples)}

    def loss(self, ensemble: Ensemble, samples: Samples) -> float:
        """Return the loss on held-out training domains, averaged over members by weight."""
        found = sum(m.weight * m.risk for m in ensemble.members if m.risk is not None)
        return float(np.float32(found))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the outputs for rows x [n, …]: log-probabilities [n, c], or numbers [n, k]."""
        return self.head(x)

    def training_state(self) -> dict[str, Any]:
        """Return everything that a fit changes."""
        return {
            "updates": self.updates,
            "modules": {
                **self.weights(),
                **{HELD_OUT + name: own for name, own in self.held_out.items()},
            },
        }

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `training_state` returned."""
        self.updates = state["updates"]
        modules = state["modules"]
        self.load(modules)
        self.held_out = {
            name.removeprefix(HELD_OUT): own
            for name, own in modules.items()
            if name.startswith(HELD_OUT)
        }

    def weights(self) -> dict[str, np.ndarray]:
        """Return all that a prediction depends on, by name."""
        return {} if self.head.stored is None else {STORED: self.head.stored}

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Load what `weights` returned; anything else in its place is a `ValueError`."""
        stored = weights[STORED]
        if stored.dtype != np.uint8 or stored.ndim != 1:
            raise ValueError(f"{STORED} does not hold the bytes of a model")
        self.head.load(stored)

    def _draw(self) -> int:
        """Return a seed below 2³¹ − 1.

        It is what torch's generator draws from the same seed: the Mersenne twister, two words each.
        """
        high, low = (int(self._draws.randint(2**32, dtype=np.uint32)) for _ in range(2))
        return (high << 32 | low) % (2**31 - 1)
