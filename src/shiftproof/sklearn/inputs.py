"""What may be given as `X`: a table, a data frame, an array of images, paths of image files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.arrays import from_arrays
from shiftproof.data.base import Progress
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset

Kind = Literal["table", "frame", "images", "paths"]
# How each kind is called in an error.
KINDS: dict[str, str] = {
    "table": "a table [n, features]",
    "frame": "a data frame",
    "images": "images [n, channels, height, width]",
    "paths": "paths of image files",
}
# What the data is called in errors and notes.
NAME = "X"


def recognised(given: Any) -> tuple[Kind, Any]:
    """Return which kind `given` is, tensors as arrays and paths as a list.

    Whatever is none of the others counts as a table: scikit-learn's validation says what is wrong
    with it.
    """
    import pandas as pd  # type: ignore[import-untyped]

    if isinstance(given, pd.DataFrame):
        return "frame", given
    given = as_numpy(given)
    entries = np.ravel(given) if isinstance(given, np.ndarray) else given
    is_list = isinstance(given, list | tuple | pd.Series) or getattr(given, "ndim", 0) == 1
    if is_list and len(entries) and isinstance(next(iter(entries)), str | os.PathLike):
        return "paths", [Path(path).expanduser() for path in entries]
    if getattr(given, "ndim", 0) == 4:
        return "images", given
    return "table", given


def as_numpy(given: Any) -> Any:
    """Return a tensor as an array; anything else stays what it is."""
    if not isinstance(given, Tensor):
        return given
    given = given.detach().cpu()
    return (given.float() if given.dtype == torch.bfloat16 else given).numpy()


def dataset_of(
    kind: Kind,
    x: Any,
    labels: Sequence[str],
    domains: Sequence[str],
    *,
    classes: Sequence[str],
    view: ImageView,
    progress: Progress,
) -> DomainDataset:
    """Return samples with their labels and domains, one each, as a dataset."""
    if kind == "paths":
        rows = zip(x, labels, domains, strict=True)
        samples = [LabelledPath(path, label, domain) for path, label, domain in rows]
        _refuse_missing(x)
        return image_dataset(NAME, samples, view, classes=classes, progress=progress)
    if len(set(domains)) > 1:
        return from_arrays(x, labels, domains, name=NAME)
    # Arrays are dealt to two domains at least.  So they are, by chance, and put together again.
    dealt = np.random.RandomState(0).permutation(len(labels)) % 2
    order = np.argsort(np.argsort(dealt, kind="stable"))
    made = from_arrays(x, labels, dealt, name=NAME)
    inputs, targets = (
        torch.cat([getattr(domain, part) for domain in made.domains])[order] for part in "xy"
    )
    return replace(made, domains=(Domain(domains[0], inputs, targets),))


def _refuse_missing(paths: Sequence[Path]) -> None:
    missing = [position for position, path in enumerate(paths) if not path.is_file()]
    if missing:
        first = missing[0]
        raise DataError(
            f"{len(missing)} of the {len(paths)} files that X names are not there, the first"
            f" X[{first}] = {paths[first]}"
        )
