"""`predict`, `evaluate` and `export` from Python: frames and paths give the same, and no more."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _internals import OTHER_NAMES, DataError, InvalidValue, UnknownName, app, half_width
from sklearn.metrics import accuracy_score, roc_auc_score

import shiftproof

COLUMNS: dict[str, Any] = {"label": "ill", "domain": "ward"}
# Commands that print or prepare something, and have no result that a program would use.
FOR_PEOPLE = {"algorithms", "data", "demo", "reproduce"}
# What only a command has: how it prints.
PRINTING = {"quiet", "as_json", "out"}


@pytest.fixture(scope="module")
def each(wards: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return shiftproof.train_each(wards, "linear", out=tmp_path_factory.mktemp("each"), **COLUMNS)


@pytest.fixture(scope="module")
def numbers(wards: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("numbers")
    return shiftproof.train_each(wards, "linear", out=out, label="age", domain="ward")


def test_every_command_is_a_function() -> None:
    commands = {name.replace("-", "_") for name in app.commands} - FOR_PEOPLE
    assert commands <= set(shiftproof.__all__)


@pytest.mark.parametrize("name", ["predict", "evaluate", "export"])
def test_the_function_has_the_options_of_the_command(name: str) -> None:
    options = {own.name for own in app.commands[name].params} - PRINTING
    python = {other: name for name, others in OTHER_NAMES.items() for other in others}
    taken = set(inspect.signature(getattr(shiftproof, name)).parameters)
    assert {own if own in taken else python[own] for own in options} <= taken


def test_a_frame_and_its_file_give_the_same_as_the_model(
    frame: pd.DataFrame, table: Path, each: Any, tmp_path: Path
) -> None:
    run = each.runs[0]
    found = shiftproof.predict(run.model, frame, keep=["age"])
    from_file = shiftproof.predict(run.folder, table, keep="age")
    pd.testing.assert_frame_equal(found.to_frame(), from_file.to_frame())
    chances = run.model.predict(frame).probabilities
    np.testing.assert_array_equal(found.frame[["p(0)", "p(1)"]], chances)
    assert found.frame["age"].tolist() == frame["age"].tolist()
    assert found.frame["domain"].tolist() == frame["ward"].tolist()
    assert found.summary.startswith("120 predictions (")
    assert "<table" in found._repr_html_()
    written = found.save(tmp_path / "deep" / "found.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(written), found.frame)
    with pytest.raises(InvalidValue, match=r"`out` must end in \.csv or \.parquet"):
        found.save(tmp_path / "found.xlsx")


def test_sets_hold_what_their_threshold_says(frame: pd.DataFrame, each: Any) -> None:
    model = each.runs[0].model
    found = shiftproof.predict(model, frame, sets=0.7, expected=each)
    folder = each.runs[0].folder.parent
    again = shiftproof.predict(model, frame, sets=0.7, expected=folder)
    pd.testing.assert_frame_equal(found.frame, again.frame)
    assert found.notes == ()  # 1 / (1 - 0.7) domains suffice
    (note,) = shiftproof.predict(model, frame, sets=0.8, expected=each).notes
    assert note.startswith("sets of 0.8 need 4 held-out domains, but there are only 3")
    sizes = found.frame["set"].str.split("|").map(lambda own: len([c for c in own if c]))
    sure = found.frame[["p(0)", "p(1)"]].max(axis=1)
    assert sure[sizes == 1].mean() > sure[sizes == 2].mean()


def test_intervals_are_as_wide_as_held_out_errors_say(frame: pd.DataFrame, numbers: Any) -> None:
    model = numbers.runs[0].model
    found = shiftproof.predict(model, frame, interval=0.7, expected=numbers).frame
    own = shiftproof.predict(model, frame, interval=0.5).frame  # from the model itself
    for shown in (found, own):
        low, high = shown["predicted"] - shown["low"], shown["high"] - shown["predicted"]
        np.testing.assert_allclose(low, high)
        np.testing.assert_allclose(low, low.iloc[0])
    errors = [np.abs(own.predicted - own.labels) for own in numbers.outputs.values()]
    half = (found["high"] - found["predicted"]).iloc[0]
    assert min(map(np.median, errors)) < half <= max(map(np.max, errors))
    assert half == pytest.approx(half_width(list(numbers.outputs.values()), 0.7).half)


def test_scores_are_those_of_scikit_learn(frame: pd.DataFrame, each: Any, table: Path) -> None:
    run = next(run for run in each.runs if run.config.test_domains == ("a",))
    found = shiftproof.evaluate(run.model, frame, expected=each, metric="auroc")
    assert [own.domain for own in found.domains] == ["<i>d", "a", "b & c"]
    new = frame[frame.ward == "a"]
    chances = run.model.predict_proba(new)[:, 1]
    scores = found.to_frame().loc["a"]
    assert scores["auroc"] == pytest.approx(roc_auc_score(new.ill, chances))
    assert scores["accuracy"] == pytest.approx(accuracy_score(new.ill, chances > 0.5))
    compared = {own.domain: own for own in found.compared}
    assert compared["a"].value == pytest.approx(scores["auroc"])
    low, high = compared["a"].low, compared["a"].high
    assert low < shiftproof.expect(each, metric="auroc").headline.mean < high
    assert any("trained on domains with these names" in note for note in found.notes)
    from_file = shiftproof.evaluate(run.folder, table, expected=each, metric="auroc")
    assert from_file.to_dict() == found.to_dict()
    assert shiftproof.evaluate(run.model, frame).compared is None


def test_export_writes_the_model_and_its_description(each: Any, tmp_path: Path) -> None:
    run = each.runs[0]
    written = shiftproof.export(run.model, "safetensors", tmp_path / "a" / "m.safetensors")
    assert written.with_suffix(".json").is_file()
    again = shiftproof.load_model(written)
    assert again.classes == run.model.classes
    with pytest.raises(UnknownName, match="format 'onx'"):
        shiftproof.export(run.model, "onx", tmp_path / "m.onnx")
    with pytest.raises(InvalidValue, match="`out` must name a file"):
        shiftproof.export(run.model, "onnx")
    with pytest.raises(InvalidValue, match=r"`out` must end in \.onnx"):
        shiftproof.export(run.folder, "onnx", tmp_path / "m.pt")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sets": 0.9}, "`sets` needs `expected`, the runs that hold out each domain in turn"),
        ({"expected": "each"}, "`expected` needs `sets`, or `interval` for numbers"),
        ({"interval": 0.9}, "`interval` is for numbers, and the model predicts classes"),
        ({"interval": 2.0}, "`interval` must be between 0 and 1"),
        ({"options": {"a": "b"}}, "`options` are for dataset names, not for the data frame"),
    ],
)
def test_wrong_settings(
    settings: dict[str, Any], message: str, frame: pd.DataFrame, each: Any
) -> None:
    with pytest.raises(InvalidValue, match=message):
        shiftproof.predict(each.runs[0].model, frame, **settings)


def test_what_the_comparison_needs(frame: pd.DataFrame, each: Any) -> None:
    model = each.runs[0].model
    with pytest.raises(InvalidValue, match="`metric` is the score to compare with `expected`"):
        shiftproof.evaluate(model, frame, metric="auroc")
    with pytest.raises(InvalidValue, match="did you mean 'auroc'"):
        shiftproof.evaluate(model, frame, expected=each, metric="auc")
    with pytest.raises(InvalidValue, match=r"`expected` must be what .* not DataFrame"):
        shiftproof.evaluate(model, frame, expected=frame)


def test_coverage_is_not_compared_at_a_new_domain(frame: pd.DataFrame, numbers: Any) -> None:
    model = numbers.runs[0].model
    assert shiftproof.expect(numbers, metric="interval_coverage").metric == "interval_coverage"
    with pytest.raises(InvalidValue, match="`metric` cannot be interval_coverage here"):
        shiftproof.evaluate(model, frame, expected=numbers, metric="interval_coverage")


def test_wrong_data(frame: pd.DataFrame, each: Any, numbers: Any) -> None:
    model = each.runs[0].model
    with pytest.raises(DataError, match="the data frame"):
        shiftproof.predict(model, frame[["ward"]])
    for given in (frame[["age", "marker"]].to_numpy(), ["a.jpg"]):
        with pytest.raises(DataError, match=r"a path or a data frame, not (ndarray|list); arrays"):
            shiftproof.predict(model, given)
    with pytest.raises(UnknownName, match="column of the data frame 'sick'"):
        shiftproof.evaluate(model, frame, label="sick")
    with pytest.raises(DataError, match="held-out runs predict 'age', and the model classes"):
        shiftproof.evaluate(model, frame, expected=numbers)
