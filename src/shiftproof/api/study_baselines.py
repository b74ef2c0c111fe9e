"""The baselines of a study: scikit-learn's own models, as anyone would fit them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out_runs import BASELINES, TITLES
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
    """Train them with each domain held out, on samples with the same weights.

    They are classifiers, and pixels are nothing for a logistic regression.
    """
    if len(dataset.input_shape) > 1 or not dataset.classes:
        return
    for number, name in enumerate(TITLES):
        observer.progress(BASELINES, number, len(TITLES))
        train_each(
            dataset,
            baseline(name, dataset),
            class_weight=class_weight,
            out=folder / BASELINES / name,
            seed=seed,
        )
    observer.progress(BASELINES, len(TITLES), len(TITLES))


def baseline(name: str, dataset: DomainDataset) -> BaseEstimator:
    """Return a model with scikit-learn's defaults, after imputing, scaling and encoding."""
    from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]

    if name == "random-forest":
        model: Any = RandomForestClassifier(TREES, n_jobs=-1)
    else:
        model = LogisticRegression(max_iter=1000)
    return make_pipeline(_encoder(dataset), model)


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
