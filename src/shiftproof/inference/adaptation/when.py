"""Conditions for correcting class shares without labels, tested on held-out training domains.

How to estimate the shares of a new site is learnt on the training domains, each treated as a new
site (`sites`).  `auto` corrects only if three conditions hold.  (a) *Calibration*: the mean
calibration slope of held-out domains, each calibrated on the others and given its known shares, is
not significantly outside ½ to 2.  (b) *Correction*: on held-out domains (`held_out_gains`) it did
not significantly raise mean log loss (by 0.001 or more: perhaps no domain needed it), nor cost
significantly more accuracy than `MEAN_TOLERANCE` on average or `TOLERANCE` in any domain.  Each
domain is corrected by what is learnt from the others and, like a new site, only if (c) holds for
it.  (c) *Label shift*: the new rows match the training classes in different shares, as well as
training domains do, in their scores (`label_shift_test`) and inputs (`typical_inputs`); the two
tests share one level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.inference.adaptation.held_out import HeldOut, class_shares
from shiftproof.inference.adaptation.held_out_gains import (
    BOUND,
    Gains,
    held_out_gains,
    surely_below,
)
from shiftproof.inference.adaptation.label_shift import Calibration, weighted
from shiftproof.inference.adaptation.label_shift_test import FEWEST, ScoreBins, score_bins
from shiftproof.inference.adaptation.sites import (
    Site,
    learnt,
    moved_to_em,
    site_of,
    target_shares,
)
from shiftproof.inference.adaptation.typical_inputs import (
    TypicalInputs,
    TypicalRows,
    typical_inputs,
)
from shiftproof.inference.meta_analysis import random_effects

# Tolerated loss of accuracy, beyond sampling error, in one held-out domain and on average.
TOLERANCE, MEAN_TOLERANCE = 0.05, 0.01
# Calibration slopes outside this range make log odds wrong by more than a factor of two.
SLOPES = (0.5, 2.0)
# With two training domains, each would be calibrated on a single other domain.
FEWEST_DOMAINS = 3


def confusion_rates(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the rates [predicted, true] of each predicted class within each true class."""
    classes = probabilities.shape[1]
    counts = np.zeros((classes, classes))
    np.add.at(counts, (probabilities.argmax(axis=1), y), 1)
    rates: np.ndarray = counts / np.maximum(counts.sum(axis=0), 1)
    return rates


