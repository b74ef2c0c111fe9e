"""Scores of predicted numbers with their sampling errors."""

import numpy as np
import pytest
from _internals import COVERAGE, DataError, Expected, InvalidValue, compare, sentences
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from shiftproof.metrics import METRICS, NumberOutputs, Outputs

NAMES = ("r2", "mae", "rmse", "calibration_slope", "calibration_intercept")


def number_estimate(name, predicted, labels):
    return METRICS.get(name).estimate(NumberOutputs(predicted, labels))


def scale_of(name):
    return METRICS.get(name).scale


def drawn(seed, n=200, error=0.5):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(n)
    return y + error * rng.standard_normal(n), y


def test_values_are_scikit_learns():
    predicted, y = drawn(0)
    truth = {
        "r2": r2_score(y, predicted),
        "mae": mean_absolute_error(y, predicted),
        "rmse": root_mean_squared_error(y, predicted),
    }
    for name, value in truth.items():
        found = number_estimate(name, predicted, y)
        assert found.value == pytest.approx(value)
        assert scale_of(name).back(found.additive) == pytest.approx(value)
        assert found.low < value < found.high


@pytest.mark.parametrize("metric", NAMES)
def test_the_variance_is_that_of_repeated_draws(metric):
    found = [number_estimate(metric, *drawn(seed)) for seed in range(1500)]
    spread = np.var([own.additive for own in found])
    assert np.mean([own.variance for own in found]) == pytest.approx(spread, rel=0.12)


@pytest.mark.parametrize(("metric", "truth"), [("r2", 0.75), ("rmse", 0.5)])
def test_an_interval_holds_the_truth_as_often_as_it_says(metric, truth):
    found = [number_estimate(metric, *drawn(seed)) for seed in range(1500)]
    inside = np.mean([own.low <= truth <= own.high for own in found])
    assert inside == pytest.approx(0.95, abs=0.02)


def test_the_scale_of_r2_has_no_lower_bound_and_grows_with_r2():
    scale = scale_of("r2")
    values = [-50.0, -0.5, 0.0, 0.5, 0.99]
    there = [scale.there(value) for value in values]
    assert there == sorted(there)
    assert [scale.back(value) for value in there] == pytest.approx(values)
    assert scale.back(1e6) == 1
    assert np.isfinite(scale.back(-1e6))


def test_scores_that_are_undefined_are_none():
    y = np.arange(10.0)
    assert number_estimate("mae", y, y) is None  # no logarithm of 0
    assert number_estimate("r2", y, np.full(10, 3.0)) is None
    assert number_estimate("calibration_slope", np.full(10, 3.0), y) is None
    assert number_estimate("r2", y[:2], np.array([1.0, -2.0])) is None


def sites(count=6, n=120):
    rng = np.random.default_rng(5)
    found = {}
    for site in range(count):
        y = 100 + 20 * rng.standard_normal(n)
        bias, error = 3 * rng.standard_normal(), 5 * np.exp(0.3 * rng.standard_normal())
        found[f"site {site}"] = NumberOutputs(
            y + bias + error * rng.standard_normal(n), y, np.arange(n)
        )
    return found


def test_numbers_are_expected_at_the_next_domain():
    outputs = sites()
    expected = Expected(outputs, "mae", at_least=20.0)
    low, high = expected.headline.interval
    assert low < expected.headline.mean < high
    assert 0 < expected.probability_worse < 0.2
    assert sentences(expected)[0].startswith("Expect MAE ")
    assert "above 20" in sentences(expected)[1]
    told = expected.to_dict()
    assert set(told["expected"]) == {*NAMES, COVERAGE}
    assert "confusion" not in told["domains"][0]
    card = expected.card()
    assert card.loc["pooled", "samples"] == 720
    assert card.loc["site 2", "mae"] == pytest.approx(
        mean_absolute_error(outputs["site 2"].labels, outputs["site 2"].predicted)
    )


def test_coverage_is_that_of_intervals_from_all_other_domains():
    outputs = sites()
    found = Expected(outputs, COVERAGE).headline.estimates
    others = [own for name, own in outputs.items() if name != "site 3"]
    # Five domains promise nothing: the plain quantile of all, each domain with the same weight.
    errors = np.concatenate([np.abs(own.labels - own.predicted) for own in others])
    q = np.sort(errors)[int(np.ceil(0.9 * len(errors))) - 1]
    own = outputs["site 3"]
    assert found["site 3"].value == (np.abs(own.labels - own.predicted) <= q).mean()


def test_a_new_domain_is_compared():
    outputs = sites()
    expected = Expected(outputs, "mae")
    y = np.arange(50.0)
    worse = compare(expected, "new", NumberOutputs(y + 80, y, np.arange(50)))
    assert worse.state == "worse"
    assert "MAE 80 is above the range" in worse.sentence


def test_mistakes_are_told():
    outputs = sites(3)
    with pytest.raises(InvalidValue, match="`metric` 'accuracy' is unknown"):
        Expected(outputs, "accuracy")
    with pytest.raises(InvalidValue, match=r"`at_least` must be below 1, not 1\.5"):
        Expected(outputs, "r2", at_least=1.5)
    classes = Outputs(np.full((3, 2), 0.5), np.array([0, 1, 0]), np.arange(3))
    with pytest.raises(DataError, match="some runs predict classes and others numbers"):
        Expected({**outputs, "odd": classes}, "mae")


@pytest.mark.parametrize("name", ["mae", "rmse"])
def test_errors_that_are_equal_but_for_rounding(name: str) -> None:
    labels = np.arange(5) / 3
    found = number_estimate(name, labels + 0.1, labels)
    assert found is not None
    assert found.variance == (0.2 if name == "mae" else 0.2 / 4)
