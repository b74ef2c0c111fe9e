"""The inputs `X` of the estimators: tables, data frames, images, paths; and labels and domains."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed
from shiftproof.core.types import REGRESSION, Kind as TaskKind
from shiftproof.data import DomainDataset
from shiftproof.data.arrays import from_arrays
from shiftproof.data.base import Progress
from shiftproof.data.domain import TensorLike, as_array
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset, numbered_path
from shiftproof.data.input_forms import ImageForm, InputForm, TableForm
from shiftproof.data.tables.cell_types import text_of
from shiftproof.data.tables.groups import checked_weights
from shiftproof.data.tables.read import is_frame
from shiftproof.learners.algorithms import ALGORITHMS

Kind = Literal["table", "frame", "images", "paths"]
# The name of each kind in errors.
KINDS: dict[str, str] = {
    "table": "a table [n, features]",
    "frame": "a data frame",
    "images": "images [n, channels, height, width]",
    "paths": "paths of image files",
}
# The name of the data in errors and notes.
NAME = "X"


def recognised(given: Any) -> tuple[Kind, Any]:
    """Return the kind of `given`, with tensors as arrays and paths as a list.

    Anything else counts as a table, so that scikit-learn's validation reports what is wrong.
    """
    import pandas as pd

    if is_frame(given):
        return "frame", given
    given = as_numpy(given)
    entries = np.ravel(given) if isinstance(given, np.ndarray) else given
    is_list = isinstance(given, list | tuple | pd.Series) or getattr(given, "ndim", 0) == 1
    if is_list and len(entries) and isinstance(next(iter(entries)), str | os.PathLike):
        return "paths", [Path(path).expanduser() for path in entries]
    if getattr(given, "ndim", 0) == 4:
        return "images", given
    return "table", given


def kind_of_form(form: InputForm) -> Kind:
    """Return the kind of inputs of a model of the command line."""
    if isinstance(form, TableForm):
        return "frame"
    if isinstance(form, ImageForm):
        return "paths"
    return "images" if len(form.input_shape) == 3 else "table"


def as_numpy(given: Any) -> Any:
    """Return a tensor as an array, and anything else unchanged."""
    return as_array(given) if isinstance(given, TensorLike) else given


def weights_of(given: Any, samples: int) -> np.ndarray | None:
    """Return `sample_weight` as an array with one number per sample, or None if it is None."""
    if given is None:
        return None
    try:
        weights = np.asarray(as_numpy(given), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("`sample_weight` must hold one number for each sample") from error
    if weights.shape != (samples,):
        raise DataError(
            f"`sample_weight` must hold one number for each of the {samples} samples, not be of"
            f" shape {weights.shape}"
        )
    return checked_weights(weights, np.ones(samples, dtype=bool), "`sample_weight`")


def dataset_of(
    kind: Kind,
    x: Any,
    labels: Any,
    domains: Sequence[str],
    *,
    task: TaskKind,
    classes: Sequence[str],
    view: ImageView,
    progress: Progress,
    weight: np.ndarray | None = None,
) -> DomainDataset:
    """Return a dataset of samples with labels, domains and, if given, weights."""
    if kind == "paths":
        names: tuple[str, ...] = ()
        make: Callable[[Any, Any, str], LabelledPath] = LabelledPath
        if weight is not None:
            raise DataError("`sample_weight` is for tables and arrays, and `X` holds paths")
        if task == REGRESSION:
            names, make = ("y",), numbered_path
        samples = [make(*row) for row in zip(x, labels, domains, strict=True)]
        missing = [position for position, path in enumerate(x) if not path.is_file()]
        if missing:
            raise DataError(
                f"{len(missing)} of the {len(x)} files in `X` do not exist; the first is"
                f" X[{missing[0]}] = {x[missing[0]]}"
            )
        return image_dataset(NAME, samples, view, classes=classes, targets=names, progress=progress)
    return from_arrays(x, labels, domains, name=NAME, task=task, weight=weight, fewest_domains=1)


class Names(NamedTuple):
    """Sorted distinct values in their original type, the text of each, and that of each sample."""

    values: np.ndarray
    texts: tuple[str, ...]
    labels: list[str]


def names_of(given: Any, what: str) -> Names:
    """Return the distinct entries of `given`; `what` is the name of the parameter in errors."""
    import pandas as pd

    entries = np.asarray(as_numpy(given))
    if entries.ndim != 1:
        raise DataError(f"`{what}` must be [n], one entry per sample, not of shape {entries.shape}")
    missing = np.flatnonzero(pd.isna(entries))
    if len(missing):
        raise DataError(
            f"`{what}` has no value for {counted(len(missing), 'sample')}; the first is"
            f" {what}[{missing[0]}]; fill it or leave the sample out"
        )
    try:
        values, codes = np.unique(entries, return_inverse=True)
    except TypeError:
        types = sorted({type(entry).__name__ for entry in entries})
        raise DataError(
            f"`{what}` mixes {' and '.join(types)}, which cannot be sorted; make them all"
            " strings or all numbers"
        ) from None
    texts = texts_of(values, what)
    return Names(values, texts, [texts[code] for code in codes])


def texts_of(values: np.ndarray, what: str) -> tuple[str, ...]:
    """Return the text of each value; raise if a text means a missing value or occurs twice."""
    texts: dict[str, object] = {}
    for value in values:
        text = text_of(value)
        if text is None:
            raise DataError(
                f"`{what}` holds {str(value)!r}, which means a missing value; rename it"
            )
        if text in texts:
            alike = listed([str(texts[text]), str(value)])
            raise DataError(
                f"`{what}` holds different values with the same text ({alike}); rename one"
            )
        texts[text] = value
    return tuple(texts)


# The name of the single domain if no domains are given.
ONE_DOMAIN = "all"
# Algorithms of these families do not compare domains, so they need none.
WITHOUT_DOMAINS = ("baseline", "exact")


def require_none_of(other: Mapping[str, Any]) -> None:
    """Raise for unknown keywords; for those of other estimators, suggest `sample_domain`."""
    for name in other:
        if name in ("groups", "domains", "domain", "sites", "environments"):
            raise DataError(f"`fit` has no {name!r}; the domain of each sample is `sample_domain`")
        raise TypeError(f"fit() got an unexpected keyword argument {name!r}")


def domains_of(algorithm: str | BaseEstimator, sample_domain: Any, samples: int) -> Names:
    """Return the domains."""
    named = isinstance(algorithm, str)  # a scikit-learn estimator needs no domains
    compares = named and ALGORITHMS.get(algorithm).family not in WITHOUT_DOMAINS
    advice = '`algorithm="erm"` does not use domains'
    if sample_domain is None:
        if compares:
            raise DataError(
                f"{algorithm} compares domains and needs the domain of each sample"
                " (hospital, camera, year), as in fit(X, y, sample_domain=hospitals);"
                f" without any, {advice}"
            )
        sample_domain = [ONE_DOMAIN] * samples
    domains = names_of(sample_domain, "sample_domain")
    if compares and len(domains.texts) == 1:
        raise DataError(
            f"{algorithm} compares domains, and all {len(domains.labels)} samples are from one,"
            f" {domains.texts[0]!r}; give samples of at least two, or {advice}"
        )
    return domains
