"""Commands whose options are settings, and their help pages and usage errors."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from shiftproof.cli.messages import in_options, running
from shiftproof.core.errors import InvalidValue, nearest
from shiftproof.core.settings import Declared, Settings, declaration, flag, setting

S = TypeVar("S", bound=Settings)
# The panels of a help page, in this order.
PANELS = ("Data", "Model", "Training", "Adaptation", "Expectation", "Runs", "Output")


@dataclass(frozen=True, kw_only=True)
class Quiet(Settings):
    """Whether to show progress."""

    quiet: bool = setting(False, flag, "Show no progress.", letter="q")


@dataclass(frozen=True, kw_only=True)
class AsJson(Settings):
    """Whether to print JSON."""

    as_json: bool = setting(False, flag, "Print the result as JSON.", option="json")

    def print_json(self, result: Mapping[str, Any]) -> bool:
        """Print a result as JSON if the user asked for it, and return whether this is so."""
        if self.as_json:
            print(json.dumps(result, ensure_ascii=False))
        return self.as_json


class Argument(click.Argument):
    """A positional argument with help."""

    def __init__(self, name: str, help: str, metavar: str = "", **given: Any) -> None:
        super().__init__([name], metavar=metavar or None, **given)
        self.help = help


class Option(click.Option):
    """The option of a setting."""

    def __init__(self, name: str, declared: Declared, default: Any) -> None:
        letter = [f"-{declared.letter}"] if declared.letter else []
        is_flag = declared.parser is flag
        super().__init__(
            [name, f"--{declared.option or name.replace('_', '-')}", *letter],
            help=declared.help,
            is_flag=is_flag or None,
            multiple=declared.repeats,
            metavar=None if is_flag else declared.metavar or declared.parser.metavar,
            required=declared.required,
            type=None if is_flag else click.UNPROCESSED,
        )
        self.panel = declared.panel
        self.shown_default = default if isinstance(default, str | int | float) else None
        if is_flag or "default" in declared.help:
            self.shown_default = None


DATA = Argument(
    "data",
    "Folder of images (DIR/domain/class/*.jpg), table (CSV or Parquet), vectors (.npy,"
    " .npz or Parquet) or dataset name (see [bold]shiftproof data list[/]).",
)
RUN = Argument("run", "Folder of a finished run or study, or a model file.", type=click.Path())


def options_of(kind: type[Settings]) -> list[click.Parameter]:
    """Return the options of a group of settings, in the order of the panels."""
    pairs = [(field, declaration(field)) for field in dataclasses.fields(kind)]
    pairs = [(field, declared) for field, declared in pairs if declared.option is not None]
    pairs.sort(key=lambda pair: PANELS.index(pair[1].panel))
    return [Option(field.name, declared, field.default) for field, declared in pairs]


class Command(click.Command):
    """A command with its settings, and a help page in panels."""

    def __init__(self, *args: Any, settings: type[Settings], example: str, **given: Any) -> None:
        super().__init__(*args, **given)
        self.settings = settings
        self.example = example

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the usage, the description, the arguments, and the options in panels."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        panels |= {name: [] for name in PANELS} | {"Options": []}
        for parameter in self.get_params(ctx):
            panel = getattr(parameter, "panel", "Options")
            if isinstance(parameter, click.Argument):
                panel = "Arguments"
            panels[panel].append((shown_names(parameter), shown_help(self, parameter)))
        _print_help(self.get_usage(ctx), self.help or "", panels, f"Example: {self.example}")


def shown_names(parameter: click.Parameter) -> str:
    """Return the names of a parameter and the placeholder of its value.

    >>> shown_names(Option("seed", declaration(Quiet.__dataclass_fields__["quiet"]), False))
    '--seed, -q'
    """
    if isinstance(parameter, click.Argument):
        return parameter.make_metavar(click.Context(click.Command("")))
    names = ", ".join(sorted(parameter.opts, key=len, reverse=True))
    return f"{names} {parameter.metavar}" if parameter.metavar else names


def shown_help(command: click.Command, parameter: click.Parameter) -> str:
    """Return the help of a parameter, with settings as options, and its default."""
    text = in_options(getattr(parameter, "help", "") or "", command)
    default = getattr(parameter, "shown_default", None)
    return text if default in (None, "") else f"{text} [dim]Default: {default}.[/]"


def _print_help(
    usage: str, about: str, panels: Mapping[str, list[tuple[str, str]]], epilog: str
) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.table import Table

    console = Console(highlight=False, emoji=False)
    for part in (usage, *about.split("\n\n")):
        text = " ".join(part.split())
        console.print(Padding(text, (1, 1, 0, 1)), markup=part is not usage)
    console.print()
    for title, rows in panels.items():
        if rows:
            table = Table.grid(padding=(0, 2), expand=True)
            table.add_column(style="bold cyan", max_width=32)
            table.add_column(ratio=1)
            for names, text in rows:
                table.add_row(names.replace("[", "\\["), text)
            console.print(Panel(table, title=title, title_align="left", border_style="dim"))
    console.print(Padding(epilog, 1))


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Convert usage errors of click to errors of one line."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        raise InvalidValue(one_line(error)) from error


class Group(click.Group):
    """A group of commands, whose usage errors are one line, like all other errors."""

    example = "[bold]shiftproof demo[/]"

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the group's own options."""
        with usage_errors():
            return super().make_context(*args, **kwargs)

    def resolve_command(self, *args: Any) -> Any:
        """Find the requested command; messages then use its options."""
        resolved = super().resolve_command(*args)
        running.set(resolved[1])
        return resolved

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the command and its options, and run it."""
        try:
            with usage_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.Abort from error

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the usage, the description, the options and the commands."""
        rows = [
            (shown_names(option), getattr(option, "help", "")) for option in self.get_params(ctx)
        ]
        commands = [
            (name, self.commands[name].get_short_help_str(200)) for name in self.list_commands(ctx)
        ]
        panels = {"Options": rows, "Commands": commands}
        _print_help(self.get_usage(ctx), self.help or "", panels, f"Example: {self.example}")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)


