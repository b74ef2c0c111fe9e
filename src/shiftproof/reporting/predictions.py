"""Predictions as a table, and the tables of their evaluation."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.core.text import counted, three_digits
from shiftproof.data.input_forms import Samples
from shiftproof.data.within_domain import NEW_SITE
from shiftproof.inference.model import AnyPredictions, NumberPredictions, Predictions
from shiftproof.reporting.formats import csv_text

if TYPE_CHECKING:
    import pandas as pd


PREDICTED, FAR, TYPICALITY, SET = "predicted", "far", "typicality", "set"
# Whether the probabilities were adapted to the new site; only if adaptation was requested.
ADAPTED = "adapted"
# Separates the classes of a prediction set.
SEPARATOR = "|"


def predictions_frame(
    parts: Sequence[tuple[Samples, Predictions]],
    classes: Sequence[str],
    sets: Sequence[np.ndarray] | None = None,
) -> pd.DataFrame:
    """Return one row per sample: its names, predicted class, class probabilities and typicality.

    `sets` holds for each part which classes are in the prediction set of each row: [n, classes].
    """
    import pandas as pd

    frames = []
    for position, (samples, predictions) in enumerate(parts):
        columns = _names_columns(samples)
        columns[PREDICTED] = [classes[code] for code in predictions.predicted.tolist()]
        for code, name in enumerate(classes):
            columns[f"p({name})"] = predictions.probabilities[:, code]
        if sets is not None:
            columns[SET] = [
                SEPARATOR.join(name for name, inside in zip(classes, row, strict=True) if inside)
                for row in sets[position]
            ]
        if predictions.adapted:
            sites = samples.domains or [NEW_SITE] * len(samples)
            columns[ADAPTED] = [predictions.adapted[site].corrected for site in sites]
        columns |= typicality_columns(predictions)
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def _names_columns(samples: Samples) -> dict[str, object]:
    """Return the columns that name the samples."""
    columns: dict[str, object] = dict(samples.names)
    return columns if samples.domains is None else columns | {"domain": samples.domains}


def typicality_columns(predictions: AnyPredictions) -> dict[str, object]:
    """Return the columns on how typical inputs are; empty for a private model."""
    if np.isnan(predictions.typicality).any():
        return {}
    return {TYPICALITY: predictions.typicality, FAR: predictions.far}


def frame_bytes(frame: pd.DataFrame, suffix: str) -> bytes:
    """Return a frame as the content of a file with `suffix`: Parquet for .parquet, else CSV."""
    from pandas.api.types import is_numeric_dtype

    if suffix == ".parquet":
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()
    escaped = frame.rename(columns=lambda name: csv_text(str(name)))
    for name in escaped.columns[[not is_numeric_dtype(dtype) for dtype in escaped.dtypes]]:
        escaped[name] = escaped[name].map(
            lambda cell: csv_text(cell) if isinstance(cell, str) else cell
        )
    text: str = escaped.to_csv(index=False, float_format="%.7g")
    return text.encode()


def predictions_summary(frame: pd.DataFrame) -> str:
    """Say how often each class was predicted, and how many inputs are far."""
    counts = frame[PREDICTED].value_counts()
    most = ", ".join(f"{name}: {count}" for name, count in counts.head(5).items())
    more = f" and {len(counts) - 5} other classes" if len(counts) > 5 else ""
    return f"{counted(len(frame), 'prediction')} ({most}{more}); {far_text(frame)}"


def far_text(frame: pd.DataFrame) -> str:
    """Say how many inputs are far from every training domain."""
    far = int(frame[FAR].sum()) if FAR in frame else 0
    warning = "none is far from every training domain"
    if FAR not in frame:
        warning = "the model is private and cannot tell which are far from every training domain"
    elif far:
        warning = (
            f"{far} ({far / len(frame):.1%}) far from every training domain: what is predicted"
            " there is a guess"
        )
    return warning


LOW, HIGH = "low", "high"


def numbers_frame(
    parts: Sequence[tuple[Samples, NumberPredictions]], half_width: float | None = None
) -> pd.DataFrame:
    """Return one row per sample: its names, the predicted number, its interval and typicality.

    `half_width` is half the width of the intervals, if any.
    """
    import pandas as pd

    frames = []
    for samples, predictions in parts:
        columns = _names_columns(samples)
        columns[PREDICTED] = values = predictions.values
        if half_width is not None:
            columns[LOW], columns[HIGH] = values - half_width, values + half_width
        frames.append(pd.DataFrame(columns | typicality_columns(predictions)))
    return pd.concat(frames, ignore_index=True)


def numbers_summary(frame: pd.DataFrame) -> str:
    """Say what range was predicted, and how many inputs are far."""
    predicted = frame[PREDICTED]
    low, middle, high = (
        three_digits(number) for number in (predicted.min(), predicted.median(), predicted.max())
    )
    spread = f"{low} to {high}, median {middle}"
    return f"{counted(len(frame), 'prediction')} ({spread}); {far_text(frame)}"
