"""What holds for every estimator: what it refuses, what does not matter to it, what it returns."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import DataError, InvalidValue

from shiftproof.information import Counts, CrossFitted, estimator_for, match_dimensions

ALL = [Counts(seed=0), CrossFitted(seed=0, folds=3)]
NAMES = ["covariate", "label", "concept", "joint", "within_label"]


def by_name(estimator):
    return type(estimator).__name__


def shifted(seed=0, n=150, discrete=False):
    rng = np.random.default_rng(seed)
    d = np.repeat([3, 5, 9], [n // 3, n // 2, n - n // 3 - n // 2])
    x = rng.normal(size=(n, 2)) + 0.3 * d[:, None]
    x = np.sign(x - x.mean(axis=0)) if discrete else x
    y = (x[:, 0] + rng.normal(size=n) > (d == 5)).astype(int)
    return x, y, d


def data_for(estimator):
    return shifted(n=400, discrete=True) if isinstance(estimator, Counts) else shifted()


def values(shift):
    return [number for e in shift for number in (e.value, *e.interval)]


@pytest.mark.parametrize("estimator", ALL, ids=by_name)
def test_the_shift_is_complete_and_in_range(estimator):
    x, y, d = data_for(estimator)
    shift = estimator.measure(x, y, d)
    most = -sum(p * np.log(p) for p in np.bincount(d)[[3, 5, 9]] / len(d))
    for estimate in shift:
        low, high = estimate.interval
        assert 0 <= low <= estimate.value <= high <= most + 1e-12
        assert (estimate.samples, estimate.level, estimate.method) == (
            len(d),
            0.95,
            estimator.method,
        )
        assert estimate.assumptions
    symbols = ["I(X;D)", "I(Y;D)", "I(Y;D|X)", "I(X,Y;D)", "I(X;D|Y)"]
    assert [e.symbol for e in shift] == symbols
    # Without labels the classifiers' folds are dealt otherwise.
    alone = estimator.covariate(x, d)
    close = 0.02 if isinstance(estimator, CrossFitted) else 1e-9
    assert alone.value == pytest.approx(shift.covariate.value, abs=close)


@pytest.mark.parametrize("estimator", ALL, ids=by_name)
def test_order_scale_and_names_do_not_matter(estimator):
    x, y, d = data_for(estimator)
    expected = values(estimator.measure(x, y, d))
    order = np.random.default_rng(1).permutation(len(d))
    assert values(estimator.measure(x[order], y[order], d[order])) == pytest.approx(
        expected, abs=1e-5
    )
    scaled = x * [1e3, 1e-3] + [5, -7]
    assert values(estimator.measure(scaled, y, d)) == pytest.approx(expected, abs=1e-5)
    renamed = np.array([0, 0, 0, 2, 0, 0, 0, 0, 0, 1])[d]
    assert values(estimator.measure(x, y, renamed)) == pytest.approx(expected, abs=1e-4)


def test_a_constant_column_does_not_matter():
    x, y, d = shifted()
    with_constant = np.insert(x, 1, 0.1, axis=1)
    estimator = CrossFitted(seed=0, folds=3)
    assert estimator.measure(with_constant, y, d) == estimator.measure(x, y, d)


def test_features_that_say_nothing_at_all():
    _, y, d = shifted(n=400)
    for estimator in ALL:
        shift = estimator.measure(np.ones(400), y, d)
        assert shift.covariate.value == pytest.approx(0, abs=1e-9)
        assert shift.concept.value == pytest.approx(shift.label.value, abs=0.02)


@pytest.mark.parametrize("estimator", ALL[1:], ids=by_name)
def test_identical_domains_show_next_to_nothing(estimator):
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(600, 3)), np.repeat([0, 1], 300)
    y = (x[:, 0] + rng.normal(size=600) > 0).astype(int)
    for estimate in estimator.measure(x, y, d):
        assert estimate.interval[0] == 0
        assert estimate.value < 0.03


def test_a_wider_level_gives_a_wider_interval():
    x, _, d = shifted()
    narrow, wide = (
        CrossFitted(seed=0, folds=3, level=level).covariate(x, d) for level in (0.5, 0.99)
    )
    assert wide.interval[0] < narrow.interval[0] < narrow.interval[1] < wide.interval[1]
    assert narrow.value == wide.value


def test_risks_are_a_single_column():
    x, _, d = shifted()
    estimator = CrossFitted(seed=0, folds=3)
    assert estimator.covariate(x[:, 0], d) == estimator.covariate(x[:, :1], d)


def test_many_columns_and_rare_labels():
    """Above 128 columns the leading components serve; a label of two samples breaks nothing."""
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1], 150)
    x = rng.normal(size=(300, 140)) + 2 * (d[:, None] == 1) * (np.arange(140) < 20)
    y = rng.integers(0, 2, 300)
    y[[0, 299]] = 2
    shift = CrossFitted(seed=0, folds=3, permutations=9).measure(x, y, d)
    assert shift.covariate.value > 0.5
    assert shift.covariate.p_value == 0.1
    assert shift.concept.interval[0] == 0
    assert any("140" in sentence for sentence in shift.joint.assumptions)


def test_the_estimator_follows_the_features():
    x, _, d = shifted(n=400)
    assert isinstance(estimator_for(x, d, seed=0), CrossFitted)
    assert isinstance(estimator_for(np.sign(x), d, seed=0), Counts)


X, Y, D = shifted()
BAD = {
    "NaN": (np.where(np.arange(150)[:, None] == 7, np.nan, X), Y, D, "1 of 150 rows .* row 7"),
    "one domain": (X, Y, np.zeros(150, dtype=int), "at least two domains, not 1"),
    "lonely domain": (X, Y, np.append(D[:-1], 77), "domain 77 has a single sample"),
    "lengths": (X[:-1], Y, D, "have 149, 150 and 150 entries"),
    "cube": (X[None], Y, D, "must be a table"),
    "text": (np.full((150, 1), "red"), Y, D, "must be numbers"),
    "real domains": (X, Y, D.astype(float), "domains must be whole numbers"),
    "real labels": (X, Y + 0.5, D, "labels must be whole numbers"),
    "nothing": (np.zeros((0, 2)), Y[:0], D[:0], "at least two domains, not 0"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("estimator", ALL, ids=by_name)
def test_bad_data_is_refused_in_one_line(estimator, case):
    *data, message = BAD[case]
    with pytest.raises(DataError, match=message) as refusal:
        estimator.measure(*data)
    assert "\n" not in str(refusal.value)


def test_bad_data_is_refused_by_matching():
    with pytest.raises(DataError, match="row 7"):
        match_dimensions(BAD["NaN"][0], D, seed=0)
    with pytest.raises(InvalidValue, match="`permutations` must be at least 1"):
        match_dimensions(X, D, seed=0, permutations=0)


def test_a_domain_smaller_than_the_folds_is_named():
    d = np.where(np.arange(150) < 3, 8, D)
    with pytest.raises(DataError, match="domain 8 has 3 samples, fewer than the 5 folds"):
        CrossFitted(seed=0).measure(X, Y, d)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CrossFitted(seed=0, folds=2), "`folds` must be at least 3, not 2"),
        (lambda: Counts(seed=0, level=1.0), "between 0 and 1, not 1.0"),
        (lambda: Counts(seed=0, permutations=-1), "`permutations` must be at least 0, not -1"),
        (lambda: Counts(seed=0).measure(X, Y, D), "distinct row .* use CrossFitted"),
    ],
)
def test_bad_settings_are_refused_in_one_line(build, message):
    with pytest.raises(InvalidValue, match=message):
        build()
