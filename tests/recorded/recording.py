"""Run commands in this process, and write what they do as text that is the same everywhere.

A recording holds, for each command, the exit code, both outputs, the files written and the content
of some of them, without what differs between two equal runs: folders, seconds, dates, versions.
"""

from __future__ import annotations

import csv
import difflib
import importlib.metadata
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from _internals import Records, cli_main
from recorded.commands import RESULTS, ROOT, Command, Group

EXPECTED = Path(__file__).with_name("expected")
COLUMNS = 110
DIGITS = 9
# What a run is not described by.
DROPPED = {"seconds", "timings", "environment", "crc32", "sha256"}
NUMBER = re.compile(r"-?\b\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)\b")
# What depends on the clock: durations, a column of seconds, the ratio to the time of ERM.
DURATION = re.compile(r"\b\d+(?:[.,–]\d+)*\s(?:ms|s|min|h)\b")
SECONDS = re.compile(r"(?<= seconds ┃\n).*?(?=└)", re.DOTALL)
TIMES_ERM = re.compile(
    r"\d+\.\d+(?= × the time of ERM)|(?<=× ERM \| ms \| Runs\n).*?(?=Median)", re.S
)
# Of a page: what is left out, and what does not end a line.
LEFT_OUT = {"script", "style", "svg"}
INLINE = {"a", "abbr", "b", "code", "em", "i", "small", "span", "strong", "sub", "sup"}


class Stopped(BaseException):
    """What ends a command in the middle; nothing of the package catches it."""


class Text(HTMLParser):
    """The text of a page: a line for each block, no scripts, styles or drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self._inside = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._inside += tag in LEFT_OUT
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag in LEFT_OUT
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.lines[-1] += data

    def _break(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.lines[-1] += "  "
        elif tag in ("small", "span"):
            self.lines[-1] += " "
        elif tag not in INLINE:
            self.lines.append("")


def text_of_page(html: str) -> str:
    """Return the text of a page; short pieces, such as the words of a chart, share a line."""
    parser = Text()
    parser.feed(html)
    lines: list[str] = []
    for piece in parser.lines:
        line = " ".join(re.sub(r"\s{2,}", " | ", piece.strip()).split())
        short = len(line) < 40 and " | " not in line
        if lines and short and len(lines[-1]) < 80 and " | " not in lines[-1] and line:
            lines[-1] += f" / {line}"
        elif line:
            lines.append(line)
    return "\n".join(lines)


def without_clock(text: str) -> str:
    """Leave out what depends on the clock."""
    text = DURATION.sub("<time>", TIMES_ERM.sub("<times>", text))
    return SECONDS.sub(lambda rows: re.sub(r"\d+\.\d(?= │\n)", "<s>", rows[0]), text)


def compact(value: Any, indent: int = 0) -> str:
    """Return JSON whose lines are filled: what fits on a line is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= COLUMNS or not isinstance(value, dict | list) or not value:
        return line
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {compact(item, indent + 1)}"
            for key, item in value.items()
        ]
    else:
        parts = [compact(item, indent + 1) for item in value]
    space = " " * (indent + 1)
    lines: list[str] = []
    for n, part in enumerate(parts):
        word = part + "," * (n < len(parts) - 1)
        last = lines[-1] if lines else ""
        if last and "\n" not in last + word and len(last) + 1 + len(word) <= COLUMNS:
            lines[-1] = f"{last} {word}"
        else:
            lines.append(space + word)
    ends = "{}" if isinstance(value, dict) else "[]"
    return ends[0] + "\n" + "\n".join(lines) + "\n" + " " * indent + ends[1]


def plain(value: Any) -> Any:
    """Leave out what differs between two equal runs, and round numbers to nine digits."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in DROPPED}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value


def as_json(text: str) -> str | None:
    """Return JSON, or lines of it, as recorded; None if the text is something else."""
    try:
        if text.lstrip().startswith(("{", "[")):
            return compact(plain(json.loads(text)))
    except json.JSONDecodeError:
        pass
    try:
        values = [json.loads(line) for line in text.splitlines()]
    except json.JSONDecodeError:
        return None
    if not values or not all(isinstance(value, dict) for value in values):
        return None
    return "\n".join(compact(plain(value)) for value in values)


def rounded_table(text: str) -> str:
    """Return CSV with numbers of nine digits."""
    rows = csv.reader(io.StringIO(text))
    return "\n".join(
        ",".join(f"{float(cell):.{DIGITS}g}" if NUMBER.fullmatch(cell) else cell for cell in row)
        for row in rows
    )


class Folder:
    """The folder that the commands of a group work in."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> dict[str, tuple[int, int]]:
        """Return each file with what changes when it is written."""
        paths = (p for p in self.path.rglob("*") if p.is_file() and p.name != "lock")
        return {
            str(p.relative_to(self.path)): (p.stat().st_mtime_ns, p.stat().st_ino) for p in paths
        }

    def without_places(self, text: str) -> str:
        for place, name in (
            (self.path, "<here>"), (RESULTS, "<results>"), (ROOT, "<root>")
        ):  # fmt: skip
            text = text.replace(str(place), name)
        version = importlib.metadata.version("shiftproof")
        return text.replace(f"shiftproof {version}", "shiftproof <version>")

    def content(self, name: str) -> str:
        """Return the recorded form of a file."""
        text = (self.path / name).read_text("utf-8")
        if name.endswith(".html"):
            text = without_clock(text_of_page(text))
            text = re.sub(r"shiftproof \S+, .*threads \d+", "<environment>", text)
        elif name.endswith((".json", ".jsonl")):
            text = as_json(text) or text
        elif name.endswith(".csv"):
            text = rounded_table(text)
        return self.without_places(text)

    def printed(self, text: str) -> str:
        """Return the recorded form of an output."""
        text = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
        return self.without_places(as_json(text) or without_clock(text))


