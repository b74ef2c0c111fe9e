"""When class shares are corrected without labels, judged on held-out training domains.

How the shares of a new site are estimated is learnt on the training domains, each of which plays
the new site (`sites`).  `auto` corrects only if three conditions hold.  (a) *Calibration*: with
calibration from the others and its known shares, the mean calibration slope of held-out domains may
be in ½ to 2.  (b) *Correction*: on held-out domains it did not surely raise log loss or lower
accuracy on average (by a thousandth or more: none may have needed it), and in no domain did it
surely cost more than `TOLERANCE` of accuracy; each domain is corrected with what the others teach,
and, as a new site, only if (c) holds for it.
(c) *Label shift*: the new rows look like the training classes in other shares, as far as training
domains do: their scores (`label_shift_test`) and their inputs (`typical_inputs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.inference.adaptation.held_out import HeldOut, class_shares
from shiftproof.inference.adaptation.label_shift import Calibration, weighted
from shiftproof.inference.adaptation.label_shift_test import FEWEST, ScoreBins, score_bins
from shiftproof.inference.adaptation.matching_shares import with_shares
from shiftproof.inference.adaptation.sites import (
    LEVEL,
    Site,
    learnt,
    log_losses,
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

# Accuracy that the correction may cost a held-out training domain, beyond sampling error.
TOLERANCE = 0.05
# Slopes of calibration outside this range make log odds wrong by a factor of two.
SLOPES = (0.5, 2.0)
# The normal quantile of one-sided bounds at the level of the tests.
BOUND = 1.645
# Mean losses of log loss and accuracy are shown to three digits; less than one of the last is none.
NEGLIGIBLE = 0.001
# With two training domains, each would be calibrated by a single other one.
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
    """What held-out training domains say about correcting class shares: aggregates only.

    ``calibration`` is that of the model, and ``rates`` [predicted, true] those of its classes after
    it.  ``shares`` [c] are the training shares π₀, every domain counted alike.  ``factors`` are α
    and β, and ``noise`` is the part of τ² that resampling does not explain.  ``error`` [c] is the
    root mean squared error of the estimated shares.  ``slope`` is the mean calibration slope, with
    its standard error.  On ``domains`` domains the correction gained ``log_loss`` and ``accuracy``
    on average, with standard errors over rows, and surely cost at most ``worst`` of accuracy in one
    of them.  ``gap`` is accuracy less mean confidence there, without correction, and
    ``gap_spread`` its standard deviation over domains.  ``inputs`` is how typical their rows were,
    where the model can tell.
    """

    calibration: Calibration
    rates: np.ndarray
    bins: ScoreBins
    shares: np.ndarray
    factors: np.ndarray
    error: np.ndarray
    noise: float
    slope: float
    slope_error: float
    domains: int
    log_loss: float
    log_loss_error: float
    accuracy: float
    accuracy_error: float
    worst: float
    gap: float
    gap_spread: float
    inputs: TypicalInputs | None = None

    @property
    def refusal(self) -> str:
        """Why the class shares of no site may be corrected; empty if they may."""
        low, high = SLOPES
        same = "correcting held-out training domains in the same way"
        half = BOUND * self.slope_error
        if self.slope + half < low or self.slope - half > high:
            return (
                f"the calibration slope on held-out training domains is {self.slope:.2f}, outside"
                f" {low:g} to {high:g}"
            )
        if self.log_loss + BOUND * self.log_loss_error < -NEGLIGIBLE:
            return f"{same} raised their log loss by {-self.log_loss:.2g} on average"
        if self.accuracy + BOUND * self.accuracy_error < -NEGLIGIBLE:
            return f"{same} cost {-100 * self.accuracy:.2g} points of accuracy on average"
        if self.worst > TOLERANCE:
            return (
                f"{same} cost one of them at least {100 * self.worst:.2g} points of accuracy;"
                f" {100 * TOLERANCE:.0f} are tolerated"
            )
        return ""

    def estimated(self, probabilities: np.ndarray, em: np.ndarray, variance: float) -> np.ndarray:
        """Return the shares [c] to correct to, given π̂ and its sampling variance."""
        usual = target_shares(self.shares, probabilities.mean(axis=0), em, self.factors)
        return moved_to_em(usual, em, self.noise, variance, self.domains)

    def to_json(self) -> dict[str, Any]:
        """Return as JSON values."""
        return {
            "calibration": {
                "slope": self.calibration.slope,
                "bias": self.calibration.bias.tolist(),
                "shares": self.calibration.shares.tolist(),
            },
            "bins": self.bins.to_json(),
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            **{name: getattr(self, name) for name in _NUMBERS},
            "domains": self.domains,
            **({} if self.inputs is None else {"inputs": self.inputs.to_json()}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Record:
        """Rebuild from JSON values that `model_header.check_header` has checked."""
        own = stored["calibration"]
        values: dict[str, Any] = {name: np.array(stored[name], float) for name in _ARRAYS}
        values |= {name: float(stored[name]) for name in _NUMBERS}
        found = cls(
            Calibration(float(own["slope"]), np.array(own["bias"]), np.array(own["shares"])),
            bins=ScoreBins.from_json(stored["bins"]),
            domains=int(stored["domains"]),
            inputs=TypicalInputs.from_json(stored["inputs"]) if "inputs" in stored else None,
            **values,
        )
        found._check()
        return found

    def _check(self) -> None:
        """Require shapes that fit each other, or raise `ValueError`."""
        c, edges = len(self.shares), self.bins.edges
        shapes = {
            "bias": (self.calibration.bias.shape, (c,)),
            "calibration.shares": (self.calibration.shares.shape, (c,)),
            "rates": (self.rates.shape, (c, c)),
            "error": (self.error.shape, (c,)),
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


_ARRAYS = ("rates", "shares", "factors", "error")
_NUMBERS = (
    *("noise", "slope", "slope_error", "log_loss", "log_loss_error"),
    *("accuracy", "accuracy_error", "worst", "gap", "gap_spread"),
)


def record_of(
    held_out: HeldOut, seed: int = 0, rows: Mapping[int, TypicalRows] | None = None
) -> Record | None:
    """Return what the held-out training domains say; None if they are too few.

    ``rows`` are those of each domain, by its number, where the model can tell how typical they are.
    """
    counts = [int((held_out.domain == domain).sum()) for domain in held_out.domains]
    large = held_out.domains[np.array(counts) >= FEWEST]
    if len(large) < FEWEST_DOMAINS:
        return None
    sites = [site_of(held_out, int(domain), seed) for domain in large]
    losses = np.array([site.losses() for site in sites])
    gains, rights, errors = [], [], []
    for place, site in enumerate(sites):
        others = np.arange(len(sites)) != place
        factors, noise = learnt([sites[i] for i in np.flatnonzero(others)], losses[others])
        usual = target_shares(site.training, site.predicted.mean(axis=0), site.em, factors)
        shares = moved_to_em(usual, site.em, noise, site.variance, len(sites) - 1)
        may = site.label_shift and _looks_typical(rows or {}, int(large[place]), site)
        after = with_shares(site.predicted, shares) if may else site.predicted
        gains.append(log_losses(site.predicted, site.y) - log_losses(after, site.y))
        right = [(p.argmax(axis=1) == site.y).astype(float) for p in (site.predicted, after)]
        rights.append(right[1] - right[0])
        errors.append(shares - site.shares)
    gaps = [(site.predicted.argmax(axis=1) == site.y).mean() - site.confidence for site in sites]
    surely = [own.mean() + BOUND * own.std() / np.sqrt(len(own)) for own in rights]
    slope, bias = held_out.calibrated(np.ones(len(held_out.y), dtype=bool))
    calibration = Calibration(slope, bias, class_shares(held_out.y, held_out.classes))
    log_likelihood = slope * held_out.ratios + bias
    everywhere = np.ones(len(held_out.y), dtype=bool)
    factors, noise = learnt(sites, losses)
    return Record(
        calibration,
        confusion_rates(weighted(log_likelihood, calibration.shares), held_out.y),
        score_bins(held_out, log_likelihood, everywhere),
        held_out.mean_shares(everywhere),
        factors,
        np.sqrt(np.mean(np.square(errors), axis=0)),
        noise,
        *_mean_slope(sites),
        len(sites),
        *_mean_over_domains(gains),
        *_mean_over_domains(rights),
        max(0.0, -float(min(surely))),
        float(np.mean(gaps)),
        float(np.std(gaps, ddof=1)),
        typical_inputs(rows.values(), held_out.classes) if rows else None,
    )


def _looks_typical(rows: Mapping[int, TypicalRows], domain: int, site: Site) -> bool:
    """Return whether the inputs of a domain pass the test of a new site, judged by the others."""
    if domain not in rows:
        return True
    others = (own for number, own in rows.items() if number != domain)
    inputs = typical_inputs(others, len(site.em))
    return inputs is None or inputs.p_value(rows[domain].typicality, site.em) >= LEVEL


def _mean_over_domains(rows: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the mean over domains of means over rows, and its standard error over rows."""
    variances = [own.var() / len(own) for own in rows]
    return float(np.mean([own.mean() for own in rows])), float(np.sqrt(sum(variances)) / len(rows))


def _mean_slope(sites: Sequence[Site]) -> tuple[float, float]:
    """Return the mean slope and its standard error; slope 1 where all classes are separated."""
    known = [site.slope for site in sites if site.slope is not None]
    if len(known) < 2:
        return (known[0][0], known[0][1] ** 0.5) if known else (1.0, 0.0)
    values, variances = (np.array(column) for column in zip(*known, strict=True))
    found = random_effects(values, variances)
    return found.mean, found.standard_error
