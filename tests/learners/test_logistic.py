"""The exact path of logistic regression, against scikit-learn and the conditions of a minimum."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import InvalidValue, logistic_path, probabilities
from sklearn.linear_model import LogisticRegression

PENALTIES = [1e-3, 1.0, 1e-1, 1e-2]  # in no order


def samples(n: int, d: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    centres = rng.normal(size=(classes, d))
    x = rng.normal(size=(n, d)) * np.geomspace(0.01, 10, d) + 0.3 * centres[y] + 5
    return x, y


def held_out(n: int, domains: int, seed: int = 1) -> np.ndarray:
    domain = np.random.default_rng(seed).integers(0, domains, n)
    return np.stack([(domain != held).astype(float) for held in range(domains)])


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize(("n", "d"), [(300, 8), (40, 90)])
def test_it_equals_scikit_learn_for_every_penalty_and_held_out_domain(n, d, classes):
    x, y = samples(n, d, classes)
    weights = held_out(n, 3)
    path = logistic_path(x, y, classes, weights, PENALTIES)
    for k, weight in enumerate(weights):
        rows = weight > 0
        for p, alpha in enumerate(PENALTIES):
            exact = LogisticRegression(
                C=1 / (alpha * rows.sum()), tol=1e-10, max_iter=100_000, solver="newton-cholesky"
            ).fit(x[rows], y[rows])
            assert path.coefficients[p, k] == pytest.approx(exact.coef_, abs=1e-4)
            ours = probabilities(x @ path.coefficients[p, k].T + path.intercepts[p, k])
            assert ours == pytest.approx(exact.predict_proba(x), abs=1e-4)


def test_sample_weights_are_repetitions():
    x, y = samples(60, 4, 3)
    counts = np.random.default_rng(3).integers(0, 4, 60)
    weighted = logistic_path(x, y, 3, counts[None].astype(float), [0.05])
    repeated = np.repeat(np.arange(60), counts)
    plain = logistic_path(x[repeated], y[repeated], 3, np.ones((1, len(repeated))), [0.05])
    assert weighted.coefficients == pytest.approx(plain.coefficients, abs=1e-6)
    assert weighted.intercepts == pytest.approx(plain.intercepts, abs=1e-5)


def test_rows_without_weight_do_not_matter():
    x, y = samples(80, 4, 2)
    weights = held_out(80, 2)[:1]
    changed = np.where(weights[0][:, None] > 0, x, 1e6)
    ours = logistic_path(x, y, 2, weights, [0.1])
    assert ours.coefficients == pytest.approx(
        logistic_path(changed, y, 2, weights, [0.1]).coefficients, abs=1e-9
    )


def test_a_class_absent_from_the_training_rows_gets_no_weight_of_its_own():
    x, y = samples(200, 3, 3)
    weights = (y != 2).astype(float)[None]
    path = logistic_path(x, y, 3, weights, [0.01])
    assert probabilities(x @ path.coefficients[0, 0].T + path.intercepts[0, 0])[:, 2].max() < 0.01


@pytest.mark.parametrize(
    ("weights", "penalties", "said"),
    [([[1.0, -1.0]], [1.0], "negative"), ([[0.0, 0.0]], [1.0], "all 0"), ([[1, 1]], [0], "above")],
)
def test_what_has_no_minimum_is_refused(weights, penalties, said):
    with pytest.raises(InvalidValue, match=said):
        logistic_path(np.eye(2), np.array([0, 1]), 2, np.array(weights), penalties)
