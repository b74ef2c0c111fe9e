"""The test of concept shift: its level, its power, and the formulas of its statistic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import (
    calibrated,
    concept_test_HeldOut as HeldOut,
    informed,
    permutation_p,
    welch,
    welch_p,
)
from scipy.stats import binom, ks_1samp, uniform
from sklearn.linear_model import LogisticRegression

EVEN, SHIFTED = (0.5, 0.5, 0.5, 0.5), (0.2, 0.8, 0.4, 0.6)


def features(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Five features, two of which tell of y, one with a long tail."""
    x = rng.standard_normal((len(y), 5))
    x[:, 0] += y
    x[:, 1] = np.where(y == 1, rng.gamma(2, 1, len(y)), x[:, 1])
    return x


def drawn(
    n: int, shares: tuple[float, ...], rng: np.random.Generator, agreement: tuple[float, ...] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n samples a domain; a further feature agrees with y as often as `agreement` says."""
    d = np.repeat(np.arange(len(shares)), n)
    y = (rng.random(len(d)) < np.array(shares)[d]).astype(np.int64)
    x = features(y, rng)
    if agreement:
        agrees = rng.random(len(d)) < np.array(agreement)[d]
        x = np.column_stack([x, np.where(agrees, y, 1 - y)])
    return x, y, d


def held_out(
    n: int, shares: tuple[float, ...], rng: np.random.Generator, agreement: tuple[float, ...] = ()
) -> HeldOut:
    """Outputs on n // 5 held-out samples a domain, of a model fitted to the other four fifths."""
    x, y, _ = drawn(4 * n // 5, shares, rng, agreement)
    # Little regularisation: too sure, as a network is that has been trained for long.
    model = LogisticRegression(C=1e3, solver="newton-cholesky").fit(x, y)
    x, y, d = drawn(n // 5, shares, rng, agreement)
    z = 2 * model.decision_function(x)
    return HeldOut(np.stack([-z / 2, z / 2], axis=1), y, d)


def called(sample: HeldOut, level: float, seed: int) -> bool:
    """As `AutoStrength` calls: permutations confirm what Welch's test shows."""
    t = calibrated(sample).t
    if welch_p(t, sample) > level:
        return False
    return permutation_p(t, sample, round(2 / level) - 1, seed) <= level


@pytest.mark.parametrize("domains", [2, 4])
@pytest.mark.parametrize("shares", [EVEN, SHIFTED], ids=["even", "label shift"])
@pytest.mark.parametrize(("n", "runs"), [(300, 200), (1200, 100), (5000, 40)])
def test_identical_domains_are_called_at_most_as_often_as_the_level_says(n, runs, shares, domains):
    """The count of calls is below the binomial's quantile at 1 in 1,000."""
    rng = np.random.default_rng([n, domains])
    calls = sum(called(held_out(n, shares[:domains], rng), 0.05, run) for run in range(runs))
    assert calls <= binom.ppf(0.999, runs, 0.05)


def test_few_samples_need_the_permutations():
    """Six samples of a class in a domain: Welch's test alone calls too often."""
    rng = np.random.default_rng(0)
    by_welch = exact = 0
    for run in range(300):
        _, y, d = drawn(60, (0.1, 0.5, 0.1, 0.5), rng)
        z = 3 * np.where(y == 1, rng.gamma(2, 1, len(y)) - 1, rng.normal(-0.5, 1, len(y)))
        sample = HeldOut(np.stack([-z / 2, z / 2], axis=1), y, d)
        by_welch += welch_p(calibrated(sample).t, sample) <= 0.05
        exact += called(sample, 0.05, run)
    limit = binom.ppf(0.999, 300, 0.05)
    assert by_welch > limit
    assert exact <= limit


@pytest.mark.parametrize("shares", [EVEN[:2], SHIFTED[:2]], ids=["even", "label shift"])
def test_a_feature_that_agrees_with_labels_90_and_80_percent_is_seen(shares):
    rng = np.random.default_rng(1)
    calls = sum(called(held_out(25_000, shares, rng, (0.9, 0.8)), 0.0025, r) for r in range(5))
    assert calls >= 4


def test_what_the_model_does_not_read_is_not_seen():
    """90% and 10%: together the feature tells nothing, and the model leaves it out."""
    rng = np.random.default_rng(2)
    calls = sum(called(held_out(5_000, EVEN[:2], rng, (0.9, 0.1)), 0.05, r) for r in range(20))
    assert calls <= binom.ppf(0.999, 20, 0.05)


def test_the_permutation_p_value_is_uniform():
    rng = np.random.default_rng(3)
    found = []
    for run in range(200):
        sample = held_out(400, SHIFTED[:2], rng)
        found.append(permutation_p(calibrated(sample).t, sample, 99, run))
    assert ks_1samp(found, uniform.cdf).pvalue > 1e-3


# --- the formulas -----------------------------------------------------------------------------


def test_the_calibration_is_a_logistic_regression_with_balanced_classes():
    rng = np.random.default_rng(4)
    sample = held_out(5_000, SHIFTED[:2], rng)
    z, y, d = sample.logits[:, 1] - sample.logits[:, 0], sample.labels, sample.domains
    share = np.bincount(y) / len(y)
    count = np.array([np.bincount(y[d == each]) for each in range(2)])
    w = share[y] / count[d, y] * count.sum(axis=1)[d]
    fit = LogisticRegression(C=1e6, tol=1e-10).fit(z[:, None], y, sample_weight=w)
    log_q = np.log(fit.predict_proba(z[:, None]))[np.arange(len(y)), y]
    found = calibrated(sample)
    assert found.risk == pytest.approx(-(w @ log_q) / w.sum(), abs=2e-3)
    assert found.guess == pytest.approx(-(share @ np.log(share)))
    for label in range(2):
        assert found.t[y == label].mean() == pytest.approx(0, abs=1e-12)


def test_outputs_that_know_nothing_leave_the_risk_of_a_guess():
    rng = np.random.default_rng(5)
    _, y, d = drawn(500, (0.3, 0.6), rng)
    found = calibrated(HeldOut(np.zeros((1000, 2)), y, d))
    assert found.risk == pytest.approx(found.guess, abs=1e-4)
    assert welch_p(found.t, HeldOut(np.zeros((1000, 2)), y, d)) == 1


def test_with_one_class_it_is_welchs_t_test():
    """Two domains: F = t², against SciPy."""
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(6)
    t = np.concatenate([rng.normal(0, 1, 20), rng.normal(0.5, 3, 35)])
    d = np.repeat([0, 1], [20, 35])
    f, p = welch(t, np.zeros(55, dtype=np.int64), d[None], 1)
    expected = ttest_ind(t[:20], t[20:], equal_var=False)
    assert f[0] == pytest.approx(expected.statistic**2)
    assert p[0] == pytest.approx(expected.pvalue)


def test_several_domains_are_welchs_analysis_of_variance():
    """Against the formula of Welch (1951), domain by domain."""
    rng = np.random.default_rng(7)
    groups = [rng.normal(m, s, n) for m, s, n in ((0, 1, 12), (0.4, 2, 30), (0.1, 0.5, 9))]
    d = np.repeat(np.arange(3), [len(g) for g in groups])
    f, p = welch(np.concatenate(groups), np.zeros(len(d), dtype=np.int64), d[None], 1)
    w = np.array([len(g) / g.var(ddof=1) for g in groups])
    mean = np.array([g.mean() for g in groups])
    q = (w * (mean - (w @ mean) / w.sum()) ** 2).sum()
    lack = sum((1 - a / w.sum()) ** 2 / (len(g) - 1) for a, g in zip(w, groups, strict=True))
    assert f[0] == pytest.approx(q / 2 / (1 + 2 / 8 * lack))
    assert 0 < p[0] < 1


def test_the_scale_of_the_logits_does_not_matter():
    sample = held_out(1_000, EVEN[:2], np.random.default_rng(8))
    wider = sample._replace(logits=100 * sample.logits + 7)
    assert welch_p(calibrated(wider).t, wider) == pytest.approx(
        welch_p(calibrated(sample).t, sample), rel=1e-3
    )


@pytest.mark.parametrize(
    ("labels", "domains"),
    [([0, 1, 0, 1], [0, 0, 0, 0]), ([0, 0, 1, 1], [0, 0, 1, 1]), ([0, 1, 0, 1], [0, 0, 1, 1])],
    ids=["one domain", "a class a domain", "one sample of each"],
)
def test_samples_that_cannot_tell_are_no_evidence(labels, domains):
    z = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 0.0], [1.0, 0.0]])
    sample = HeldOut(z, np.array(labels), np.array(domains))
    t = calibrated(sample).t
    assert permutation_p(t, sample, 99, 0) == 1


