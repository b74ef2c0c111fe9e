"""The tests of "no shift": at their level without one, and awake to a true one."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    checked,
    conditional_independence,
    covariate_p,
    exact_p_values,
    functions_to_test as functions,
    independence,
)
from scipy import stats

from shiftproof.information import Counts, CrossFitted


def most(sets: int) -> int:
    """Return how often a test of level 5% rejects at most, all but once in a hundred times."""
    return int(stats.binom.ppf(0.99, sets, 0.05))


def coin(rng, probability):
    return (rng.random(len(probability)) < probability).astype(int)


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


def test_exact_tests_keep_their_level_on_100_null_sets():
    rejected = dict.fromkeys(("covariate", "joint", "within_label"), 0)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, d = rng.normal(size=(90, 2)), np.repeat([0, 1, 2], [20, 30, 40])
        sample = checked(x, coin(rng, sigmoid(x[:, 0])), d, False)
        for test, p in exact_p_values(functions(sample.x), sample, 39, seed).items():
            rejected[test] += p <= 0.05
    assert max(rejected.values()) <= most(100), rejected
    assert min(rejected.values()) >= 1, rejected


def test_label_shift_does_not_wake_the_test_within_labels():
    rejected, found, joint = 0, 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        d = np.repeat([0, 1], 50)
        y = coin(rng, np.where(d == 0, 0.8, 0.3))
        x = rng.normal(size=(100, 2)) + 2 * y[:, None]
        sample = checked(x, y, d, False)
        p = exact_p_values(functions(sample.x), sample, 39, seed)
        joint += p["joint"] <= 0.05
        found += p["covariate"] <= 0.05
        rejected += p["within_label"] <= 0.05
    assert 1 <= rejected <= most(100)
    assert min(found, joint) >= 85


@pytest.mark.parametrize("moved", ["mean", "spread", "correlation", "shape"])
def test_a_true_covariate_shift_is_found(moved):
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(600, 2)), np.repeat([0, 1], 300)
    second = d == 1
    if moved == "mean":
        x[second, 0] += 0.5
    elif moved == "spread":
        x[second] *= 1.4
    elif moved == "correlation":
        x[second, 0] = 0.6 * x[second, 1] + 0.8 * x[second, 0]
    else:  # the same mean and variance, but two humps
        x[second, 0] = rng.choice([-0.9, 0.9], 300) + np.sqrt(0.19) * rng.normal(size=300)
    sample = checked(x, None, d, False)
    assert covariate_p(functions(sample.x), sample, 99, 0) == 0.01


def test_counts_are_at_their_level_on_100_null_sets():
    """Covariate and label shift are strong; p(y|x) is the same everywhere."""
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        d = np.repeat([0, 1], 60)
        x = coin(rng, np.where(d == 0, 0.2, 0.8))
        y = coin(rng, np.where(x == 0, 0.3, 0.7))
        sample = checked(x, y, d, False)
        assert independence(x_codes(sample), sample, 39, seed) <= 0.05
        rejected += conditional_independence(sample.y, x_codes(sample), sample, 39, seed) <= 0.05
    assert 1 <= rejected <= most(100)


def x_codes(sample):
    return (sample.x[:, 0] > 0).astype(int)


def test_exact_p_value_of_a_small_table():
    """Two values, two domains, all apart: of C(8, 4) = 70 deals, 2 are as extreme."""
    d = np.repeat([0, 1], 4)
    sample = checked(d.astype(float), None, d, False)
    drawn = independence(d, sample, 20_000, 0)
    assert drawn == pytest.approx(2 / 70, abs=0.004)


def concept_set(seed, n, kind):
    """Strong covariate shift; a concept shift only if ``kind`` is "shift"."""
    rng = np.random.default_rng(seed)
    d = np.repeat([0, 1, 2], n // 3)
    x = rng.normal(size=(len(d), 2)) + np.array([[0, 0], [1.5, 0], [0, 2.0]])[d]
    score = {
        "straight": 2 * x[:, 0] - x[:, 1],
        "curved": 2 * np.sin(2 * x[:, 0]) + x[:, 1] ** 2 - 1,
        "shift": x[:, 0] + 1.2 * (d == 1) * x[:, 1],
    }[kind]
    return x, coin(rng, sigmoid(score)), d


def concept_p_values(sets, n, kind):
    estimator = CrossFitted(seed=0, permutations=39, folds=3)
    return np.array(
        [estimator.measure(*concept_set(s, n, kind)).concept.p_value for s in range(sets)]
    )


def test_the_concept_test_keeps_its_level_under_covariate_shift():
    assert (concept_p_values(8, 240, "straight") <= 0.05).sum() <= most(8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["straight", "curved"])
def test_the_concept_test_keeps_its_level_on_100_hard_null_sets(kind):
    rejected = (concept_p_values(100, 600, kind) <= 0.05).sum()
    assert 1 <= rejected <= most(100)


def test_the_concept_test_finds_a_true_concept_shift():
    assert (concept_p_values(2, 900, "shift") <= 0.05).all()


def test_p_values_are_there_only_if_asked_for():
    x, y, d = concept_set(0, 180, "straight")
    assert all(e.p_value is None for e in CrossFitted(seed=0, folds=3).measure(x, y, d))
    asked = CrossFitted(seed=0, folds=3, permutations=9).measure(x, y, d)
    assert all(0 < e.p_value <= 1 for e in asked)
    counted = Counts(seed=0, permutations=9).measure(x[:, 0] > 0, y, d)
    assert all(0 < e.p_value <= 1 for e in counted)
