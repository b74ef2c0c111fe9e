"""A sweep is a folder: sweep.json, a folder for each run, and how the work stands.

What is finished is said by the runs' own files, so any process may be killed at any moment: the
next one finds out by itself what is left to do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from filelock import FileLock, Timeout

from shiftproof.core.errors import RunConflict
from shiftproof.core.files import read_json, write_json
from shiftproof.sweeps.jobs import Job

State = Literal["waiting", "begun", "finished", "diverged", "failed"]
# A driver that has not said how it stands for longer is taken to be gone.
SILENCE = 15.0
# The setting of a sweep that says what its runs evaluate.
EVALUATED = "evaluated for --selection"


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
        """Hold the folder for one driver, and for one kind of runs.

        ``settings`` are what must not change from one call to the next: runs made under others
        cannot be compared.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunConflict(f"{self.path} is a file; --out takes a folder")
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / "lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise RunConflict(
                f"another sweep is at work in {self.path}; shiftproof sweep --status"
                f" {self.path} shows how it stands"
            ) from None
        try:
            self._claim_settings(dict(settings))
            yield
        finally:
            lock.release()

    def run(self, job: Job) -> Path:
        """Return the folder of a run."""
        return self.path / "runs" / f"{job.data.name}-{job.config.algorithm}-{job.id}"

    def prepare(self, job: Job) -> Path:
        """Write the job's place in the protocol beside its run, and return the run's folder."""
        folder = self.run(job)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "job.json"
        if not path.exists():
            write_json(path, job.to_json())
        return folder

    def state(self, job: Job) -> State:
        """Return how a run stands, by its files."""
        folder = self.run(job)
        if (folder / "done.json").exists():
            ended = read_json(folder / "done.json")
            return "diverged" if ended.get("status") == "diverged" else "finished"
        if (folder / "failed.json").exists():
            return "failed"
        return "begun" if (folder / "config.json").exists() else "waiting"

    def fail(self, job: Job, reason: str, trace: str = "") -> None:
        """Record why a run could not be finished."""
        failure = {"title": job.title, "reason": reason, "trace": trace}
        write_json(self.prepare(job) / "failed.json", failure)

    def forgive(self, job: Job) -> None:
        """Forget a failure, so that the run is tried again."""
        (self.run(job) / "failed.json").unlink(missing_ok=True)

    def failures(self, jobs: Sequence[Job]) -> list[Failure]:
        """Return the failed among some jobs."""
        failed = [job for job in jobs if self.state(job) == "failed"]
        read = [read_json(self.run(job) / "failed.json") for job in failed]
        return [Failure(str(f.get("title")), str(f.get("reason"))) for f in read]

    def tell(self, status: Mapping[str, Any]) -> None:
        """Write how the work stands, for whoever looks from another terminal."""
        write_json(self.path / "status.json", {**status, "told": time.time()})

    def told(self) -> dict[str, Any] | None:
        """Return how the work stood last, with ``alive`` for whether its driver still speaks."""
        path = self.path / "status.json"
        if not path.exists():
            return None
        status = read_json(path)
        recently = time.time() - float(status.get("told", 0)) < SILENCE
        return {**status, "alive": recently and not status.get("ended", False)}

    def _claim_settings(self, settings: dict[str, Any]) -> None:
        path = self.path / "sweep.json"
        if not path.exists():
            others = [f.name for f in self.path.iterdir() if f.name != "lock"]
            if others:
                raise RunConflict(
                    f"{self.path} has {min(others)} but no sweep.json: not a sweep to go on with;"
                    " choose another --out"
                )
            write_json(path, settings)
            return
        found = read_json(path)
        wanted = json.loads(json.dumps(settings))
        if EVALUATED not in found:  # of an older version, which did not write it
            wanted.pop(EVALUATED, None)
        changed = [key for key in wanted if found.get(key) != wanted[key]]
        if changed:
            key = changed[0]
            raise RunConflict(
                f"{self.path} holds a sweep with another {key} ({found.get(key)!r}, not"
                f" {wanted[key]!r}); choose another --out"
            )
