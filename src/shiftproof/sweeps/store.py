"""The folder of a sweep: sweep.json, a folder for each run, and status.json.

The runs' own files say what is finished, so any process may be killed at any time: the next one
determines what is left to do.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from shiftproof.core.errors import DataError, RunConflict
from shiftproof.core.files import is_temporary, locked_folder, read_json, write_json
from shiftproof.core.json_values import rebuilt
from shiftproof.core.text import printable
from shiftproof.sweeps.stored_run import JOB_NAMES, row_of
from shiftproof.training.run_folder import changes

if TYPE_CHECKING:  # torch takes seconds to import, and reading the status does not need it
    from shiftproof.sweeps.jobs import Job

State = Literal["waiting", "begun", "finished", "diverged", "failed"]
# A driver that has not written its status for this many seconds is considered dead.
SILENCE = 15.0


class Failure(NamedTuple):
    """Why a run could not be finished."""

    title: str
    reason: str


class SweepFolder:
    """Reads and writes the files of a sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def claim(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Lock the folder for one driver, and check its settings.

        ``settings`` must not change between calls: runs with different settings cannot be compared.
        """
        busy = f"another sweep is running in {self.path}; see its status, or wait for it"
        with locked_folder(self.path, busy):
            self._claim_settings(dict(settings))
            yield

    def run(self, job: Job) -> Path:
        """Return the folder of a run."""
        return self.path / "runs" / f"{job.data.name}-{job.config.algorithm}-{job.id}"

    def prepare(self, job: Job) -> Path:
        """Write the job's place in the protocol into the run's folder, and return the folder."""
        folder = self.run(job)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "job.json"
        if not path.exists():
            write_json(path, job.to_json())
        return folder

    def state(self, job: Job) -> State:
        """Return the state of a run according to its files."""
        folder = self.run(job)
        if (folder / "done.json").exists():
            ended = read_json(folder / "done.json")
            return "diverged" if ended.get("status") == "diverged" else "finished"
        if (folder / "failed.json").exists():
            return "failed"
        return "begun" if (folder / "config.json").exists() else "waiting"

    def is_left(self, job: Job, *, retry_failed: bool = False) -> bool:
        """Return whether a run remains: it has not ended, or it failed and is retried."""
        state = self.state(job)
        return state in ("waiting", "begun") or (retry_failed and state == "failed")

    def check_places(self, jobs: Sequence[Job]) -> None:
        """Raise if the folder has one of the runs in another row, or another run in its place.

        Only one of two rows would show the run.  If two runs (with different weights, for example)
        have the same place, a report cannot tell which one to use.
        """
        paths = sorted(self.path.glob("runs/*/job.json"))
        there = {path.parent: read_json(path, JOB_NAMES) for path in paths}
        by_place = {json.dumps(place, sort_keys=True): run for run, place in there.items()}
        for job in jobs:
            run = self.run(job)
            if run not in there:
                if other := by_place.get(json.dumps(job.to_json(), sort_keys=True)):
                    raise RunConflict(f"{other} has {job.title}, {_difference(other, job)}")
            elif (row := row_of(there[run])) != job.variant:
                raise RunConflict(
                    f"{run} has this run as {row}, not {job.variant};"
                    " choose another `out` (a report can read several folders)"
                )

    def record_failure(self, job: Job, reason: str, trace: str = "") -> None:
        """Record why a run could not be finished."""
        failure = {"title": job.title, "reason": reason, "trace": trace}
        write_json(self.prepare(job) / "failed.json", failure)

    def clear_failure(self, job: Job) -> None:
        """Delete the record of a failure, so that the run is tried again."""
        (self.run(job) / "failed.json").unlink(missing_ok=True)

    def failures(self, jobs: Sequence[Job]) -> list[Failure]:
        """Return the failures among the jobs."""
        failed = [job for job in jobs if self.state(job) == "failed"]
        read = [read_json(self.run(job) / "failed.json") for job in failed]
        return [Failure(str(f.get("title")), str(f.get("reason"))) for f in read]

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Write the status of the sweep for other processes to read."""
        write_json(self.path / "status.json", {**status, "time": time.time()})

    def _claim_settings(self, settings: dict[str, Any]) -> None:
        path = self.path / "sweep.json"
        if not path.exists():
            paths = [path for path in self.path.iterdir() if not is_temporary(path)]
            if others := {path.name for path in paths} - {"lock"}:
                raise RunConflict(
                    f"{self.path} has {min(others)} but no sweep.json, so it is not a sweep;"
                    " choose another `out`"
                )
            write_json(path, settings)
            return
        stored = read_json(path)
        wanted = json.loads(json.dumps(settings))
        # A setting that only the folder has counts too: a plain sweep cannot resume one with SWAD.
        for key in wanted | stored:
            if stored.get(key) != wanted.get(key):
                raise RunConflict(
                    f"{self.path} holds a sweep with another {key} ({stored.get(key)!r}, not"
                    f" {wanted.get(key)!r}); choose another `out`"
                )


def _difference(run: Path, job: Job) -> str:
    """Describe how a run differs from a job with the same place in the protocol."""
    path = run / "config.json"
    if not path.exists():
        return "planned with other settings and not started; delete it, or choose another `out`"
    named = changes(read_json(path), job.config.to_json())
    return f"run with other settings ({named}); choose another `out`"


# The final states of a run.
ENDED = ("finished", "diverged", "failed")


@dataclass
class Standing:
    """The progress of a sweep: counts, active runs, remaining time, and the best runs so far."""

    total: int
    counts: Counter[str] = field(default_factory=Counter)
    running: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    best: dict[str, tuple[float, str]] = field(default_factory=dict)
    seconds_left: float | None = None

    @property
    def left(self) -> int:
        """The number of runs that have not ended."""
        return self.total - sum(self.counts[state] for state in ENDED)

    def to_json(self) -> dict[str, Any]:
        """Return the progress as JSON values."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Standing:
        """Restore the output of `to_json`; the values are checked, as the file may be untrusted."""
        running = rebuilt(Mapping[str, tuple[str, int, int]], value["running"])
        best = rebuilt(Mapping[str, tuple[float, str]], value["best"])
        return cls(
            rebuilt(int, value["total"]),
            Counter(rebuilt(Mapping[str, int], value["counts"])),
            {
                key: (printable(title), step, max(1, steps))
                for key, (title, step, steps) in running.items()
            },
            {
                printable(cell): (accuracy, printable(name))
                for cell, (accuracy, name) in best.items()
            },
            rebuilt(float | None, value["seconds_left"]),
        )


class Status(NamedTuple):
    """The last reported progress of a sweep, and whether its process is still running."""

    standing: Standing
    running: bool


def sweep_status(folder: Path) -> Status:
    """Return the status of the sweep in a folder; works from any process."""
    path = folder / "status.json"
    if not path.exists():
        raise DataError(f"{folder} holds no sweep, or one that has not started")
    try:
        status = read_json(path)
        recent = time.time() - float(status.get("time", 0)) < SILENCE
        return Status(Standing.from_json(status), recent and not status.get("ended", False))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"{path} is damaged; run the sweep again to rewrite it") from error
