"""The plan of a portfolio within a budget, and the ensemble that it becomes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from _internals import (
    FEWEST_BINS,
    ROWS_A_BIN,
    ROWS_A_LEAF,
    BoostingCandidate,
    LinearCandidate,
    Samples,
    Size,
    best_combined as combined,
    held_out_scores,
    judge,
    planned,
    portfolio,
    size_of,
)
from sklearn.metrics import accuracy_score, log_loss


def three_sites(n: int = 240, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)) + y[:, None]
    return Samples(x, y, np.arange(n) % 3, 2, np.zeros(3, dtype=bool))


def test_the_cheapest_candidate_is_tried_whatever_the_budget():
    samples = three_sites()
    chosen, left_out = planned(portfolio(samples), samples, budget=1e-9)
    assert [c.name for c in chosen] == ["linear, default penalty"]
    assert len(left_out) == len(portfolio(samples)) - 1


def test_a_larger_budget_only_adds_candidates():
    samples = three_sites()
    names = [
        [c.name for c in planned(portfolio(samples), samples, budget)[0]]
        for budget in (0.1, 1, 10, 1000)
    ]
    for smaller, larger in itertools.pairwise(names):
        assert larger[: len(smaller)] == smaller
    assert len(names[-1]) == len(portfolio(samples))


def test_the_size_counts_gaps_and_categories_as_columns():
    x = np.array([[1.0, 0, np.nan], [2.0, 2, 1.0]])
    samples = Samples(x, np.array([0, 2]), np.array([0, 1]), 3, np.array([False, True, False]))
    assert size_of(samples) == (2, 2 + 1 + 3, 3)


def test_few_rows_do_not_fill_a_boosted_tree_and_are_not_estimated_so():
    samples = three_sites(100)
    model = BoostingCandidate(variants=(20,)).fit(samples, 20, seed=0)
    grown = [trees[0].get_n_leaf_nodes() for trees in model._predictors]
    assert 2 < max(grown) <= len(samples) / ROWS_A_LEAF
    few, many = Size(100, 1000, 7), Size(20_000, 1000, 7)
    times = {leaves: BoostingCandidate(leaves=leaves).seconds for leaves in (5, 31)}
    assert times[31](few) == times[5](few)
    assert times[31](many) > 2 * times[5](many)
    # A split looks at as many bins as a column has.
    finer = Size(FEWEST_BINS * ROWS_A_BIN * 4, 1000, 7)
    assert times[31](finer) > 4 * times[31](finer._replace(rows=FEWEST_BINS * ROWS_A_BIN))


def test_scores_count_every_domain_alike():
    samples = three_sites(90)
    samples = samples.only(np.arange(90) >= 30 - 20 * (samples.domain == 0))  # unequal domains
    rng = np.random.default_rng(1)
    second = rng.uniform(0.05, 0.95, len(samples))
    predicted = np.column_stack([1 - second, second])
    found = held_out_scores(predicted, samples)
    rows = [samples.domain == d for d in range(3)]
    losses = [log_loss(samples.y[r], predicted[r]) for r in rows]
    right = [accuracy_score(samples.y[r], predicted[r].argmax(axis=1)) for r in rows]
    assert found.risk == pytest.approx(np.mean(losses))
    assert found.spread == pytest.approx(np.std(losses, ddof=1) / np.sqrt(3))
    assert found.score == pytest.approx(np.mean(right))


def test_a_useless_candidate_gets_less_weight_and_the_mean_is_calibrated():
    samples = three_sites()
    judged = [
        judge(LinearCandidate("good", (0.01,)), samples, seed=0),
        judge(LinearCandidate("useless", (1e6,)), samples, seed=0),
    ]
    ensemble = combined(judged, samples, seed=0)
    good, useless = ensemble.members
    assert good.weight > 0.7 > useless.weight
    assert good.risk < useless.risk
    # The mean of a good and a useless forecast is timid: a temperature below 1 undoes that.
    assert ensemble.temperature < 1
    weights = np.array([good.weight, useless.weight])
    mean = np.tensordot(weights, np.stack([one.predicted for one in judged]), 1)
    sharper = mean ** (1 / ensemble.temperature)
    sharper /= sharper.sum(axis=1, keepdims=True)
    assert log_loss(samples.y, sharper) < log_loss(samples.y, mean)