def run_command(arguments: list[str], read: Callable[[], tuple[str, str]]) -> tuple[str, str, str]:
    """Run a command in this process; return how it ended and both outputs."""
    read()
    code: object = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["shiftproof", *arguments])
        try:
            cli_main()
        except SystemExit as ended:
            code = ended.code or 0
        except Stopped:
            code = "stopped"
    return str(code), *read()


def stopping(patch: pytest.MonkeyPatch, at: int) -> None:
    """Let the n-th record of a run end the command, as a kill between two steps would."""
    append, count = Records.append, [0]

    def counting(self: Records, record: Any) -> None:
        count[0] += 1
        if count[0] == at:
            raise Stopped
        append(self, record)

    patch.setattr(Records, "append", counting)


def listed(names: list[str]) -> Iterator[str]:
    """Write files as one line a folder; folders with the same files share a line."""
    folders: dict[str, list[str]] = {}
    for name in sorted(names):
        folder, _, file = name.rpartition("/")
        folders.setdefault(folder, []).append(file)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for folder, files in folders.items():
        parent, _, last = folder.rpartition("/")
        alike.setdefault((parent, tuple(files)), []).append(last)
    for (parent, files), lasts in alike.items():
        last = lasts[0] if len(lasts) == 1 else "{" + ", ".join(lasts) + "}"
        folder = "/".join(part for part in (parent, last) if part)
        yield f"{folder}/: {'  '.join(files)}" if folder else "  ".join(files)


def compared(one: Path, two: Path) -> tuple[list[str], list[str]]:
    """Return the files of two folders that have the same bytes, and the others."""
    names = {
        str(p.relative_to(folder))
        for folder in (one, two)
        for p in folder.rglob("*")
        if p.is_file() and p.name != "lock"
    }
    equal = {
        name
        for name in names
        if (one / name).is_file()
        and (two / name).is_file()
        and (one / name).read_bytes() == (two / name).read_bytes()
    }
    return sorted(equal), sorted(names - equal)


def record_command(
    command: Command, folder: Folder, read: Callable[[], tuple[str, str]]
) -> Iterator[str]:
    """Run a command and write down what it did."""
    before = folder.files()
    with pytest.MonkeyPatch.context() as patch:
        if command.stop_at:
            stopping(patch, command.stop_at)
        code, out, err = run_command(command.arguments, read)
    after = folder.files()
    yield f"$ shiftproof {command.line}"
    out, err = folder.printed(out), folder.printed(err)
    if not out and err.startswith("error: ") and "\n" not in err:
        yield f"exit {code}, {err}"
    else:
        yield f"exit {code}"
        for title, text in (("stdout", out), ("stderr", err)):
            if text:
                yield f"--- {title}"
                yield text
    changed = [name for name in after if after[name] != before.get(name)]
    gone = [name for name in before if name not in after]
    for title, names in (("written", changed), ("removed", gone)):
        if names:
            yield f"--- {title}"
            yield from listed(names)
    if command.same_as:
        one, two = ((folder.path / name) for name in command.same_as.split())
        for title, names in zip(("equal", "not equal"), compared(one, two), strict=True):
            if names:
                yield f"--- {title}"
                yield from listed(names)
    for pattern in command.show:
        names = sorted(str(p.relative_to(folder.path)) for p in folder.path.glob(pattern))
        if not names:
            yield f"--- no file {pattern}"
        for name in names:
            yield f"--- {name}"
            yield folder.content(name)
    yield ""


def plain_terminal(patch: pytest.MonkeyPatch) -> None:
    """Set the width of the terminal, and what else decides how text is laid out."""
    patch.setenv("COLUMNS", str(COLUMNS))
    patch.setenv("NO_COLOR", "1")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "TERMINAL_WIDTH"):
        patch.delenv(name, raising=False)


def record_group(group: Group, path: Path, read: Callable[[], tuple[str, str]]) -> str:
    """Run the commands of a group in a folder; return the recording."""
    folder = Folder(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for name in [name for name in os.environ if name.startswith(("SHIFTPROOF", "WORLD"))]:
            patch.delenv(name)
        patch.setenv("SHIFTPROOF_HOME", str(path / "home"))
        plain_terminal(patch)
        parts = [line for c in group.commands for line in record_command(c, folder, read)]
    return "\n".join(parts)


def help_page(out: str) -> str:
    """Return a help page without its frames and its line breaks inside a text."""
    words = re.sub(r"[─│╭╮╰╯]", " ", out)
    lines = (" ".join(line.split()) for line in words.splitlines())
    return "\n".join(line for line in lines if line)


def difference(expected: str, got: str, relative: float) -> str:
    """Return the lines that differ, other than by rounding: "" if there are none."""

    def same(a: str, b: str) -> bool:
        if NUMBER.sub("#", a) != NUMBER.sub("#", b):
            return False
        pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
        return all(
            math.isclose(float(x), float(y), rel_tol=relative, abs_tol=relative / 1000)
            for x, y in pairs
        )

    old, new = expected.splitlines(), got.splitlines()
    if len(old) == len(new) and all(map(same, old, new)):
        return ""
    if len(old) == len(new):  # only what differs by more than rounding
        new = [a if same(a, b) else b for a, b in zip(old, new, strict=True)]
    return "\n".join(difflib.unified_diff(old, new, "recorded", "now", lineterm="", n=2))
