"""`evaluate`: score a trained model on labelled samples, domain by domain."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out import held_out_in
from shiftproof.api.load_model import as_model
from shiftproof.api.new_samples import new_samples
from shiftproof.api.settings import EvaluateSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import keywords
from shiftproof.data.base import silent
from shiftproof.data.sample_request import SampleRequest
from shiftproof.inference.metrics import (
    Comparison,
    DomainMetrics,
    NumberMetrics,
    compare,
    metrics_by_domain,
)
from shiftproof.inference.model import TrainedModel
from shiftproof.metrics.regression import COVERAGE

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a model on each domain.

    `compared` compares each score with the range expected from held-out runs; None if no runs were
    given.  `notes` are sentences about the data.
    """

    model: TrainedModel
    domains: tuple[DomainMetrics | NumberMetrics, ...] = field(repr=False)
    compared: tuple[Comparison, ...] | None = None
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per domain, with all scores."""
        import pandas as pd

        rows = []
        for domain in self.domains:
            row = domain.to_json()
            scores = row.pop("scores")
            row.pop("confusion", None)
            rows.append(row | scores)
        return pd.DataFrame(rows).set_index("domain")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        model = self.model
        result: dict[str, Any] = (
            {"targets": list(model.targets)} if model.target else {"classes": list(model.classes)}
        )
        result["domains"] = [domain.to_json() for domain in self.domains]
        if model.standardized:
            result["adaptation"] = model.standardized
        if self.compared is not None:
            result["expected"] = [comparison.to_dict() for comparison in self.compared]
        return result

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(float_format="{:.4g}".format))


@keywords(EvaluateSettings)
def evaluate(
    model: TrainedModel | str | os.PathLike[str],
    data: pd.DataFrame | str | os.PathLike[str],
    settings: EvaluateSettings,
) -> Evaluation:
    """Score the predictions of a model on labelled data, domain by domain.

    Columns and seeds default to those of training.  Without a domain column, all samples form one
    domain.

    Args:
        model: a trained model, or the path of its run or file.
        data: inputs of the model, with labels: a data frame; the path of a table, an image folder
            (DIR/domain/class/*.jpg), a manifest or arrays; or a dataset name.
    """
    expected, metric, progress = settings.expected, settings.metric, settings.progress or silent
    if metric is not None and expected is None:
        raise InvalidValue("`metric` is the score to compare with `expected`; give both")
    held_out = None if expected is None else held_out_in(expected).asked(metric)
    trained = as_model(model, settings.device, trust=settings.trust)
    if held_out is not None:
        held_out.require_task_of(trained)
        if held_out.metric == COVERAGE:
            raise InvalidValue(
                f"`metric` cannot be {COVERAGE} here: intervals from the other domains"
                " cover a held-out domain, and those of `predict` a new one; choose mae, rmse or r2"
            )
    parts = new_samples(
        trained,
        data,
        data_seed=settings.data_seed,
        progress=progress,
        labelled=True,
        **settings.given(SampleRequest),
    )
    by_domain, notes = metrics_by_domain(
        trained, parts, workers=settings.workers, progress=progress
    )
    compared = None
    if held_out is not None:
        scored = [metrics for metrics in by_domain if metrics.scores]
        pairs = [compare(held_out, metrics.domain, metrics.outputs) for metrics in scored]
        compared = tuple(pair for pair in pairs if pair is not None)
    return Evaluation(trained, tuple(by_domain), compared, tuple(notes))