def command(
    kind: type[S], *arguments: Argument, example: str, name: str | None = None
) -> Callable[[Callable[..., None]], Command]:
    """Return a decorator that makes a command of a function.

    The function takes the arguments, by name, and the settings.
    """

    def decorate(function: Callable[..., None]) -> Command:
        def run(**values: Any) -> None:
            first = {argument.name: values.pop(argument.name) for argument in arguments}
            function(**first, settings=typed(kind, values))

        return Command(
            name or function.__name__,
            callback=run,
            params=[*arguments, *options_of(kind)],
            help=function.__doc__,
            settings=kind,
            example=example,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    return decorate


def typed(kind: type[S], values: Mapping[str, Any]) -> S:
    """Return the settings from the values of their options, of which most are not given."""
    return kind(**{name: value for name, value in values.items() if value not in (None, False, ())})


def one_line(error: click.UsageError) -> str:
    """Return a usage error as one line, with similar names or the help to look at."""
    command = error.ctx.command if error.ctx else running.get()
    path = error.ctx.command_path if error.ctx else f"shiftproof {command.name if command else ''}"
    text = " ".join(error.format_message().split()).rstrip(".")
    missing = re.match(r"No such command '([^']*)'", text)
    advice = f"see {path.strip()} --help"
    if isinstance(error, click.NoSuchOption) and command is not None:
        kind, name = "option", error.option_name
        known = ["--help", *(option for parameter in command.params for option in parameter.opts)]
    elif isinstance(command, click.Group) and missing:
        kind, name, known = "command", missing[1], list(command.commands)
    else:
        return f"{text}; {advice}"
    similar = nearest(name, known)
    return f"no such {kind} {name!r}; {similar if similar.startswith('did') else advice}"
