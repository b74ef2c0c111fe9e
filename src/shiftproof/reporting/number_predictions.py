"""Predicted numbers as a table, and the tables of their evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rich.table import Table

from shiftproof.core.text import counted, three_digits
from shiftproof.data.samples import Samples
from shiftproof.inference.expected import estimate_of, metric_name
from shiftproof.inference.number_metrics import NumberMetrics
from shiftproof.inference.predictions import NumberPredictions
from shiftproof.learners.number_scores import NUMBER_CARD
from shiftproof.reporting.measures import MEASURE_TITLES, measure_text
from shiftproof.reporting.predictions import (
    COLUMNS,
    PREDICTED,
    empty_card,
    far_text,
    typicality_columns,
)
from shiftproof.reporting.words import interval_text, score_text

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

LOW, HIGH = "low", "high"


def numbers_frame(
    parts: Sequence[tuple[Samples, NumberPredictions]],
    half_width: float | None = None,
) -> pd.DataFrame:
    """Return one row per sample: its names, the predicted number, its interval and typicality.

    `half_width` is half the width of the intervals, if any.
    """
    import pandas as pd

    frames = []
    for samples, predictions in parts:
        columns: dict[str, object] = dict(samples.names)
        if samples.domains is not None:
            columns["domain"] = samples.domains
        columns[PREDICTED] = values = predictions.value_array
        if half_width is not None:
            columns[LOW], columns[HIGH] = values - half_width, values + half_width
        frames.append(pd.DataFrame(columns | typicality_columns(predictions)))
    return pd.concat(frames, ignore_index=True)


def numbers_summary(frame: pd.DataFrame) -> str:
    """Say what range was predicted, and how many inputs are far."""
    own = frame[PREDICTED]
    low, middle, high = (three_digits(each) for each in (own.min(), own.median(), own.max()))
    spread = f"{low} to {high}, median {middle}"
    return f"{counted(len(frame), 'prediction')} ({spread}); {far_text(frame)}"


def numbers_table(outcomes: Sequence[NumberMetrics], adaptation: str = "") -> Table:
    """Return errors by domain, with their mean and the worst."""
    used = f". Adaptation, {adaptation}: each domain's rows are used" if adaptation else ""
    table = Table(
        caption=f"± is the standard error of the MAE over samples{used}", caption_justify="left"
    )
    table.add_column("domain")
    names = ("r2", "mae", "rmse")
    for name in ("samples", *(MEASURE_TITLES[name] for name in names), "far"):
        table.add_column(name, justify="right")
    for own in outcomes:
        cells = {name: measure_text(name, own.scores[name]) for name in names}
        cells["mae"] += f" ± {three_digits(own.standard_error)}"
        table.add_row(
            own.domain + (" (trained on)" if own.trained_on else ""),
            f"{own.samples:,}",
            *cells.values(),
            "–" if own.far is None else f"{own.far:.1%}",
        )
    if len(outcomes) > 1:
        table.add_section()
        known = {n: [v for own in outcomes if (v := own.scores[n]) is not None] for n in names}
        means = [measure_text(n, fmean(v) if v else None) for n, v in known.items()]
        worst = [
            measure_text(n, (min if n == "r2" else max)(v) if v else None) for n, v in known.items()
        ]
        table.add_row("mean", "", *means, "")
        table.add_row("worst", "", *worst, "")
    return table


def number_card_table(outcomes: Sequence[NumberMetrics]) -> Table:
    """Return all scores of a few domains with intervals: scores as rows, domains as columns."""
    shown = outcomes[:COLUMNS]
    table = empty_card([own.domain for own in shown], len(outcomes))
    for name in NUMBER_CARD:
        cells = [estimate_of(name, own.outputs) for own in shown]
        table.add_row(
            metric_name(name),
            *(
                "–" if c is None else f"{score_text(c.value)} ({interval_text(c.low, c.high)})"
                for c in cells
            ),
        )
    return table
