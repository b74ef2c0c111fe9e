"""The page of one model of numbers: its first sentence, card, worst domain and sections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from _internals import (
    Evidence,
    Expected,
    NumberOutputs,
    answer_sections,
    beside_constant,
    constant_answers,
    expectation_HeldOut as HeldOut,
    lead_lead as lead,
    report_card,
    worst_facts,
)


def district(mean: float, bias: float, seed: int, n: int = 60) -> NumberOutputs:
    """Labels around a mean; predictions with errors of 10 and a bias."""
    rng = np.random.default_rng(seed)
    y = mean + 50 * rng.standard_normal(n)
    return NumberOutputs(y - bias + 10 * rng.standard_normal(n), y, np.arange(n))


@pytest.fixture
def expected() -> Expected:
    outputs = {"east": district(300, 0, 0), "north": district(320, 0, 1)}
    return Expected({**outputs, "south": district(310, 90, 2), "west": district(290, 0, 3)}, "mae")


EVIDENCE = Evidence("district", "price", 240, 3, far={"east": 0.0, "south": 0.4})


def test_the_mean_of_the_others_counts_each_domain_alike(expected: Expected) -> None:
    means = {domain: own.labels.mean() for domain, own in expected.numbers.items()}
    answers = constant_answers(expected)
    for domain, own in answers.numbers.items():
        others = np.mean([mean for name, mean in means.items() if name != domain])
        assert own.predicted == pytest.approx(np.full(60, others))
    (east,) = [each for each in beside_constant(expected) if each.domain == "east"]
    labels = expected.numbers["east"].labels
    assert east.constant == pytest.approx(np.abs(labels - answers.numbers["east"].predicted).mean())
    assert [each.domain for each in beside_constant(expected) if each.worse] == ["south"]


def test_the_first_sentence_has_the_error_and_that_of_the_mean(expected: Expected) -> None:
    said = lead(expected, "district", "price")
    score, mean = expected.headline, constant_answers(expected).headline
    assert said.startswith(f"At a district like these expect an error of {score.mean:.3g} (")
    assert f" in price; the mean alone gives {mean.mean:.3g}" in said
    assert said.endswith(", which is better in 1 of 4 districts.")
    good = replace(expected, outputs={d: o for d, o in expected.outputs.items() if d != "south"})
    assert "better" not in lead(good, "district")
    assert "expect R² " in lead(replace(expected, metric="r2"))
    assert "expect calibration slope " in lead(replace(expected, metric="calibration_slope"))
    assert "; the mean alone gives MAE " in lead(replace(expected, metric="calibration_slope"))


def test_the_card_has_baselines_whose_means_can_be_compared(expected: Expected) -> None:
    ridge = replace(expected)
    table = report_card(expected, {"Ridge regression": ridge}, "district", "price")
    assert [column.title for column in table.columns] == [
        "Rows", "R²", "MAE", "RMSE", "Slope", "Intercept", "Coverage", "Training mean",
        "Ridge regression",
    ]  # fmt: skip
    assert [row.label for row in table.rows] == [
        "east", "north", "south", "west", "typical district", "worst district",
        "next district, 95%",
    ]  # fmt: skip
    for row in table.rows[:-1]:  # a baseline that is the model itself has its numbers
        assert row.cells[8].text == row.cells[2].text
    assert table.rows[5].cells[2].text == table.rows[2].cells[2].text  # south is the worst
    assert table.foot == 3
    assert "the unit of price" in " ".join(table.notes)


def test_what_is_said_of_the_worst_domain(expected: Expected) -> None:
    lost = {"value": 30.2, "interval": [20.0, 41.0]}
    nothing = {"value": 0.1, "interval": [-1.0, 1.0]}
    parts = {"lost": lost, "level": lost, "inputs": nothing, "unseen": nothing, "meaning": nothing}
    diagnosis = {"drops": [{"domain": "south", "r2": parts}]}
    (south,) = worst_facts(expected, EVIDENCE, [diagnosis])
    said = " ".join(south.lines)
    assert south.name == "south"
    assert said.startswith("The worst MAE of all districts: ")
    assert "Always answering the mean of the other districts would be better: MAE " in said
    assert "Its predictions are too low by " in said
    assert "40% of its rows are unlike all rows of the other districts." in said
    assert "loses 30.2 points of R² there (20.0 to 41.0): 30.2 from a different mean" in said
    assert "The mean of price" not in said  # it is within half a standard deviation
    moved = {**expected.outputs, "south": district(600, 90, 2)}
    (south,) = worst_facts(replace(expected, outputs=moved), EVIDENCE)
    assert "The mean of price is " in " ".join(south.lines)


def test_sections_come_in_the_order_of_questions(expected: Expected) -> None:
    own = HeldOut("best on flats", expected)
    found = [each for each in answer_sections(own, {}, EVIDENCE) if each.blocks]
    assert [each.heading for each in found] == [
        "District by district", "Report card", "Worst district", "Predicted against true",
        "Errors by district", "Inputs it has not seen", "Thresholds",
    ]  # fmt: skip
    many = {f"d{place}": district(300, place, place) for place in range(7)}
    own = HeldOut("best on flats", Expected(many, "mae"))
    (panels,) = [each for each in answer_sections(own, {}, EVIDENCE) if each.name == "predicted"]
    few, every = panels.blocks
    assert len(few.value.panels) == 4
    assert every.folded
    assert len(every.value.panels) == 8
