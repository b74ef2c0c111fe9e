"""When and how far class shares are corrected without labels, judged on held-out training domains.

The probabilities of a new site are shifted until each class has its estimated share on average
(`matching_shares`).  There are three views of that share: that of training π₀, the mean m of the
model's own probabilities, and the estimate π̂ by EM (`label_shift`), which is right under label
shift.  The estimate used is

    π = π₀ + α (m − π₀) + β (π̂ − π₀).

α = 1 and β = 0 is no correction.  α and β are learnt: each training domain plays the new site, with
its calibration from the other training domains and its shares from its rows without their labels.
Those with the lowest log loss, mean over domains, are taken, and with K domains K / (K + 1) of the
way to them is gone, as if one more domain had needed no correction.

A new site may differ more than any training domain did.  With τ² the mean squared error of π̂ on
training domains (as far as resampling their rows does not explain it) plus the sampling variance at
the new site, a distance e² = |π̂ − π|² that is too large to be an error of π̂, by an F test of
e² / τ² at 5%, moves π to π̂ by 1 − τ² / e² of the way (James and Stein, 1961).  The degrees of
freedom of τ² are those of Satterthwaite (1946): K for the first part, and many for the second.

`auto` corrects only if three conditions hold.  (a) *Calibration*: with calibration from the others
and its known shares, the mean calibration slope of held-out domains may be in ½ to 2.  (b)
*Correction*: on held-out domains it did not surely raise log loss or lower accuracy on average (by
a thousandth or more: none may have needed it), and in no domain did it surely cost more than
`TOLERANCE` of accuracy; each domain is corrected with α and β from the others.  (c) *Label shift*:
the new rows look like the training classes in other shares, as far as training domains do
(`label_shift_test`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f as fisher  # type: ignore[import-untyped]

from shiftproof.inference.adaptation.held_out import HeldOut, class_shares
from shiftproof.inference.adaptation.label_shift import SMALLEST, Calibration, em_shares, weighted
from shiftproof.inference.adaptation.label_shift_test import FEWEST, ScoreBins, p_value, score_bins
from shiftproof.inference.adaptation.matching_shares import with_shares
from shiftproof.inference.meta_analysis import random_effects
from shiftproof.learners.calibration_scores import fitted_slope

# Accuracy that the correction may cost a held-out training domain, beyond sampling error.
TOLERANCE = 0.05
# Slopes of calibration outside this range make log odds wrong by a factor of two.
SLOPES = (0.5, 2.0)
# Level of the tests, and the normal quantile of one-sided bounds at it.
LEVEL, BOUND = 0.05, 1.645
# Mean losses of log loss and accuracy are shown to three digits; less than one of the last is none.
NEGLIGIBLE = 0.001
# The α and β that are tried, and what is no correction.
ALPHAS, BETAS = np.linspace(0, 2, 9), np.linspace(0, 1, 6)
NONE = np.array([1.0, 0.0])
# With two training domains, each would be calibrated by a single other one.
FEWEST_DOMAINS = 3
# Rows of a domain that judge α and β, at most; draws of its rows for the sampling variance.
MOST_ROWS, DRAWS = 1000, 20


def target_shares(
    training: np.ndarray, mean: np.ndarray, em: np.ndarray, factors: np.ndarray
) -> np.ndarray:
    """Return π₀ + α (m − π₀) + β (π̂ − π₀), within the simplex.

    >>> third = np.array([0.5, 0.5]), np.array([0.6, 0.4]), np.array([0.9, 0.1])
    >>> target_shares(*third, np.array([1.0, 0.5])).round(2).tolist()
    [0.8, 0.2]
    """
    alpha, beta = factors
    found = np.maximum(training + alpha * (mean - training) + beta * (em - training), 0)
    shares: np.ndarray = found / found.sum()
    return shares


def moved_to_em(
    usual: np.ndarray, em: np.ndarray, noise: float, variance: float, domains: int
) -> np.ndarray:
    """Return shares moved from the usual estimate to that of EM, if errors cannot explain it.

    τ² is ``noise``, the mean over so many domains, plus the sampling ``variance``.

    >>> moved_to_em(np.array([0.5, 0.5]), np.array([0.9, 0.1]), 0.0, 0.0032, 5).round(3).tolist()
    [0.896, 0.104]
    >>> moved_to_em(np.array([0.5, 0.5]), np.array([0.6, 0.4]), 0.01, 0.0, 5).tolist()
    [0.5, 0.5]
    """
    tau2, distance = noise + variance, float(((em - usual) ** 2).sum())
    freedom = domains * (tau2 / noise) ** 2 if noise > 0 else np.inf
    if distance <= float(fisher.isf(LEVEL, 1, min(freedom, 1e6))) * tau2:
        return usual
    moved: np.ndarray = usual + (1 - tau2 / distance) * (em - usual)
    return moved


def sampling_variance(log_likelihood: np.ndarray, seed: int, draws: int = DRAWS) -> float:
    """Return the variance of the EM estimate over resampled rows, summed over classes."""
    n, rng = len(log_likelihood), np.random.default_rng(seed)
    found = [em_shares(log_likelihood[rng.integers(n, size=n)]) for _ in range(draws)]
    return float(np.var(found, axis=0, ddof=1).sum())


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
    ``gap_spread`` its standard deviation over domains.
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
        for name, (found, wanted) in shapes.items():
            if found != wanted:
                raise ValueError(f"adaptation.{name} has shape {found}, not {wanted}")


_ARRAYS = ("rates", "shares", "factors", "error")
_NUMBERS = (
    *("noise", "slope", "slope_error", "log_loss", "log_loss_error"),
    *("accuracy", "accuracy_error", "worst", "gap", "gap_spread"),
)


@dataclass(frozen=True)
class Site:
    """A training domain that plays the new site: all but ``y`` is known without its labels.

    ``predicted`` [n, c] and ``y`` [n] are its rows, ``training`` the shares π₀ of the others,
    ``em`` the estimate with its sampling ``variance``, and ``label_shift`` whether it looks like
    label shift.  ``slope`` is its calibration slope and the variance of that.
    """

    predicted: np.ndarray
    y: np.ndarray
    training: np.ndarray
    em: np.ndarray
    variance: float
    label_shift: bool
    slope: tuple[float, float] | None

    @property
    def shares(self) -> np.ndarray:
        """The true class shares."""
        return class_shares(self.y, self.predicted.shape[1])

    @property
    def confidence(self) -> float:
        """The mean probability of the most probable class."""
        return float(self.predicted.max(axis=1).mean())

    def losses(self) -> np.ndarray:
        """Return the mean log loss of corrections by each pair of α and β, [pairs]."""
        mean, y, p = self.predicted.mean(axis=0), self.y[:MOST_ROWS], self.predicted[:MOST_ROWS]
        targets = [target_shares(self.training, mean, self.em, factors) for factors in PAIRS]
        return np.array([log_losses(with_shares(p, shares), y).mean() for shares in targets])


PAIRS = np.array([(alpha, beta) for alpha in ALPHAS for beta in BETAS])


def log_losses(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of each row."""
    own = probabilities[np.arange(len(y)), y]
    found: np.ndarray = -np.log(np.maximum(own, SMALLEST))
    return found


