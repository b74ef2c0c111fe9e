"""The weights of an ensemble, against the convex optimum and what few domains allow."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import _risk, mixture_proportions, stacking_weights
from scipy.optimize import minimize


def chances(members: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, (members, n))


@pytest.mark.parametrize("members", [2, 5])
def test_the_minimum_equals_that_of_a_general_solver(members):
    likelihood = chances(members, 60)
    weight = np.random.default_rng(1).dirichlet(np.ones(60))
    found = mixture_proportions(likelihood, weight)
    general = minimize(
        _risk,
        np.full(members, 1 / members),
        args=(likelihood, weight),
        bounds=[(0, 1)] * members,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    assert _risk(found, likelihood, weight) == pytest.approx(general.fun, abs=1e-6)


def test_many_domains_decide_and_few_leave_the_weights_nearly_equal():
    rng = np.random.default_rng(0)

    def weight_of_the_better(domains: int) -> float:
        domain = np.repeat(np.arange(domains), 20)
        better, worse = rng.uniform(0.7, 0.9, len(domain)), rng.uniform(0.3, 0.5, len(domain))
        return float(stacking_weights(np.stack([better, worse]), domain, seed=0).mean[0])

    # ŵ = (1, 0), so w = (m + 1) / (m + 2).
    assert weight_of_the_better(1) == pytest.approx(2 / 3, abs=1e-3)
    assert weight_of_the_better(3) == pytest.approx(4 / 5, abs=1e-3)
    assert weight_of_the_better(48) == pytest.approx(49 / 50, abs=1e-3)


def test_every_domain_counts_alike_however_many_rows_it_has():
    # The first member is better in one large domain, the second in each of three small ones.
    domain = np.repeat([0, 1, 2, 3], [900, 10, 10, 10])
    first = np.where(domain == 0, 0.9, 0.3)
    weights = stacking_weights(np.stack([first, 1.2 - first]), domain, seed=0).mean
    assert weights[1] > weights[0]


def test_equal_members_share_and_the_order_does_not_matter():
    same = chances(1, 40)
    domain = np.repeat(np.arange(4), 10)
    assert stacking_weights(np.vstack([same, same]), domain, 0).mean == pytest.approx([0.5, 0.5])
    several = chances(3, 40)
    forward = stacking_weights(several, domain, 0).mean
    backward = stacking_weights(several[::-1], domain, 0).mean
    assert forward == pytest.approx(backward[::-1], abs=1e-4)


def test_the_same_seed_gives_the_same_weights_and_one_member_takes_all():
    several, domain = chances(4, 30), np.repeat([0, 1, 2], 10)
    again = [stacking_weights(several, domain, 3).mean for _ in range(2)]
    assert (again[0] == again[1]).all()
    assert stacking_weights(several[:1], domain, 0).mean == pytest.approx([1.0])
