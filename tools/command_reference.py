"""Write docs/commands.md: every command with its options, and the settings that commands share.

    python tools/command_reference.py

A test fails if the page is not what this writes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from shiftproof.cli import app
from shiftproof.cli._options import PANELS, Option, shown_help, shown_names

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
START = """# Commands and settings

All commands with their options. A setting that several commands have is explained once, under
[settings](#settings). `shiftproof COMMAND --help` prints all options of a command.

Your shell completes commands and options with the Tab key after
`eval "$(_SHIFTPROOF_COMPLETE=bash_source shiftproof)"` (or `zsh_source`); add this line to the
shell's start file.
"""
SETTINGS = """## Settings

These mean the same in every command that has them.
"""
TABLE = """## Settings by command

• marks the settings that a command has. A letter gives the reason why it does not have one.
"""
SHARED_BY = 2  # commands with the same option and help, from which on the help is printed once
COMMANDS = ("study", "train", "expect", "diagnose", "sweep", "features", "predict", "evaluate")
TABLE_PANELS = PANELS[:4]
# Why a command lacks settings: of all panels, of one panel, or a single one.
REASONS = {
    "diagnose": {
        "Model": "nothing is trained",
        "Training": "nothing is trained",
        "Adaptation": "nothing is trained",
        "weights_column": "shifts are measured on rows as they are",
        "seed": "in its panel Data",
        "data_seed": "in its panel Data",
    },
    "features": {
        "Model": "nothing is trained",
        "Training": "nothing is trained",
        "Adaptation": "nothing is trained",
        "freeze": "implied",
        "data_seed": "is `--seed`",
    },
    "sweep": {
        "algorithm": "is `--algorithms`",
        "freeze": "decided by the preset",
        "pool": "one network a sweep",
        "compile": "runs share the processor",
        "Adaptation": "the protocol compares generalization, without rows of the new domain",
        "loss": "the protocol uses squared errors for numbers",
        "seed": "decided by the draw and the trial",
        "data_seed": "the number of the trial",
        "holdout": "decided by the preset",
        "evaluate": "decided by `--selection`",
        "augment_validation": "decided by the preset",
        "private": "models of a sweep are for comparison",
        "threads": "decided by the number of parallel runs",
        "checkpoint_seconds": "every run of a sweep has its checkpoints",
    },
    "predict": {
        "Data": "as in the training of the model",
        "Model": "as in the training of the model",
        "Training": "the model is trained already",
        "standardize": "as in the training of the model",
    },
    "evaluate": {
        "Data": "as in the training of the model",
        "Model": "as in the training of the model",
        "Training": "the model is trained already",
        "Adaptation": "as in the training of the model",
    },
}


def reference() -> str:
    """Return the page."""
    sections = dict(_commands())
    helps = Counter(row for command in sections.values() for _, row in _rows(command))
    shared = {row for row, commands in helps.items() if commands >= SHARED_BY}
    parts = [_section(name, command, shared) for name, command in sections.items()]
    return "\n".join([START, *parts, _shared_settings(sections, shared), settings_table()])


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name."""
    for name, command in app.commands.items():
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", sub) for inner, sub in command.commands.items())
        else:
            yield name, command


def _rows(command: click.Command) -> list[tuple[str, str]]:
    """Return the panel and the row of each argument and option, in the order of the panels."""
    rows = [
        ("Arguments", f"| `{shown_names(p)}` | {_plain(getattr(p, 'help', ''))} |")
        for p in command.params
        if isinstance(p, click.Argument)
    ]
    options = [p for p in command.params if isinstance(p, Option)]
    return rows + [
        (panel, f"| {_option(p)} | {_plain(shown_help(command, p))} |")
        for panel in PANELS
        for p in options
        if p.panel == panel
    ]


def _section(name: str, command: click.Command, shared: set[str]) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    usage = " ".join(shown_names(argument) for argument in arguments)
    lines = [f"## {name}", "", _plain(command.help), "", "```text"]
    lines += [" ".join(f"shiftproof {name} {usage} [OPTIONS]".split()), "```", ""]
    rows = [row for _, row in _rows(command)]
    own = [row for row in rows if row not in shared]
    if own:
        lines += ["| | |", "|---|---|", *own, ""]
    listed = {option.opts[0] for option in _in_table().values()} if name in COMMANDS else set()
    others = [row for row in rows if row in shared and _name(row) not in listed]
    names = " ".join(f"`{_name(row)}`" for row in others)
    if listed:
        lines += [f"Settings: those of [the table](#settings-by-command), and {names}.", ""]
    elif names:
        lines += [f"[Settings](#settings): {names}.", ""]
    return "\n".join(lines)


def _shared_settings(commands: dict[str, click.Command], shared: set[str]) -> str:
    """Return the section of the options that several commands have, by panel."""
    rows = dict.fromkeys(row for command in commands.values() for row in _rows(command))
    lines = [SETTINGS]
    for panel in ("Arguments", *PANELS):
        of_panel = [row for where, row in rows if where == panel and row in shared]
        if of_panel:
            lines += [f"| {panel} | |", "|---|---|", *of_panel, ""]
    return "\n".join(lines)


def _name(row: str) -> str:
    """Return the name of the argument or option that a row explains."""
    return re.findall("`([^ `]+)", row)[0]


def _option(parameter: Option) -> str:
    names = sorted(parameter.opts, key=len, reverse=True)
    value = f" {parameter.metavar}" if parameter.metavar else ""
    return ", ".join(f"`{name}{value}`" for name in names)


def _in_table() -> dict[str, Option]:
    """Return the settings of training, which the table of settings by command lists."""
    commands = [app.commands[name] for name in ("study", "train", "expect", "sweep")]
    declared = {
        p.name: p
        for command in commands
        for p in command.params
        if isinstance(p, Option) and p.name and p.panel in TABLE_PANELS
    }
    of_train = {p.name for p in app.commands["train"].params} | {"task"}
    return {name: option for name, option in declared.items() if name in of_train}


def settings_table() -> str:
    """Return the table of settings by command; a hole without a reason is a KeyError."""
    commands = {name: app.commands[name] for name in COMMANDS}
    letters: dict[str, str] = {}
    lines = [TABLE, f"| setting |{'|'.join(COMMANDS)}|", f"|---|{':-:|' * len(COMMANDS)}"]
    for setting, option in _in_table().items():
        cells = []
        for name, command in commands.items():
            if setting in {p.name for p in command.params}:
                cells.append("•")
                continue
            reason = _reason(name, option)
            cells.append(letters.setdefault(reason, chr(ord("a") + len(letters))))
        lines.append(f"| `{option.opts[0]}` |{'|'.join(cells)}|")
    lines += ["", *(f"{letter}: {reason}.  " for reason, letter in letters.items()), ""]
    return "\n".join(lines)


def _reason(command: str, setting: Option) -> str:
    if setting.name == "test_domains":
        in_turn = command in ("study", "expect")
        return "every domain is held out in turn" if in_turn else "no domain is held out"
    reasons = REASONS.get(command, {})
    return reasons.get(setting.name or "") or reasons[setting.panel]


def _plain(text: str | None) -> str:
    """Return help without markup, on one line."""
    bare = re.sub(
        r"\[/?(?:bold|dim)?\]", "`", (text or "").replace("[dim]", "").replace(".[/]", ".")
    )
    return " ".join(bare.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
