"""Predicted numbers as a table, and the outcome of their evaluation in words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rich.table import Table

from shiftproof.core.text import counted
from shiftproof.data.samples import Samples
from shiftproof.inference.model import NumberPredictions
from shiftproof.inference.number_metrics import NumberMetrics
from shiftproof.reporting.measures import MEASURE_TITLES, measure_text
from shiftproof.reporting.predictions import PREDICTED, far_text, typicality_columns

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def numbers_frame(parts: Sequence[tuple[Samples, NumberPredictions]]) -> pd.DataFrame:
    """Return one row a sample: what it is, the predicted number, the warning."""
    import pandas as pd

    frames = []
    for samples, predictions in parts:
        columns: dict[str, object] = dict(samples.names)
        if samples.domains is not None:
            columns["domain"] = samples.domains
        columns[PREDICTED] = predictions.values.numpy()
        frames.append(pd.DataFrame(columns | typicality_columns(predictions)))
    return pd.concat(frames, ignore_index=True)


def numbers_summary(frame: pd.DataFrame) -> str:
    """Say what range was predicted, and how many inputs are far off."""
    found = frame[PREDICTED]
    spread = f"{found.min():.4g} to {found.max():.4g}, median {found.median():.4g}"
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
        cells["mae"] += f" ± {own.standard_error:.2g}"
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
