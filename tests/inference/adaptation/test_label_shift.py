"""Class shares of a new site: the estimate, its error, and when they are corrected."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from _internals import (
    NO_ERROR,
    InvalidValue,
    LabelShift,
    adapted,
    checked_adapt,
    em_shares,
    fit_calibration,
    held_out_HeldOut as HeldOut,
    label_shift,
    log_ratio,
    reweighted,
    sampling_variances,
)
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from simulated_sites import new_site, training_sites, weighted

MEANS = np.array([[0.0, 0.0], [1.5, 0.5], [0.5, 2.0]])


def drawn(shares: list[float], n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of Gaussian classes with given shares: log densities [n, c] and classes [n]."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), size=n, p=shares)
    x = MEANS[y] + rng.normal(size=(n, 2))
    return -0.5 * ((x[:, None] - MEANS) ** 2).sum(axis=2), y


@pytest.mark.parametrize("shares", [[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]])
def test_em_is_the_maximum_of_the_likelihood(shares: list[float]) -> None:
    logs, _ = drawn(shares, 400, seed=1)
    likelihood = np.exp(logs)

    def loss(free: np.ndarray) -> float:
        return -float(np.log(likelihood @ softmax(np.append(free, 0))).mean())

    direct = softmax(np.append(minimize(loss, np.zeros(2), method="BFGS", tol=1e-12).x, 0))
    np.testing.assert_allclose(em_shares(logs), direct, atol=2e-4)


def test_em_finds_the_shares_of_the_new_site() -> None:
    found = em_shares(drawn([0.7, 0.2, 0.1], 20_000, seed=2)[0])
    np.testing.assert_allclose(found, [0.7, 0.2, 0.1], atol=0.02)


def test_calibration_undoes_a_temperature_and_biases_in_domains_with_other_shares() -> None:
    """Probabilities distorted by a slope and biases, in two domains with known shares."""
    shares = np.array([[0.6, 0.2, 0.2], [0.1, 0.3, 0.6]])
    parts = [drawn(list(own), 20_000, seed) for seed, own in enumerate(shares)]
    logs = np.concatenate([log_softmax(part[0], axis=1) for part in parts])
    y = np.concatenate([part[1] for part in parts])
    offsets = np.log(np.repeat(shares, 20_000, axis=0))
    bias = np.array([0.5, -0.5, 0.0])
    slope, found = fit_calibration((logs - bias) / 2, y, offsets, np.full(len(y), 1 / len(y)))
    assert slope == pytest.approx(2, abs=0.05)
    np.testing.assert_allclose(found, bias - bias.mean(), atol=0.05)


def test_calibration_is_a_stationary_point_of_the_weighted_loss() -> None:
    rng = np.random.default_rng(0)
    ratios, y = rng.normal(size=(200, 3)), rng.integers(3, size=200)
    weights = rng.random(200)
    weights /= weights.sum()
    offsets = np.log(rng.dirichlet(np.ones(3), 200))

    def loss(values: np.ndarray) -> float:
        logs = log_softmax(offsets + values[0] * ratios + values[1:], axis=1)
        return -float(weights @ logs[np.arange(200), y])

    # The slope of noise is at its lower bound, so only the biases are free.
    slope, bias = fit_calibration(ratios, y, offsets, weights)
    best = minimize(lambda b: loss(np.append(slope, b)), np.zeros(3), tol=1e-12).fun
    assert loss(np.append(slope, bias)) == pytest.approx(best, abs=1e-6)


def test_a_class_that_was_not_trained_on_is_never_predicted() -> None:
    found = log_ratio(np.array([[0.5, 0.5, 0.0]]), np.array([0.5, 0.5, 0.0]))
    assert found[0, 2] == -np.inf
    assert weighted(found, np.full(3, 1 / 3))[0, 2] == 0


def test_a_class_that_one_domain_has_does_not_disturb_the_calibration() -> None:
    """Its held-out rows come from models that never saw it: they tell nothing of its likelihood.

    The other rows are calibrated, so the slope is 1 and no class has a bias.
    """
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.integers(2, size=900), np.full(100, 2)])
    x = np.where(y == 1, 1.0, -1.0) + rng.normal(size=1000)
    ratios = np.stack([-0.5 * (x + 1) ** 2, -0.5 * (x - 1) ** 2, np.full(1000, -np.inf)], axis=1)
    offsets = np.log(np.tile([0.45, 0.45, 0.1], (1000, 1)))
    slope, bias = fit_calibration(ratios, y, offsets, np.full(1000, 1e-3))
    assert slope == pytest.approx(1, abs=0.2)
    np.testing.assert_allclose(bias, 0, atol=0.2)
    assert bias[2] == 0
    never = fit_calibration(ratios[900:], y[900:], offsets[900:], np.full(100, 1e-2))
    assert never[0] == 1
    assert not never[1].any()


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.2, 0.3, 0.5], [0.7, 0.0, 0.3]])
def test_the_sampling_variance_is_that_of_drawn_sites(shares: list[float]) -> None:
    """400 sites of 500 rows with the training shares: EM varies as the information says."""
    drawn_logs = [drawn(shares, 500, seed)[0][:, : len(shares)] for seed in range(400)]
    if 0.0 in shares:
        drawn_logs = [np.where(np.array(shares) > 0, logs, -np.inf) for logs in drawn_logs]
    expected = np.var([em_shares(logs) for logs in drawn_logs], axis=0, ddof=1)
    found = np.mean([sampling_variances(logs, np.array(shares)) for logs in drawn_logs], axis=0)
    np.testing.assert_allclose(found, expected, rtol=0.25)


def test_rows_that_tell_nothing_have_any_variance() -> None:
    assert (sampling_variances(np.zeros((50, 3)), np.full(3, 1 / 3)) > 1e6).all()


def test_reweighted_probabilities_are_those_of_bayes() -> None:
    """m(y|x) of training shares ρ becomes p(y|x) of shares π: Bayes' theorem with densities."""
    logs, _ = drawn([0.3, 0.3, 0.4], 50, seed=3)
    training, new = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.1, 0.3])
    found = reweighted(weighted(logs, training), training, new)
    np.testing.assert_allclose(found, weighted(logs, new), atol=1e-6)


