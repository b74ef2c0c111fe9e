"""Messages speak Python below the command line, and options on it (`core/errors.py`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from _internals import OTHER_NAMES, ProgressBar, app, in_options, running

import shiftproof

SOURCE = Path(shiftproof.__file__).parent
# Commands of other programs.
OF_OTHERS = ("ray start --head",)
OPTION = re.compile(r"--[a-z]")


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every string of a file: constants, parts of f-strings, docstrings."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def options_named(folder: Path) -> list[str]:
    """Return where the strings of a package name an option, outside ``cli``."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if relative.as_posix().startswith("cli/"):
            continue
        for line, text in strings(path):
            for command in OF_OTHERS:
                text = text.replace(command, "")
            if OPTION.search(text):
                found.append(f"{relative}:{line}: {text}")
    return found


def test_no_string_below_the_command_line_names_an_option() -> None:
    assert options_named(SOURCE) == []


@pytest.mark.parametrize(
    "body",
    ['raise ValueError("use --out")', 'f"{name} needs --freeze"', '"""See --help."""', "'--out'"],
)
def test_the_walker_finds_options(tmp_path: Path, body: str) -> None:
    for room in ("cli", "models"):
        (tmp_path / room).mkdir()
    (tmp_path / "cli/train.py").write_text(body)
    assert options_named(tmp_path) == []
    (tmp_path / "models/mlp.py").write_text(f"x = 1 - 2  # --comment\n{body}\n")
    (found,) = options_named(tmp_path)
    assert found.startswith("models/mlp.py:2: ")


# --- names become options ---------------------------------------------------------------------


def command(path: str) -> click.Command:
    """Return a command of the command line."""
    found: click.Command = app
    for name in path.split():
        found = found.commands[name]  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("name", "message", "told"),
    [
        ("train", "`holdout` must lie in [0, 1)", "--holdout must lie in [0, 1)"),
        ("train", "choose another `out`", "choose another --out"),
        ("train", "`eval_every` and `evaluate`", "--eval-every and --evaluate"),
        ("train", "`quiet`", "--quiet"),
        ("train", "name `data`", "name DATA"),
        ("train", "`test_domains` takes names", "--test-domain takes names"),
        ("train", "`hparams` takes names", "--hparam takes names"),
        ("train", "`options` takes names", "--data-option takes names"),
        ("sweep", "`algorithm`", "--algorithms"),
        ("report", "`format`", "--format"),
        ("data import", "`link=True` saves space", "--link saves space"),
        # Values are written as in a shell.
        ("train", 'use `backbone="mlp"`', "use --backbone mlp"),
        ("train", "`holdout=0.5`", "--holdout 0.5"),
        ("train", "`freeze=True`", "--freeze"),
        ("train", '`evaluate=["train-out", "test-in"]`', "--evaluate train-out,test-in"),
        ("train", '`test_domains=["a", "b c"]`', "--test-domain a --test-domain 'b c'"),
        ("train", '`hparams={"single_logit": False}`', "--hparam single_logit=no"),
        ("train", "`drop=COLUMN`", "--drop COLUMN"),
        # Hyper-parameters and options of datasets are assignments.
        ("train", "`gradient_warmup` is 3", "--hparam gradient_warmup is 3"),
        ("train", "`gradient_warmup=…`", "--hparam gradient_warmup=…"),
        ("train", "`match_gradients=True`", "--hparam match_gradients=yes"),
        ("sweep", "`depth`", "--hparam depth"),
        ("train", "`per_domain` must be", "--data-option per_domain must be"),
        ("train", "`augment=False`", "--data-option augment=no"),
        # An option of the command itself comes first.
        ("train", "`weights`", "--weights"),
        ("predict", "`weights`", "`weights`"),
        # Everything else loses nothing.
        ("train", "column `age`, class `Domain`", "column `age`, class `Domain`"),
        ("train", "run `shiftproof data pull pacs`", "run `shiftproof data pull pacs`"),
        ("algorithms", "`batch_size` and `out`", "`batch_size` and `out`"),
        ("train", "no names: ` `` 5", "no names: ` `` 5"),
    ],
)
def test_a_parameter_becomes_the_option_of_the_command(name: str, message: str, told: str) -> None:
    assert in_options(message, command(name)) == told


