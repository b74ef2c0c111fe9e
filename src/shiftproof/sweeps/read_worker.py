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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from shiftproof.core.errors import DataError, ShiftproofError
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
    with ThreadPoolExecutor(len(parts)) as pool:
        others = [pool.submit(_read_apart, part) for part in parts[1:]]
        found = [read_run_folder(folder).outcome() for folder in parts[0]]
        return [*found, *(outcome for other in others for outcome in other.result())]


def _read_apart(folders: Sequence[Path]) -> list[RunOutcome]:
    """Read these folders in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name if __spec__ else __name__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        input=pickle.dumps(list(folders)),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise DataError(
            f"a process that reads {len(folders)} runs ended with code {done.returncode}; it may"
            " have lacked memory: try again, or report on fewer runs at once"
        )
    answer: list[RunOutcome] | ShiftproofError = pickle.loads(done.stdout)  # our own process's
    if isinstance(answer, ShiftproofError):
        raise answer
    return answer


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
