"""Predicted numbers as a table, and the tables of their evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rich.table import Table

from shiftproof.core.text import counted, three_digits
from shiftproof.data.input_forms import Samples
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
    half_widths: Sequence[float] = (),
    targets: Sequence[str] = ("",),
) -> pd.DataFrame:
    """Return one row per sample: its names, the predicted number, its interval and typicality.

    `half_widths` are half the widths of each target's intervals, if any.  With several `targets`,
    column names end in the name of the target.
    """
    import pandas as pd

    frames = []
    for samples, predictions in parts:
        columns: dict[str, object] = dict(samples.names)
        if samples.domains is not None:
            columns["domain"] = samples.domains
        values = predictions.value_array.reshape(len(samples), -1)
        for place, end in enumerate(endings(targets)):
            columns[PREDICTED + end] = values[:, place]
            if half_widths:
                columns[LOW + end] = values[:, place] - half_widths[place]
                columns[HIGH + end] = values[:, place] + half_widths[place]
        frames.append(pd.DataFrame(columns | typicality_columns(predictions)))
    return pd.concat(frames, ignore_index=True)


def endings(targets: Sequence[str]) -> list[str]:
    """Return the column suffix of each target: empty if there is only one target."""
    return [f"_{target}" for target in targets] if len(targets) > 1 else [""]


def numbers_summary(frame: pd.DataFrame, targets: Sequence[str] = ("",)) -> str:
    """Say what range was predicted, and how many inputs are far."""
    spreads = []
    for target, end in zip(targets, endings(targets), strict=True):
        own = frame[PREDICTED + end]
        low, middle, high = (three_digits(each) for each in (own.min(), own.median(), own.max()))
        name = f"{target} " if end else ""
        spreads.append(f"{name}{low} to {high}, median {middle}")
    return f"{counted(len(frame), 'prediction')} ({'; '.join(spreads)}); {far_text(frame)}"


def numbers_table(outcomes: Sequence[NumberMetrics], adaptation: str = "") -> Table:
    """Return errors by domain (and target), with their mean and the worst."""
    used = f". Adaptation, {adaptation}: each domain's rows are used" if adaptation else ""
    table = Table(
        caption=f"± is the standard error of the MAE over samples{used}", caption_justify="left"
    )
    table.add_column("domain")
    targets = list(dict.fromkeys(own.target for own in outcomes))
    if len(targets) > 1:
        table.add_column("target")
    names = ("r2", "mae", "rmse")
    for name in ("samples", *(MEASURE_TITLES[name] for name in names), "far"):
        table.add_column(name, justify="right")
    for own in outcomes:
        cells = {name: measure_text(name, own.scores[name]) for name in names}
        cells["mae"] += f" ± {three_digits(own.standard_error)}"
        table.add_row(
            own.domain + (" (trained on)" if own.trained_on else ""),
            *([own.target] if len(targets) > 1 else []),
            f"{own.samples:,}",
            *cells.values(),
            "–" if own.far is None else f"{own.far:.1%}",
        )
    for target in targets:
        of_target = [own for own in outcomes if own.target == target]
        if len(of_target) < 2:
            continue
        table.add_section()
        known = {n: [v for own in of_target if (v := own.scores[n]) is not None] for n in names}
        means = [measure_text(n, fmean(v) if v else None) for n, v in known.items()]
        worst = [
            measure_text(n, (min if n == "r2" else max)(v) if v else None) for n, v in known.items()
        ]
        named = [target] if len(targets) > 1 else []
        table.add_row("mean", *named, "", *means, "")
        table.add_row("worst", *named, "", *worst, "")
    return table


def number_card_table(outcomes: Sequence[NumberMetrics]) -> Table:
    """Return all scores of a few domains with intervals: scores as rows, domains as columns."""
    shown = outcomes[:COLUMNS]
    several = len({own.target for own in outcomes}) > 1
    titles = [f"{own.domain}, {own.target}" if several else own.domain for own in shown]
    table = empty_card(titles, len(outcomes))
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
