"""A wrong column or value is found before torch, pandas or scikit-learn are imported."""

import json
import subprocess
import sys

import pytest

from shiftproof import ALGORITHMS

HEAVY = ("torch", "sklearn", "scipy", "pandas", "numpy", "matplotlib")
# Runs commands in turn, and prints of each its exit code, what is imported by then, and the error.
PROGRAM = """
import contextlib, io, json, sys
from shiftproof.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["shiftproof", *arguments]
    code, error = 0, io.StringIO()
    try:
        with contextlib.redirect_stderr(error):
            main()
    except SystemExit as ended:
        code = ended.code
    heavy = [name for name in {heavy!r} if name in sys.modules]
    print(json.dumps([" ".join(map(str, [code, *heavy])), error.getvalue().strip()]))
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("age,ill,ward\n" + "63,1,a\n" * 5)
    return path


def run(*commands):
    """Return what is printed by commands in one process of their own: result and error of each."""
    given = json.dumps([list(map(str, command)) for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), given],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == len(commands)
    return found


def test_a_wrong_column_imports_nothing_heavy(table):
    wrong = [table, "--label", "il", "--domain", "ward"]
    for code, error in run(*([command, *wrong] for command in ("study", "train", "diagnose"))):
        assert code == "2"
        assert error == "error: unknown column of patients.csv 'il'; did you mean 'ill'?"


def test_other_mistakes(table, tmp_path):
    address = "https://example.org/patients.csv"
    picture = tmp_path / "photo.jpg"
    picture.write_bytes(b"\xff\xd8")
    unnamed, unknown, elsewhere, single, missing = run(
        ["study", table, "--label", "ill"],
        ["study", table, "--label", "ill", "--domain", "ward,yaer"],
        ["train", address],
        ["study", picture],
        ["train", "no/such.csv"],
    )
    assert unnamed[1] == (
        "error: patients.csv has no column named 'domain'; set --domain to one of 'age', 'ill',"
        " 'ward'"
    )
    assert "unknown column of patients.csv 'yaer'" in unknown[1]
    assert elsewhere[1] == f"error: {address} is an address; download the file, and give its path"
    assert single[0] == "2"
    assert "is a single image; give a folder DIR/domain/class/*.jpg, or a table" in single[1]
    assert missing == ("2", "error: no such file or folder: no/such.csv")


SETTINGS = {
    "--algorithm ermm": "unknown algorithm 'ermm'; did you mean 'erm'",
    "--standardize domian": "unknown standardize 'domian'; did you mean 'domain'?",
    "--class-weight even": "unknown class_weight 'even'",
}


def test_a_wrong_setting_imports_nothing_heavy(table):
    columns = [table, "--label", "ill", "--domain", "ward"]
    asked = [(command, setting) for command in ("study", "train") for setting in SETTINGS]
    found = run(*([command, *columns, *setting.split()] for command, setting in asked))
    for (_, setting), (code, error) in zip(asked, found, strict=True):
        assert code == "2"
        assert error.startswith(f"error: {SETTINGS[setting]}")


VALUES = {
    "--task clasification": "unknown task 'clasification'; did you mean 'classific",
    "--metric acuracy": "--metric 'acuracy' is unknown; did you mean 'accuracy'",
    "--by yaer": "--by 'yaer' is unknown; did you mean 'year'",
    "--steps 0": "--steps must be at least 1, not 0",
    "--device gpu": "unknown device 'gpu'; did you mean 'cpu'?",
    "--drop age,wrd": "unknown column of patients.csv 'wrd'; did you mean 'ward'?",
}


def test_a_wrong_value_of_train_imports_numpy_at_most(table):
    columns = ["train", table, "--label", "ill", "--domain", "ward"]
    found = run(*([*columns, *value.split()] for value in VALUES))
    for said, (code, error) in zip(VALUES.values(), found, strict=True):
        assert code in ("2", "2 numpy")
        assert error.startswith(f"error: {said}")


def test_data_without_rows_imports_nothing_heavy(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("age,label,domain\n")
    (tmp_path / "folder").mkdir()
    told = {
        "empty.csv": "empty.csv is empty",
        "header.csv": "header.csv has a header but no rows",
        "folder": f"{tmp_path / 'folder'} is an empty folder; give DIR/domain/class/*.jpg",
    }
    found = run(*(["train", tmp_path / name] for name in told))
    for said, (code, error) in zip(told.values(), found, strict=True):
        assert code == "2"
        assert error.startswith(f"error: {said}")


def test_a_missing_run_or_file_imports_nothing_heavy(table, tmp_path):
    commands = ["predict", "evaluate", "compare-sites", "recalibrate"]
    missing = tmp_path / "new.csv"
    found = run(*([command, "no-run", table] for command in commands))
    assert set(found) == {("2", "error: no such run or model: no-run")}
    found = run(*([command, tmp_path, missing] for command in commands))
    assert set(found) == {("2", f"error: no such file or folder: {missing}")}


def test_a_wrong_algorithm_of_other_commands():
    wanted = ("2", "error: unknown algorithm 'imd'; did you mean 'idm' or 'mmd'?")
    asked = (["algorithms", "imd"], ["sweep", "colored-mnist", "--algorithms", "erm,imd"])
    assert run(*asked) == [wanted] * 2


def test_the_names_are_those_of_the_registry():
    """Read from the files, because importing them takes seconds."""
    assert ALGORITHMS.names() == list(ALGORITHMS)
