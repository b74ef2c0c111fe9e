"""The interface of an estimator of shift.

From features x, labels y and domains d of the same samples, an estimator measures five amounts of
mutual information (all in nats):

| name | amount | question |
|---|---|---|
| `covariate` | I(X;D) | do the inputs differ between domains? |
| `label` | I(Y;D) | do the label proportions differ? |
| `concept` | I(Y;D∣X) | do the labels of the same input differ? |
| `joint` | I(X,Y;D) | the total: I(X;D) + I(Y;D∣X) = I(Y;D) + I(X;D∣Y) |
| `within_label` | I(X;D∣Y) | do the inputs of one class differ? |

With the representation r of a model in place of x they are I(R;D), I(Y;D|R), I(R,Y;D) and I(R;D|Y);
with the column of its losses, I(L;D).

All are means of a log ratio over samples, e.g. I(X;D) = E log p(d|x)/p(d); estimators differ in how
they estimate that ratio.  The log ratio minus its mean is also the influence function of the mutual
information, so its variance over the samples of each domain gives the confidence interval:

    se² = Σ_d π_d² · var_d(log ratio) / n_d + correction²,

with π_d the weight of domain d.  The domains and their sizes are fixed; the samples of each domain
are independent draws.  `correction` is the term that an estimator adds to the mean to correct its
own bias.  It is uncertain, so the standard error includes all of it.  An interval that reaches zero
extends further upwards: see `_largest_unseen`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, ndtri

from shiftproof.core.errors import InvalidValue
from shiftproof.statistics.features import functions_to_test
from shiftproof.statistics.permutation import conditional_independence, covariate_p, independence
from shiftproof.statistics.sample import (
    Floats,
    Ints,
    LogRatio,
    Sample,
    checked,
    contingency,
    pair_codes,
    stratified_mean,
)

SYMBOLS = {
    "covariate": "I(X;D)",
    "label": "I(Y;D)",
    "concept": "I(Y;D|X)",
    "joint": "I(X,Y;D)",
    "within_label": "I(X;D|Y)",
}
# Classifiers that find no signal predict the shares of the domains, up to rounding.
ROUNDING = 1e-9
INDEPENDENT = "the samples of each domain are independent draws from it"


@dataclass(frozen=True)
class Estimate:
    """An amount of mutual information in nats, with its confidence interval.

    `p_value` tests the hypothesis that the amount is zero; None if it was not tested.
    """

    symbol: str
    value: float
    interval: tuple[float, float]
    level: float
    p_value: float | None
    method: str
    assumptions: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class Shift:
    """The five amounts of mutual information for the same samples, by the same method."""

    covariate: Estimate
    label: Estimate
    concept: Estimate
    joint: Estimate
    within_label: Estimate

    def __iter__(self) -> Any:
        return (getattr(self, part.name) for part in fields(self))


@dataclass(frozen=True)
class Parts:
    """The log ratios of a `Shift` that depend on x, with the requested p-values.

    The log ratio of `within_label` is the joint one minus that of the label.
    """

    covariate: LogRatio
    concept: LogRatio
    joint: LogRatio
    p_values: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Estimator(ABC):
    """A method to measure shifts.

    `balanced` gives all domains the same weight, whatever their sizes.  `permutations` is the
    number of resamples for the p-values of "no shift"; 0 for none.
    """

    seed: int
    balanced: bool = False
    level: float = 0.95
    permutations: int = 0
    # Factor on the standard error.
    widened: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidValue(
                f"the `level` of an interval must lie between 0 and 1, not {self.level}"
            )
        if self.permutations < 0:
            raise InvalidValue(f"`permutations` must be at least 0, not {self.permutations}")

    @property
    @abstractmethod
    def method(self) -> str:
        """Return the name of the method."""

    @abstractmethod
    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions of the estimates beyond `INDEPENDENT`, as sentences."""

    @abstractmethod
    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log p(d|x)/p(d)."""

    @abstractmethod
    def parts(self, sample: Sample) -> Parts:
        """Return the log ratios, and the p-values of everything but the label shift."""

    def covariate_p(self, sample: Sample) -> float | None:
        """Return the p-value of "no covariate shift", if requested."""
        if not self.permutations:
            return None
        return covariate_p(self.functions(sample.x), sample, self.permutations, self.seed)

    def functions(self, x: Floats) -> Floats:
        """Return the functions φ(x) that the tests of "no shift" compare."""
        return functions_to_test(x)

    def covariate(self, x: ArrayLike, d: ArrayLike) -> Estimate:
        """Estimate I(X;D) from features x [n, k] (or [n]) and domains d [n]."""
        sample = checked(x, None, d, self.balanced)
        part, p_value = self.covariate_part(sample), self.covariate_p(sample)
        return self._estimate("covariate", sample, part, p_value)

    def measure(self, x: ArrayLike, y: ArrayLike, d: ArrayLike) -> Shift:
        """Estimate all five amounts from features x [n, k] or [n], labels y [n], domains d [n]."""
        return self.amounts_of(checked(x, y, d, self.balanced))

    def amounts_of(self, sample: Sample) -> Shift:
        """Estimate all five amounts from checked samples."""
        parts, label = self.parts(sample), self.label_part(sample)
        ratios = {
            "covariate": parts.covariate,
            "label": label,
            "concept": parts.concept,
            "joint": parts.joint,
            "within_label": parts.joint - label,
        }
        p_label = independence(sample.y, sample, self.permutations, self.seed)
        p_values = {"label": p_label, **parts.p_values}
        return Shift(
            **{
                name: self._estimate(name, sample, ratio, p_values.get(name))
                for name, ratio in ratios.items()
            }
        )

    def label_part(self, sample: Sample) -> LogRatio:
        """Return log p(d|y)/p(d)."""
        return information(sample.y, sample)

    def _estimate(
        self, name: str, sample: Sample, part: LogRatio, p_value: float | None
    ) -> Estimate:
        value, error = stratified_mean(part.values, sample)
        # Mutual information with D lies in [0, H(D)].
        most = float(-(sample.shares * np.log(sample.shares)).sum())
        value = float(np.clip(value + part.correction, 0, most))
        z = float(ndtri(0.5 + self.level / 2))
        half = z * float(np.hypot(self.widened * error, part.correction))
        low, high = value - half, value + half
        if low <= ROUNDING:
            high = max(high, _largest_unseen(value, z, sample))
        interval = (low if low > ROUNDING else 0.0, min(high, most))
        return Estimate(
            symbol=SYMBOLS[name],
            value=value,
            interval=interval,
            level=self.level,
            p_value=p_value,
            method=self.method,
            assumptions=(INDEPENDENT, *self.assumptions(sample)),
            samples=len(sample.d),
        )


def _largest_unseen(value: float, z: float, sample: Sample) -> float:
    """Return the largest amount u, near zero, that is consistent with the estimate `value`.

    Near zero the variance of the log ratio is twice the mutual information, so the variance at a
    small estimate is too small for larger amounts: solve u − value = z·√(2u/n).
    """
    reach = z**2 * float((sample.weights**2).sum())
    return value + reach + float(np.sqrt(reach**2 + 2 * reach * value))


def mutual_information(
    joint: ArrayLike, one: Sequence[int], other: Sequence[int], given: Sequence[int] = ()
) -> float:
    """Return I(A;B|C) in nats from a table of probabilities; A, B and C are sets of its axes.

    >>> bool(mutual_information([[0.5, 0.0], [0.0, 0.5]], [0], [1]) == np.log(2))
    True
    """
    table = np.asarray(joint, dtype=float)

    def entropy(*axes: int) -> float:
        dropped = tuple(axis for axis in range(table.ndim) if axis not in axes)
        return float(entr(table.sum(axis=dropped)).sum())

    value = entropy(*one, *given) + entropy(*other, *given)
    value -= entropy(*one, *other, *given) + entropy(*given)
    return max(value, 0.0)  # rounding can make it negative


def information(codes: Ints, sample: Sample) -> LogRatio:
    """Return log p_d(a)/p̄(a) for each sample's value and domain, with a bias correction.

    codes [n] number the values of A from 0.
    """
    counts = contingency(codes, sample.d).astype(float)
    sizes = counts.sum(axis=0)
    within = counts / sizes
    mixed = within @ sample.shares
    used = mixed > 0
    # Gaps in the codes are values without samples, which contribute nothing.
    mixed = np.where(used, mixed, 1)
    spread = (sample.shares**2 / sizes * within * (1 - within)).sum(axis=1) / mixed
    seen = (counts > 0).sum(axis=0)
    bias = ((sample.shares * (seen - 1) / sizes).sum() - spread.sum()) / 2
    return LogRatio(np.log(within[codes, sample.d] / mixed[codes]), -float(bias))


# Fewest samples, on average, in each cell of (distinct row, domain).
ENOUGH = 20


@dataclass(frozen=True, kw_only=True)
class Counts(Estimator):
    """Plug-in estimates from a table of counts, with bias correction; all tests are exact.

    With p_d(a) the share of value a in domain d, π_d the weights and p̄ = Σ_d π_d p_d,

        I(A;D) = Σ_d π_d Σ_a p_d(a) log p_d(a) / p̄(a).

    The plug-in estimate from counts is biased upwards.  To second order, for fixed domain sizes
    n_d,

        bias = ½ Σ_d π_d (K_d − 1) / n_d − ½ Σ_a Σ_d π_d² p_d(a) (1 − p_d(a)) / (n_d p̄(a)),

    with K_d the number of values seen in d: the correction of Miller (1955), for weighted domains.
    """

    method = "counts"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions of the estimates."""
        return ("each distinct row of features is a separate value and occurs often enough",)

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log p(d|x)/p(d)."""
        return information(_rows(sample), sample)

    def covariate_p(self, sample: Sample) -> float | None:
        """Return the exact p-value of "no covariate shift", if requested."""
        return independence(_rows(sample), sample, self.permutations, self.seed)

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios; the concept shift is the joint shift minus the covariate shift."""
        x, y = _rows(sample), sample.y
        both = pair_codes(x, y)
        covariate, joint = information(x, sample), information(both, sample)
        tests = (self.permutations, self.seed)
        p_values = {
            "covariate": independence(x, sample, *tests),
            "concept": conditional_independence(y, x, sample, *tests),
            "joint": independence(both, sample, *tests),
            "within_label": conditional_independence(x, y, sample, *tests),
        }
        return Parts(covariate, joint - covariate, joint, p_values)


def few_rows(sample: Sample) -> bool:
    """Return whether the features have few enough distinct rows for counts."""
    most = len(sample.d) / (ENOUGH * sample.domains)
    # If one column has too many values, there is no need to sort whole rows.
    columns = (len(np.unique(column)) <= most for column in sample.x.T)
    return all(columns) and int(_distinct(sample).max()) < most


def _rows(sample: Sample) -> Ints:
    """Return the rows of features as codes [n]; raise if too many are distinct."""
    if not few_rows(sample):
        raise InvalidValue(
            f"counts need at least {ENOUGH} samples for each distinct row of features and domain;"
            " use CrossFitted, or bin the features"
        )
    return _distinct(sample)


def _distinct(sample: Sample) -> Ints:
    if sample.x.shape[1] == 0:
        return np.zeros(len(sample.d), dtype=np.intp)
    return np.unique(sample.x, axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
