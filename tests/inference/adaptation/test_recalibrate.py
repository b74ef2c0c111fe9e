"""Closed testing of updates: as Vergouwe et al. (2017) describe it, and at its level."""

from __future__ import annotations

import json

import numpy as np
import pytest
from _internals import DataError, Update, closed_test, recalibrated, updates_METHODS as METHODS
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2


def patients(
    n: int, seed: int, intercept: float = 0.0, slope: float = 1.0, other: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A model's probabilities, features and labels: truth is a + b·lp + other·(second feature)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    lp = 1.5 * x[:, 0]
    y = (rng.random(n) < expit(intercept + slope * lp + other * x[:, 1])).astype(int)
    p = expit(lp)
    return np.stack([1 - p, p], axis=1), x, y


def deviance(design: np.ndarray, offset: np.ndarray, y: np.ndarray) -> float:
    """Of a logistic regression, by a direct maximisation."""

    def loss(values: np.ndarray) -> float:
        eta = offset + design @ values
        return float(np.logaddexp(0, eta).sum() - y @ eta)

    return 2 * float(minimize(loss, np.zeros(design.shape[1]), tol=1e-10).fun)


def by_hand(p: np.ndarray, x: np.ndarray, y: np.ndarray, level: float = 0.05) -> str:
    """Steps 1 to 3 of Vergouwe et al.: revision against original, intercept and recalibration."""
    lp = logit(p[:, 1])
    one = np.ones((len(y), 1))
    revision = deviance(np.column_stack([one, lp, x]), 0 * lp, y)
    others = {
        "original": (deviance(np.zeros((len(y), 1)), lp, y), 4),
        "intercept": (deviance(one, lp, y), 3),
        "slope": (deviance(np.column_stack([one, lp]), 0 * lp, y), 2),
    }
    for name, (own, freedom) in others.items():
        if chi2.sf(own - revision, freedom) >= level:
            return name
    return "revision"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("truth", [{}, {"intercept": 1.0}, {"slope": 0.3}, {"other": 1.0}])
def test_the_procedure_is_the_published_one(truth: dict[str, float], seed: int) -> None:
    p, x, y = patients(300, seed, **truth)
    # The linear predictor is the first feature: take the second and a new one for the revision.
    x = np.column_stack([x[:, 1], np.random.default_rng(seed + 50).normal(size=300)])
    update, steps, revisable = closed_test(p, x, y)
    assert revisable
    assert update.method == by_hand(p, x, y)
    assert [step.against for step in steps] == list(METHODS[: len(steps)])


def test_statistics_and_degrees_of_freedom() -> None:
    p, x, y = patients(300, 1, intercept=0.5)
    lp = logit(p[:, 1])
    x = np.column_stack([x[:, 1], x[:, 1] ** 2])
    _, steps, _ = closed_test(p, x, y)
    revision = deviance(np.column_stack([np.ones(300), lp, x]), 0 * lp, y)
    assert steps[0].freedom == 4
    original = deviance(np.zeros((300, 1)), lp, y)
    assert steps[0].statistic == pytest.approx(original - revision, abs=1e-4)


def test_a_model_that_is_right_is_kept_at_the_level() -> None:
    given_up = [
        closed_test(p, x[:, 1:], y)[0].method != "original"
        for p, x, y in (patients(200, seed) for seed in range(200))
    ]
    assert np.mean(given_up) == pytest.approx(0.05, abs=0.05)


def test_a_confident_model_is_kept_at_the_level_with_few_rows() -> None:
    """20 rows of a model with steep log odds: by χ², one in nine is given up; exactly, one in 20.

    200 times; the standard error is 1.5 points.
    """
    given_up = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = expit(3 * rng.normal(size=20))
        y = (rng.random(20) < p).astype(int)
        found = closed_test(np.stack([1 - p, p], axis=1), None, y, seed=seed)
        given_up += found[0].method != "original"
    assert given_up <= 16


def test_each_update_is_found_where_it_is_the_truth() -> None:
    expected = {"intercept": {"intercept": 1.0}, "slope": {"slope": 0.3}, "revision": {"other": 1}}
    for method, truth in expected.items():
        found = [
            closed_test(p, x[:, 1:], y)[0].method
            for p, x, y in (patients(500, seed, **truth) for seed in range(20))
        ]
        assert found.count(method) >= 16


def test_few_rows_allow_no_revision() -> None:
    p, x, y = patients(40, 0, other=2.0)
    update, steps, revisable = closed_test(p, np.repeat(x, 5, axis=1), y)
    assert not revisable
    assert update.method != "revision"
    assert steps[0].freedom == 2


def test_a_revision_is_shrunk_toward_the_trained_model() -> None:
    p, x, y = patients(500, 3, other=0.5)
    features = np.column_stack([x[:, 1], np.random.default_rng(0).normal(size=(500, 4))])
    update = closed_test(p, features, y)[0]
    assert update.method == "revision"
    free = deviance(np.column_stack([np.ones(500), logit(p[:, 1]), features]), np.zeros(500), y)
    after = update.applied(p, features)
    own = -2 * float(np.log(after[np.arange(500), y]).sum())
    assert own > free  # not the unpenalised maximum
    assert own < -2 * float(np.log(p[np.arange(500), y]).sum())


def test_scores_before_and_after_have_intervals() -> None:
    p, x, y = patients(400, 5, intercept=2.0)
    found = recalibrated(p, x[:, 1:], y)
    assert found.method == "intercept"
    assert found.update.intercepts[1] - found.update.intercepts[0] == pytest.approx(2, abs=0.4)
    assert found.after["log_loss"] < found.before["log_loss"]
    mean, low, high = found.change["log_loss"]
    assert mean == pytest.approx(found.after["log_loss"] - found.before["log_loss"])
    assert low < mean < high < 0


def test_a_class_without_rows_keeps_the_odds_of_the_model() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 100)
    update = closed_test(p, None, (rng.random(100) < 0.9).astype(int))[0]
    assert update.intercepts[2] == 0


def test_a_class_of_one_row_is_judged_without_it() -> None:
    """Where the row is left out, the others have one class: they support no update."""
    p, x, _ = patients(40, 0)
    y = np.array([1] + [0] * 39)
    assert closed_test(p[1:], x[1:], y[1:])[0].method == "original"
    found = recalibrated(p, x, y)
    assert found.method == "intercept"
    assert json.loads(json.dumps(found.to_dict()))["revision_considered"] is False


def test_an_update_survives_json() -> None:
    p, x, y = patients(500, 3, other=1.0)
    update = closed_test(p, x[:, 1:], y)[0]
    again = Update.from_json(json.loads(json.dumps(update.to_json())))
    np.testing.assert_allclose(again.applied(p, x[:, 1:]), update.applied(p, x[:, 1:]))
    stored = update.to_json() | {"center": []}
    with pytest.raises(ValueError, match="lengths"):
        Update.from_json(stored)


def test_too_few_rows_are_refused() -> None:
    p, x, y = patients(19, 0)
    with pytest.raises(DataError, match="19 labelled rows are too few"):
        recalibrated(p, x, y)
    p, x, y = patients(30, 0)
    with pytest.raises(DataError, match="same class"):
        recalibrated(p, x, np.zeros(30, dtype=int))
