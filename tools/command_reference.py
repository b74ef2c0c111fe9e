"""Write docs/commands.md: every command with its options, as `--help` has them.

    python tools/command_reference.py

A test fails if the page is not what this writes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer.main

from shiftproof.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
START = """# Commands

All commands and their options. `shiftproof COMMAND --help` prints the same.

`shiftproof --install-completion` lets your shell complete commands and options with the Tab key;
open a new shell after it. `shiftproof --show-completion` prints what it would install.
"""
ORDER = ("Data", "Model", "Training", "Adaptation", "Expectation", "Runs", "Output", "")


def reference() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    parts = [START]
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            parts += [_section(f"{name} {inner}", own) for inner, own in command.commands.items()]
        else:
            parts.append(_section(name, command))
    return "\n".join(parts)


def _section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(f"{'' if p.required else '['}{p.name.upper()}{'' if p.required else ']'}"
                     for p in arguments)  # fmt: skip
    lines = [f"## {name}", "", _plain(command.help), "", "```text"]
    lines += [" ".join(f"shiftproof {name} {usage} [OPTIONS]".split()), "```", ""]
    if arguments:
        lines += ["| argument | |", "|---|---|"]
        lines += [f"| `{p.name.upper()}` | {_plain(p.help)} |" for p in arguments] + [""]
    for panel in ORDER:
        own = [p for p in options if (getattr(p, "rich_help_panel", None) or "") == panel]
        if own:
            lines += [f"| {panel or 'option'} | |", "|---|---|"]
            lines += [f"| {_option(p)} | {_plain(p.help)}{_default(p)} |" for p in own] + [""]
    return "\n".join(lines)


def _option(parameter: Any) -> str:
    names = sorted(parameter.opts, key=len, reverse=True)
    value = "" if parameter.is_flag else f" {parameter.metavar or _kind(parameter)}"
    return ", ".join(f"`{name}{value}`" for name in names)


def _kind(parameter: Any) -> str:
    """Return a placeholder for an option's value, by the type of its default."""
    if isinstance(parameter.default, Path):
        return "PATH"
    return "NUMBER" if isinstance(parameter.default, int | float) else "VALUE"


def _default(parameter: Any) -> str:
    value = parameter.default
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    said = "default" in (parameter.help or "")
    return f" Default `{value}`." if plain and value != "" and not said else ""


def _plain(text: str | None) -> str:
    """Return help without markup, on one line."""
    bare = re.sub(r"\[/?(?:bold|dim)?\]", "`", text or "")
    return " ".join(bare.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
