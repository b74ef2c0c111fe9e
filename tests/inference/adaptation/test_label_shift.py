"""Class shares of a new site: EM, BBSE and calibration against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    Calibration,
    bbse_shares,
    class_factors,
    em_shares,
    fit_calibration,
    log_ratio,
    weighted,
    with_shares,
)
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

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


def test_bbse_is_the_linear_solve() -> None:
    rates = np.array([[0.8, 0.1, 0.2], [0.1, 0.7, 0.1], [0.1, 0.2, 0.7]])
    frequencies = rates @ [0.5, 0.3, 0.2]
    predicted = np.repeat([0, 1, 2], np.round(1000 * frequencies).astype(int))
    found = bbse_shares(predicted, rates)
    assert found is not None
    np.testing.assert_allclose(found, np.linalg.solve(rates, frequencies), atol=2e-3)
    np.testing.assert_allclose(found, [0.5, 0.3, 0.2], atol=2e-3)


def test_bbse_clips_to_the_simplex_and_refuses_a_singular_matrix() -> None:
    found = bbse_shares(np.zeros(5, int), np.array([[0.9, 0.2], [0.1, 0.8]]))
    assert found is not None
    assert found.tolist() == [1.0, 0.0]
    assert bbse_shares(np.zeros(5, int), np.full((2, 2), 0.5)) is None


def test_bbse_leaves_out_a_class_without_training_rows() -> None:
    found = bbse_shares(np.array([0, 1]), np.array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0, 0, 0]]))
    assert found is not None
    np.testing.assert_allclose(found, [0.5, 0.5, 0])


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


def test_corrected_probabilities_are_those_of_bayes() -> None:
    """m(y|x) of training shares ρ becomes p(y|x) of shares π: Bayes' theorem with densities."""
    logs, _ = drawn([0.3, 0.3, 0.4], 50, seed=3)
    training, new = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.1, 0.3])
    model = weighted(logs, training)
    calibration = Calibration(1.0, np.zeros(3), training)
    np.testing.assert_allclose(calibration.corrected(model, new), weighted(logs, new), atol=1e-6)


def test_a_class_that_was_not_trained_on_is_never_predicted() -> None:
    found = log_ratio(np.array([[0.5, 0.5, 0.0]]), np.array([0.5, 0.5, 0.0]))
    assert found[0, 2] == -np.inf
    assert weighted(found, np.full(3, 1 / 3))[0, 2] == 0


@pytest.mark.parametrize("shares", [[0.3, 0.3, 0.4], [0.001, 0.499, 0.5]])
def test_matched_probabilities_have_the_given_mean(shares: list[float]) -> None:
    p = weighted(drawn([0.2, 0.5, 0.3], 300, seed=4)[0], np.full(3, 1 / 3))
    np.testing.assert_allclose(with_shares(p, np.array(shares)).mean(axis=0), shares, atol=2e-3)


def test_matching_under_label_shift_is_the_correction_by_shares() -> None:
    logs, _ = drawn([0.6, 0.3, 0.1], 50_000, seed=5)
    training, new = np.array([0.2, 0.4, 0.4]), np.array([0.6, 0.3, 0.1])
    ratio = np.log(new / training)
    found = np.log(class_factors(weighted(logs, training), new))
    np.testing.assert_allclose(found, ratio - ratio.mean(), atol=0.05)


def test_matching_to_their_own_mean_changes_nothing() -> None:
    p = weighted(drawn([0.2, 0.5, 0.3], 100, seed=6)[0], np.full(3, 1 / 3))
    np.testing.assert_allclose(with_shares(p, p.mean(axis=0)), p, atol=1e-6)


def test_matching_of_certain_rows_ends() -> None:
    certain = np.repeat([[1.0, 0.0], [0.0, 1.0]], 20, axis=0)
    found = with_shares(certain, np.array([0.9, 0.1]))
    assert np.isfinite(found).all()


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
