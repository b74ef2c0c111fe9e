"""A run under training, of either kind: one step, one evaluation, and all the state of both.

`training.trainer` trains networks, by steps; `training.fitting` fits what is fitted at once, and
needs no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.preparation import FittedPreparation
from shiftproof.data.splits import Split
from shiftproof.learners.base import ALGORITHMS
from shiftproof.training.array_state import State
from shiftproof.training.config import INVARIANCE, RunConfig
from shiftproof.training.evaluation_sets import EvaluationSet, Score
from shiftproof.training.outputs import AnyOutputs
from shiftproof.training.records import MEASURES, Record

TEST_PARTS = ("test-in", "test-out")


class Session(ABC):
    """A run under training, with all the state that the next step depends on."""

    config: RunConfig
    dataset: DomainDataset
    splits: list[Split]
    preparation: FittedPreparation | None
    algorithm: Any
    keeps_outputs: bool
    step: int
    seconds: float
    outputs: dict[str, AnyOutputs]

    @classmethod
    @abstractmethod
    def surroundings(cls) -> AbstractContextManager[Any]:
        """Return a context that gives the caller back what a run changes around it."""

    @classmethod
    @abstractmethod
    def read(cls, checkpoint: Path) -> State | None:
        """Return the state in a file; None if there is no file."""

    @abstractmethod
    def save(self, checkpoint: Path) -> None:
        """Write `state` to a file."""

    @abstractmethod
    def choose_threads(self, known: int | None) -> None:
        """Use so many threads, or choose their number."""

    @property
    @abstractmethod
    def threads_used(self) -> int:
        """How many threads it computes with."""

    @abstractmethod
    def working(self) -> AbstractContextManager[Any]:
        """Return the context of all steps."""

    @abstractmethod
    def advance(self, progress: Progress = silent) -> Mapping[str, Any]:
        """Take one step; return the losses."""

    def close(self) -> None:  # noqa: B027
        """Stop what works ahead of the steps; there may be nothing."""

    @abstractmethod
    def divergence(self) -> int | None:
        """Return the first step since the last record whose loss was not finite, or None."""

    @abstractmethod
    def agree(self) -> None:
        """Make several processes of a run hold the same weights."""

    @abstractmethod
    def measure(self) -> Record:
        """Evaluate, and average the losses over the steps since the last record."""

    @abstractmethod
    def scored(self) -> dict[str, Any]:
        """Describe which weights are scored; nothing if they are the last."""

    @abstractmethod
    def state(self) -> State:
        """Return everything the next step depends on."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Restore a state."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries that compute."""

    def timings(self) -> dict[str, float]:
        """Return how long the members of an ensemble took, in seconds."""
        return {}

    def evaluation_due(self) -> bool:
        """Whether the run is evaluated after this many updates."""
        return self.config.evaluates_after(self.step)

    def _keeps(self, subset: EvaluationSet) -> bool:
        """Return whether the outputs on a set are needed beside its score."""
        keep = INVARIANCE in self.config.evaluate and subset.kind == "train-out"
        last = self.step == self.config.steps
        return keep or (self.keeps_outputs and last and subset.kind in TEST_PARTS)

    def _scored_record(self, scores: Mapping[str, Score]) -> Record:
        """Return what is measured on each set, and its risk."""
        record: Record = {}
        for measure in MEASURES[self.algorithm.task.kind]:
            record[measure] = {
                name: score.measured[measure]
                for name, score in scores.items()
                if measure in score.measured
            }
        return record | {"risk": {name: score.risk for name, score in scores.items()}}


def session_for(config: RunConfig) -> type[Session]:
    """Return what trains a run; a network needs torch, which takes seconds to import."""
    if ALGORITHMS.get(config.algorithm).exact:
        from shiftproof.training.fitting import Fitting

        return Fitting
    from shiftproof.training.trainer import Trainer

    return Trainer
