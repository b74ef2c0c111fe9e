"""Track the progress of a sweep from its events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from shiftproof.sweeps.executors.base import Event
from shiftproof.sweeps.jobs import Job
from shiftproof.sweeps.store import ENDED, Standing, SweepFolder

STATUS_SECONDS = 1.0
# The fewest runs that must fail at their start before a sweep gives up.
FEWEST_FAILURES = 3


class Tracker:
    """Keeps the standing of a sweep up to date, also on disk for other processes."""

    def __init__(
        self,
        jobs: Sequence[Job],
        folder: SweepFolder,
        expected: Callable[[Job], float],
        workers: int,
        show: Callable[[Standing], None],
    ) -> None:
        states = {job.id: folder.state(job) for job in jobs}
        self.left = [job for job in jobs if states[job.id] not in ENDED]
        self.standing = Standing(len(jobs))
        self.standing.counts.update(state for state in states.values() if state in ENDED)
        self._folder = folder
        self._workers = workers
        self._show = show
        self._expected = {job.id: expected(job) for job in self.left}
        self._done_seconds: list[tuple[float, float]] = []
        self._told = 0.0
        self._proceeded = False
        self._kinds = {_kind(job) for job in self.left}
        self._failed: list[Job] = []
        self.stop = self.gave_up = False

    def __call__(self, event: Event | None) -> bool:
        """Record an event; return whether to stop."""
        if event is not None:
            self._note(event)
            self.gave_up |= self._hopeless()
        now = time.monotonic()
        if now - self._told >= STATUS_SECONDS or (event is not None and event.kind == "ended"):
            self._told = now
            self.standing.seconds_left = self._seconds_left()
            self._folder.write_status(self.standing.to_json())
            self._show(self.standing)
        return self.stop or self.gave_up

    def end(self) -> None:
        """Write that the sweep is no longer running."""
        self.standing.running.clear()
        self._folder.write_status({**self.standing.to_json(), "ended": True})

    def _note(self, event: Event) -> None:
        job, standing = event.job, self.standing
        self._proceeded |= event.kind == "ended" or event.step > 0
        if event.kind in ("started", "progress"):
            standing.running[job.id] = (job.title, event.step, job.config.steps)
            return
        standing.running.pop(job.id, None)
        if event.kind == "failed":
            self._folder.record_failure(job, event.reason, event.trace)
            standing.counts["failed"] += 1
            self._failed.append(job)
        elif event.status != "stopped":
            standing.counts[event.status] += 1
            self._done_seconds.append((self._expected[job.id], event.seconds))
            self._note_best(event)
        if event.status != "stopped":
            self._expected.pop(job.id, None)

    def _hopeless(self) -> bool:
        """Whether all runs so far, at least one of every kind, failed before their first step."""
        failed = {_kind(job) for job in self._failed}
        enough = len(self._failed) >= FEWEST_FAILURES and failed == self._kinds
        return enough and not self._proceeded and self.standing.left > 0

    def _note_best(self, event: Event) -> None:
        """Keep the best test accuracy for each dataset and held-out domain."""
        config = event.job.config
        if event.status != "finished" or len(config.test_domains) != 1:
            return
        accuracy = event.accuracy.get(f"{config.test_domains[0]}/in")
        key = f"{config.dataset} without {config.test_domains[0]}"
        if accuracy is not None and accuracy > self.standing.best.get(key, (-1.0, ""))[0]:
            self.standing.best[key] = (accuracy, event.job.variant)

    def _seconds_left(self) -> float | None:
        """Return the remaining time, with estimates corrected by the durations so far."""
        guessed = sum(guess for guess, _ in self._done_seconds)
        took = sum(seconds for _, seconds in self._done_seconds)
        factor = took / guessed if guessed > 0 and took > 0 else 1.0
        remaining = 0.0
        for job_id, guess in self._expected.items():
            _, step, steps = self.standing.running.get(job_id, ("", 0, 1))
            remaining += guess * (1 - step / steps)
        return factor * remaining / self._workers


def _kind(job: Job) -> tuple[str, str]:
    """Return the dataset and variant, which runs that fail for a common reason share."""
    return job.data.name, job.variant
