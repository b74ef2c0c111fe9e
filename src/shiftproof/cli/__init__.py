"""The command line; each command is a file here.

Nothing heavy is imported before a command needs it: ``shiftproof --help`` must answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from shiftproof import __version__
from shiftproof.cli import (
    algorithms,
    data,
    demo,
    diagnose,
    evaluate,
    export,
    predict,
    report,
    reproduce,
    sweep,
    train,
)
from shiftproof.core.errors import InvalidValue, ShiftproofError

try:  # typer carries its own copy of click in newer releases
    from typer._click.exceptions import NoArgsIsHelpError, UsageError
except ImportError:
    from click.exceptions import (  # type: ignore[assignment, no-redef, unused-ignore]
        NoArgsIsHelpError,
        UsageError,
    )

OUT_OF_MEMORY = "not enough memory; use a smaller batch_size or a smaller network"


class OneLine(TyperGroup):
    """Commands whose mistakes of spelling are told as all others are: in one line."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the group's own options."""
        with _told_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Read the command and its options, and run it."""
        with _told_in_one_line():
            return super().invoke(ctx)


@contextlib.contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except NoArgsIsHelpError:
        raise
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "shiftproof"
        text = error.format_message().rstrip(".")
        raise InvalidValue(f"{text}; see {command} --help") from error


app = typer.Typer(
    name="shiftproof",
    cls=OneLine,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: [bold]shiftproof demo[/]",
)
app.command(epilog=demo.EXAMPLE)(demo.demo)
app.command(epilog=diagnose.EXAMPLE)(diagnose.diagnose)
app.command(epilog=train.EXAMPLE)(train.train)
app.command(epilog=predict.EXAMPLE)(predict.predict)
app.command(epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command(epilog=export.EXAMPLE)(export.export)
app.command(epilog=sweep.EXAMPLE)(sweep.sweep)
app.command(epilog=report.EXAMPLE)(report.report)
app.command(epilog=reproduce.EXAMPLE)(reproduce.reproduce)
app.command(epilog=algorithms.EXAMPLE)(algorithms.algorithms)
app.add_typer(data.app, name="data", epilog=data.EXAMPLE)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"shiftproof {__version__}")
        raise typer.Exit


@app.callback()
def shiftproof(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Train classifiers that hold up on domains they have never seen."""


def main() -> None:
    """Run the command line: a user's mistake is one line and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # λ on a terminal without it is a question mark
    # Pillow warns of damaged pictures that it can read all the same; what it cannot, we report.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        app(prog_name="shiftproof")
    except ShiftproofError as error:
        _fail(str(error))
    except SystemExit as ended:
        # Typer's own exit after a KeyboardInterrupt; a command that goes on has said so itself.
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            print("stopped; nothing is left half done: the same command again", file=sys.stderr)
        raise
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nobody is left to tell
        sys.exit(141)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _fail(
                f"{error.filename or 'the disk of --out or of SHIFTPROOF_HOME'}: the disk is full;"
                " make space, or set either to another disk; the same command goes on"
            )
        where = str(error.filename or "input or output").removesuffix(".new")
        _fail(f"{where}: {error.strerror or error}; choose another place if it cannot be mended")
    except MemoryError:
        _fail(OUT_OF_MEMORY)
    except RuntimeError as error:
        if not any(words in str(error) for words in ("allocate memory", "out of memory")):
            raise
        _fail(OUT_OF_MEMORY)


def _fail(message: str) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
