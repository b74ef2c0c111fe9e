"""The classifiers of a diagnosis and how they are combined, against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    BINS,
    ClassPosteriors,
    Gaussian,
    LowerBounds,
    Marginals,
    Target,
    Views,
    checked,
    combined,
    log_weights,
    panel_Shares as Shares,
    posteriors,
)
from scipy.special import log_softmax, ndtr, softmax
from scipy.stats import multivariate_normal


def task_of(target, group=None):
    group = np.zeros_like(target) if group is None else group
    weights = np.full(len(target), 1 / len(target))
    return Target(target, int(target.max()) + 1, weights, group, int(group.max()) + 1)


def test_gaussians_give_the_rule_of_two_normal_distributions():
    rng = np.random.default_rng(0)
    n = 4000
    t = np.repeat([0, 1], n // 2)
    root = np.array([[1.0, 0.8], [0.0, 0.6]])
    x = rng.normal(size=(n, 2))
    x[t == 1] = x[t == 1] @ root.T
    rows = np.arange(n)
    log_q = Gaussian(x).alone(task_of(t), rows, rows[:50])
    by_group_q = Gaussian(x).by_group(task_of(t), rows, rows[:50])
    covariances = (np.eye(2), root @ root.T)
    logs = np.stack([multivariate_normal(cov=c).logpdf(x[:50]) for c in covariances], axis=1)
    assert np.exp(log_q) == pytest.approx(softmax(logs, axis=1), abs=0.04)
    assert by_group_q[:, 0] == pytest.approx(log_q)


def test_marginals_multiply_the_shares_of_bins():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(300, 2))
    t = (z[:, 0] > 0).astype(int)
    train, where = np.arange(250), np.arange(250, 300)
    bins = np.minimum((BINS * ndtr(z)).astype(int), BINS - 1)
    logs = np.zeros((50, 2))
    for c in (0, 1):
        own = train[t[train] == c]
        logs[:, c] = np.log(len(own))
        for column in (0, 1):
            every = np.bincount(bins[train, column], minlength=BINS) / 250
            counts = np.bincount(bins[own, column], minlength=BINS)
            share = (counts + BINS * every) / (len(own) + BINS)
            logs[:, c] += np.log(share[bins[where, column]])
    expected = (250 * softmax(logs, axis=1) + np.bincount(t) / 300) / 251
    found = Marginals(z).alone(task_of(t), train, where)
    assert np.exp(found) == pytest.approx(expected, abs=1e-6)


def test_many_cells_leave_the_prior():
    t = np.arange(240) % 120
    z = np.random.default_rng(0).normal(size=(240, 2))
    for model in (Gaussian(z), Marginals(z)):
        for predict in (model.alone, model.by_group):
            log_q = predict(task_of(t), np.arange(240), np.arange(5))
            assert np.exp(log_q) == pytest.approx(1 / 120)


def test_every_classifier_gives_probabilities():
    rng = np.random.default_rng(3)
    x, y, d = rng.normal(size=(2100, 3)), rng.integers(0, 2, 2100), rng.integers(0, 3, 2100)
    views, task = Views.of(x), task_of(y, d)
    train, where = np.arange(1500), np.arange(1500, 1520)
    assert len(views.classifiers()) == 5  # with trees: there are 2,000 rows
    for model in (*views.classifiers(), Shares()):
        assert np.exp(model.alone(task, train, where)).sum(axis=-1) == pytest.approx(1)
        found = np.exp(model.by_group(task, train, where))
        assert found.shape == (20, 3, 2)
        assert found.sum(axis=-1) == pytest.approx(1)


def test_weights_are_those_of_the_lowest_loss_and_none_is_negative():
    rng = np.random.default_rng(0)
    n = 2000
    odds = rng.normal(size=(2, n, 2))
    target = (rng.random(n) < softmax(1.5 * odds[0], axis=1)[:, 1]).astype(int)
    found = log_weights(odds, np.log([0.5, 0.5]), target, np.ones(n))
    assert found == pytest.approx([1.5, 0], abs=0.2)
    against = log_weights(-odds[:1], np.log([0.5, 0.5]), target, np.ones(n))
    assert against.tolist() == [0]


def test_a_fold_does_not_weigh_its_own_classifiers():
    rng = np.random.default_rng(0)
    n = 100
    target, fold = rng.integers(0, 2, n), np.arange(n) % 2
    logs = log_softmax(rng.normal(size=(2, n, 2)), axis=-1)
    first = combined(logs, task_of(target), fold)
    changed = logs.copy()
    changed[:, fold == 0] = log_softmax(5 * np.eye(2)[target[fold == 0]], axis=-1)
    second = combined(changed, task_of(target), fold)
    # The answers of fold 0 changed; those of fold 1 changed by the new weights alone.
    prior = np.log(task_of(target).prior)
    odds = changed[:, fold == 0] - prior
    a = log_weights(odds, prior, target[fold == 0], np.ones(n // 2))
    expected = log_softmax(prior + np.tensordot(a, logs[:, fold == 1] - prior, axes=1), axis=-1)
    assert second[fold == 1] == pytest.approx(expected, abs=1e-5)
    assert first[fold == 0] != pytest.approx(second[fold == 0])


def radial(n, columns, seed):
    """Two domains of another gain, and a label that follows the norm: no concept shift."""
    rng = np.random.default_rng(seed)
    d = np.repeat([0, 1], n // 2)
    x = rng.normal(size=(n, columns)) * np.where(d == 0, 0.88, 1.12)[:, None]
    score = 3 * ((x**2).mean(axis=1) - 1) * np.sqrt(columns / 2)
    return x, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int), d


def test_a_gain_of_all_columns_is_not_taken_for_concept_shift():
    x, y, d = radial(700, 20, seed=0)
    found = posteriors(checked(x, y, d, True), seed=0)
    shift = LowerBounds(seed=0, balanced=True, posteriors=found).measure(x, y, d)
    assert shift.covariate.interval[0] > 0.05
    assert shift.concept.interval[0] == 0
    assert shift.concept.value < 0.01


def test_the_standard_error_allows_for_folds_that_share_samples():
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(300, 2)), np.repeat([0, 1], 150)
    sample = checked(x, None, d, True)
    domain = log_softmax(np.eye(2)[sample.d] + rng.normal(size=(300, 2)), axis=1)
    label = np.zeros((300, 2, 1))
    made = ClassPosteriors(domain, domain, label[None, :, 0], label[:, 0], label, label[:, 0])
    estimate = LowerBounds(seed=0, balanced=True, posteriors=made).covariate(x, d)
    ratio = domain[np.arange(300), sample.d] - np.log(0.5)
    error = np.sqrt(sum(0.25 * ratio[sample.d == k].var(ddof=1) / 150 for k in (0, 1)))
    assert estimate.value == pytest.approx(ratio.mean())
    assert estimate.interval[0] > 0
    assert estimate.interval[1] - estimate.value == pytest.approx(1.96 * 2**0.5 * error, rel=1e-3)
