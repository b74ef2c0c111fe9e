"""A process that reads the runs of a sweep for another one: folders come in, outcomes go out.

Run as a program, by its own file and not as a copy of the caller's: so a script that makes a report
needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.errors import ShiftproofError
from shiftproof.sweeps.results import RunOutcome
from shiftproof.sweeps.stored_run import read_run_folder

# Fewer runs are read in less time than it takes to start a process.
FEWEST = 1000


def read_outcomes(folders: Sequence[Path], processes: int | None = None) -> list[RunOutcome]:
    """Return the outcome of each run folder of a sweep, in order; many are read in parallel."""
    count = min(processes or len(os.sched_getaffinity(0)), len(folders) // FEWEST)
    if count < 2:
        return [read_run_folder(folder).outcome() for folder in folders]
    size = -(-len(folders) // count)
    parts = [folders[start : start + size] for start in range(0, len(folders), size)]
    others = [_start(part) for part in parts[1:]]
    try:
        found = [read_run_folder(folder).outcome() for folder in parts[0]]
        for other in others:
            answer, _ = other.communicate()
            outcome = pickle.loads(answer) if other.returncode == 0 else None  # our own process's
            if outcome is None:
                raise RuntimeError(f"a process that reads runs ended with code {other.returncode}")
            if isinstance(outcome, ShiftproofError):
                raise outcome
            found += outcome
    finally:
        for other in others:
            if other.poll() is None:
                other.kill()
                other.wait()
    return found


def _start(folders: Sequence[Path]) -> subprocess.Popen[bytes]:
    """Start a process that reads these folders; it begins as soon as it knows them."""
    process = subprocess.Popen(
        [sys.executable, "-m", __spec__.name if __spec__ else __name__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(list(folders)))
    process.stdin.close()
    process.stdin = None  # or `communicate` would write to it
    return process


def main() -> None:
    """Answer one request on standard input."""
    folders = pickle.loads(sys.stdin.buffer.read())  # from the process that started this one
    try:
        answer: object = [read_run_folder(folder).outcome() for folder in folders]
    except ShiftproofError as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
