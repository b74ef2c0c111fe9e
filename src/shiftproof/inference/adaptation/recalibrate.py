"""Updates of a model with a few labelled rows of a new site, to the extent the rows support.

With m(y|x) the probabilities of the trained model and z standardised features, the updates are

    original       log p(y|x) = log m(y|x)
    intercept      log p(y|x) = log m(y|x) + a(y)
    slope          log p(y|x) = b log m(y|x) + a(y)
    revision       log p(y|x) = b log m(y|x) + a(y) + zᵀβ(y)

each normalised over y.  For two classes these are recalibration in the large, logistic
recalibration and re-estimation of the effects of the features.  A *closed testing procedure*
selects one by likelihood-ratio tests at level α: the largest update is tested against the original;
if that is rejected, against the intercept; and if that is rejected too, against the slope.  The
first that is not rejected is selected.  So a correct original is rejected with probability at most
α, however many updates there are.

With few rows, the statistic against the original tends to exceed its χ² distribution.  But if the
original is correct, labels follow its probabilities.  So with fewer than `LARGE_SAMPLE` rows the
original is rejected only if an exact test also rejects it: labels are drawn from the original until
`ENOUGH` draws have a larger statistic, at most `DRAWS` times.

A revision is considered only with ten rows of the rarest class for each feature.  Its effects β are
shrunk towards 0, and its other coefficients towards the slope's fit, by the factor (χ² − df) / χ²
of its own test against the slope.

References: Vergouwe et al. (2017), *A closed testing procedure to select an appropriate method for
updating prediction models*; Steyerberg et al. (2004), *Validation and updating of predictive
logistic regression models: a study on sample size and shrinkage*; Van Houwelingen and le Cessie
(1990), *Predictive value of statistical models*; Besag and Clifford (1991), *Sequential Monte Carlo
p-values*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, softmax

from shiftproof.core.errors import DataError
from shiftproof.inference.adaptation.label_shift import stored_arrays
from shiftproof.statistics.recalibration import Recalibrated, recalibrate

SMALLEST = 1e-7
LEVEL = 0.05
METHODS = ("original", "intercept", "slope", "revision")
# Fewest rows of the rarest class for each feature of a revision (Peduzzi et al., 1996).
ROWS_A_FEATURE = 10
# Bounds of the coefficients: beyond, classes are separated and any value fits.
LARGEST = 15.0
# Fewest rows for the χ² approximation; otherwise, most draws, and exceedances at which to stop.
LARGE_SAMPLE, DRAWS, ENOUGH = 100, 199, 20


@dataclass(frozen=True)
class Update:
    """An update of a model: ``method``, ``slope`` b, ``intercepts`` a [c], ``effects`` β [k, c].

    ``center`` and ``scale`` [k] standardise the features of a revision, which are in ``columns``
    [k]; all three are empty for the other methods.
    """

    method: str
    slope: float
    intercepts: np.ndarray
    effects: np.ndarray
    columns: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    def applied(self, probabilities: np.ndarray, features: np.ndarray | None) -> np.ndarray:
        """Return updated probabilities [n, c]; a revision needs the features [n, width]."""
        logits = self.slope * np.log(np.maximum(probabilities, SMALLEST)) + self.intercepts
        if len(self.columns):
            if features is None:
                raise DataError("a revised model needs the features of a table")
            z = (features[:, self.columns] - self.center) / self.scale
            logits = logits + z @ self.effects
        return np.asarray(softmax(logits, axis=1))

    def to_json(self) -> dict[str, Any]:
        """Return the update as JSON values."""
        return stored_arrays(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Update:
        """Rebuild from JSON values that `model_file.check_header` has checked."""
        columns = np.array(stored["columns"], dtype=int)
        names = ("intercepts", "effects", "center", "scale")
        intercepts, effects, center, scale = (np.array(stored[name], float) for name in names)
        if not len(columns) == len(center) == len(scale) or (columns < 0).any():
            raise ValueError("the update of the model has parts of different lengths")
        effects = effects.reshape(len(columns), len(intercepts))
        method, slope = stored["method"], float(stored["slope"])
        return cls(method, slope, intercepts, effects, columns, center, scale)


@dataclass(frozen=True)
class Step:
    """A likelihood-ratio test of the largest update against a smaller one."""

    against: str
    statistic: float
    freedom: int
    p_value: float


class _Fit(NamedTuple):
    """Maximum likelihood fit of one method to given rows, and its number of free coefficients."""

    method: str
    fit: Recalibrated
    freedom: int
    deviance: float

    @classmethod
    def of(cls, method: str, log_p: np.ndarray, z: np.ndarray, y: np.ndarray) -> _Fit:
        """Fit a method to log probabilities [n, c], features [n, k] and classes [n]."""
        # The most frequent class is the reference; a class without rows keeps the model's odds.
        counts = np.bincount(y, minlength=log_p.shape[1])
        free = (counts > 0) & (np.arange(len(counts)) != counts.argmax()) & (method != "original")
        slope, revised = method in ("slope", "revision"), method == "revision"
        z = z if revised else z[:, :0]
        limits = ((-LARGEST, LARGEST), LARGEST)
        fit = recalibrate(log_p, y, slope=slope, intercepts=free, features=z, bounds=limits)
        return cls(method, fit, slope + int(free.sum()) * (1 + z.shape[1]), 2 * len(y) * fit.loss)

    def statistic(self, smaller: _Fit) -> float:
        """Return the likelihood-ratio statistic against a smaller update."""
        return max(smaller.deviance - self.deviance, 0.0)


def closed_test(
    probabilities: np.ndarray, features: np.ndarray | None, y: np.ndarray, seed: int = 0
) -> tuple[Update, tuple[Step, ...], bool]:
    """Return the update that labelled rows support, the tests, and whether a revision was possible.

    Args:
        probabilities: probabilities of the trained model, [n, c].
        features: features [n, width], or None if the inputs are not a table.
        y: classes [n].  Rows of a single class support no update: the likelihood has no maximum.
        seed: seed for drawing labels when there are few rows.
    """
    log_p = np.log(np.maximum(probabilities, SMALLEST))
    columns, center, scale = _usable(features)
    counts = np.bincount(y, minlength=probabilities.shape[1])
    several = (counts > 0).sum() > 1
    revisable = bool(several and 0 < len(columns) * ROWS_A_FEATURE <= int(counts[counts > 0].min()))
    if not revisable:
        columns, center, scale = columns[:0], center[:0], scale[:0]
    z = np.zeros((len(y), 0)) if features is None else (features[:, columns] - center) / scale
    methods = METHODS if revisable else METHODS[:3] if several else METHODS[:1]
    fits = {method: _Fit.of(method, log_p, z, y) for method in methods}
    largest, steps = fits[methods[-1]], []
    chosen = largest
    for method in methods[:-1]:
        smaller = fits[method]
        statistic = largest.statistic(smaller)
        freedom = largest.freedom - smaller.freedom
        p_value = float(chdtrc(freedom, statistic))
        if method == "original" and p_value < LEVEL and len(y) < LARGE_SAMPLE:
            p_value = max(p_value, _drawn_p(largest.method, log_p, z, statistic, seed))
        steps.append(Step(method, statistic, freedom, p_value))
        if p_value >= LEVEL:
            chosen = smaller
            break
    slope, intercepts, effects, _ = chosen.fit
    if chosen.method == "revision":  # shrunk towards the slope's fit
        plain = fits["slope"]
        gained, freedom = plain.deviance - chosen.deviance, chosen.freedom - plain.freedom
        factor = max(gained - freedom, 0.0) / gained if gained > 0 else 0.0
        slope = plain.fit.slope + factor * (slope - plain.fit.slope)
        intercepts = plain.fit.intercepts + factor * (intercepts - plain.fit.intercepts)
        effects = factor * effects
    else:
        columns, center, scale = columns[:0], center[:0], scale[:0]
    update = Update(chosen.method, slope, intercepts, effects, columns, center, scale)
    return update, tuple(steps), revisable


def _drawn_p(method: str, log_p: np.ndarray, z: np.ndarray, statistic: float, seed: int) -> float:
    """Return the Monte Carlo p-value of a statistic, with labels drawn from the original model.

    Labels of a single class support no update; their statistic is 0.
    """
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(softmax(log_p, axis=1), axis=1)
    larger = 0
    for draw in range(1, DRAWS + 1):
        y = (rng.random((len(log_p), 1)) > cumulative[:, :-1]).sum(axis=1)
        original, updated = (_Fit.of(name, log_p, z, y) for name in ("original", method))
        drawn = updated.statistic(original) if len(np.unique(y)) > 1 else 0.0
        larger += drawn >= statistic
        if larger == ENOUGH:
            return larger / draw
    return (larger + 1) / (DRAWS + 1)


def _usable(features: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the columns that vary, with their means and standard deviations."""
    if features is None:
        return np.zeros(0, dtype=int), np.zeros(0), np.zeros(0)
    spread = features.std(axis=0)
    columns = np.flatnonzero(np.isfinite(spread) & (spread > 1e-9))
    return columns, features[:, columns].mean(axis=0), spread[columns]


