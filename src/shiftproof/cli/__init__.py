"""The command line: one file for each command.

Heavy imports happen only when a command runs, so that `shiftproof --help` appears at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import time
import traceback
import warnings

import click

from shiftproof import __version__
from shiftproof.cli import (
    algorithms,
    compare_sites,
    data,
    demo,
    diagnose,
    evaluate,
    expect,
    export,
    features,
    predict,
    recalibrate,
    report,
    reproduce,
    study,
    sweep,
    train,
)
from shiftproof.cli._options import Group
from shiftproof.cli.messages import in_options, running
from shiftproof.core.errors import ShiftproofError, named_extras
from shiftproof.core.text import printable

INTERRUPTED = "Interrupted. Run the same command again to resume."
OUT_OF_MEMORY = "not enough memory; use a smaller `batch_size` or a smaller network"


@click.group(
    cls=Group,
    name="shiftproof",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="shiftproof %(version)s", help="Print the version.")
def app() -> None:
    """Train models that hold up on domains they have never seen."""


for _command in (
    *(demo.demo, study.study, diagnose.diagnose, features.features, train.train, expect.expect),
    *(predict.predict, compare_sites.compare_sites, recalibrate.recalibrate, evaluate.evaluate),
    *(export.export, sweep.sweep, report.report, reproduce.reproduce, algorithms.algorithms),
    data.app,
):
    app.add_command(_command)


def main() -> None:
    """Run the command line; a user error prints one line and exits with code 2, no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without λ shows a question mark
    processes = os.environ.get("WORLD_SIZE", "1")
    if not (processes.isascii() and processes.isdecimal() and len(processes) < 10):
        _fail("WORLD_SIZE must be a whole number, as torchrun sets it; unset it to run one process")
    if int(processes) > 1 and os.environ.get("RANK", "0") != "0":
        # Only the first of the processes started by torchrun prints.
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    # Pillow warns about damaged images that it can still read; we report those that it cannot.
    warnings.filterwarnings("ignore", module="PIL")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {printable(str(message))}\n"
    running.set(None)
    try:
        with named_extras():
            sys.exit(app.main(prog_name="shiftproof", standalone_mode=False))
    except ShiftproofError as error:
        _fail(str(error))
    except click.exceptions.NoArgsIsHelpError:
        sys.exit(2)  # making the error has printed the help
    except (click.Abort, KeyboardInterrupt) as ended:
        if isinstance(ended, click.Abort) and ended.__cause__ is None:
            sys.exit(1)  # the answer to a question was no
        # A command that handles Ctrl-C prints its own message.
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the program reading our output has ended
        sys.exit(141)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _fail(
                f"{error.filename or 'output'}: the disk is full; free some space, or write to"
                " another disk (`out`, SHIFTPROOF_HOME), and run the same command again to resume"
            )
        where = error.filename or "input or output"
        _fail(f"{where}: {error.strerror or error}; if this cannot be fixed, use another path")
    except MemoryError:
        _fail(OUT_OF_MEMORY)
    except Exception as error:
        words = ("allocate memory", "out of memory")
        if isinstance(error, RuntimeError) and any(part in str(error) for part in words):
            _fail(OUT_OF_MEMORY)
        _tell_torchrun(traceback.format_exc())
        raise


def _fail(message: str) -> None:
    line = f"error: {printable(' '.join(in_options(message).split()))}"
    print(line, file=sys.stderr)
    _tell_torchrun(line)
    sys.exit(2)


def _tell_torchrun(message: str) -> None:
    """Add a message to the report that torchrun prints when one of its processes fails.

    If a process that prints nothing fails first, torchrun ends the others, and only its report can
    show the message.
    """
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file and not os.path.exists(file):
        content = {"message": message, "extraInfo": {"timestamp": str(int(time.time()))}}
        with contextlib.suppress(OSError), open(file, "w", encoding="utf-8") as report:
            json.dump({"message": content}, report)
