"""Sampling variances against closed forms, DeLong's, and the spread of repeated samples."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import Estimate, Expected, Scale, auroc_variance

from shiftproof.metrics import METRICS, Outputs
from tests.metrics.test_classification import sample

EXPECTED = METRICS.of("classification")


def estimate(name: str, p: np.ndarray, y: np.ndarray, level: float = 0.95) -> Estimate | None:
    return METRICS.get(name).estimate(Outputs(p, y), level)


def estimates(p: np.ndarray, y: np.ndarray) -> dict[str, Estimate | None]:
    return {name: estimate(name, p, y) for name in EXPECTED}


def scale_of(name: str) -> Scale:
    return METRICS.get(name).scale


def test_delong_by_its_definition() -> None:
    """S10/m + S01/n, with the placements of every pair counted one by one."""
    p, y = sample(2, 60)
    p = np.round(p, 1)  # with ties
    score = p[:, 1]
    first, second = score[y == 1], score[y == 0]
    pairs = (first[:, None] > second) + 0.5 * (first[:, None] == second)
    expected = pairs.mean(axis=1).var(ddof=1) / len(first)
    expected += pairs.mean(axis=0).var(ddof=1) / len(second)
    assert auroc_variance(np.stack([1 - score, score], axis=1), y) == pytest.approx(expected)


def test_the_wilson_like_interval_of_the_accuracy() -> None:
    """Empirical log odds of 45 of 50: log(45.5/5.5) with variance 1/45.5 + 1/5.5."""
    p = np.tile([0.2, 0.8], (50, 1))
    found = estimate("accuracy", p, np.array([1] * 45 + [0] * 5))
    assert found is not None
    assert found.value == 0.9
    assert found.additive == pytest.approx(np.log(45.5 / 5.5))
    assert found.variance == pytest.approx(1 / 45.5 + 1 / 5.5)


# The jackknife calls a score 20 times, so it gets fewer samples.  Mean variance over the true one:
JACKKNIFED = {"average_precision": 1.0, "f1": 1.0, "calibration_error": 1.6}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_variances_are_those_of_repeated_samples(classes: int, name: str) -> None:
    """The mean variance is near the variance over samples, on the additive scale."""
    samples = [sample(classes, 150, seed) for seed in range(200)]
    if name == "calibration_intercept" and classes > 2:
        assert estimate(name, *samples[0]) is None
        return
    scale, kept = scale_of(name), samples[:30] if name in JACKKNIFED else samples
    values = [METRICS.get(name).score(Outputs(*each)) for each in samples]
    observed = np.var([scale.there(value) for value in values if value is not None], ddof=1)
    claimed = [own.variance for each in kept if (own := estimate(name, *each)) is not None]
    assert np.mean(claimed) == pytest.approx(JACKKNIFED.get(name, 1) * observed, rel=0.3)


def test_intervals_hold_the_value_and_widen_with_the_level() -> None:
    p, y = sample(2, 100)
    for name, own in estimates(p, y).items():
        assert own is not None
        wider = estimate(name, p, y, 0.99)
        assert wider is not None
        assert wider.low < own.low < own.value < own.high < wider.high
        assert scale_of(name).back(scale_of(name).there(own.value)) == pytest.approx(own.value)


def test_perfect_answers_have_an_error_too() -> None:
    y = np.array([0, 1] * 10)
    for p in (np.eye(2)[y], 0.2 + 0.6 * np.eye(2)[y]):
        for name, own in estimates(p, y).items():
            if name.startswith("calibration"):
                continue
            assert own is not None
            assert np.isfinite(own.additive)
            assert own.variance > 0
            assert own.low <= own.value <= own.high


def test_a_domain_of_one_row_or_one_class() -> None:
    found = estimates(np.array([[0.3, 0.7]]), np.array([1]))
    assert found["auroc"] is None
    assert found["accuracy"] is not None
    assert found["accuracy"].low < 0.3
    assert all(own is None or own.variance > 0 for own in found.values())


def test_bounds_of_losses_stay_numbers() -> None:
    """Two domains that differ much: exp of a bound beyond 709 would be infinite, not JSON."""
    assert np.isfinite(scale_of("log_loss").back(1e4))
    assert scale_of("brier").back(scale_of("brier").there(0.3)) == pytest.approx(0.3)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("name", ["log_loss", "brier"])
def test_equal_losses_have_the_variance_of_equal_losses_whatever_rounding_does(
    name: str, right: bool
) -> None:
    """20 certain predictions: the standard deviation of their losses is rounding, not 0."""
    y = np.arange(20) % 2
    found = estimate(name, np.eye(2)[y if right else 1 - y], y)
    assert found is not None
    assert found.variance == 1 / 20


def test_perfect_predictions_in_every_domain_have_expected_scores() -> None:
    y = np.arange(20) % 2
    perfect = Outputs(np.eye(2)[y], y, np.arange(20))
    found = Expected({"a": perfect, "b": perfect}).to_dict()["expected"]
    assert found["log_loss"]["low"] < found["log_loss"]["mean"] < found["log_loss"]["high"]
