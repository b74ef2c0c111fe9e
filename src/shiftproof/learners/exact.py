"""Algorithms that are fitted in one call: no steps, no gradients, no torch.

They share runs, checkpoints, model files, sweeps and reports with the other algorithms.  Their runs
have a single step, which fits the model to all samples of the training domains.
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
from shiftproof.learners.candidate import MOST_FOLDS
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.samples import Samples, held_out_folds

# Called with the current task, the number of completed parts and the total; may raise to stop.
Progress = Callable[[str, int, int], None]
# Probabilities are clipped to this before the logarithm, because log 0 is not finite.
SMALLEST = 1e-7
# Names of stored arrays: the model itself, and the held-out predictions (checkpoints only).
STORED, HELD_OUT = "head.stored", "held_out."


def silent(what: str, done: int, total: int) -> None:
    """Report no progress."""


def held_out_arrays(ensemble: Ensemble, samples: Samples, seed: int) -> dict[str, np.ndarray]:
    """Return predictions for the training rows, from models not trained on the row's domain.

    ``predicted`` [n, k] are the predictions, ``y`` [n] the classes or numbers,
    ``domain`` [n] the domain indices, and ``fold`` [n] the folds: each row is predicted by a model
    trained on the other folds.  Empty if no domain was held out.  Checkpoints store these arrays;
    model files never do, because they reveal single rows.
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
    """A fitted ensemble and its bytes: rows [n, d] → log-probabilities [n, c] or numbers [n, 1]."""

    def __init__(self) -> None:
        self.stored: np.ndarray | None = None
        self._ensemble: Ensemble | None = None

    def take(self, ensemble: Ensemble) -> None:
        """Set the ensemble to a fitted one."""
        self.stored = np.frombuffer(ensemble.to_bytes(), dtype=np.uint8)
        self._ensemble = ensemble

    def load(self, stored: np.ndarray) -> None:
        """Set the ensemble from its bytes."""
        self.stored, self._ensemble = stored, None

    @property
    def ensemble(self) -> Ensemble:
        """The ensemble, decoded from its bytes on first use."""
        if self._ensemble is None:
            if self.stored is None:
                raise InvalidValue("the model has not been fitted yet")
            self._ensemble = Ensemble.from_bytes(self.stored.tobytes())
        return self._ensemble

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return float32 log-probabilities, which are valid logits, or predicted numbers.

        Numbers are float64, in standard units.
        """
        rows = x.reshape(len(x), -1).astype(np.float64)
        if self.ensemble.classes == 0:
            return self.ensemble.predict(rows)
        chances = np.maximum(self.ensemble.predict_proba(rows), SMALLEST)
        found: np.ndarray = np.log(chances).astype(np.float32)
        return found


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
        """Return a model fitted to all samples, with settings selected on held-out domains."""

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
        """Return the outputs for rows x [n, …]: log-probabilities [n, c], or numbers [n, 1]."""
        return self.head(x)

    def training_state(self) -> dict[str, Any]:
        """Return all state that a fit changes."""
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
        """Return the arrays that predictions depend on, by name."""
        return {} if self.head.stored is None else {STORED: self.head.stored}

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Load what `weights` returned; raise ValueError if it is anything else."""
        stored = weights[STORED]
        if stored.dtype != np.uint8 or stored.ndim != 1:
            raise ValueError(f"{STORED} does not hold the bytes of a model")
        self.head.load(stored)

    def _draw(self) -> int:
        """Return a seed below 2³¹ − 1.

        Torch's generator (Mersenne Twister, two words per draw) draws the same from this seed.
        """
        high, low = (int(self._draws.randint(2**32, dtype=np.uint32)) for _ in range(2))
        return (high << 32 | low) % (2**31 - 1)