def site_of(held_out: HeldOut, domain: int, seed: int) -> Site:
    """Let a training domain play the new site."""
    rows = held_out.domain == domain
    slope, bias = held_out.calibrated(~rows)
    log_likelihood = slope * held_out.ratios + bias
    own, y = log_likelihood[rows], held_out.y[rows]
    order = np.random.default_rng(seed).permutation(len(y))  # the first are a random sample
    fitted = fitted_slope(weighted(own, class_shares(y, held_out.classes)), y)
    return Site(
        held_out.predicted[rows][order],
        y[order],
        held_out.mean_shares(~rows),
        em_shares(own),
        sampling_variance(own, seed),
        p_value(score_bins(held_out, log_likelihood, ~rows), own) >= LEVEL,
        None if fitted is None else (fitted.value, fitted.variance),
    )


def learnt(sites: Sequence[Site], losses: np.ndarray) -> tuple[np.ndarray, float]:
    """Return α and β, and the error of π̂ beyond sampling, that sites [k] teach."""
    best = PAIRS[losses.mean(axis=0).argmin()]
    factors = NONE + len(sites) / (len(sites) + 1) * (best - NONE)
    noise = np.mean([((one.em - one.shares) ** 2).sum() - one.variance for one in sites])
    return factors, max(float(noise), 0.0)


def record_of(held_out: HeldOut, seed: int = 0) -> Record | None:
    """Return what the held-out training domains say; None if they are too few."""
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
        after = with_shares(site.predicted, shares) if site.label_shift else site.predicted
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
    )


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
