"""The meta-analysis: published values, limits with closed forms, and coverage in simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from shiftproof.core.errors import InvalidValue
from shiftproof.inference.meta_analysis import (
    outlier_p_values,
    paule_mandel,
    predictive,
    prior,
    random_effects,
    reml,
    t_interval,
)

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
    """`rma(yi, vi, data=dat.bcg)` of metafor: REML, and `method="PM"`."""
    estimates, variances = bcg()
    found = random_effects(estimates, variances)
    assert reml(estimates, variances) == pytest.approx(0.3132, abs=5e-5)
    assert found.mean == pytest.approx(-0.7145, abs=5e-5)
    assert found.standard_error == pytest.approx(0.1798, abs=5e-5)
    assert paule_mandel(estimates, variances) == pytest.approx(0.3181, abs=5e-5)


def test_equal_variances_have_a_closed_form() -> None:
    """τ² is the variance of the figures less that of sampling, by both methods."""
    estimates = np.array([0.3, -0.4, 1.2, 0.7, 2.0])
    expected = estimates.var(ddof=1) - 0.2
    for method in (reml, paule_mandel):
        assert method(estimates, np.full(5, 0.2)) == pytest.approx(expected, abs=1e-6)
        assert method(estimates, np.full(5, 9.0)) == 0
        assert method(np.ones(5), np.full(5, 0.2)) == 0


def test_exact_figures_have_the_t_interval_of_a_normal_sample() -> None:
    """Without sampling error: mean ± t(k−1) s √(1 + 1/k)."""
    estimates = np.array([0.3, -0.4, 1.2, 0.7])
    low, high = t_interval(estimates, np.full(4, 1e-12))
    reach = stats.t.ppf(0.975, 3) * estimates.std(ddof=1) * np.sqrt(1 + 1 / 4)
    assert (low, high) == pytest.approx((estimates.mean() - reach, estimates.mean() + reach))


@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_mixture_is_the_integral_over_tau(k: int) -> None:
    """The marginal likelihood by quadrature over τ, with each likelihood by multivariate normals.

    The flat prior of μ is a normal one of variance 10⁴, and that of τ is written out.
    """
    estimates, variances = (each[:k] for each in bcg())
    wide, scale = 1e4, 2 * stats.hmean(variances)

    def joint(tau: float, new: float | None) -> float:
        figures = estimates if new is None else np.append(estimates, new)
        noise = variances if new is None else np.append(variances, 0)
        covariance = np.diag(noise + tau**2) + wide
        density = stats.multivariate_normal(np.zeros(len(figures)), covariance).pdf(figures)
        return float(density / np.sqrt(scale + tau**2) / (1 + (tau / 5) ** 2))

    def integral(new: float | None) -> float:
        parts = [(0, 0.3), (0.3, 1), (1, 10), (10, 1e3), (1e3, 5e3)]
        return sum(integrate.quad(joint, *part, args=(new,))[0] for part in parts)

    found = predictive(estimates, variances)
    for value in (-2.0, -0.7, 0.4):
        density = (found.below(value + 1e-3) - found.below(value - 1e-3)) / 2e-3
        assert density == pytest.approx(integral(value) / integral(None), rel=5e-3)


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


def test_negligible_sampling_errors_give_the_exact_interval() -> None:
    """A prior that is flat in log τ leads to Student's t with k − 1 degrees of freedom."""
    estimates = 0.01 * np.array([0.3, -0.4, 1.2, 0.7, 0.2, 0.5])
    exact = t_interval(estimates, np.full(6, 1e-12))
    assert predictive(estimates, np.full(6, 1e-12)).interval() == pytest.approx(exact, rel=0.01)


def coverage(k: int, taus: np.ndarray, rng: np.random.Generator) -> float:
    """Share of new domains in 95% intervals, one for each τ; log odds of 50 to 400 samples."""
    inside = 0
    for tau in taus:
        variances = sampling_variances(k, rng)
        estimates = tau * rng.standard_normal(k) + np.sqrt(variances) * rng.standard_normal(k)
        share = predictive(estimates, variances).below(tau * rng.standard_normal())
        inside += 0.025 <= share <= 0.975
    return 100 * inside / len(taus)


def sampling_variances(k: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.1, 0.3, k) ** 2


@pytest.mark.parametrize("tau", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("k", [5, 10, 20])
def test_the_interval_covers_new_domains(k: int, tau: float) -> None:
    """From 93 to 97%, up to two standard errors of a share of 1000."""
    found = coverage(k, np.full(1000, tau), np.random.default_rng(100 * k + round(10 * tau)))
    assert 93 - 1.4 <= found <= 97 + 1.4


@pytest.mark.parametrize("k", [3, 5])
def test_few_domains_that_hardly_differ_have_wide_intervals_not_short_ones(k: int) -> None:
    rng = np.random.default_rng(k)
    for tau in (0.0, 0.1):
        assert coverage(k, np.full(200, tau), rng) > 97


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_the_mean_coverage_over_the_prior_is_the_level(k: int) -> None:
    """A theorem for any proper prior, as far as sampling variances are the same in every draw."""
    rng = np.random.default_rng(k)
    variances = sampling_variances(k, rng)
    taus, weights = prior(variances)
    inside, draws = 0, 1500
    for tau in rng.choice(taus, draws, p=weights):
        estimates = tau * rng.standard_normal(k) + np.sqrt(variances) * rng.standard_normal(k)
        share = predictive(estimates, variances).below(tau * rng.standard_normal())
        inside += 0.025 <= share <= 0.975
    assert inside / draws == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / draws))


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
