"""Scores equal scikit-learn's; calibration equals an unpenalised logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    InvalidValue,
    first_coefficient,
    fitted_intercept,
    fitted_slope,
    scores as scores_of,
    worst_scores,
)
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from shiftproof.metrics import METRICS, Outputs


def scores(p: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    return scores_of(Outputs(p, y))


def sample(classes: int, n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    logits = rng.standard_normal((n, classes)) + 1.2 * np.eye(classes)[labels]
    odds = np.exp(1.7 * logits)
    return odds / odds.sum(axis=1, keepdims=True), labels


def test_two_classes_equal_scikit_learn() -> None:
    p, y = sample(2)
    found, predicted, second = scores(p, y), p.argmax(axis=1), p[:, 1]
    assert found["accuracy"] == metrics.accuracy_score(y, predicted)
    assert found["balanced_accuracy"] == metrics.balanced_accuracy_score(y, predicted)
    assert found["auroc"] == pytest.approx(metrics.roc_auc_score(y, second))
    assert found["f1"] == metrics.f1_score(y, predicted, average="macro")
    both = metrics.average_precision_score(np.eye(2)[y], p, average="macro")
    assert found["average_precision"] == pytest.approx(both)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, p))
    assert found["brier"] == pytest.approx(2 * metrics.brier_score_loss(y, second))


def test_several_classes_equal_scikit_learn() -> None:
    p, y = sample(4)
    found = scores(p, y)
    assert found["auroc"] == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"))
    assert found["balanced_accuracy"] == metrics.balanced_accuracy_score(y, p.argmax(axis=1))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, p))
    assert found["accuracy"] == metrics.accuracy_score(y, p.argmax(axis=1))
    assert found["f1"] == metrics.f1_score(y, p.argmax(axis=1), average="macro")
    each = metrics.average_precision_score(np.eye(4)[y], p, average="macro")
    assert found["average_precision"] == pytest.approx(each)
    by_class = [metrics.brier_score_loss(y == k, p[:, k]) for k in range(4)]
    assert found["brier"] == pytest.approx(sum(by_class))
    assert found["calibration_intercept"] is None


@pytest.mark.parametrize("name", ["log_loss", "brier"])
def test_a_loss_is_the_mean_over_rows(name: str) -> None:
    p, y = sample(3)
    whole = METRICS.get(name).estimate(Outputs(p, y))
    parts = [METRICS.get(name).score(Outputs(p[[row]], y[[row]])) for row in range(len(y))]
    assert whole is not None
    assert whole.value == pytest.approx(np.mean(parts))
    assert whole.variance == pytest.approx(np.var(parts, ddof=1) / len(y) / np.mean(parts) ** 2)


def test_the_slope_is_that_of_a_logistic_regression() -> None:
    p, y = sample(2)
    odds = np.log(p[:, 1] / p[:, 0])
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(odds[:, None], y)
    found = fitted_slope(Outputs(p, y))
    assert found is not None
    assert found.value == pytest.approx(model.coef_[0, 0], rel=1e-4)
    share = model.predict_proba(odds[:, None])[:, 1]
    design = np.stack([odds, np.ones_like(odds)], axis=1)
    inverse = np.linalg.inv(design.T @ (design * (share * (1 - share))[:, None]))
    gradients = design.T @ (design * ((y - share) ** 2)[:, None])
    assert found.variance == pytest.approx((inverse @ gradients @ inverse)[0, 0], rel=1e-3)


def test_a_flat_likelihood_ends_without_a_slope() -> None:
    # Its curvature is so small that the inverse is infinite: steps would not be numbers.
    design = np.zeros((4, 2, 2))
    design[:, 1, 0], design[:, 1, 1] = 1.0, [1e-155, -1e-155, 1e-155, -1e-155]
    assert first_coefficient(design, np.zeros((4, 2)), np.array([0, 0, 1, 1]), np.zeros(2)) is None


@pytest.mark.parametrize("classes", [2, 4])
def test_calibrated_probabilities_have_slope_one(classes: int) -> None:
    """Labels are drawn from the probabilities; too extreme ones of twice the log odds have ½."""
    rng = np.random.default_rng(2)
    logits = rng.standard_normal((20_000, classes))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (rng.random(len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1)
    fitted = fitted_slope(Outputs(p, y))
    assert fitted is not None
    assert fitted.value == pytest.approx(1, abs=3 * fitted.variance**0.5)
    assert scores(p, y)["calibration_error"] < 0.02
    extreme = p**2 / (p**2).sum(axis=1, keepdims=True)
    assert scores(extreme, y)["calibration_slope"] == pytest.approx(fitted.value / 2, rel=1e-6)
    assert scores(extreme, y)["calibration_error"] > 0.1


def test_the_intercept_makes_the_mean_probability_the_share() -> None:
    """The score equation of a alone: Σ (y − p(a)) = 0."""
    p, y = sample(2)
    y[:40] = 1
    found = fitted_intercept(Outputs(p, y))
    assert found is not None
    odds = np.log(p[:, 1] / p[:, 0]) + found.value
    moved = 1 / (1 + np.exp(-odds))
    assert moved.mean() == pytest.approx(y.mean(), abs=1e-6)
    sandwich = ((y - moved) ** 2).sum() / (moved * (1 - moved)).sum() ** 2
    assert found.variance == pytest.approx(sandwich, rel=1e-6)


def test_what_is_undefined_is_none() -> None:
    p, _ = sample(2, 20)
    one_class = scores(p, np.zeros(20, dtype=int))
    assert [name for name, value in one_class.items() if value is None] == [
        *("auroc", "average_precision", "calibration_slope", "calibration_intercept")
    ]
    separated = scores(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 0, 1]))
    assert separated["calibration_slope"] is None


def test_the_expected_error_by_hand() -> None:
    """Bin 0.7: two of 0.75, one right; bin 0.9: one of 0.95, right."""
    p = np.array([[0.25, 0.75], [0.75, 0.25], [0.05, 0.95]])
    expected = (abs(1 - 1.5) + abs(1 - 0.95)) / 3
    assert scores(p, np.array([1, 1, 1]))["calibration_error"] == pytest.approx(expected)


def test_the_worst_is_the_furthest_from_what_it_should_be() -> None:
    domains = [
        {"accuracy": 0.7, "log_loss": 0.2, "calibration_slope": 1.3, "auroc": None},
        {"accuracy": 0.9, "log_loss": 0.6, "calibration_slope": 0.4, "auroc": None},
    ]
    worst = {"accuracy": 0.7, "log_loss": 0.6, "calibration_slope": 0.4, "auroc": None}
    assert worst_scores(domains) == worst


def test_a_metric_that_is_not_known() -> None:
    assert METRICS.checked("auroc", "classification") == "auroc"
    with pytest.raises(InvalidValue, match=r"`metric` 'auc' is unknown.*auroc"):
        METRICS.checked("auc", "classification")
