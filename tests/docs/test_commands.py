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


def test_the_page_is_what_the_tool_writes():
    assert tool.reference() == PAGE, "run python tools/command_reference.py"


def test_every_option_is_in_the_section_of_its_command():
    """In full, or as the name of a setting that the section of the settings explains."""
    commands = dict(tool._commands())
    assert {"study", "train", "data check"} <= commands.keys()
    settings = PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0]
    for name, command in commands.items():
        section = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option):
                (option_name,) = re.findall(rf"`({option.opts[0]})[` ]", section)
                explained = f"| `{option_name}`" in section or f"| `{option_name} " in section
                assert explained or f"| `{option_name}" in settings, (name, option_name)
