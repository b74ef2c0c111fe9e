"""Scores as the page prints them: shares in percent, other scores with three digits."""

from __future__ import annotations

from shiftproof.core.text import three_digits
from shiftproof.reporting.words import MINUS, score_text

# Shares of samples, printed in percent.
SHARES = ("accuracy", "balanced_accuracy", "sensitivity", "specificity", "calibration_error")
# Errors in the unit of the label, which may be large or small.
UNITS = ("mae", "rmse")
TITLES = {"auroc": "AUROC", "f1": "F1", "r2": "R²", "mae": "MAE", "rmse": "RMSE"}


def title_of(metric: str) -> str:
    """Return the name of a score in a heading.

    >>> title_of("balanced_accuracy"), title_of("auroc")
    ('Balanced accuracy', 'AUROC')
    """
    text = metric.replace("_", " ")
    return TITLES.get(text, text[0].upper() + text[1:])


def name_of(metric: str) -> str:
    """Return the name of a score in a sentence."""
    text = metric.replace("_", " ")
    return TITLES.get(text, text)


def scale_of(metric: str) -> float:
    """Return the factor that a score is multiplied by for printing."""
    return 100.0 if metric in SHARES else 1.0


def number(metric: str, value: float) -> str:
    """Return a score as printed, without a percent sign.

    >>> number("accuracy", 0.79857), number("auroc", 0.884), number("calibration_intercept", -0.5)
    ('79.9', '0.884', '−0.500')
    >>> number("mae", 12345.6)
    '12,300'
    >>> number("rmse", 0.0001234)
    '0.000123'
    """
    if metric in UNITS:
        return three_digits(value).replace("-", MINUS)
    if metric in SHARES:
        return f"{scale_of(metric) * value:.1f}".replace("-", MINUS)
    return score_text(value)


def interval(metric: str, low: float, high: float) -> str:
    """Return an interval as text, without a dash beside a minus sign.

    >>> interval("accuracy", 0.25, 0.75), interval("calibration_slope", -1, 0.5)
    ('25.0–75.0', '−1.000 to 0.500')
    """
    between = " to " if low < 0 or high < 0 else "–"
    return f"{number(metric, low)}{between}{number(metric, high)}"


def sign(metric: str) -> str:
    """Return the unit of a score, in sentences."""
    return "%" if metric in SHARES else ""
