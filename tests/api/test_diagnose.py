"""`diagnose`: the same as the command line, as values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.image
import pandas as pd
import pytest
from _internals import ShiftReport

from shiftproof import ShiftproofError, diagnose, load, train

COLUMNS = {"label": "ill", "domain": "ward"}


@pytest.fixture(scope="module")
def found(wards: pd.DataFrame) -> ShiftReport:
    return diagnose(wards, **COLUMNS)


def test_it_is_that_of_the_command_line(
    table: Path, tmp_path: Path, shiftproof: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    code, printed, err = shiftproof(
        "diagnose", table, "--label", "ill", "--domain", "ward", "--test-domain", "a",
        "--most", "60", "--seed", "3", "--json", "--out", tmp_path / "cli.json",
    )  # fmt: skip
    assert code == 0, err
    calls = []
    report = diagnose(
        str(table), test_domains="a", most=60, seed=3,
        progress=lambda *call: calls.append(call), **COLUMNS,
    )  # fmt: skip
    report.save(tmp_path / "api.json")
    assert capfd.readouterr() == ("", "")
    by_cli, by_api = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("cli", "api")
    )
    assert by_cli.pop("format") == by_api.pop("format") == 2
    assert json.loads(printed) == {**by_cli, "picture": None}
    commands = ("command", "compare_with")
    assert by_cli["advice"]["command"].endswith("--test-domain a")
    assert {key: by_api["advice"].pop(key) for key in commands} == {
        "command": "", "compare_with": None,
    }  # fmt: skip
    for key in commands:
        del by_cli["advice"][key]
    assert by_api == by_cli
    assert calls[0] == ("measuring shifts", 0, calls[-1][2])
    assert calls[-1][1] == calls[-1][2]


def test_the_result_holds_amounts_and_advice(found: ShiftReport) -> None:
    concept = found.shifts.concept
    assert concept.symbol == "I(Y;D|X)"
    assert concept.interval[0] <= concept.value <= concept.interval[1]
    assert found.advice.choice.algorithm == "best"
    assert found.advice.beside.algorithm == "idm-auto"
    assert found.advice.beside.hparams == {}
    assert found.advice.test_domains == ()
    assert found.measured.domains == ("<i>d", "a", "b & c")
    assert json.loads(json.dumps(found.to_dict()))["domains"] == ["<i>d", "a", "b & c"]
    assert found.frozen == {}
    assert repr(found).startswith("ShiftReport(covariate=")


def test_the_advice_can_be_trained(found: ShiftReport, frame: pd.DataFrame, tmp_path: Path) -> None:
    choice = found.advice.beside
    run = train(
        frame, choice.algorithm, hparams={**choice.hparams, "batch_size": 8}, steps=3, out=tmp_path,
        device="cpu", **COLUMNS,
    )  # fmt: skip
    assert run.status == "finished"


def test_as_text(found: ShiftReport) -> None:
    text = found.to_text(width=90)
    assert text.startswith(
        "table: 3 domains (<i>d 40, a 40, b & c 40), 2 classes (0, 1), 2 columns"
    )
    assert "\nWhat to do\n- best: The default for tables" in text
    assert len(text.splitlines()) <= 25
    assert "What shifts" in found.to_text(details=True)
    assert "shiftproof train" not in text
    prose = [line for line in text.splitlines() if line.startswith("- ")]
    assert max(map(len, prose)) <= 90


def test_in_a_notebook_everything_is_escaped(found: ShiftReport) -> None:
    page = found._repr_html_()
    assert "table: 3 domains (&lt;i&gt;d 40, a 40, b &amp; c 40)" in page
    assert "<i>" not in page
    assert f"<td>{found.shifts.concept.value:.4f}</td>" in page


def test_picture_and_file(found: ShiftReport, tmp_path: Path) -> None:
    assert found.picture(str(tmp_path / "shift.png")) == tmp_path / "shift.png"
    assert matplotlib.image.imread(tmp_path / "shift.png").shape[1] > 900
    path = found.save(str(tmp_path / "deep" / "diagnosis.json"))
    assert json.loads(path.read_text()) == json.loads(json.dumps({"format": 2} | found.to_dict()))
    with pytest.raises(ShiftproofError, match="writes a PNG file"):
        found.picture(tmp_path / "shift.pdf")


def test_a_page_shows_it_without_a_command(found: ShiftReport) -> None:
    from _internals import diagnosis_blocks

    facts = [fact for block in diagnosis_blocks(found.to_dict()) if block.kind == "facts"
             for fact in block.value]  # fmt: skip
    assert any("It matches gradients" in fact.lines[0] for fact in facts)
    assert all(text for fact in facts for text in fact.lines)


def test_the_representation_of_a_run(frame: pd.DataFrame, tmp_path: Path) -> None:
    data = load(frame, **COLUMNS)
    train(
        data, "erm", test_domains="a", steps=3, holdout=0.5, out=tmp_path / "run", device="cpu",
        hparams={"batch_size": 8},
    )  # fmt: skip
    report = diagnose(data, run=str(tmp_path / "run"), domains=["a", "b & c"])
    assert report.measured.model is not None
    assert report.measured.sizes == (40, 20)
    assert report.measured.model.shift.covariate.symbol == "I(R;D)"


def test_a_run_decides_the_seed_of_its_data(tmp_path: Path) -> None:
    data: dict[str, Any] = {"options": {"per_domain": 60}}
    settings = {"steps": 1, "holdout": 0.5, "out": tmp_path, "device": "cpu", "data_seed": 7}
    hparams = {"batch_size": 8, "hidden": 8}
    train("colored-mnist-irm", "erm", test_domains="10%", hparams=hparams, **settings, **data)
    report = diagnose("colored-mnist-irm", run=tmp_path, domains=["80%", "90%"], **data)
    assert report.measured.sizes == (30, 30)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"raw": True}, "`raw`, `freeze`, `backbone` and `weights` are for images, and table has"),
        ({"domains": "a"}, "needed to measure a shift, but 1 is selected; table has"),
        ({"test_domains": "x"}, "unknown domain of table 'x'"),
        ({"most": 9}, "9 samples are too few for 3 domains"),
        ({"data_seed": -1}, "`data_seed` must be at least 0, not -1"),
        ({"run": "nowhere"}, "nowhere holds no run"),
    ],
)
def test_a_mistake_is_one_line_of_python(
    frame: pd.DataFrame, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ShiftproofError, match=words):
        diagnose(frame, **settings, **COLUMNS)
