"""The test of label shift: its level under the null, and its power."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from _internals import (
    FEWEST,
    Calibration,
    ScoreBins,
    bins_of,
    held_out_HeldOut as HeldOut,
    inference_label_shift_test as module,
    p_value,
    score_bins,
    score_edges,
)
from scipy.stats import chisquare  # type: ignore[import-untyped]
from simulated_sites import scores, training_sites

SHARES = [0.2, 0.3, 0.5, 0.6, 0.7, 0.4]


def p_values(drift: float, draws: int, move: float = 0.0, squeeze: float = 1.0) -> np.ndarray:
    """p-values of new sites, each with training sites of its own."""
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(1000 + seed)
        held_out, _ = training_sites(SHARES, 200, seed, drift)
        everywhere = np.ones(len(held_out.y), dtype=bool)
        bins = score_bins(held_out, held_out.ratios, everywhere)
        y = (rng.random(300) < rng.uniform(0.1, 0.9)).astype(int)
        logs = squeeze * scores(y, rng, move + (rng.normal(0, drift) if drift else 0))
        found.append(p_value(bins, logs))
    return np.array(found)


@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_the_level_is_right_under_label_shift(drift: float) -> None:
    """Rejections at 5% and 20%; sites that differ as training sites do are no reason to reject."""
    found = p_values(drift, 200)
    assert (found < 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert (found < 0.2).mean() == pytest.approx(0.2, abs=0.15)


def drifting_site(
    number: int, drift: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and classes of a site whose classes drift, each by its own amount."""
    y = (rng.random(number) < rng.uniform(0.2, 0.8)).astype(int)
    return scores(y, rng, rng.normal(0, drift, 2)[y]), y


@pytest.mark.parametrize("domains", [4, 8])
def test_the_level_is_right_where_domains_differ_in_one_direction(domains: int) -> None:
    """300 times, domains of 500 rows whose classes drift: a new one is rejected in about 5%.

    All rows of a class and a site move together, so their bins differ in one direction, not in all
    as Dirichlet shares do.  F with the degrees of freedom of the latter rejects one in seven.
    """
    rejected = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        sites = [drifting_site(500, 0.3, rng) for _ in range(domains)]
        y, domain = np.concatenate([own for _, own in sites]), np.repeat(np.arange(domains), 500)
        logs = np.concatenate([own for own, _ in sites])
        held_out = HeldOut(np.full((len(y), 2), 0.5), y, domain, domain)
        bins = score_bins(held_out, logs, np.ones(len(y), dtype=bool))
        rejected += p_value(bins, drifting_site(500, 0.3, rng)[0]) < 0.05
    assert rejected <= 27  # a chance of 0.1% with 5%


def test_sites_that_do_not_differ_leave_a_chi_squared_statistic() -> None:
    """ρ = 0: the variance is known, however few domains there are to estimate ρ.

    One class with equal bins, known exactly: the statistic is Pearson's, up to half a row.
    """
    edges = np.array([[0.6, 0.7, 0.8]])
    bins = ScoreBins(edges, np.full((4, 1), 0.25), np.zeros(1), 0.0, freedom=2 * 3.0, domains=3)
    counts = np.array([40, 20, 25, 15])
    found = _p_value_of(bins, counts)
    assert found == pytest.approx(chisquare(counts).pvalue, rel=1e-3)
    # Sites that differ much: the same statistic, less of it, says little.
    assert _p_value_of(replace(bins, correlation=0.2), counts) > 0.3


def _p_value_of(bins: ScoreBins, counts: np.ndarray) -> float:
    """The p-value of rows that fall into the bins of one class so often."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = np.repeat(np.arange(len(counts)), counts)
        patch.setattr(module, "bins_of", lambda *_: drawn)
        return p_value(bins, np.zeros((len(drawn), 1)))


def test_scores_that_no_mixture_explains_are_found() -> None:
    assert (p_values(0.0, 30, squeeze=0.25) < 0.05).mean() > 0.9


def test_bins_cut_each_predicted_class_into_equal_parts() -> None:
    rng = np.random.default_rng(0)
    logs = scores(rng.integers(2, size=1000), rng)
    edges = score_edges(logs)
    counts = np.bincount(bins_of(logs, edges), minlength=10)
    assert counts.min() > 80
    assert counts.max() < 120


def test_sites_that_differ_have_a_correlation() -> None:
    """Moment estimate of ρ: none for equal sites, more for those that drift."""
    everywhere = np.ones(6 * 400, dtype=bool)
    alike, _ = training_sites(SHARES, 400, 0)
    apart, _ = training_sites(SHARES, 400, 0, drift=0.7)
    assert score_bins(alike, alike.ratios, everywhere).correlation < 0.005
    assert score_bins(apart, apart.ratios, everywhere).correlation > 0.02


def test_a_class_with_too_few_rows_has_no_distribution() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [100, 100, FEWEST - 1])
    p = rng.dirichlet(np.ones(3), len(y))
    domain = np.arange(len(y)) % 3
    held_out = HeldOut(p, y, domain, domain)
    bins = score_bins(held_out, held_out.ratios, np.ones(len(y), dtype=bool))
    assert bins.shares[:, 2].sum() == 0
    np.testing.assert_allclose(bins.shares[:, :2].sum(axis=0), 1)
    assert 0 <= p_value(bins, held_out.ratios) <= 1


def test_bins_survive_json() -> None:
    held_out, training = training_sites(SHARES, 50, 1)
    bins = score_bins(held_out, held_out.ratios, np.ones(len(held_out.y), dtype=bool))
    logs = Calibration(1.0, np.zeros(2), training).log_likelihood(held_out.predicted[:40])
    assert p_value(ScoreBins.from_json(bins.to_json(), bins.domains), logs) == p_value(bins, logs)