def test_one_logit_is_read_as_two():
    one = torch.tensor([[2.0], [-1.0]])
    outputs = [(one, torch.tensor([1, 0])), (one, torch.tensor([0, 0]))]
    sample = HeldOut.of(outputs)
    assert sample.logits.tolist() == [[0, 2], [0, -1]] * 2
    assert sample.labels.tolist() == [1, 0, 0, 0]
    assert sample.domains.tolist() == [0, 0, 1, 1]


def answered(z: np.ndarray, y: np.ndarray, d: np.ndarray) -> HeldOut:
    return HeldOut(np.stack([-z, z], axis=1), y, d)


def test_answers_that_ignore_the_class_are_seldom_informed():
    # Nine in ten answers are the commoner class, whatever the sample: 90% are right by chance.
    rng = np.random.default_rng(0)
    called = 0
    for _ in range(2000):
        y, d = (rng.random(200) < 0.9).astype(np.int64), np.zeros(200, dtype=np.int64)
        called += informed(answered(rng.random(200) - 0.1, y, d), 0.05)
    assert called <= binom.ppf(0.9999, 2000, 0.05)


def test_informed_answers_are_so_in_every_domain():
    rng = np.random.default_rng(0)
    y, d = rng.integers(0, 2, 400), np.arange(400) % 2
    right = np.where(rng.random(400) < 0.7, 2 * y - 1, 1 - 2 * y)
    assert informed(answered(right, y, d), 0.0025)
    assert not informed(answered(np.where(d == 1, right, 1), y, d), 0.0025)
    # A domain with a single class does not count.
    assert informed(answered(np.where(y > d, 1, right), np.where(d == 1, 1, y), d), 0.0025)
