"""The ridge path against scikit-learn, for every fold, and with more columns than rows."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import InvalidValue, ridge_path, ridge_paths
from sklearn.linear_model import Ridge

PENALTIES = [1e-4, 0.03, 2.0]


def problem(n: int, d: int, targets: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    x = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d) + 100
    y = x @ rng.normal(size=(d, targets)) + rng.normal(size=(n, targets)) + 7
    return x, y, rng.uniform(0.1, 3, n)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize(("n", "d"), [(60, 5), (20, 50)])
def test_every_fold_is_that_of_scikit_learn(n, d, targets):
    x, y, weights = problem(n, d, targets)
    folds = np.arange(n) % 3
    paths = ridge_paths(x, y, weights, folds, PENALTIES)
    assert set(paths) == {None, 0, 1, 2}
    for fold, path in paths.items():
        rows = folds != fold if fold is not None else np.ones(n, dtype=bool)
        shares = weights[rows] / weights[rows].sum()
        for place, penalty in enumerate(PENALTIES):
            # With weights that sum to 1, scikit-learn's penalty is ours.
            other = Ridge(penalty, solver="svd").fit(x[rows], y[rows], sample_weight=shares)
            expected = other.predict(x).reshape(n, targets)
            assert path.predict(x)[place] == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_constant_columns_have_no_coefficient():
    x, y, weights = problem(40, 3)
    x[:, 1] = 5
    path = ridge_path(x, y, weights, [1e-6])
    assert abs(path.coefficients[0, 0, 1]) < 1e-8


def test_wrong_penalties_and_weights():
    x, y, weights = problem(10, 2)
    with pytest.raises(InvalidValue, match="a penalty must be above 0, not 0"):
        ridge_path(x, y, weights, [0.0])
    for columns in (2, 30):
        x, y, weights = problem(10, columns)
        with pytest.raises(InvalidValue, match="nor all 0"):
            ridge_path(x, y, 0 * weights, [1.0])
