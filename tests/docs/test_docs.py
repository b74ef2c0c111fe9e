"""Every block of code and every command of README and docs/ runs.

The blocks of a file run from top to bottom, in an empty folder, and share one module, so that a
later block may use what an earlier one defined.

- In ``python`` blocks, the ``test_…`` functions are run too (with each of their parameters, if
  they are parametrised).
- In ``console`` blocks, the lines that start with ``$ shiftproof`` must end with code 0.  Lines
  below one are its output: each must occur in what is printed, up to spaces, unless it holds "…".
- ``sh`` blocks cannot be run here, and say on the page why (``title="Not run: …"``), or are listed
  below in `NOT_RUN`.  Their ``shiftproof`` commands must still have options that exist.
- ``text`` is not code.  A block in any other language is an error, because nothing would test it.
"""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from _internals import cli_main as main

from shiftproof import ALGORITHMS, DATASETS, METRICS
from shiftproof.models import MODELS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REAL_HOSPITALS = ROOT.parent / "shared/data/heart-disease/heart.csv"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```+ *(?P<language>[\w+-]*)(?P<rest>[^\n]*)\n(?P<text>.*?)^ *```+ *$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN_HERE = re.compile(r'title="Not run: .+"')
PROMPT = "$ "
COMMAND = "shiftproof"

# Blocks of ``sh`` on pages that show no titles: page and first command, and why it is not run.
NOT_RUN = {("README.md", "make demo"): "minutes; tests/cli runs the demo at a smaller size"}


class Block(NamedTuple):
    """A fenced block: its language and title, its text, and the line that it starts on."""

    language: str
    title: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            match["language"],
            match["rest"],
            textwrap.dedent(match["text"]),
            text.count("\n", 0, match.start("text")) + 1,
        )
        for match in FENCE.finditer(text)
    ]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An empty folder to be in and an empty module to run in; registries are restored after."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    if REAL_HOSPITALS.is_file():  # where it is missing, the gallery makes up patients and says so
        shutil.copy(REAL_HOSPITALS, tmp_path / "heart.csv")
    for registry in (ALGORITHMS, DATASETS, METRICS, MODELS):
        list(registry)  # registers everything; the order of metrics is that of report cards
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    module = ModuleType("page_of_the_docs")  # where dataclasses look up their annotations
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def run_page(page: Path, module: ModuleType, capsys: pytest.CaptureFixture[str]) -> int:
    """Run a page's blocks and return how many there were to run."""
    count = 0
    for block in blocks_of(page):
        try:
            if block.language == "python":
                run_python(block, page, module)
            elif block.language == "console":
                run_console(block, capsys)
            elif block.language == "sh":
                look_at_shell(block, page, capsys)
                continue
            elif block.language == "text":
                continue
            else:
                raise AssertionError(
                    f"{block.language or 'no language'}: nothing runs it; use python, console,"
                    " sh with a title that says why it is not run, or text for what is no code"
                )
        except (Exception, SystemExit) as error:
            message = f"{page.name}, block at line {block.line}: {type(error).__name__}: {error}"
            raise AssertionError(message) from error
        count += 1
    return count


def run_python(block: Block, page: Path, module: ModuleType) -> None:
    before = dict(vars(module))
    # Line numbers of the page; and without this file's own __future__ imports.
    source = "\n" * (block.line - 1) + block.text
    exec(compile(source, page, "exec", dont_inherit=True), vars(module))
    for name, function in list(vars(module).items()):
        is_new = before.get(name) is not function
        if is_new and name.startswith("test_") and inspect.isfunction(function):
            run_test(function)


def run_test(function: Any) -> None:
    marks = getattr(function, "pytestmark", [])
    parametrised = [mark for mark in marks if mark.name == "parametrize"]
    if not parametrised:
        function()
    for mark in parametrised:
        argument, values = mark.args
        for value in values:
            function(**{argument: value})