@dataclass(frozen=True)
class Record:
    """Results on held-out training domains about correcting class shares; aggregates only.

    ``calibration`` is the calibration of the model, and ``rates`` [predicted, true] are the
    confusion rates after it.  ``shares`` [c] are the training shares π₀, with equal weight for
    every domain.  ``factors`` are α and β, and ``noise`` is the part of τ² that resampling does not
    explain.  ``slope`` is the mean calibration slope, with its standard error.  ``gains`` are the
    gains of the correction on the held-out ``domains``.  ``gap`` is their mean accuracy minus
    confidence, without correction, and ``gap_spread`` its standard deviation over domains.
    ``inputs`` is the typicality of their rows, if the model provides it.
    """

    calibration: Calibration
    rates: np.ndarray
    bins: ScoreBins
    shares: np.ndarray
    factors: np.ndarray
    noise: float
    slope: float
    slope_error: float
    domains: int
    gains: Gains
    gap: float
    gap_spread: float
    inputs: TypicalInputs | None = None

    @property
    def refusal(self) -> str:
        """The reason why `auto` never corrects with this record; empty if it may."""
        low, high = SLOPES
        same = "correcting held-out training domains in the same way"
        half = BOUND * self.slope_error
        if self.slope + half < low or self.slope - half > high:
            return (
                f"the calibration slope on held-out training domains is {self.slope:.2f}, outside"
                f" {low:g} to {high:g}"
            )
        gains = self.gains
        if gains.surely_raised_log_loss:
            return f"{same} raised their log loss by {-gains.log_loss:.2g} on average"
        if surely_below(gains.accuracy, gains.accuracy_error, -MEAN_TOLERANCE):
            return (
                f"{same} cost {-100 * gains.accuracy:.2g} points of accuracy on average;"
                f" {100 * MEAN_TOLERANCE:.0f} is tolerated"
            )
        if gains.worst > TOLERANCE:
            return (
                f"{same} cost one of them at least {100 * gains.worst:.2g} points of accuracy;"
                f" {100 * TOLERANCE:.0f} are tolerated"
            )
        return ""

    def estimated(self, probabilities: np.ndarray, em: np.ndarray, variance: float) -> np.ndarray:
        """Return the target shares [c] of the correction, given π̂ and its sampling variance."""
        usual = target_shares(self.shares, probabilities.mean(axis=0), em, self.factors)
        return moved_to_em(usual, em, self.noise, variance, self.domains)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return {
            "calibration": {
                "slope": self.calibration.slope,
                "bias": self.calibration.bias.tolist(),
                "shares": self.calibration.shares.tolist(),
            },
            "bins": self.bins.to_json(),
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            **{name: getattr(self, name) for name in _NUMBERS},
            **{name: getattr(self.gains, name) for name in _GAINS},
            "error": self.gains.error.tolist(),
            "domains": self.domains,
            **({} if self.inputs is None else {"inputs": self.inputs.to_json()}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Record:
        """Rebuild from JSON values that `model_header.check_header` has checked."""
        own = stored["calibration"]
        values: dict[str, Any] = {name: np.array(stored[name], float) for name in _ARRAYS}
        values |= {name: float(stored[name]) for name in _NUMBERS}
        gains = {name: float(stored[name]) for name in _GAINS}
        found = cls(
            Calibration(float(own["slope"]), np.array(own["bias"]), np.array(own["shares"])),
            bins=ScoreBins.from_json(stored["bins"], int(stored["domains"])),
            domains=int(stored["domains"]),
            gains=Gains(**gains, error=np.array(stored["error"], float)),
            inputs=TypicalInputs.from_json(stored["inputs"]) if "inputs" in stored else None,
            **values,
        )
        found._check()
        return found

    def _check(self) -> None:
        """Raise `ValueError` unless the shapes are consistent."""
        c, edges = len(self.shares), self.bins.edges
        shapes = {
            "bias": (self.calibration.bias.shape, (c,)),
            "calibration.shares": (self.calibration.shares.shape, (c,)),
            "rates": (self.rates.shape, (c, c)),
            "error": (self.gains.error.shape, (c,)),
            "factors": (self.factors.shape, (2,)),
            "bins.errors": (self.bins.errors.shape, (c,)),
            "bins.edges": (edges.shape, (c, *edges.shape[1:2])),
            "bins.shares": (self.bins.shares.shape, (c * (np.size(edges[:1]) + 1), c)),
        }
        if self.inputs is not None:
            shapes["inputs.means"] = (self.inputs.means.shape, (c,))
            if self.inputs.domains < 2 or self.inputs.spread < 0:
                raise ValueError("adaptation.inputs must be of two domains, with a positive spread")
        for name, (found, wanted) in shapes.items():
            if found != wanted:
                raise ValueError(f"adaptation.{name} has shape {found}, not {wanted}")


_ARRAYS = ("rates", "shares", "factors")
_NUMBERS = ("noise", "slope", "slope_error", "gap", "gap_spread")
_GAINS = ("log_loss", "log_loss_error", "accuracy", "accuracy_error", "worst")


def record_of(
    held_out: HeldOut, seed: int = 0, rows: Mapping[int, TypicalRows] | None = None
) -> Record | None:
    """Return the record of the held-out training domains; None if there are too few.

    ``rows`` are the rows of each domain with their typicality, keyed by domain number, if known.
    """
    counts = [int((held_out.domain == domain).sum()) for domain in held_out.domains]
    large = held_out.domains[np.array(counts) >= FEWEST]
    if len(large) < FEWEST_DOMAINS or not all(_judged(held_out, domain) for domain in large):
        return None
    by_number = {int(domain): site_of(held_out, int(domain), seed) for domain in large}
    sites = list(by_number.values())
    gaps = [(site.predicted.argmax(axis=1) == site.y).mean() - site.confidence for site in sites]
    slope, bias = held_out.calibrated(np.ones(len(held_out.y), dtype=bool))
    calibration = Calibration(slope, bias, class_shares(held_out.y, held_out.classes))
    log_likelihood = slope * held_out.ratios + bias
    everywhere = np.ones(len(held_out.y), dtype=bool)
    factors, noise = learnt(sites)
    return Record(
        calibration,
        confusion_rates(weighted(log_likelihood, calibration.shares), held_out.y),
        score_bins(held_out, log_likelihood, everywhere),
        held_out.mean_shares(everywhere),
        factors,
        noise,
        *_mean_slope(sites),
        len(sites),
        held_out_gains(by_number, rows or {}),
        float(np.mean(gaps)),
        float(np.std(gaps, ddof=1)),
        typical_inputs(rows.values(), held_out.classes) if rows else None,
    )


def _judged(held_out: HeldOut, domain: int) -> bool:
    """Return whether the other domains have a class with enough rows for the test of a domain."""
    return int(np.bincount(held_out.y[held_out.domain != domain]).max()) >= FEWEST


def _mean_slope(sites: Sequence[Site]) -> tuple[float, float]:
    """Return the mean slope and its standard error; slope 1 if no domain has a fitted slope."""
    known = [site.slope for site in sites if site.slope is not None]
    if len(known) < 2:
        return (known[0][0], known[0][1] ** 0.5) if known else (1.0, 0.0)
    values, variances = (np.array(column) for column in zip(*known, strict=True))
    found = random_effects(values, variances)
    return found.mean, found.standard_error
