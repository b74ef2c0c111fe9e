"""Shifts of labels that are numbers, against integrals of Gaussian families."""

import numpy as np
import pytest
from _internals import Target, added, labels_of, least_squares_weights
from scipy import integrate
from scipy.stats import norm


def measured(x, y, d, permutations=0):
    labels = labels_of(x, y, d, ())
    labels.fit(0, lambda: None)
    return labels.shift(seed=0, balanced=True, permutations=permutations)


def concept_of_lines(slopes, levels, noise):
    """I(Y;D|X) for X ~ N(0, 1) and Y ~ N(a_d + b_d x, s_d²), domains alike, by quadrature."""

    def at(y, x):
        p = norm.pdf(y, np.array(levels) + np.array(slopes) * x, noise)
        return norm.pdf(x) * float(np.mean(p * np.log(p / p.mean() + 1e-300)))

    return integrate.dblquad(at, -5, 5, -12, 12, epsabs=1e-5)[0]


def label_of_normals(means, noise):
    def at(y):
        p = norm.pdf(y, means, noise)
        return float(np.mean(p * np.log(p / p.mean() + 1e-300)))

    return integrate.quad(at, -12, 12, epsabs=1e-8)[0]


@pytest.fixture(scope="module")
def slopes():
    rng = np.random.default_rng(1)
    d = np.repeat([0, 1, 2], 500)
    x = rng.standard_normal((len(d), 1))
    y = np.array([1.0, 1.4, 0.4])[d] * x[:, 0] + 0.7 * rng.standard_normal(len(d))
    return x, y, d, measured(x, y, d, permutations=49)


def test_concept_shift_of_lines_is_the_integral(slopes):
    truth = concept_of_lines([1.0, 1.4, 0.4], [0.0, 0.0, 0.0], [0.7, 0.7, 0.7])
    assert truth > 0.05
    shift = slopes[-1]
    low, high = shift.concept.interval
    assert 0 < low <= truth <= high
    assert shift.concept.value == pytest.approx(truth, rel=0.25)


def test_without_covariate_shift_nothing_is_seen(slopes):
    shift = slopes[-1]
    assert shift.covariate.interval[0] == 0
    assert shift.covariate.value < 0.005
    assert shift.covariate.p_value > 0.05
    assert shift.joint.p_value == pytest.approx(0.02)
    # No two labels are equal: there is nothing to permute within.
    assert shift.within_label.p_value is None
    assert shift.concept.p_value is None


def test_the_chain_rule_holds(slopes):
    shift = slopes[-1]
    both_ways = [shift.covariate.value + shift.concept.value]
    both_ways += [shift.label.value + shift.within_label.value]
    assert both_ways == pytest.approx([shift.joint.value] * 2, abs=0.01)


def test_neither_the_order_of_rows_nor_the_unit_matters(slopes):
    x, y, d = (own[::5] for own in slopes[:3])
    shift = measured(x, y, d)
    order = np.random.default_rng(0).permutation(len(d))
    again = measured(x[order], 1000 + 30 * y[order], d[order])
    assert again.label.value == pytest.approx(shift.label.value, rel=1e-3)
    assert again.concept.value == pytest.approx(shift.concept.value, rel=1e-3)


def test_label_shift_of_normals_is_the_integral():
    rng = np.random.default_rng(2)
    d = np.repeat([0, 1], 600)
    means, noise = np.array([0.0, 0.8]), np.array([1.0, 1.5])
    y = means[d] + noise[d] * rng.standard_normal(len(d))
    x = np.stack([y + rng.standard_normal(len(d)), rng.standard_normal(len(d))], axis=1)
    shift = measured(x, y, d)
    truth = label_of_normals(means, noise)
    low, high = shift.label.interval
    assert low <= truth <= high
    assert shift.label.value == pytest.approx(truth, rel=0.25)
    # Inputs follow the label alone: given it, they say nothing of the domain.
    assert shift.within_label.interval[0] == 0


def test_a_curved_rule_is_no_concept_shift():
    """Y shows f(x), and f(x) the domain: a classifier that cannot find f must not be fooled."""
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1], 1000)
    x = rng.uniform(-3, 3, (len(d), 2))
    keep = rng.random(len(d)) < np.where(d == 1, 0.5 + 0.45 * np.sin(3 * x[:, 0]), 0.5)
    x, d = x[keep], d[keep]
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(len(d))
    shift = measured(x, y, d)
    assert shift.label.interval[0] > 0
    assert shift.concept.interval[0] == 0 or shift.concept.value < 0.01 * np.log(2)


def test_stacking_weighs_by_least_squares_of_other_folds():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(400)
    panel = np.stack([y + 0.5 * rng.standard_normal(400), rng.standard_normal(400)])
    a = least_squares_weights(panel, y, np.ones(400))
    assert a[1] < 0.1
    assert a[0] == pytest.approx(0.8, abs=0.1)  # 1 / (1 + 0.5²)
    fold = np.arange(400) % 5
    alike = np.zeros(400, dtype=int)
    mixed = added(panel, Target(y, 0, np.ones(400), alike, 1), fold)
    own = (
        least_squares_weights(panel[:, fold != 2], y[fold != 2], np.ones(320)) @ panel[:, fold == 2]
    )
    assert mixed[fold == 2] == pytest.approx(own)
