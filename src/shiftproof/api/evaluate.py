"""`evaluate`: score a trained model on labelled samples, domain by domain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out import held_out_in
from shiftproof.api.load_model import as_model
from shiftproof.api.new_samples import new_samples
from shiftproof.api.settings import EvaluateSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import keywords
from shiftproof.data.base import silent
from shiftproof.inference.expected import Expected
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
        for own in self.domains:
            found = own.to_json()
            scores = found.pop("scores")
            found.pop("confusion", None)
            rows.append(found | scores)
        return pd.DataFrame(rows).set_index("domain")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        model = self.model
        predicted = {"targets": model.targets} if model.target else {"classes": model.classes}
        found: dict[str, Any] = {name: list(values) for name, values in predicted.items()}
        found["domains"] = [own.to_json() for own in self.domains]
        if model.standardized:
            found["adaptation"] = model.standardized
        if self.compared is not None:
            found["expected"] = [each.to_dict() for each in self.compared]
        return found

    def _repr_html_(self) -> str:
        found: str = self.to_frame().to_html(float_format="{:.4g}".format)
        return found


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
        label=settings.label,
        domain=settings.domain,
        image=settings.image,
        options=settings.options or {},
        labelled=True,
    )
    found, notes = metrics_by_domain(trained, parts, workers=settings.workers, progress=progress)
    compared = None if held_out is None else _compared(found, held_out)
    return Evaluation(trained, tuple(found), compared, tuple(notes))


def _compared(
    found: Sequence[DomainMetrics | NumberMetrics], expected: Expected
) -> tuple[Comparison, ...]:
    """Compare each domain with the expectation, leaving out domains without scores."""
    pairs = [compare(expected, own.domain, own.outputs) for own in found if own.scores]
    return tuple(each for each in pairs if each is not None)
