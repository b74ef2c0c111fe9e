"""The plan of a portfolio within a budget, and the ensemble that it becomes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from _internals import (
    FEWEST_BINS,
    PRIOR,
    ROWS_A_BIN,
    ROWS_A_LEAF,
    BoostingCandidate,
    DataError,
    LinearCandidate,
    Samples,
    Size,
    best_combined as combined,
    held_out_scores,
    judge,
    mean_loss,
    planned,
    portfolio,
    shrunk_weights,
    size_of,
)
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score


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
    starts = np.cumsum(model.sizes) - model.sizes
    grown = np.add.reduceat(model.right == 0, starts)
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
    risk, score = held_out_scores(predicted, samples)
    rows = [samples.domain == d for d in range(3)]
    losses = [log_loss(samples.y[r], predicted[r]) for r in rows]
    right = [accuracy_score(samples.y[r], predicted[r].argmax(axis=1)) for r in rows]
    assert risk == pytest.approx(np.mean(losses))
    assert score == pytest.approx(np.mean(right))


def stacked(weights: np.ndarray, domains: int) -> np.ndarray:
    """Undo the shrinkage of the weights of members of one family."""
    equal = 1 / len(weights)
    return ((domains + PRIOR) * weights - PRIOR * equal) / domains


@pytest.mark.parametrize("members", [2, 5])
def test_stacked_weights_have_the_lowest_log_loss(members):
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.05, 0.95, (members, 60))
    samples = Samples(
        np.zeros((60, 1)), np.ones(60, int), np.arange(60) % 4, 2, np.zeros(1, dtype=bool)
    )
    predicted = np.stack([1 - chances, chances], axis=-1)
    found = shrunk_weights(predicted, samples, ["linear"] * members)
    assert found.sum() == pytest.approx(1)
    best = stacked(found, 4)
    assert (best > -1e-9).all()
    least = -np.log(best @ chances).mean()
    others = rng.dirichlet(np.full(members, 0.5), 5000)
    assert least <= -np.log(others @ chances).mean(axis=1).min() + 1e-9


@pytest.mark.parametrize(("loss", "wanted"), [("squared", [0.8, 0.2]), ("absolute", [1, 0])])
def test_stacked_weights_have_the_lowest_error(loss, wanted):
    """Errors of 1 in half of the rows and of 2 in the others: least of w² + 4 (1 − w)², or |w|…"""
    y = np.zeros(150)
    samples = Samples(
        np.zeros((150, 1)), y, np.arange(150) % 3, 0, np.zeros(1, dtype=bool), loss=loss
    )
    sign = np.where(np.random.default_rng(2).random(150) < 0.5, -1.0, 1.0)
    first = np.arange(150) // 3 % 2 == 0
    errors = np.stack([np.where(first, sign, 0), np.where(first, 0, 2 * sign)])
    found = shrunk_weights(errors[:, :, None], samples, ["linear", "linear"])
    assert stacked(found, 3) == pytest.approx(wanted, abs=1e-3)


def test_few_domains_leave_the_weights_nearly_equal_by_family():
    rng = np.random.default_rng(0)

    def weights(domains: int) -> np.ndarray:
        domain = np.repeat(np.arange(domains), 20)
        good, poor = rng.uniform(0.6, 0.9, len(domain)), rng.uniform(0.3, 0.5, len(domain))
        chances = np.stack([good, poor, poor])
        samples = Samples(
            np.zeros((len(domain), 1)), np.ones(len(domain), int), domain, 2, np.zeros(1, bool)
        )
        predicted = np.stack([1 - chances, chances], axis=-1)
        return shrunk_weights(predicted, samples, ["linear", "forest", "forest"])

    assert weights(3) == pytest.approx([0.75, 0.125, 0.125], abs=1e-6)
    assert weights(57)[0] > 0.97


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
    assert ensemble.held_out == pytest.approx(sharper)
    assert log_loss(samples.y, sharper) < log_loss(samples.y, mean)


def sites(domains: int = 6, rows: int = 60, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, domains * rows)
    x = rng.normal(size=(len(y), 3)) + y[:, None]
    return Samples(x, y, np.repeat(np.arange(domains), rows), 2, np.zeros(3, dtype=bool))


def forecasts(second: np.ndarray) -> np.ndarray:
    return np.stack([1 - second, second], axis=-1)


def test_the_mean_over_domains_where_the_score_is_defined() -> None:
    samples = sites()
    samples.y[samples.domain == 0] = 1  # the AUROC is undefined there
    second = np.random.default_rng(1).random(len(samples))
    rows = [samples.domain == domain for domain in range(1, 6)]
    areas = [roc_auc_score(samples.y[own], second[own]) for own in rows]
    assert mean_loss("auroc", forecasts(second), samples) == pytest.approx(-np.mean(areas))
    with pytest.raises(DataError, match="`metric` auroc is undefined in every training domain"):
        mean_loss("auroc", forecasts(second)[:60], samples.only(samples.domain == 0))


def test_the_score_chooses_the_setting() -> None:
    """Of two penalties, the larger has the better log loss, and the accuracy may differ."""
    samples = sites()
    candidate = LinearCandidate("linear", (1e-3, 1.0, 1e5))
    by_loss, by_area = (judge(candidate, samples, 0, metric) for metric in ("log_loss", "auroc"))
    held_out = {
        variant: judge(LinearCandidate("linear", (variant,)), samples, 0)
        for variant in candidate.variants
    }
    areas = {v: -mean_loss("auroc", own.predicted, samples) for v, own in held_out.items()}
    assert areas[by_area.variant] == pytest.approx(max(areas.values()), abs=1e-3)
    losses = {v: own.risk for v, own in held_out.items()}
    assert by_loss.variant == min(losses, key=lambda v: losses[v])
