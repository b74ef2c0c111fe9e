"""Calibration slope and intercept of predicted numbers, against the normal equations."""

import numpy as np
import pytest
from _internals import fitted_intercept, fitted_slope
from sklearn.linear_model import LinearRegression

from shiftproof.metrics import METRICS, NumberOutputs


def number_slope(predicted, labels):
    return METRICS.get("calibration_slope").score(NumberOutputs(predicted, labels))


def number_intercept(predicted, labels):
    return METRICS.get("calibration_intercept").score(NumberOutputs(predicted, labels))


def drawn(seed, n=80):
    rng = np.random.default_rng(seed)
    predicted = rng.standard_normal(n)
    # Errors are larger where predictions are.
    return predicted, 3 + 0.7 * predicted + (0.3 + np.abs(predicted)) * rng.standard_normal(n)


def test_the_slope_is_that_of_least_squares():
    predicted, labels = drawn(0)
    fit = LinearRegression().fit(predicted[:, None], labels)
    assert number_slope(predicted, labels) == pytest.approx(fit.coef_[0])
    assert number_intercept(predicted, labels) == pytest.approx((labels - predicted).mean())


def test_its_variance_is_the_sandwich_with_leave_one_out_residuals():
    predicted, labels = drawn(1)
    x = np.stack([np.ones_like(predicted), predicted], axis=1)
    inverse = np.linalg.inv(x.T @ x)
    hat = np.einsum("ij,jk,ik->i", x, inverse, x)
    rest = (labels - x @ inverse @ x.T @ labels) / (1 - hat)
    hc3 = inverse @ (x.T * rest**2) @ x @ inverse
    assert fitted_slope(NumberOutputs(predicted, labels)).variance == pytest.approx(hc3[1, 1])


def test_intervals_hold_the_truth_where_errors_differ_in_spread():
    slopes, levels = [], []
    for seed in range(600):
        predicted, labels = drawn(seed)
        slope = fitted_slope(NumberOutputs(predicted, labels))
        level = fitted_intercept(NumberOutputs(predicted, labels))
        slopes.append(abs(slope.value - 0.7) < 1.96 * slope.variance**0.5)
        levels.append(abs(level.value - 3) < 1.96 * level.variance**0.5)
    assert np.mean(slopes) == pytest.approx(0.95, abs=0.035)
    assert np.mean(levels) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("value", [0.0, 5.0, 1e9])
def test_equal_predictions_have_no_slope(value):
    assert number_slope(np.full(10, value), np.arange(10.0)) is None