# Fewest rows for an update, and number of cross-validation folds.
FEWEST_ROWS, FOLDS = 20, 10
NORMAL = 1.96


@dataclass(frozen=True)
class Recalibration:
    """The update that the rows of a new site support, and its effect.

    ``steps`` are the tests of the closed procedure; ``revisable`` is whether there were enough rows
    for a revision.  ``before`` and ``after`` are the accuracy and log loss on the labelled rows;
    ``after`` is cross-validated, repeating the whole procedure without the held-out rows.
    ``change`` gives the differences with 95% confidence intervals.
    """

    update: Update
    steps: tuple[Step, ...]
    rows: int
    revisable: bool
    before: dict[str, float]
    after: dict[str, float]
    change: dict[str, tuple[float, float, float]]

    @property
    def method(self) -> str:
        """The method of the update: original, intercept, slope or revision."""
        return self.update.method

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "method": self.method,
            "rows": self.rows,
            "revision_considered": self.revisable,
            "tests": [vars(step) for step in self.steps],
            "before": self.before,
            "after": self.after,
            "change": {name: list(values) for name, values in self.change.items()},
        }


def recalibrated(
    probabilities: np.ndarray, features: np.ndarray | None, y: np.ndarray
) -> Recalibration:
    """Return the update supported by labelled rows of a new site, evaluated by cross-validation."""
    n = len(y)
    if n < FEWEST_ROWS:
        raise DataError(
            f"{n} labelled rows are too few to update a model; {FEWEST_ROWS} are needed"
        )
    if len(np.unique(y)) < 2:
        raise DataError("all labelled rows have the same class; an update needs rows of two")
    update, steps, revisable = closed_test(probabilities, features, y)
    fold = np.random.default_rng(0).permutation(np.arange(n) % FOLDS)
    after = np.empty_like(probabilities)
    for number in range(FOLDS):
        rest, held_out = fold != number, fold == number
        of_rest, of_held_out = (
            None if features is None else features[rows] for rows in (rest, held_out)
        )
        fitted = closed_test(probabilities[rest], of_rest, y[rest])[0]
        after[held_out] = fitted.applied(probabilities[held_out], of_held_out)
    scores = [_row_scores(p, y) for p in (probabilities, after)]
    change = {}
    for name in scores[0]:
        difference = scores[1][name] - scores[0][name]
        mean, half = float(difference.mean()), NORMAL * float(difference.std(ddof=1) / np.sqrt(n))
        change[name] = (mean, mean - half, mean + half)
    before, later = ({name: float(v.mean()) for name, v in rows.items()} for rows in scores)
    return Recalibration(update, steps, n, revisable, before, later, change)


def _row_scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    right = (probabilities.argmax(axis=1) == y).astype(float)
    losses = -np.log(np.maximum(probabilities[np.arange(len(y)), y], SMALLEST))
    return {"accuracy": right, "log_loss": losses}
