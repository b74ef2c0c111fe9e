"""Classifiers that are linear: quick, in agreement with the full panel, awake and at level."""

from __future__ import annotations

import numpy as np
import pytest
from known_families import colored_digits

from shiftproof.information import CrossFitted


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


def scores(seed, n, moved=0.0, turned=0.0):
    """One column of log odds in two domains: ``moved`` shifts it, ``turned`` what it means."""
    rng = np.random.default_rng(seed)
    d = np.repeat([0, 1], n // 2)
    x = 1.5 * rng.normal(size=n) + moved * d
    y = (rng.random(n) < sigmoid(x + turned * (2 * d - 1))).astype(int)
    return x, y, d


def test_on_one_column_it_agrees_with_the_full_panel():
    data = scores(0, 3000, moved=0.5, turned=0.4)
    quick, full = (CrossFitted(seed=0, folds=3, linear=linear).measure(*data) for linear in (1, 0))
    for name in ("covariate", "concept", "joint", "within_label"):
        found, expected = getattr(quick, name), getattr(full, name)
        # Within what either may be off by.
        assert found.value == pytest.approx(expected.value, abs=0.004)
        assert expected.interval[0] <= found.value <= expected.interval[1]
    assert quick.concept.method != full.concept.method


def test_on_100_null_sets_it_keeps_its_level():
    estimator = CrossFitted(seed=0, folds=3, permutations=99, linear=True)
    # In half of them, the outputs themselves move.
    sets = [scores(seed, 200, moved=seed % 2) for seed in range(100)]
    found = [estimator.measure(*data).concept.p_value for data in sets]
    # All but once in 50 times or more, by the binomial distribution.
    assert 1 <= sum(p <= 0.05 for p in found) <= 10
    assert 10 <= sum(p <= 0.2 for p in found) <= 30


def test_it_finds_the_colour_in_the_outputs_of_a_model_that_reads_it():
    family = colored_digits((0.9, 0.8))
    d, x, y = family.sample(4000, seed=0)
    shape, colour = x // 2, x % 2
    both = 1.1 * (2 * shape - 1) + 1.7 * (2 * colour - 1)
    rng = np.random.default_rng(0)
    estimator = CrossFitted(seed=0, folds=3, permutations=99, linear=True)
    reads = estimator.measure(both + 0.1 * rng.normal(size=4000), y, d)
    assert reads.concept.p_value == 0.01
    assert reads.concept.interval[0] <= family.concept_shift <= reads.concept.interval[1]
    blind = estimator.measure(2 * shape - 1 + 0.1 * rng.normal(size=4000), y, d)
    assert blind.concept.p_value > 0.05  # the level itself is tested above


def test_many_columns_are_reduced_and_it_says_so():
    rng = np.random.default_rng(0)
    d, x = np.repeat([0, 1], 150), rng.normal(size=(300, 40))
    y = rng.integers(0, 30, 300)
    shift = CrossFitted(seed=0, folds=3, permutations=19, linear=True).measure(x, y, d)
    assert "12 leading principal components represent the 40" in shift.concept.assumptions[-1]
    few = CrossFitted(seed=0, folds=3, linear=True).measure(x[:, :12], y % 2, d)
    assert not any("principal" in stated for stated in few.concept.assumptions)
    assert any("linear rule" in stated for stated in few.concept.assumptions)


def test_outputs_that_do_not_vary_show_nothing():
    y, d = np.arange(60) % 2, np.repeat([0, 1], 30)
    estimator = CrossFitted(seed=0, folds=3, permutations=19, linear=True)
    shift = estimator.measure(np.zeros((60, 1)), y, d)
    assert (shift.concept.value, shift.covariate.value) == (0, 0)
    assert shift.concept.p_value > 0.2
    assert estimator.covariate(np.zeros(60), d).p_value == 1
