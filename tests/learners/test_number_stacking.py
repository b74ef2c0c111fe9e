"""Stacking of numbers: the exact minimum over the simplex, and what domains do to it."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import least_absolute, least_squares, number_weights
from scipy.optimize import minimize


def errors(members: int = 4, n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(members)
    common = rng.normal(size=n)
    return common + rng.normal(size=(members, n)) * rng.uniform(0.3, 2, members)[:, None]


def by_search(loss, members):
    best = np.inf
    for start in np.eye(members) * 0.5 + 0.5 / members:
        found = minimize(
            loss,
            start,
            bounds=[(0, 1)] * members,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        best = min(best, found.fun)
    return best


def test_least_squares_is_the_minimum_over_the_simplex():
    e = errors()
    moments = e @ e.T / e.shape[1]
    w = least_squares(moments)
    assert w.sum() == pytest.approx(1)
    assert (w >= 0).all()
    assert w @ moments @ w == pytest.approx(by_search(lambda v: v @ moments @ v, 4), rel=1e-8)


def test_least_absolute_is_the_minimum_over_the_simplex():
    e = errors(3)
    weight = np.full(e.shape[1], 1 / e.shape[1])
    w = least_absolute(e, weight)
    assert w.sum() == pytest.approx(1)
    assert (w >= 0).all()
    # The search is not exact where the loss has a corner; it must not be better than a thousandth.
    assert weight @ np.abs(w @ e) <= 1.001 * by_search(lambda v: float(weight @ np.abs(v @ e)), 3)


@pytest.mark.parametrize("absolute", [False, True])
def test_a_useless_member_counts_nothing_and_domains_that_disagree_spread_the_weights(absolute):
    rng = np.random.default_rng(0)
    good, bad = 0.1 * rng.normal(size=400), 3 + rng.normal(size=400)
    domain = np.arange(400) % 4
    found = number_weights(np.stack([good, bad]), domain, 0, absolute=absolute)
    assert found.mean == pytest.approx([1, 0], abs=0.02)
    here = np.where(domain < 2, good, bad)
    there = np.where(domain < 2, bad, good)
    found = number_weights(np.stack([here, there]), domain, 0, absolute=absolute)
    assert found.mean == pytest.approx([0.5, 0.5], abs=0.15)
    assert found.spread.min() > 0.05


def test_large_domains_count_no_more_than_small_ones():
    rng = np.random.default_rng(1)
    domain = np.repeat([0, 1], [1000, 20])
    first = np.where(domain == 0, 0.1, 2.0) * rng.normal(size=1020)
    second = np.where(domain == 0, 2.0, 0.1) * rng.normal(size=1020)
    found = number_weights(np.stack([first, second]), domain, 0).mean
    assert found == pytest.approx([0.5, 0.5], abs=0.1)
