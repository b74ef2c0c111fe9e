"""Recorded measures as text: accuracies in percent, errors in the unit of the label."""

from __future__ import annotations

import math

MEASURE_TITLES = {"accuracy": "accuracy", "r2": "R²", "mae": "MAE", "rmse": "RMSE"}


def measure_text(measure: str, value: float | None) -> str:
    """Format the value of a measure for a table.

    >>> [measure_text("accuracy", 0.912), measure_text("r2", 0.5), measure_text("mae", 1234.5678)]
    ['91.2%', '0.500', '1,235']
    """
    if value is None or math.isnan(value):
        return "–"
    if measure == "accuracy":
        return f"{100 * value:.1f}%"
    if measure == "r2":
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
