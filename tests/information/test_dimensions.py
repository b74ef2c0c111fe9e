"""Distances per feature and pair: the right numbers, and p-values at their level."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from shiftproof import pdm
from shiftproof.information import match_dimensions


def three_domains(seed, sizes=(40, 55, 70), k=4):
    rng = np.random.default_rng(seed)
    d = np.repeat([2, 4, 7], sizes)
    return rng.normal(size=(len(d), k)), d


def test_distances_are_those_of_scipy_and_of_the_penalty():
    x, d = three_domains(0)
    x[d == 4, 1] += 1
    x[:, 2] = np.round(x[:, 2])
    found = match_dimensions(x, d, seed=0, permutations=1)
    assert found.pairs == ((2, 4), (2, 7), (4, 7))
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    for row, (a, b) in enumerate(found.pairs):
        for column in range(x.shape[1]):
            one, other = scaled[d == a, column], scaled[d == b, column]
            groups = [torch.from_numpy(v)[:, None] for v in (one, other)]
            assert found.w1[row, column] == pytest.approx(stats.wasserstein_distance(one, other))
            assert found.pdm[row, column] == pytest.approx(float(pdm(groups)))


def test_the_features_that_move_are_found():
    x, d = three_domains(1, sizes=(200, 150, 250), k=30)
    x[d == 7, 3] += 0.8
    x[d == 7, 11] *= 2.5
    found = match_dimensions(x, d, seed=0, permutations=99)
    moved = np.isin(np.arange(30), [3, 11])
    assert (found.adjusted[moved] == 0.01).all()
    assert (found.adjusted[~moved] > 0.03).all()
    assert (found.p_values <= found.adjusted).all()


def test_one_domain_of_many_that_moves_is_found():
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(3000, 5)), np.repeat(np.arange(60), 50)
    x[d == 17, 2] += 1.2
    found = match_dimensions(x, d, seed=0, permutations=199)
    assert found.adjusted[2] == 0.005
    assert (np.delete(found.adjusted, 2) > 0.05).all()


@pytest.mark.parametrize("domains", [2, 6])
def test_levels_on_100_null_sets(domains):
    """Each p-value is uniform; the smallest adjusted one is below 5% for 1 set in 20."""
    alone, together = [], 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, d = rng.normal(size=(30 * domains, 6)), np.repeat(np.arange(domains), 30)
        x[:, 5] = x[:, 4] > 1  # a column of two values
        found = match_dimensions(x, d, seed=seed, permutations=39)
        alone.append(found.p_values)
        together += found.adjusted.min() <= 0.05
    assert 1 <= together <= stats.binom.ppf(0.99, 100, 0.05)
    rates = (np.array(alone) <= 0.05).mean(axis=0)
    assert (rates <= stats.binom.ppf(0.998, 100, 0.05) / 100).all()


def test_a_feature_that_moves_does_not_raise_the_level_of_the_others():
    """The first feature moves strongly; the smallest adjusted p-value of the others is uniform."""
    low = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, d = rng.normal(size=(120, 5)), np.repeat([0, 1, 2], 40)
        x[:, 0] += d
        low += match_dimensions(x, d, seed=seed, permutations=39).adjusted[1:].min() <= 0.05
    assert low <= stats.binom.ppf(0.99, 100, 0.05)


def test_order_scale_and_names_of_domains_do_not_matter():
    x, d = three_domains(3)
    first = match_dimensions(x, d, seed=0, permutations=19)
    order = np.random.default_rng(0).permutation(len(d))
    again = match_dimensions(3 * x[order] + 1, 10 * d[order], seed=0, permutations=19)
    assert again.pairs == ((20, 40), (20, 70), (40, 70))
    for name in ("w1", "pdm", "p_values", "adjusted"):
        assert getattr(again, name) == pytest.approx(getattr(first, name))


def test_a_constant_feature_never_moves():
    x, d = three_domains(4)
    x[:, 2] = 0.3
    found = match_dimensions(x, d, seed=0, permutations=9)
    assert (found.w1[:, 2] == 0).all()
    assert (found.pdm[:, 2] == 0).all()
    assert found.adjusted[2] == found.p_values[2] == 1
    assert found.w1.shape == (3, 4)
