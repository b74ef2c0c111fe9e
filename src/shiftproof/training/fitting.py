"""Run an algorithm that is fitted at once, without torch: its step, evaluation and state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.special import log_softmax

from shiftproof.core.cores import allowed_threads
from shiftproof.core.seeding import stream_seed
from shiftproof.core.types import CLASSIFICATION, Task
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.estimator import EstimatorAlgorithm
from shiftproof.learners.exact import Exact
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training.array_state import State
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import evaluate_rows, plan_evaluation
from shiftproof.training.outputs import in_row_order
from shiftproof.training.records import Record
from shiftproof.training.rows import samples_of
from shiftproof.training.sample_weights import training_weights
from shiftproof.training.session import Session


class Fitting(Session):
    """A learner that is fitted at once, and its training samples.

    `workers` and `compiled` are ignored: they are for networks.  Each fit uses one thread, whatever
    number was requested, so that results do not change.
    """

    def __post_init__(self, saved: State | None) -> None:
        config = self.config
        splits = self._prepare(saved, build_exact)
        domains = [domain for domain in self.dataset.domains if domain.name in splits]
        trained_on = [split.in_ for split in splits.values()]
        weights = training_weights(self.dataset, splits, config.class_weight)
        samples = samples_of(
            self.dataset, domains, trained_on, private=config.private, loss=config.loss
        )
        self.samples = samples if weights is None else samples.weighted(weights)
        self.evaluation = plan_evaluation(config, self.dataset, self.splits)

    @property
    def threads_used(self) -> int:
        """The number of threads it may compute with."""
        return self.threads or allowed_threads()

    def advance(self, progress: Progress = silent) -> Mapping[str, float]:
        """Fit the learner to all samples; return the loss."""
        self.pending = self.algorithm.fit(self.samples, progress)
        self.step += 1
        return self.pending

    def divergence(self) -> int | None:
        """Return the step if its loss was not finite, else None."""
        return None if math.isfinite(self.pending.get("loss", 0.0)) else self.step

    def measure(self) -> Record:
        """Evaluate, and describe the members."""
        record: Record = {"step": self.step, **self.pending}
        self.pending = {}
        scores = {
            subset.name: evaluate_rows(self.algorithm, subset, keep_outputs=self._keeps(subset))
            for subset in self.evaluation
        }
        record |= self._scored_record(scores)
        ensemble = self.algorithm.ensemble
        record["members"] = ensemble.described()
        if ensemble.left_out:
            record["excluded"] = dict(ensemble.left_out)
        return record | self.scored()

    def scored(self) -> dict[str, Any]:
        """Describe which weights are scored: an average over one step is that step."""
        if self.config.average == "none":
            return {}
        return {"weights": {"average": self.config.average, "steps": [self.step, self.step]}}

    def timings(self) -> dict[str, float]:
        """Return the time that each member took, in seconds."""
        timings: dict[str, float] = self.algorithm.ensemble.timings()
        return timings

    def versions(self) -> dict[str, str]:
        """Return the versions of scikit-learn and NumPy."""
        return {name: version(name) for name in ("scikit-learn", "numpy")}

    def _joined(
        self, outputs: Sequence[Any], labels: Sequence[Any], rows: np.ndarray
    ) -> AnyOutputs:
        task, predicted = self.algorithm.task, np.concatenate(outputs)
        if task.kind == CLASSIFICATION:
            predicted = np.exp(log_softmax(predicted.astype(np.float64), axis=1))
        return in_row_order(task, predicted, np.concatenate(labels), rows)


def build_exact(config: RunConfig, task: Task) -> Exact:
    """Return the unfitted learner of a run, with a seed from stream `noise`."""
    cls: type[Exact] = ALGORITHMS.get(config.algorithm)
    learner = cls(task, config.algorithm_hparams(task.regime), stream_seed(config.seed, "noise"))
    if isinstance(learner, EstimatorAlgorithm):
        learner.unfitted, learner.test_domains = config.estimator, config.test_domains
    return learner


def refit(config: RunConfig, dataset: DomainDataset, progress: Progress = silent) -> Fitting:
    """Return the session of a run after its only step, which has the same result every time."""
    session = Fitting(config, dataset, saved=None)
    session.advance(progress)
    return session
