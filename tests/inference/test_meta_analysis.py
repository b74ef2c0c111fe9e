"""The meta-analysis: published values, limits with closed forms, and coverage in simulations."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import InvalidValue, confidence_mixture, outlier_p_values, predictive
from scipy import optimize, stats

from benchmarks.expect import t_interval
from benchmarks.random_effects import random_effects, reml

# The 13 trials of BCG vaccine (Colditz et al., 1994): ill and well with the vaccine and without.
BCG = np.array(
    [
        (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619),
        (33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892),
        (29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338),
        (27, 16886, 29, 17825),
    ]
)  # fmt: skip


def bcg() -> tuple[np.ndarray, np.ndarray]:
    """Log risk ratios and their variances."""
    a, b, c, d = BCG.T.astype(float)
    ratios = np.log(a / (a + b)) - np.log(c / (c + d))
    return ratios, 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)


def test_the_published_values_of_the_bcg_trials() -> None:
    """`rma(yi, vi, data=dat.bcg)` of metafor: REML."""
    estimates, variances = bcg()
    found = random_effects(estimates, variances)
    assert reml(estimates, variances) == pytest.approx(0.3132, abs=5e-5)
    assert found.mean == pytest.approx(-0.7145, abs=5e-5)
    assert found.standard_error == pytest.approx(0.1798, abs=5e-5)


def test_equal_variances_have_a_closed_form() -> None:
    """τ² is the variance of the figures less that of sampling."""
    estimates = np.array([0.3, -0.4, 1.2, 0.7, 2.0])
    expected = estimates.var(ddof=1) - 0.2
    assert reml(estimates, np.full(5, 0.2)) == pytest.approx(expected, abs=1e-6)
    assert reml(estimates, np.full(5, 9.0)) == 0
    assert reml(np.ones(5), np.full(5, 0.2)) == 0


def test_exact_figures_have_the_t_interval_of_a_normal_sample() -> None:
    """Without sampling error: mean ± t(k−1) s √(1 + 1/k)."""
    estimates = np.array([0.3, -0.4, 1.2, 0.7])
    low, high = t_interval(estimates, np.full(4, 1e-12))
    reach = stats.t.ppf(0.975, 3) * estimates.std(ddof=1) * np.sqrt(1 + 1 / 4)
    assert (low, high) == pytest.approx((estimates.mean() - reach, estimates.mean() + reach))


def q_statistic(tau2: float, estimates: np.ndarray, variances: np.ndarray) -> float:
    mean = np.average(estimates, weights=1 / (tau2 + variances))
    return float(np.sum((estimates - mean) ** 2 / (tau2 + variances)))


@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_mixture_averages_over_the_pivot(k: int) -> None:
    """For each share of χ²(k − 1), the τ whose Q it is, or 0; one normal distribution each."""
    estimates, variances = (each[:k] for each in bcg())
    shares = (np.arange(1000) + 0.5) / 1000
    normals = []
    for value in stats.chi2.isf(shares, k - 1):
        tau2 = 0.0
        if q_statistic(0.0, estimates, variances) > value:
            tau2 = optimize.brentq(
                lambda t, value=value: q_statistic(t, estimates, variances) - value, 0, 1e9
            )
        weights = 1 / (tau2 + variances)
        mean = float(np.average(estimates, weights=weights))
        normals.append(stats.norm(mean, np.sqrt(tau2 + 1 / weights.sum())))
    found = predictive(estimates, variances)
    for point in (-3.0, -2.0, -0.7, 0.4):
        expected = np.mean([own.cdf(point) for own in normals])
        assert found.below(point) == pytest.approx(expected, abs=2e-3)


def test_the_confidence_distribution_has_the_published_intervals_of_metafor() -> None:
    """`confint` of the BCG trials: τ² from 0.1197 to 1.1115 with 95% (Q-profile)."""
    found = predictive(*bcg())
    reached = found.weights.cumsum() - found.weights / 2
    for tau2, share in ((0.1197, 0.025), (1.1115, 0.975)):
        assert np.interp(np.sqrt(tau2), found.taus, reached) == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("k", [3, 10])
def test_the_confidence_of_the_true_tau_is_uniform(k: int) -> None:
    """H(τ) at the true τ, for very unequal sampling errors; an atom at 0 lies below its H(0)."""
    rng = np.random.default_rng(k)
    variances = rng.uniform(0.05, 1.0, (4000, k)) ** 2
    estimates = 0.5 * rng.standard_normal((4000, k)) + np.sqrt(variances) * rng.standard_normal(
        (4000, k)
    )
    found = confidence_mixture(estimates, variances)
    reached = found.weights.cumsum(axis=1)
    inner = reached - found.weights / 2
    inner[:, 0] = reached[:, 0]
    shares = np.array([np.interp(0.5, *own) for own in zip(found.taus, inner, strict=True)])
    for share in (0.25, 0.5, 0.75, 0.95):
        assert np.mean(shares < share) == pytest.approx(share, abs=0.03)


def test_domains_that_do_not_differ_leave_the_error_of_the_mean() -> None:
    """Q = 0 at every τ: all confidence is at τ = 0."""
    found = predictive(np.ones(4), np.full(4, 0.04))
    reach = 1.959964 * 0.2 / 2
    assert found.tau == 0
    assert found.interval() == pytest.approx((1 - reach, 1 + reach), abs=1e-5)


def test_many_mixtures_at_once_are_those_of_each() -> None:
    estimates, variances = (np.stack([each[:4], each[4:8]]) for each in bcg())
    both = confidence_mixture(estimates, variances)
    shares = both.shares_below(np.full((2, 1), -0.7), np.full((2, 1), 0.1))
    for place in range(2):
        own = predictive(estimates[place], variances[place])
        assert shares[place] == pytest.approx(own.below(-0.7, 0.1), rel=1e-9)


def test_quantiles_are_the_inverse_of_the_distribution() -> None:
    found = predictive(*bcg())
    low, high = found.interval(0.9)
    assert found.below(low) == pytest.approx(0.05, abs=1e-9)
    assert found.below(high) == pytest.approx(0.95, abs=1e-9)
    wider = found.interval(0.9, variance=1.0)
    assert wider[0] < low < found.mean < high < wider[1]


def test_many_domains_agree_with_restricted_maximum_likelihood() -> None:
    rng = np.random.default_rng(3)
    estimates, variances = 1 + 0.5 * rng.standard_normal(400), np.full(400, 1e-3)
    found = predictive(estimates, variances)
    assert found.interval() == pytest.approx(t_interval(estimates, variances), abs=0.01)
    assert found.tau == pytest.approx(random_effects(estimates, variances).tau, rel=0.01)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_negligible_sampling_errors_give_the_exact_interval(k: int) -> None:
    """Student's t with k − 1 degrees of freedom, for the next domain and for the mean."""
    estimates = 0.01 * np.array([0.3, -0.4, 1.2, 0.7, 0.2, 0.5])[:k]
    found = predictive(estimates, np.full(k, 1e-12))
    for interval, factor in ((found.interval(), 1 + 1 / k), (found.mean_interval(), 1 / k)):
        reach = stats.t.ppf(0.975, k - 1) * estimates.std(ddof=1) * np.sqrt(factor)
        exact = (estimates.mean() - reach, estimates.mean() + reach)
        assert interval == pytest.approx(exact, rel=1e-3)


