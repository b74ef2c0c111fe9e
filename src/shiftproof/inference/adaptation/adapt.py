"""Predictions for a new site, corrected for its class shares if justified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.inference.adaptation.label_shift import SMALLEST, bbse_shares, em_shares, weighted
from shiftproof.inference.adaptation.label_shift_test import FEWEST, MANY, p_value
from shiftproof.inference.adaptation.matching_shares import with_shares
from shiftproof.inference.adaptation.sites import passes
from shiftproof.inference.adaptation.when import Record

Adapt = Literal["auto", "labels", "none"]
NO_RECORD = (
    "the model keeps no predictions for held-out training domains; train linear, boosting, forest"
    " or best on at least three domains of ten rows or more"
)
_MORE_THAN_SHARES = "the new rows differ from the training domains in more than their class shares"
_LESS_TYPICAL = (
    "the new rows are less typical of the training domains than held-out training domains were"
)
# Number of bootstrap samples for an interval, and its level.
DRAWS, INTERVAL = 200, 0.95
# A smaller change of the shares affects no decision and does not count as a correction.
SMALLEST_CHANGE = 0.001


@dataclass(frozen=True)
class Shares:
    """Estimated class shares of a new site [c], with a 95% interval, and the BBSE estimate.

    The probabilities are corrected to ``value``; ``em`` is the estimate under label shift.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    em: np.ndarray
    bbse: np.ndarray | None


@dataclass(frozen=True)
class Adapted:
    """Probabilities of a new site [n, c], and how they were corrected.

    ``reason`` explains in one line why they were or were not corrected.  ``p_value`` is the p-value
    of label shift.
    """

    probabilities: np.ndarray
    how: Adapt
    corrected: bool
    reason: str
    shares: Shares | None = None
    p_value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the probabilities, as JSON values."""
        found: dict[str, Any] = {
            "adapt": self.how,
            "corrected": self.corrected,
            "reason": self.reason,
            "p_value": self.p_value,
        }
        if self.shares is not None:
            found["shares"] = {
                name: None if value is None else value.tolist()
                for name, value in vars(self.shares).items()
            }
        return found


def checked_adapt(adapt: str) -> Adapt:
    """Return the setting if it is valid, or raise."""
    if adapt not in get_args(Adapt):
        raise InvalidValue(f"`adapt` must be auto, labels or none, not {adapt!r}")
    found: Adapt = adapt  # type: ignore[assignment]
    return found


def adapted(
    record: Record | None,
    probabilities: np.ndarray,
    adapt: Adapt = "auto",
    seed: int = 0,
    *,
    typicality: np.ndarray | None = None,
) -> Adapted:
    """Return the probabilities [n, c] of one new site, corrected for its class shares.

    ``typicality`` [n] is the typicality of its rows, if the model provides it.

    `auto` corrects only if the three conditions of `when` hold.  `labels` assumes label shift: it
    uses the EM estimate of the shares and checks nothing.
    """
    if adapt == "none":
        return Adapted(probabilities, adapt, False, "not asked for")
    if record is None:
        return _refused(probabilities, adapt, NO_RECORD)
    if len(probabilities) < FEWEST:
        return _refused(
            probabilities, adapt, f"{len(probabilities)} rows are too few; {FEWEST} are needed"
        )
    log_likelihood = record.calibration.log_likelihood(probabilities)
    if adapt == "labels":
        shares = _shares(record, probabilities, log_likelihood, seed, label_shift=True)
        return Adapted(
            weighted(log_likelihood, np.maximum(shares.value, 0.5 / len(probabilities))),
            adapt,
            True,
            "assuming, as requested, that only the class shares differ",
            shares,
            p_value(record.bins, log_likelihood),
        )
    if record.refusal:
        return _refused(probabilities, adapt, record.refusal)
    found = p_value(record.bins, log_likelihood)
    shares = _shares(record, probabilities, log_likelihood, seed, label_shift=False)
    tests = {_MORE_THAN_SHARES: found}
    if record.inputs is not None and typicality is not None:
        tests[_LESS_TYPICAL] = record.inputs.p_value(typicality, shares.em)
    if not passes(*tests.values()):
        words = min(tests, key=tests.__getitem__)
        return Adapted(
            probabilities, adapt, False, f"{words} (p = {tests[words]:.2g})", shares, found
        )
    if np.abs(shares.value - probabilities.mean(axis=0)).max() < SMALLEST_CHANGE:
        reason = "the class shares of the predictions agree with those estimated"
        return Adapted(probabilities, adapt, False, reason, shares, found)
    gains = record.gains
    reason = (
        f"on {record.domains} held-out training domains the same correction gained"
        f" {gains.log_loss:.2g} of log loss and {100 * gains.accuracy:.2g} points of accuracy"
    )
    corrected = with_shares(probabilities, shares.value)
    return Adapted(corrected, adapt, True, reason, shares, found)


def _refused(probabilities: np.ndarray, adapt: Adapt, reason: str) -> Adapted:
    return Adapted(probabilities, adapt, False, reason)


def _shares(
    record: Record,
    probabilities: np.ndarray,
    log_likelihood: np.ndarray,
    seed: int,
    *,
    label_shift: bool,
) -> Shares:
    """Return the estimated shares with their interval.

    The interval comes from resampled rows.  Unless label shift is assumed, the errors of the same
    estimate on held-out training domains are added.  Their mean square e² comes from K domains, so
    with v the variance over resampled rows the quantile is that of Student's t with
    K ((v + e²) / e²)² degrees of freedom (Satterthwaite, 1946).
    """
    from scipy.stats import t as student  # type: ignore[import-untyped]

    n, rng = len(probabilities), np.random.default_rng(seed)
    draws = [rng.integers(n, size=n) for _ in range(DRAWS)]
    drawn = np.array([em_shares(log_likelihood[rows]) for rows in draws])
    em = em_shares(log_likelihood)
    value, errors = em, np.zeros_like(em)
    variance = float(drawn.var(axis=0, ddof=1).sum())
    if not label_shift:
        value = record.estimated(probabilities, em, variance)
        drawn = np.array(
            [
                record.estimated(probabilities[rows], own, variance)
                for rows, own in zip(draws, drawn, strict=True)
            ]
        )
        errors = record.gains.error
    squares = drawn.var(axis=0, ddof=1) + errors**2
    known = np.maximum(errors**2, SMALLEST)
    freedom = np.minimum(record.domains * np.maximum(squares / known, 1) ** 2, MANY)
    half = student.ppf((1 + INTERVAL) / 2, freedom) * np.sqrt(squares)
    predicted = weighted(log_likelihood, record.calibration.shares).argmax(axis=1)
    return Shares(
        value,
        np.maximum(value - half, 0),
        np.minimum(value + half, 1),
        em,
        bbse_shares(predicted, record.rates),
    )
