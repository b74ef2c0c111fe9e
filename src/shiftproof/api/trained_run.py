"""The result of `train`: the status of the run, its scores and its model."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.standardize import ADAPTATION
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.temperature import calibrated_outputs
from shiftproof.metrics.base import mean_scores, scores
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training.config import RunConfig
from shiftproof.training.loop import RunResult
from shiftproof.training.records import Record


@dataclass(frozen=True)
class TrainedRun(RunResult):
    """The result of a run, with its configuration and its model.

    `status` is `finished`, `diverged` (the loss was not finite) or `stopped` (interrupted: call
    `train` again to resume).  `seconds` is the time of training and evaluation.  `records` holds
    all evaluations, which are also stored in `folder`.
    """

    config: RunConfig = field(kw_only=True)
    trained: TrainedModel | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def metrics(self) -> Record:
        """The last record: losses, and the accuracy and risk of every evaluated set."""
        return self.records[-1] if self.records else {}

    @cached_property
    def outputs(self) -> dict[str, AnyOutputs]:
        """The model outputs and labels of the samples of each test domain, by domain."""
        return calibrated_outputs(self.folder) if self.held_out is None else dict(self.held_out)

    @cached_property
    def scores(self) -> dict[str, dict[str, float | None]]:
        """The scores on all samples of each test domain, by domain: accuracy, AUROC, …, or R², …"""
        return {domain: scores(outputs) for domain, outputs in self.outputs.items()}

    @cached_property
    def model(self) -> TrainedModel:
        """The trained model; that of an earlier call is loaded from the folder on first use."""
        if self.trained is not None:
            return self.trained
        if self.status != "finished":
            raise DataError(f"the run in {self.folder} has no model: it {self.status}")
        return TrainedModel.load(
            self.folder, self.config.device, trust=self.config.estimator is not None
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "test_domains": list(self.config.test_domains),
            "status": self.status,
            "step": self.step,
            "seconds": round(self.seconds, 3),
            "folder": str(self.folder),
            "metrics": mean_scores(list(self.scores.values())),
            "timings": dict(self.timings),
            "final": self.metrics or None,
            **adaptation_entry(self.config),
        }

    def __repr__(self) -> str:
        return f"TrainedRun(status={self.status!r}, step={self.step}, folder={str(self.folder)!r})"


def adaptation_entry(config: RunConfig) -> dict[str, str]:
    """Return the JSON entry on how a run adapts to a new site; empty if it does not."""
    adaptation = ADAPTATION[config.standardize]
    return {"adaptation": adaptation} if adaptation else {}
