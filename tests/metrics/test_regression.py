"""R², MAE and RMSE against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import InvalidValue, scores
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from shiftproof.metrics import METRICS, NumberOutputs


def number_scores(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    return scores(NumberOutputs(predicted, labels))


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.normal(5, 3, 200)
    predicted = y + rng.normal(size=200)
    found = number_scores(predicted, y)
    assert found["r2"] == pytest.approx(r2_score(y, predicted), abs=1e-12)
    assert found["mae"] == pytest.approx(mean_absolute_error(y, predicted), abs=1e-12)
    assert found["rmse"] == pytest.approx(root_mean_squared_error(y, predicted), abs=1e-12)
    assert METRICS.get("r2").loss(0.9) < METRICS.get("r2").loss(0.8)
    assert METRICS.get("mae").loss(1.0) < METRICS.get("mae").loss(2.0)


def test_equal_labels_have_no_r2():
    assert number_scores(np.array([1.0, 2.0]), np.array([3.0, 3.0]))["r2"] is None


def test_an_unknown_score_is_named():
    assert METRICS.checked("mae", "regression") == "mae"
    with pytest.raises(InvalidValue, match="'accuracy' is unknown for regression; known: r2, mae"):
        METRICS.checked("accuracy", "regression")