def look_at_shell(block: Block, page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """See that a block says why it is not run, and that its options are options."""
    commands = commands_of(block)
    if not NOT_RUN_HERE.search(block.title) and (page.name, commands[0]) not in NOT_RUN:
        raise AssertionError(
            'it is not run and does not say so: make it console, or add title="Not run: …"'
        )
    for command in commands:
        if command.split()[0] == COMMAND:
            shiftproof(f"{command} --help", capsys)  # an unknown option comes before the help


def commands_of(block: Block) -> list[str]:
    """Return the commands of a shell block without their comments, one line each."""
    lines = block.text.replace("\\\n", " ").splitlines()
    commands = (shlex.join(shlex.split(line, comments=True)) for line in lines)
    return [command for command in commands if command]


def run_console(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    if not block.text.startswith(PROMPT):
        raise AssertionError(f"a console block begins with {PROMPT!r} and a command")
    printed = ""
    for line in block.text.splitlines():
        if line.startswith(PROMPT):
            printed = shiftproof(line.removeprefix(PROMPT), capsys)
        elif line.strip() and "…" not in line:
            shown = " ".join(line.split())
            if shown not in printed:
                raise AssertionError(f"{shown!r} is not in the output:\n{printed}")


def shiftproof(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command in this process, and return what it printed, with single spaces."""
    program, *arguments = shlex.split(command, comments=True)
    if program != COMMAND:
        raise AssertionError(f"only {COMMAND} is run, not {command!r}; use another block")
    capsys.readouterr()
    code: object = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [program, *arguments])
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    out, err = capsys.readouterr()
    if code != 0:
        raise AssertionError(f"{command!r} ends with code {code}: {err.strip()}")
    return " ".join((out + err).split())


@pytest.mark.usefixtures("few_trees", "jobs_here")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_on_the_page_runs(
    page: Path, workplace: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    run_page(page, workplace, capsys)


def test_the_pages_are_found() -> None:
    if not DOCS.exists():
        pytest.skip("a source distribution has no docs")
    page = DOCS / "adding.md"
    assert page in PAGES
    languages = [block.language for block in blocks_of(page)]
    assert languages.count("python") >= 5
    assert languages.count("console") >= 1


def test_what_is_listed_as_not_run_is_there() -> None:
    there = {
        (page.name, commands_of(block)[0])
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "sh" and not NOT_RUN_HERE.search(block.title)
    }
    assert set(NOT_RUN) == there


# --- the runner itself ------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, workplace: ModuleType, capsys: pytest.CaptureFixture[str]) -> Any:
    def run_text(text: str) -> int:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return run_page(page, workplace, capsys)

    return run_text


def fenced(*blocks: tuple[str, str]) -> str:
    return "\n".join(f"Words.\n\n```{language}\n{text}\n```\n" for language, text in blocks)


def test_blocks_share_a_module_and_run_in_order(run: Any, workplace: ModuleType) -> None:
    text = fenced(
        ("python", "from __future__ import annotations\nx = [1]"),
        ('sh title="Not run: a trap"', "rm -rf nothing-of-this-runs"),
        ("text", "x.append(3)"),
        ("python", "x.append(2)\ndef test_x(): x.append(4)"),
        ("python", "x.append(5)"),
    )
    assert run(text) == 3
    assert workplace.x == [1, 2, 4, 5]


def test_parametrised_tests_run_with_each_value(run: Any, workplace: ModuleType) -> None:
    text = fenced(
        ("python", "import pytest\nseen = []"),
        ("python", '@pytest.mark.parametrize("n", [3, 4])\ndef test_n(n): seen.append(n)'),
    )
    run(text)
    assert workplace.seen == [3, 4]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (("python", "x = 1\n1 / 0"), "line 4: ZeroDivisionError"),
        (("python", "def test_one():\n    assert 1 == 2"), "line 4: AssertionError"),
        (("python", "import sys\nsys.exit(0)"), "line 4: SystemExit"),
        (("python", "x = ("), "SyntaxError"),
        (("console", "$ shiftproof algorithms imd"), "code 2: error: unknown algorithm 'imd'"),
        (("console", "$ shiftproof --version\nshiftproof 99"), "'shiftproof 99' is not in"),
        (("console", "$ shiftproof --version\n$ shiftproof nothing"), "ends with code 2"),
        (("console", "$ shiftproof --version\n$ ls"), "only shiftproof is run"),
        (("console", "$ ls"), "only shiftproof is run"),
        (("console", "shiftproof --version"), "begins with '$ '"),
        (("sh", "ls"), "does not say so"),
        (('sh title="Listing"', "ls"), "does not say so"),
        (('sh title="Not run: x"', "shiftproof train \\\n  t.csv --labels ill"), "--labels"),
        (("yaml", "a: 1"), "yaml: nothing runs it"),
        (("", "x = 1"), "no language: nothing runs it"),
    ],
)
def test_what_is_wrong_on_a_page_is_found(run: Any, block: tuple[str, str], says: str) -> None:
    with pytest.raises(AssertionError) as failure:
        run(fenced(block))
    assert "page.md, block at line 4" in str(failure.value)
    assert says in str(failure.value)


def test_shown_output_is_compared_up_to_spaces(run: Any) -> None:
    from shiftproof import __version__

    shown = f"$ shiftproof --version  # a comment\nshiftproof     {__version__}\nfive …\n\n"
    assert run(fenced(("console", shown))) == 1


def test_a_page_leaves_nothing_behind(run: Any, workplace: ModuleType) -> None:
    code = (
        "from pathlib import Path\nfrom shiftproof.learners.algorithms import ALGORITHMS\n"
        "ALGORITHMS.register('of-a-page')(object)\nPath('left').touch()"
    )
    run(fenced(("python", code)))
    assert "of-a-page" in ALGORITHMS
    assert Path("left").exists()


def test_nothing_was_left_behind() -> None:
    assert "of-a-page" not in list(ALGORITHMS)
    assert "page_of_the_docs" not in sys.modules
    assert not Path("left").exists()
