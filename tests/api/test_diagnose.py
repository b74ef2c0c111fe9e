"""`diagnose`: the same as the command line, as values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.image
import pandas as pd
import pytest

from shiftproof import ShiftproofError, diagnose, load, train
from shiftproof.api.diagnose import ShiftReport

COLUMNS = {"label": "ill", "domain": "ward"}


@pytest.fixture(scope="module")
def found() -> ShiftReport:
    from conftest import wards

    return diagnose(wards(), test_domains=(), **COLUMNS)


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
