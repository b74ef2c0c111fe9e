"""The score by which `best` chooses the settings of its members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shiftproof.core.errors import InvalidValue
from shiftproof.core.types import SQUARED
from shiftproof.data import DomainDataset
from shiftproof.learners.scores import checked_metric, checked_number_metric

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator  # type: ignore[import-untyped]


def check_metric(dataset: DomainDataset, metric: str | None) -> None:
    """Raise if the score is unknown for this kind of data."""
    if metric is not None:
        check = checked_number_metric if dataset.target else checked_metric
        check(metric)


def loss_of_metric(dataset: DomainDataset, loss: str | None, metric: str | None) -> str | None:
    """Return the given loss or, in regression, the loss that the score implies."""
    if loss is not None or metric is None or not dataset.target:
        return loss
    return "absolute" if metric == "mae" else SQUARED


def with_metric(
    hparams: Mapping[str, object],
    algorithm: str | BaseEstimator,
    metric: str | None,
    dataset: DomainDataset,
) -> Mapping[str, object]:
    """Return the hyper-parameters with the score to choose settings by; only `best` has one.

    In regression, the loss determines it (`loss_of_metric`).
    """
    check_metric(dataset, metric)
    if metric is None or dataset.target:
        return hparams
    if not (isinstance(algorithm, str) and algorithm == "best"):
        return hparams
    if "metric" in hparams:
        raise InvalidValue("`metric` and `hparams` give metric twice")
    return {**hparams, "metric": metric}
