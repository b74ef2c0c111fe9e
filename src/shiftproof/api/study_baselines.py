"""The baselines of a study: scikit-learn models with standard preprocessing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out_runs import in_order
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress
from shiftproof.data.tables.preprocessing import Columns
from shiftproof.inference.expected import Expected
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training.configure import configure
from shiftproof.training.fitting import Fitting
from shiftproof.training.outputs import load_outputs, save_outputs

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

TREES = 100
# The name of the progress.
BASELINES = "baselines"
TITLES = {
    "logistic-regression": "Logistic regression",
    "ridge": "Ridge",
    "random-forest": "Random forest",
}


def baselines(
    dataset: DomainDataset, file: Path, seed: int, progress: Progress, class_weight: str = "none"
) -> dict[str, Expected]:
    """Return the predictions of the baselines on each held-out domain, by title.

    They have the sample weights of the model, and are stored in a file.  Images have no baselines:
    pixels do not suit a linear model.
    """
    if len(dataset.input_shape) > 1:
        return {}
    if not file.is_file():
        save_outputs(file, _outputs(dataset, seed, progress, class_weight))
    return stored_baselines(file, dataset.classes, dataset.targets)


def _outputs(
    dataset: DomainDataset, seed: int, progress: Progress, class_weight: str
) -> dict[str, AnyOutputs]:
    """Return the predictions of each baseline on each held-out domain, by "baseline/domain"."""
    names = ("ridge" if dataset.targets else "logistic-regression", "random-forest")
    fits = [(name, domain) for name in names for domain in dataset.domain_names]
    outputs: dict[str, AnyOutputs] = {}
    for number, (name, domain) in enumerate(fits):
        progress(BASELINES, number, len(fits))
        config = configure(
            dataset,
            algorithm=_baseline(name, dataset),
            test_domains=(domain,),
            seed=seed,
            class_weight=class_weight,
        )
        fit = Fitting(config, dataset, keeps_outputs=True)
        fit.advance()
        fit.measure()
        outputs[f"{name}/{domain}"] = fit.outputs[domain]
    progress(BASELINES, len(fits), len(fits))
    return outputs


def stored_baselines(
    file: Path, classes: tuple[str, ...], targets: tuple[str, ...]
) -> dict[str, Expected]:
    """Return the predictions in a file, by title; none if there is no file."""
    if not file.is_file():
        return {}
    predicted: dict[str, dict[str, AnyOutputs]] = {}
    for key, of_domain in load_outputs(file).items():
        name, _, domain = key.partition("/")
        predicted.setdefault(TITLES.get(name, name), {})[domain] = of_domain
    return {
        title: Expected(in_order(of_domains), classes=() if targets else classes, targets=targets)
        for title, of_domains in predicted.items()
    }


def _baseline(name: str, dataset: DomainDataset) -> BaseEstimator:
    """Return a pipeline that imputes, scales and encodes, then fits a scikit-learn model."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline

    forest = RandomForestRegressor if dataset.targets else RandomForestClassifier
    models: dict[str, Any] = {
        "random-forest": forest(TREES, n_jobs=-1),
        "ridge": Ridge(),
        "logistic-regression": LogisticRegression(max_iter=1000),
    }
    return make_pipeline(_encoder(dataset), models[name])


def _encoder(dataset: DomainDataset) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

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
