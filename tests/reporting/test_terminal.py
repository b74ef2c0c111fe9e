"""What tables on the terminal say of a run."""

import math
from dataclasses import replace

import pytest
from _internals import (
    AVERAGES,
    NO_NETWORK,
    HeldOutNumbers,
    HeldOutScore,
    RunConfig,
    accuracy_table,
    leave_one_out_table,
)

CONFIG = RunConfig(
    "d", "f", "erm", "mlp", {}, ("b",), 10, 5, ("test-in",), 0.2, 0, 0, "cpu", "fp32"
)
RECORD = {"step": 10, "accuracy": {}, "risk": {}}


def captions(config):
    return [accuracy_table(config, RECORD).caption, leave_one_out_table(config, []).caption]


def test_the_caption_names_the_model_that_is_scored():
    assert all("last step (no model selection)" in text for text in captions(CONFIG))
    exact = replace(CONFIG, backbone=NO_NETWORK)
    assert all("fitted at once" in text for text in captions(exact))


@pytest.mark.parametrize("average", sorted({*AVERAGES} - {"none"}))
def test_an_average_is_not_the_last_step(average):
    for text in captions(replace(CONFIG, average=average)):
        assert "last step" not in text
        assert "no model selection" not in text


def test_accuracies_that_a_report_takes_of_other_samples_are_labelled():
    """70.9 in one table and 70.5 in the other for the same run must explain themselves."""
    caption = leave_one_out_table(CONFIG, []).caption
    assert "Accuracy there: of all its samples (a report has that of its in part" in caption
    caption = leave_one_out_table(replace(CONFIG, holdout=0.0), []).caption
    assert "Accuracy there: of all its samples. " in caption


def test_a_column_without_numbers_is_left_out():
    """What is fitted at once leaves no part of a training domain to score."""
    fitted = HeldOutScore("b", 10, 0.8, 0.6, math.nan)
    trained = replace(fitted, training_domains=0.9)
    for score, shown in ((fitted, False), (trained, True)):
        numbers = HeldOutNumbers("b", 10, 0.5, 3.0, 4.0, 5.0, score.training_domains, "price")
        for one in (score, numbers):
            table = leave_one_out_table(CONFIG, [one])
            titles = [str(column.header) for column in table.columns]
            assert ("training domains" in titles) == shown
            assert ("Training domains:" in table.caption) == shown


def test_what_was_not_tried_says_in_how_many_runs():
    from _internals import _left_out

    records = [
        {"step": 1, "excluded": {"boosting": "for lack of time", "networks": "for lack of time"}},
        {"step": 1, "excluded": {"networks": "for lack of time"}},
    ]
    assert _left_out(records) == {"for lack of time": "boosting (in 1 of 2 runs), networks"}
