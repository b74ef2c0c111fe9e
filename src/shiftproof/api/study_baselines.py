"""The baselines of a study: scikit-learn models with standard preprocessing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out_runs import BASELINES
from shiftproof.api.train_each import train_each
from shiftproof.data import DomainDataset
from shiftproof.data.tables.preprocessing import Columns
from shiftproof.training.observers import Observer

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator  # type: ignore[import-untyped]

TREES = 100


def train_baselines(
    dataset: DomainDataset,
    folder: Path,
    seed: int,
    observer: Observer,
    class_weight: str = "none",
) -> None:
    """Train the baselines with each domain held out, with the same sample weights.

    Images are skipped: pixels do not suit a linear model.
    """
    if len(dataset.input_shape) > 1:
        return
    names = ("ridge" if dataset.targets else "logistic-regression", "random-forest")
    for number, name in enumerate(names):
        observer.progress(BASELINES, number, len(names))
        train_each(
            dataset,
            baseline(name, dataset),
            class_weight=class_weight,
            out=folder / BASELINES / name,
            seed=seed,
        )
    observer.progress(BASELINES, len(names), len(names))


def baseline(name: str, dataset: DomainDataset) -> BaseEstimator:
    """Return a pipeline that imputes, scales and encodes, then fits a scikit-learn model."""
    from sklearn.ensemble import (  # type: ignore[import-untyped]
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.linear_model import (  # type: ignore[import-untyped]
        LogisticRegression,
        Ridge,
    )
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]

    forest = RandomForestRegressor if dataset.targets else RandomForestClassifier
    models: dict[str, Any] = {
        "random-forest": forest(TREES, n_jobs=-1),
        "ridge": Ridge(),
        "logistic-regression": LogisticRegression(max_iter=1000),
    }
    return make_pipeline(_encoder(dataset), models[name])


def _encoder(dataset: DomainDataset) -> Any:
    from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]
    from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (  # type: ignore[import-untyped]
        OneHotEncoder,
        StandardScaler,
    )

    numbers = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )
    if not isinstance(dataset.preparation, Columns):
        return numbers
    by_kind: dict[str, list[str]] = {"number": [], "category": []}
    for column in dataset.preparation.columns:
        by_kind[column.kind].append(column.name)
    texts = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [("numbers", numbers, by_kind["number"]), ("texts", texts, by_kind["category"])]
    )