SHARES = (0.2, 0.3, 0.5, 0.6, 0.7, 0.4)


@cache
def known(shares: tuple[float, ...] = SHARES, drift: float = 0.0) -> LabelShift:
    found = label_shift(training_sites(list(shares), 300, 0, drift)[0])
    assert found is not None
    return found


@pytest.mark.parametrize("shares", [SHARES, (0.5,) * 6])
def test_a_strong_shift_is_corrected_nearly_to_its_shares(shares: tuple[float, ...]) -> None:
    """Sites of simulated label shift: within the interval, and nearly as good as knowing them."""
    own = known(shares)
    for seed, share in enumerate((0.05, 0.9, 0.95)):
        p, y = new_site(share, own.shares, 500, 100 + seed)
        true = np.array([1 - y.mean(), y.mean()])
        found = adapted(own, p)
        assert found.corrected
        assert found.shares is not None
        assert found.shares.low[1] <= true[1] <= found.shares.high[1]
        oracle = reweighted(p, own.shares, true)
        right = [(q.argmax(axis=1) == y).mean() for q in (p, found.probabilities, oracle)]
        assert right[2] - right[1] < 0.02
        assert right[1] > right[0]


def test_training_shares_are_corrected_in_five_of_a_hundred_sites() -> None:
    """Sites with the shares of training: the test has its level, or less (s² is of 300 rows)."""
    own = known((0.5,) * 6)
    found = [adapted(own, new_site(0.5, own.shares, 500, 1000 + k)[0]) for k in range(300)]
    assert np.mean([each.corrected for each in found]) <= 0.06


def test_only_what_exceeds_the_error_is_corrected() -> None:
    """π is |π̂ − ρ| − q away from ρ on the way to π̂; at q itself nothing changes."""
    own = known()
    p, _ = new_site(0.9, own.shares, 300, 8)
    found = adapted(own, p).shares
    assert found is not None
    way = (found.used - own.shares) / (found.value - own.shares)
    assert way[0] == pytest.approx(way[1])
    limit = np.linalg.norm(found.value - found.low)
    distance = np.linalg.norm(found.value - own.shares)
    assert np.linalg.norm(found.used - own.shares) == pytest.approx(distance - limit)
    np.testing.assert_allclose(adapted(own, p).probabilities, reweighted(p, own.shares, found.used))


