"""The corrections of the estimates, each against a computation of its own."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    LogRatio,
    Posterior,
    _concept,
    _covariate,
    checked,
    information,
    mixture,
    stratified_mean,
)
from scipy.optimize import brentq
from scipy.special import log_softmax
from scipy.stats import norm

from shiftproof.information import Counts, CrossFitted, estimator_for

Z = norm.ppf(0.975)


def test_the_millers_correction_leaves_no_bias():
    """Of independent values the plug-in estimate has the mean (K − 1)(m − 1) / 2n."""
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1, 2], 30)
    plain, corrected = [], []
    for _ in range(400):
        values = rng.permutation(np.repeat(np.arange(5), 18))
        sample = checked(rng.normal(size=90), values, d, False)
        ratio = information(sample.y, sample)
        value, _ = stratified_mean(ratio.values, sample)
        plain.append(value)
        corrected.append(value + ratio.correction)
    bias = 4 * 2 / (2 * 90)
    assert np.mean(plain) == pytest.approx(bias, rel=0.15)
    assert np.mean(corrected) == pytest.approx(0, abs=0.15 * bias)


def test_the_concept_shift_is_corrected_for_the_label_less_the_mixture():
    rng = np.random.default_rng(1)
    n, folds = 40, 4
    d, y = np.arange(n) % 2, rng.integers(0, 2, n)
    sample = checked(rng.normal(size=(n, 2)), y, d, True)

    def posterior(groups):
        return Posterior(
            log_softmax(rng.normal(size=(n, groups, 2)), axis=-1),
            log_softmax(rng.normal(size=(folds - 1, n, groups, 2)), axis=-1),
        )

    domain, label = posterior(1), posterior(2)
    mixed = mixture(domain.fitted, label.fitted)
    remixed = mixture(domain.refitted, label.refitted)
    by_hand = 0.0
    for i in range(n):
        for k in range(folds - 1):
            own, again = label.fitted[i, sample.d[i]], label.refitted[k, i, sample.d[i]]
            by_hand += np.exp(own) @ (own - again) / n / (folds - 1)
            by_hand -= np.exp(mixed[i]) @ (mixed[i] - remixed[k, i]) / n / (folds - 1)
    found = _concept(sample, domain, label, mixed)
    assert found.correction == pytest.approx((folds - 2) * by_hand)


@pytest.mark.parametrize("size", [60, 240])
def test_what_may_be_unseen_falls_with_the_number_of_samples(size):
    """Of two domains with equal shares: u with u = z √(2u/n), that is 2z²/n."""
    x = np.tile([0.0, 1.0], size)
    d = np.repeat([0, 1], size)
    estimate = Counts(seed=0).covariate(x, d)
    assert estimate.value == 0
    assert estimate.interval == (0, pytest.approx(2 * Z**2 / (2 * size)))


def test_the_covariate_shift_is_corrected_for_the_classifier_of_the_domain():
    rng = np.random.default_rng(2)
    n, folds = 40, 4
    sample = checked(rng.normal(size=(n, 2)), None, np.arange(n) % 2, True)
    fitted = log_softmax(rng.normal(size=(n, 1, 2)), axis=-1)
    refitted = log_softmax(rng.normal(size=(folds - 1, n, 1, 2)), axis=-1)
    divergence = (np.exp(fitted) * (fitted - refitted)).sum(axis=-1).mean()
    found = _covariate(sample, Posterior(fitted, refitted))
    assert found.correction == pytest.approx((folds - 2) * divergence)


def test_what_may_be_unseen_beside_a_small_estimate():
    """Shares of 50% and 62%: the largest u with u − value = z √(2u/n)."""
    x = np.concatenate([np.arange(100) < 50, np.arange(100) < 62]).astype(float)
    estimate = Counts(seed=0).covariate(x, np.repeat([0, 1], 100))
    assert estimate.value > 0
    largest = brentq(lambda u: u - estimate.value - Z * np.sqrt(2 * u / 200), estimate.value, 1)
    assert estimate.interval == (0, pytest.approx(largest))


def test_the_interval_has_room_for_the_correction():
    class Corrected(Counts):
        def covariate_part(self, sample):
            return LogRatio(np.full(len(sample.d), 0.3), 0.1)

    estimate = Corrected(seed=0).covariate(np.tile([0.0, 1.0], 40), np.repeat([0, 1], 40))
    assert estimate.value == pytest.approx(0.4)
    assert estimate.interval == pytest.approx((0.4 - 0.1 * Z, 0.4 + 0.1 * Z))


def test_few_distinct_rows_are_counted_and_many_are_not():
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1], 100)
    coins = rng.integers(0, 2, (200, 2))
    assert isinstance(estimator_for(coins, d, seed=0), Counts)
    assert isinstance(estimator_for(rng.normal(size=(200, 2)), d, seed=0), CrossFitted)
