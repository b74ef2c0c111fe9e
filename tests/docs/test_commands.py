"""The reference of the commands is that of the commands."""

import importlib.util
import re
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "commands.md").read_text("utf-8")
SPEC = importlib.util.spec_from_file_location("tool", ROOT / "tools" / "command_reference.py")
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text, option):
    return re.findall(rf"^\| `{option}[` ].*$", text, re.MULTILINE)


def marked(command, option):
    """Return whether the table of settings has a mark for an option of a command."""
    return any(
        row.split("|")[2:-1][tool.COMMANDS.index(command)] == "•"
        for row in rows(section("Settings by command"), option)
    )


def test_the_page_is_what_the_tool_writes():
    assert tool.reference() == PAGE, "run python tools/command_reference.py"


def test_every_option_of_every_command_is_named_and_explained():
    commands = dict(tool._commands())
    assert {"study", "train", "data check"} <= commands.keys()
    for name, command in commands.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                option = max(parameter.opts, key=len)
                if not rows(section(name), option):
                    assert rows(section("Settings"), option), (name, option)
                    named = f"`{option}`" in section(name)
                    assert named or marked(name, option), (name, option)