def test_without_a_command_a_message_stays() -> None:
    running.set(None)  # an earlier test may have run a command in this process
    assert in_options("`holdout` must lie in [0, 1)") == "`holdout` must lie in [0, 1)"


def test_notes_of_a_run_name_options_too(capfd) -> None:
    token = running.set(command("train"))
    try:
        ProgressBar("idm").note("lower `holdout`, or shorten `gradient_warmup`")
    finally:
        running.reset(token)
    assert capfd.readouterr().err == (
        "note: lower --holdout, or shorten --hparam gradient_warmup\n"
    )


def test_other_names_are_those_of_some_command() -> None:
    """The table of differing names holds no option that has gone."""
    commands = ["train", "diagnose", "sweep", "report", "reproduce", "predict", "evaluate"]
    known = {parameter.name for name in commands for parameter in command(name).params}
    assert {name for names in OTHER_NAMES.values() for name in names} <= known


# --- real mistakes, through the command line --------------------------------------------------

QUICK = [
    "train", "colored-mnist-irm", "--test-domain", "10%", "--hparam", "batch_size=16",
    "--steps", "2",
]  # fmt: skip


TABLE = ["train", "{table}", "--label", "y", "--domain", "d", "--steps", "2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*QUICK, "--hparam", "lr=-1"], "--hparam lr must lie in"),
        ([*QUICK, "-a", "idm", "--hparam", "variant=papr"], "--hparam variant must be one of"),
        ([*QUICK, "--hparam", "single_logit=perhaps"], "--hparam single_logit must be true"),
        ([*QUICK, "--data-option", "per_domain=many"], "--data-option per_domain must be"),
        ([*QUICK, "--backbone", "resnet18", "--weights", "nowhere.pt"], "--weights must be"),
        ([*QUICK, "--steps", "0"], "--steps must be at least 1"),
        ([*QUICK, "--holdout", "1.5"], "--holdout must lie in [0, 1)"),
        ([*QUICK, "--holdout", "0"], "--evaluate"),
        ([*QUICK, "--eval-every", "-1"], "--eval-every must be at least 0"),
        ([*QUICK, "--average", "swad", "--eval-every", "0"], "--average swad needs the risk"),
        ([*QUICK, "--device", "cuda"], "use --device auto"),
        ([*QUICK, "--weights", "x.pt"], "--weights is for resnet18"),
        ([*QUICK, "--out", "{table}"], "--out must be a folder"),
        ([*TABLE, "--label", "d"], "--label and --domain name the same column"),
        ([*TABLE, "--drop", "y"], "--drop names 'y'"),
        ([*TABLE, "-a", "erm", "--backbone", "mnist-cnn"], "use --backbone mlp"),
        ([*TABLE, "--backbone", "mlp"], "leave out --backbone, or choose another --algorithm"),
        ([*TABLE, "--freeze"], "--freeze is for images"),
        ([*TABLE, "-a", "erm", "--hparam", "single_logit=yes"], "--hparam single_logit needs"),
        (["train", "{table}"], "set --label to one of"),
        (["train", "colored-mnist", "--label", "y"], "--label is for tables"),
        (["sweep", "colored-mnist", "--hparam", "lr=-1"], "--hparam lr must lie in"),
        (["sweep", "colored-mnist", "--ray-address", "x:1"], "is for --executor ray"),
        (["sweep", "colored-mnist", "--preset", "table1"], "--selection training-domain"),
        (["diagnose", "{table}", "--label", "y", "--domain", "y"], "--label and --domain"),
        (["diagnose", "{table}", "--label", "y", "--domain", "d", "--raw"], "--raw, --freeze"),
    ],
)
def test_errors_name_options_that_exist(
    shiftproof, tmp_path, monkeypatch, arguments, words
) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "table.csv"
    rows = [f"{(i * 7919) % 97 / 7:.3f},{i % 3},{'ab'[i % 2]}" for i in range(120)]
    table.write_text("x,y,d\n" + "\n".join(rows))
    arguments = [argument.replace("{table}", str(table)) for argument in arguments]
    code, out, err = shiftproof(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert "`" not in err
    options = {option for each in command(arguments[0]).params for option in each.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", err)) <= options
