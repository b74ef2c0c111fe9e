"""Read many files in several processes."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from shiftproof.core.cores import cores
from shiftproof.core.errors import DataError, ShiftproofError
from shiftproof.core.own_process import start_process
from shiftproof.sweeps.resources import without_cycle_search

# Reading fewer files than this takes less time than starting a process.
FEWEST = 1000
# The number of answers sent at once; memory briefly holds them twice.
_BLOCK = 250
# The size of a pipe in bytes: the most that Linux allows every user, and enough for a block of
# answers.  With the usual 64 KiB, the process would wait until the caller, which reads runs as
# well, has fetched the first part.
_PIPE = 1 << 20
PROGRAM = f"from {__name__} import main; main()"

Answer = TypeVar("Answer")


def read_each(
    read: Callable[[Path], Answer], paths: Sequence[Path], processes: int | None = None
) -> list[Answer]:
    """Return ``read(path)`` for each path, in order; many paths are read in parallel.

    ``read`` must be a module-level function that other processes can import.
    """
    count = min(processes or cores(), len(paths) // FEWEST)
    if count < 2:
        return [read(path) for path in paths]
    size = -(-len(paths) // count)
    parts = [paths[start : start + size] for start in range(0, len(paths), size)]
    with ThreadPoolExecutor(len(parts)) as pool:
        others = [pool.submit(_read_apart, read, part) for part in parts[1:]]
        found = [read(path) for path in parts[0]]
        return [*found, *(answer for other in others for answer in other.result())]


def _read_apart(read: Callable[[Path], Answer], paths: Sequence[Path]) -> list[Answer]:
    """Read the paths in a separate process."""
    # Ctrl-C reaches only the caller, which then ends this process.
    process = start_process(PROGRAM, new_session=True)
    request, answers = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
    found: list[Answer] = []
    try:
        pickle.dump((read, list(paths)), request)
        request.close()
        while len(found) < len(paths):
            answer: list[Answer] | ShiftproofError = pickle.load(answers)  # from our own process
            if isinstance(answer, ShiftproofError):
                raise answer
            found += answer
    except (EOFError, OSError, pickle.UnpicklingError) as error:
        raise DataError(
            f"a process that reads {len(paths)} runs ended with code {process.wait()}; it may"
            " have lacked memory: try again, or report on fewer runs at once"
        ) from error
    finally:
        answers.close()
        process.kill()  # no effect if it has ended
        process.wait()
    return found


def main() -> None:
    """Answer one request on standard input."""
    request, answers = sys.stdin.buffer, sys.stdout.buffer
    _widen(answers)
    read, paths = pickle.load(request)  # from the process that started this one
    try:
        with without_cycle_search():
            for start in range(0, len(paths), _BLOCK):
                block: list[Any] = [read(path) for path in paths[start : start + _BLOCK]]
                pickle.dump(block, answers)
                answers.flush()
    except ShiftproofError as error:
        pickle.dump(error, answers)
    except BrokenPipeError:
        os._exit(1)  # the caller has ended; Python would complain on closing the pipe


def _widen(pipe: BinaryIO) -> None:
    """Enlarge a pipe to `_PIPE` bytes if the system supports and allows it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