def test_drift_among_training_domains_is_part_of_the_error() -> None:
    """Where scores drift from domain to domain, the same rows are not corrected."""
    sure, unsure = known(), known(SHARES, drift=1.0)
    assert (unsure.error > 3 * sure.error).all()
    p, _ = new_site(0.75, sure.shares, 300, 10)
    assert adapted(sure, p).corrected
    found = adapted(unsure, p)
    assert not found.corrected
    assert "by no more than their error (p = 0." in found.reason
    assert found.probabilities is p
    assert found.p_value is not None
    assert found.p_value > 0.05


def test_few_rows_are_not_corrected() -> None:
    p, _ = new_site(0.9, known().shares, 300, 8)
    assert adapted(known(), p[:9]).reason == "9 rows are too few; 10 are needed"
    wide, narrow = (adapted(known(), p[:rows]).shares for rows in (20, 300))
    assert wide is not None
    assert narrow is not None
    assert (wide.high - wide.low)[1] > 1.5 * (narrow.high - narrow.low)[1]


def test_untypical_rows_are_not_corrected() -> None:
    p, _ = new_site(0.9, known().shares, 300, 8)
    assert adapted(known(), p, np.full(300, 0.3)).corrected
    found = adapted(known(), p, np.full(300, 0.2))
    assert not found.corrected
    assert "much less typical of the training domains than their own (0.20" in found.reason


def test_without_errors_of_held_out_domains_nothing_is_corrected() -> None:
    p = np.full((50, 2), 0.5)
    assert (adapted(None, p).corrected, adapted(None, p).reason) == (False, NO_ERROR)
    assert label_shift(training_sites([0.3, 0.6], 100, 0)[0]) is None
    few = np.repeat(np.arange(30), 9)  # nine rows a domain
    assert label_shift(HeldOut(np.full((270, 2), 0.5), np.arange(270) % 2, few, few % 5)) is None
    with pytest.raises(InvalidValue, match="auto or none, not 'labels'"):
        checked_adapt("labels")


def test_the_errors_are_those_of_each_domain_calibrated_without_its_fold() -> None:
    held_out = training_sites(list(SHARES), 300, 0)[0]
    errors = []
    for domain in range(6):
        rows = held_out.domain == domain
        slope, bias = held_out.calibrated(~rows)
        shares = em_shares(slope * held_out.ratios[rows] + bias)
        errors.append(shares[1] - held_out.y[rows].mean())
    assert known().domains == 6
    np.testing.assert_allclose(known().error, np.sqrt(np.mean(np.square(errors))), rtol=1e-6)
    right = held_out.predicted.argmax(axis=1) == held_out.y
    gaps = (right - held_out.predicted.max(axis=1)).reshape(6, 300).mean(axis=1)
    assert known().gap == pytest.approx(gaps.mean())
    assert known().gap_spread == pytest.approx(gaps.std(ddof=1))


def test_what_is_stored_survives_json_and_tells_nothing_of_single_rows() -> None:
    """Its size does not depend on the number of rows."""
    stored = json.loads(json.dumps(known().to_json()))
    p, _ = new_site(0.8, known().shares, 200, 11)
    again = adapted(LabelShift.from_json(stored), p)
    np.testing.assert_array_equal(again.probabilities, adapted(known(), p).probabilities)
    sizes = {name: np.size(value) for name, value in stored.items()}
    assert max(sizes.values()) == 2


def test_held_out_shares_are_those_of_the_other_folds() -> None:
    y = np.array([0, 0, 1, 1, 1, 0])
    domain = np.array([0, 0, 1, 1, 2, 2])
    fold = np.array([0, 0, 1, 1, 1, 1])
    held_out = HeldOut(np.full((6, 2), 0.5), y, domain, fold)
    np.testing.assert_allclose(np.exp(held_out.ratios[0]), [0.5 / 0.25, 0.5 / 0.75])
    np.testing.assert_allclose(np.exp(held_out.ratios[2]), [0.5, 0])
