"""Metrics: each declared once, with everything that is known about it.

    shiftproof.METRICS.register("matthews")(
        shiftproof.Metric(lambda own: matthews_corrcoef(own.labels, own.predicted))
    )

A metric registered like this, also by another package (entry points `shiftproof.metrics`), is a
column of report cards, a row of `expect`, a value of `metric`, and in the JSON of all commands.

A value on one domain is an estimate from its samples.  Log odds of proportions (accuracy, AUROC)
and logarithms of losses have nearly normal errors and no bounds, so intervals and means over
domains are computed on such a scale, and transformed back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri

from shiftproof.core.errors import InvalidValue
from shiftproof.core.text import MINUS, interval_text, score_text, three_digits
from shiftproof.core.types import CLASSIFICATION, REGRESSION, Kind
from shiftproof.metrics import METRICS as METRICS
from shiftproof.metrics.outputs import AnyOutputs

LEVEL = 0.95
GROUPS = 20
LARGEST_LOGARITHM = 700.0
HIGHER, LOWER = math.inf, -math.inf
# The units of metrics: a share is printed in percent, and an error has the unit of the label.
SHARE, OF_LABEL = "share", "label"


class Scale(NamedTuple):
    """An increasing scale on which a metric is additive, its inverse, and the values it takes."""

    there: Callable[[float], float]
    back: Callable[[float], float]
    low: float = -math.inf
    high: float = math.inf


LOG_ODDS = Scale(lambda value: float(logit(value)), lambda value: float(expit(value)), 0, 1)
LOGARITHM = Scale(
    lambda value: float(np.log(value)),
    # The bounds for two very different domains can exceed the largest float.
    lambda value: float(np.exp(min(value, LARGEST_LOGARITHM))),
    0,
)
IDENTITY = Scale(float, float)
# The scale of R²: minus the logarithm of the unexplained share of the variance.
UNEXPLAINED = Scale(
    lambda value: float(-np.log1p(-value)),
    lambda value: float(-np.expm1(min(-value, LARGEST_LOGARITHM))),
    high=1,
)


@dataclass(frozen=True)
class Estimate:
    """A metric of one domain with its interval, and its value and variance on its scale."""

    value: float
    low: float
    high: float
    additive: float
    variance: float

    @classmethod
    def of(
        cls, value: float, scale: Scale, additive: float, variance: float, level: float
    ) -> Estimate:
        """Return a value with the interval of its additive value, which contains the value.

        A share at its bound (0 or 1) lies outside the interval of its corrected log odds.
        """
        reach = float(ndtri((1 + level) / 2)) * variance**0.5
        low, high = (scale.back(additive + sign * reach) for sign in (-1, 1))
        return cls(value, min(low, value), max(high, value), additive, variance)


# The value on the scale of a metric and its sampling variance, or None if there is no such error.
Additive = Callable[[Any], tuple[float, float] | None]


@dataclass(frozen=True)
class Metric:
    """A metric, `score` of outputs (see `metrics.outputs`); None where it is undefined.

    `tasks` are the kinds of task that have it.  `best` is `HIGHER`, `LOWER`, or the best value.
    `additive` gives the value on the `scale` and its sampling variance; without it, the variance
    is the jackknife's over groups of rows.  `title` is the name in headings and `unit` says how
    values are printed.  A metric with `jointly` is computed from the outputs of all domains at
    once, by domain.  `in_card` metrics are in the short report card of classifiers, and those that
    are not `expected` have no mean over domains and no interval.
    """

    score: Callable[[Any], float | None]
    name: str = ""
    tasks: tuple[Kind, ...] = (CLASSIFICATION,)
    best: float = HIGHER
    scale: Scale = IDENTITY
    additive: Additive | None = None
    title: str = ""
    unit: str = ""
    jointly: Callable[[Mapping[str, Any], float], dict[str, Estimate | None]] | None = None
    in_card: bool = True
    expected: bool = True

    # --- values -------------------------------------------------------------------------------
    def estimate(self, outputs: AnyOutputs, level: float = LEVEL) -> Estimate | None:
        """Return the value on one domain with its confidence interval; None if undefined.

        >>> from shiftproof.metrics.outputs import Outputs
        >>> outputs = Outputs(np.tile([0.4, 0.6], (10, 1)), np.array([0, 1] * 5))
        >>> found = METRICS.get("accuracy").estimate(outputs)
        >>> round(found.low, 2), found.value, round(found.high, 2)
        (0.23, 0.5, 0.77)
        """
        value = self.score(outputs)
        if value is None:
            return None
        additive = (self.additive or self._jackknifed)(outputs)
        return None if additive is None else Estimate.of(value, self.scale, *additive, level)

    def estimates(
        self, outputs: Mapping[str, AnyOutputs], level: float = LEVEL
    ) -> dict[str, Estimate | None]:
        """Return the value on each domain with its confidence interval."""
        if self.jointly is not None:
            return self.jointly(outputs, level)
        return {domain: self.estimate(part, level) for domain, part in outputs.items()}

    def _jackknifed(self, outputs: AnyOutputs) -> tuple[float, float] | None:
        def additive(part: AnyOutputs) -> float | None:
            value = self.score(part)
            if value is None or not self.scale.low < value < self.scale.high:
                return None
            return self.scale.there(value)

        value, variance = additive(outputs), jackknife_variance(additive, outputs)
        return None if value is None or not variance > 0 else (value, variance)

    @property
    def has_target(self) -> bool:
        """Whether the best value is neither the highest nor the lowest."""
        return math.isfinite(self.best)

    @property
    def direction(self) -> int:
        """1 if higher is better, -1 if lower is, and 0 if a value between is best."""
        return 0 if self.has_target else 1 if self.best > 0 else -1

    def loss(self, value: float) -> float:
        """Return a number that is lower for a better value.

        >>> METRICS.get("auroc").loss(0.75), METRICS.get("calibration_slope").loss(0.75)
        (-0.75, 0.25)
        """
        return abs(value - self.best) if self.has_target else -self.direction * value

    def worse(self, below: float) -> float:
        """Return the probability of values worse than a threshold from that of values below it."""
        return 1 - below if self.direction < 0 else below

    @property
    def worse_side(self) -> str:
        """On which side of a threshold worse values are."""
        return "above" if self.direction < 0 else "below"

    def check_threshold(self, threshold: float) -> None:
        """Raise unless a value may be at the threshold."""
        low, high = self.scale.low, self.scale.high
        if not low < threshold < high:
            rule = f"above {low:g}" if high == math.inf else f"below {high:g}"
            rule = f"between {low:g} and {high:g}" if math.isfinite(high - low) else rule
            raise InvalidValue(f"`at_least` must be {rule}, not {threshold:g}")

    # --- text ---------------------------------------------------------------------------------
    @property
    def heading(self) -> str:
        """The name in a heading.

        >>> METRICS.get("balanced_accuracy").heading, METRICS.get("auroc").heading
        ('Balanced accuracy', 'AUROC')
        """
        text = self.name.replace("_", " ")
        return self.title or text[0].upper() + text[1:]

    @property
    def phrase(self) -> str:
        """The name in a sentence."""
        return self.title or self.name.replace("_", " ")

    @property
    def factor(self) -> float:
        """The factor that a value is multiplied by for printing."""
        return 100.0 if self.unit == SHARE else 1.0

    @property
    def sign(self) -> str:
        """The sign of the unit, in sentences."""
        return "%" if self.unit == SHARE else ""

    def text(self, value: float) -> str:
        """Return a value as text, shares in percent without a sign.

        >>> METRICS.get("accuracy").text(0.79857), METRICS.get("auroc").text(0.884)
        ('79.9', '0.884')
        >>> METRICS.get("mae").text(12345.6), METRICS.get("rmse").text(0.0001234)
        ('12,300', '0.000123')
        """
        if self.unit == OF_LABEL:
            return three_digits(value).replace("-", MINUS)
        if self.unit == SHARE:
            return f"{100 * value:.1f}".replace("-", MINUS)
        return score_text(value)

    def interval_text(self, low: float, high: float) -> str:
        """Return an interval as text, without a dash beside a minus sign.

        >>> METRICS.get("accuracy").interval_text(0.25, 0.75)
        '25.0–75.0'
        >>> METRICS.get("calibration_slope").interval_text(-1, 0.5)
        '−1.000 to 0.500'
        """
        return interval_text(low, high, self.text)

    def cell(self, value: float | None) -> str:
        """Return a value for a table of the terminal.

        >>> METRICS.get("accuracy").cell(0.912), METRICS.get("mae").cell(1234.5678)
        ('91.2%', '1,235')
        """
        if value is None or math.isnan(value):
            return "–"
        if self.unit == SHARE:
            return f"{100 * value:.1f}%"
        if self.unit == OF_LABEL:
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        return f"{value:.3f}"


DEFAULT: dict[Kind, str] = {CLASSIFICATION: "accuracy", REGRESSION: "mae"}


def scores(outputs: AnyOutputs) -> dict[str, float | None]:
    """Return all metrics of outputs, by name; None where one is undefined.

    >>> from shiftproof.metrics.outputs import NumberOutputs
    >>> found = scores(NumberOutputs(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 5.0])))
    >>> [round(found[name], 3) for name in ("r2", "mae", "rmse")]
    [0.875, 0.333, 0.577]
    """
    metrics = (METRICS.get(name) for name in METRICS.of(outputs.task, expected=False))
    return {one.name: one.score(outputs) for one in metrics if one.jointly is None}


def mean_scores(of_domains: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the mean of each metric over the domains where it is defined."""
    return _over_domains(of_domains, lambda _, values: fmean(values))


def worst_scores(of_domains: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the worst value of each metric over the domains where it is defined."""
    return _over_domains(of_domains, lambda name, values: max(values, key=METRICS.get(name).loss))


def _over_domains(
    of_domains: Sequence[Mapping[str, float | None]], summary: Callable[[str, list[float]], float]
) -> dict[str, float | None]:
    summaries: dict[str, float | None] = {}
    for name in dict.fromkeys(name for scores in of_domains for name in scores):
        defined = [value for scores in of_domains if (value := scores.get(name)) is not None]
        summaries[name] = summary(name, defined) if defined else None
    return summaries


def jackknife_variance(score: Callable[[Any], float | None], outputs: AnyOutputs) -> float:
    """Return the grouped jackknife variance of a score.

    The groups of rows are stratified by class, or by the size of the label.
    """
    labels = outputs.labels
    shuffled = np.random.default_rng(0).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    groups = min(GROUPS, len(labels))
    values = []
    for group in range(groups):
        rows = np.delete(order, np.s_[group::groups])
        value = score(type(outputs)(outputs[0][rows], labels[rows])) if len(rows) else None
        if value is not None:
            values.append(value)
    if len(values) < 2:
        return 0.0
    return float((len(values) - 1) * np.var(values))