def coverage(k: int, tau: float, seed: int, draws: int = 1000) -> float:
    """Percentage of new domains in 95% intervals; log odds of 50 to 400 samples."""
    rng = np.random.default_rng([seed, k])
    variances = rng.uniform(0.1, 0.3, (draws, k)) ** 2
    figures = tau * rng.standard_normal((draws, k + 1))
    estimates = figures[:, :k] + np.sqrt(variances) * rng.standard_normal((draws, k))
    shares = confidence_mixture(estimates, variances).shares_below(figures[:, k:], np.zeros(1))
    return float(100 * np.mean(np.abs(shares - 0.5) <= 0.475))


@pytest.mark.parametrize("tau", [0.2, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("k", [5, 10, 20])
def test_the_interval_covers_new_domains(k: int, tau: float) -> None:
    """From 93 to 97%, up to two standard errors of a share of 1000."""
    assert 93 - 1.4 <= coverage(k, tau, round(10 * tau)) <= 97 + 1.4


@pytest.mark.parametrize("k", [3, 5])
def test_few_domains_that_hardly_differ_have_wide_intervals_not_short_ones(k: int) -> None:
    for tau in (0.0, 0.05):
        assert coverage(k, tau, 0, 500) > 97


def test_the_interval_of_the_mean_is_that_of_the_mixture() -> None:
    """Inside the prediction interval; for many domains, mean ± 1.96 s.e."""
    found = predictive(*bcg())
    low, high = found.mean_interval()
    assert found.interval()[0] < low < found.mean < high < found.interval()[1]
    rng = np.random.default_rng(3)
    estimates, variances = 1 + 0.5 * rng.standard_normal(400), np.full(400, 1e-3)
    whole = random_effects(estimates, variances)
    reach = 1.96 * whole.standard_error
    usual = (whole.mean - reach, whole.mean + reach)
    assert predictive(estimates, variances).mean_interval() == pytest.approx(usual, rel=2e-3)


def test_an_outlier_is_found_and_none_among_equals() -> None:
    rng = np.random.default_rng(0)
    estimates, variances = 0.2 * rng.standard_normal(10), np.full(10, 0.01)
    assert (outlier_p_values(estimates, variances) > 0.05).all()
    estimates[4] = 3
    found = outlier_p_values(estimates, variances)
    assert found[4] < 0.01
    assert (np.delete(found, 4) > 0.05).all()


def test_false_outliers_are_rare() -> None:
    rng = np.random.default_rng(1)
    found = [
        outlier_p_values(rng.standard_normal(6) / 2, np.full(6, 0.02)).min() for _ in range(200)
    ]
    assert np.mean(np.array(found) < 0.05) <= 0.08


@pytest.mark.parametrize(
    ("estimates", "variances", "message"),
    [
        ([1.0], [1.0], "one domain does not show how domains differ"),
        ([1.0, 2.0], [1.0], "two vectors of one length"),
        ([1.0, np.inf], [1.0, 1.0], "must be finite"),
        ([1.0, 2.0], [1.0, 0.0], "above 0"),
    ],
)
def test_what_cannot_be_analysed_is_said(
    estimates: list[float], variances: list[float], message: str
) -> None:
    for method in (reml, predictive):
        with pytest.raises(InvalidValue, match=message):
            method(np.array(estimates), np.array(variances))


def test_domains_that_agree_to_the_last_digit():
    """The quantiles are found even if they differ from the mean by less than rounding."""
    found = predictive(np.full(3, 500.0), np.full(3, 1e-33))
    assert found.interval() == pytest.approx((500.0, 500.0), rel=1e-14)
