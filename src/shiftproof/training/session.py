"""The interface of training: one step, one evaluation, and the state of both.

`training.trainer` trains networks step by step; `training.fitting` runs algorithms that are fitted
at once, and does not need torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.core.seeding import seed_hash
from shiftproof.core.types import Task
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.splits import Split
from shiftproof.data.tables.preprocessing import FittedColumns
from shiftproof.learners.base import ALGORITHMS
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training.array_state import State
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import EvaluationSet, Score
from shiftproof.training.load_run import fitted_preparation
from shiftproof.training.records import MEASURES, Record
from shiftproof.training.rows import in_standard_units, ready_for
from shiftproof.training.settings import INVARIANCE

TEST_PARTS = ("test-in", "test-out")


@dataclass
class Session(ABC):
    """A run under training, with all the state that the next step depends on.

    Only the input preparation is read from the checkpoint `saved`; `load` restores the rest.
    `pending` are the losses since the last record.  With `keeps_outputs`, `outputs` holds the
    outputs on the test domains after the last step.
    """

    config: RunConfig
    dataset: DomainDataset
    workers: int = 0
    keeps_outputs: bool = False
    compiled: bool = False
    step: int = 0
    seconds: float = 0.0
    pending: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, AnyOutputs] = field(default_factory=dict)
    threads: int | None = None
    saved: InitVar[State | None] = None
    splits: list[Split] = field(init=False)
    preparation: FittedColumns | None = field(init=False)
    algorithm: Any = field(init=False)
    evaluation: list[EvaluationSet] = field(init=False)

    @abstractmethod
    def __post_init__(self, saved: State | None) -> None:
        """Prepare the data and the algorithm."""

    def _prepare(
        self, saved: State | None, build: Callable[[RunConfig, Task], Any]
    ) -> dict[str, Split]:
        """Build the algorithm, bring the data into its form, and return the training splits."""
        config = self.config
        self.splits = config.splits(self.dataset)
        splits = config.training_splits(self.dataset)
        self.preparation = fitted_preparation(config, self.dataset, saved)
        self.dataset = ready_for(config.algorithm, self.dataset, self.preparation).in_memory()
        self.algorithm = build(config, config.task(self.dataset))
        self.dataset = in_standard_units(self.dataset, self.algorithm.task)
        return splits

    @classmethod
    def surroundings(cls) -> AbstractContextManager[Any]:
        """Return a context that restores the caller's global state, if a run changes it."""
        return nullcontext()

    @classmethod
    def read(cls, checkpoint: Path) -> State | None:
        """Return the state in a file; None if there is no file.

        A learner that is fitted at once has a single step, so it has nothing to resume from.
        """
        return None

    def state(self) -> State:
        """Return everything the next step depends on; empty if there is a single step."""
        return {}

    def save(self, checkpoint: Path) -> None:  # noqa: B027
        """Write the state to a file, if there is any."""

    def choose_threads(self, known: int | None) -> None:
        """Use `known` threads; if None, choose their number."""
        self.threads = known

    @property
    @abstractmethod
    def threads_used(self) -> int:
        """The number of threads it computes with."""

    def working(self) -> AbstractContextManager[Any]:
        """Return the context in which all steps run."""
        return nullcontext()

    @abstractmethod
    def advance(self, progress: Progress = silent) -> Mapping[str, Any]:
        """Take one step; return the losses."""

    def close(self) -> None:  # noqa: B027
        """Stop what works ahead of the steps; there may be nothing."""

    @abstractmethod
    def divergence(self) -> int | None:
        """Return the first step since the last record whose loss was not finite, or None."""

    def agree(self) -> None:  # noqa: B027
        """Synchronise the weights between the processes of a run, if all of them score."""

    @abstractmethod
    def measure(self) -> Record:
        """Evaluate, and average the losses over the steps since the last record."""

    @abstractmethod
    def scored(self) -> dict[str, Any]:
        """Describe which weights are scored; empty if they are the last ones."""

    def load(self, state: State) -> None:  # noqa: B027
        """Restore what `read` returned."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries used for computing."""

    def timings(self) -> dict[str, float]:
        """Return the time that each member of an ensemble took, in seconds."""
        return {}

    def evaluation_due(self) -> bool:
        """Return whether the run is evaluated after the current step."""
        return self.config.evaluates_after(self.step)

    def _keeps(self, subset: EvaluationSet) -> bool:
        """Return whether the outputs on a set are needed in addition to its score."""
        keep = INVARIANCE in self.config.evaluate and subset.kind == "train-out"
        last = self.step == self.config.steps
        return keep or (self.keeps_outputs and last and subset.kind in TEST_PARTS)

    def _outputs_on_test_domains(self, scores: Mapping[str, Score]) -> dict[str, AnyOutputs]:
        """Return the outputs on all samples of each test domain that were evaluated."""
        joined = {}
        for domain in self.config.test_domains:
            parts = [s for s in self.evaluation if s.kind in TEST_PARTS and s.domain.name == domain]
            stored = [(scores[part.name].outputs, part.index) for part in parts]
            if sets := [(*outputs, index) for outputs, index in stored if outputs is not None]:
                outputs, labels, rows = zip(*sets, strict=True)
                joined[domain] = self._joined(outputs, labels, np.concatenate(rows))
        return joined

    @abstractmethod
    def _joined(
        self, outputs: Sequence[Any], labels: Sequence[Any], rows: np.ndarray
    ) -> AnyOutputs:
        """Return the outputs and labels of several sets as one, with the `rows` of all samples."""

    def _scored_record(self, scores: Mapping[str, Score]) -> Record:
        """Return the measures and the risk on each set, and set `outputs` after the last step.

        `shift` describes the shift of the outputs (see `training.invariance`), if requested.  It
        uses the same samples and resamples at every step and in every run on this data.
        """
        if self.step == self.config.steps:
            self.outputs = self._outputs_on_test_domains(scores)
        record: Record = {}
        for measure in MEASURES[self.algorithm.task.kind]:
            record[measure] = {
                name: score.measured[measure]
                for name, score in scores.items()
                if measure in score.measured
            }
        record["risk"] = {name: score.risk for name, score in scores.items()}
        if INVARIANCE in self.config.evaluate:
            from shiftproof.training.invariance import shift_of_outputs

            outputs = {name: score.outputs for name, score in scores.items() if score.outputs}
            seed = seed_hash(INVARIANCE, self.config.data_seed)
            record["shift"] = shift_of_outputs(outputs, seed)
        return record


def session_for(config: RunConfig) -> type[Session]:
    """Return the class that trains a run; torch, slow to import, is loaded for networks only."""
    if ALGORITHMS.get(config.algorithm).exact:
        from shiftproof.training.fitting import Fitting

        return Fitting
    from shiftproof.training.trainer import Trainer

    return Trainer
