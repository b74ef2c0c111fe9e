"""Temperatures: the known answer, and nothing worse than none."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import fit_temperature, tempered
from scipy.special import softmax


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_the_temperature_that_made_the_labels_is_found(true):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (20_000, 3))
    honest = softmax(logits / true, axis=1)
    y = (honest.cumsum(axis=1) > rng.uniform(size=(len(logits), 1))).argmax(axis=1)
    predicted = softmax(logits, axis=1)
    found = fit_temperature(predicted, y, np.full(len(y), 1 / len(y)))
    assert found == pytest.approx(true, rel=0.05)


def test_tempering_keeps_the_order_and_the_sum():
    predicted = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    for temperature in (0.3, 1.0, 5.0):
        changed = tempered(predicted, temperature)
        assert changed.sum(axis=1) == pytest.approx(np.ones(50))
        assert (changed.argmax(axis=1) == predicted.argmax(axis=1)).all()
    assert tempered(predicted, 1.0) == pytest.approx(predicted, abs=1e-5)


def test_a_certain_and_wrong_prediction_has_a_finite_loss():
    predicted = np.array([[1.0, 0.0], [1.0, 0.0]])
    found = fit_temperature(predicted, np.array([1, 1]), np.array([0.5, 0.5]))
    assert np.isfinite(np.log(tempered(predicted, found))).all()
    assert found > 10  # as timid as allowed
