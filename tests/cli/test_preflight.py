"""A wrong column or value is found before torch, pandas or scikit-learn are imported."""

import subprocess
import sys

import pytest

from shiftproof.learners.algorithms import ALGORITHMS

HEAVY = ("torch", "sklearn", "scipy", "pandas", "numpy", "matplotlib")
PROGRAM = """
import sys
from shiftproof.cli import main
try:
    main()
except SystemExit as ended:
    code = ended.code
print(code, *[name for name in {heavy!r} if name in sys.modules])
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("age,ill,ward\n" + "63,1,a\n" * 5)
    return path


def run(*arguments):
    """Return what is printed by a command in a process of its own: result and error."""
    program = PROGRAM.format(heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.parametrize("command", ["study", "train", "diagnose"])
def test_a_wrong_column_imports_nothing_heavy(command, table):
    code, error = run(command, table, "--label", "il", "--domain", "ward")
    assert code == "2"
    assert error == "error: unknown column of patients.csv 'il'; did you mean 'ill'?"


def test_other_mistakes(table, tmp_path):
    assert run("study", table, "--label", "ill")[1] == (
        "error: patients.csv has no column named 'domain'; set --domain to one of 'age', 'ill',"
        " 'ward'"
    )
    assert (
        "unknown column of patients.csv 'yaer'"
        in (run("study", table, "--label", "ill", "--domain", "ward,yaer")[1])
    )
    address = "https://example.org/patients.csv"
    assert run("train", address)[1] == (
        f"error: {address} is an address; download the file, and give its path"
    )
    picture = tmp_path / "photo.jpg"
    picture.write_bytes(b"\xff\xd8")
    code, error = run("study", picture)
    assert code == "2"
    assert "is a single image; give a folder DIR/domain/class/*.jpg, or a table" in error
    assert run("train", "no/such.csv") == ("2", "error: no such file or folder: no/such.csv")


@pytest.mark.parametrize("command", ["study", "train"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--algorithm", "ermm"], "unknown algorithm 'ermm'; did you mean 'erm'"),
        (["--budget", "soon"], "--budget must be a time like 30s, 5m or 1h, not 'soon'"),
        (["--standardize", "domian"], "unknown standardize 'domian'; did you mean 'domain'?"),
        (["--class-weight", "even"], "unknown class_weight 'even'"),
    ],
)
def test_a_wrong_setting_imports_nothing_heavy(command, arguments, said, table):
    code, error = run(command, table, "--label", "ill", "--domain", "ward", *arguments)
    assert code == "2"
    assert error.startswith(f"error: {said}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--task", "clasification"], "unknown task 'clasification'; did you mean 'classific"),
        (["--metric", "acuracy"], "--metric 'acuracy' is unknown; did you mean 'accuracy'"),
        (["--by", "yaer"], "--by 'yaer' is unknown; did you mean 'year'"),
        (["--steps", "0"], "--steps must be at least 1, not 0"),
        (["--device", "gpu"], "unknown device 'gpu'; did you mean 'cpu'?"),
        (["--drop", "age,wrd"], "unknown column of patients.csv 'wrd'; did you mean 'ward'?"),
    ],
)
def test_a_wrong_value_of_train_imports_numpy_at_most(arguments, said, table):
    code, error = run("train", table, "--label", "ill", "--domain", "ward", *arguments)
    assert code in ("2", "2 numpy")
    assert error.startswith(f"error: {said}")


def test_data_without_rows_imports_nothing_heavy(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("age,label,domain\n")
    (tmp_path / "folder").mkdir()
    for name, said in (
        ("empty.csv", "empty.csv is empty"),
        ("header.csv", "header.csv has a header but no rows"),
        ("folder", f"{tmp_path / 'folder'} is an empty folder; give DIR/domain/class/*.jpg"),
    ):
        code, error = run("train", tmp_path / name)
        assert code == "2"
        assert error.startswith(f"error: {said}")


@pytest.mark.parametrize("command", ["predict", "evaluate", "compare-sites", "recalibrate"])
def test_a_missing_run_or_file_imports_nothing_heavy(command, table, tmp_path):
    assert run(command, "no-run", table) == ("2", "error: no such run or model: no-run")
    missing = tmp_path / "new.csv"
    assert run(command, tmp_path, missing) == ("2", f"error: no such file or folder: {missing}")


def test_a_wrong_algorithm_of_other_commands():
    wanted = ("2", "error: unknown algorithm 'imd'; did you mean 'idm' or 'mmd'?")
    assert run("algorithms", "imd") == wanted
    assert run("sweep", "colored-mnist", "--algorithms", "erm,imd") == wanted


def test_the_names_are_those_of_the_registry():
    """Read from the files, because importing them takes seconds."""
    assert ALGORITHMS.names() == list(ALGORITHMS)
