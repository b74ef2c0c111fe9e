"""A sweep from plan to last run: what is done stays done, whatever happens in between."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import InvalidValue, RunConflict
from shiftproof.core.files import read_json
from shiftproof.data.base import Progress, silent
from shiftproof.sweeps.estimate import Cost, measure, total_bytes, total_seconds
from shiftproof.sweeps.executors.base import Executor
from shiftproof.sweeps.executors.local import LocalExecutor
from shiftproof.sweeps.jobs import Job, SweepData, Variant
from shiftproof.sweeps.plan import combined, plan, test_sets
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.results import RUN_NAMES, read_object, row_of
from shiftproof.sweeps.selection import SELECTORS, Needs
from shiftproof.sweeps.store import EVALUATED, Failure, SweepFolder
from shiftproof.sweeps.tracker import Standing, Tracker
from shiftproof.training.interrupt import stop_on_signal
from shiftproof.training.run_folder import changes


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep, and what they cost.

    ``by_selector`` counts the runs that each selection method asks for, ``settings`` are what a
    folder of runs must have in common, ``memory`` is what one process takes, in bytes.
    """

    jobs: tuple[Job, ...]
    costs: Mapping[tuple[str, str], Cost]
    by_selector: Mapping[str, int]
    settings: Mapping[str, Any]
    memory: int

    def expected_seconds(self, job: Job) -> float:
        """Return about how long a run takes."""
        return self.costs[job.data.name, job.variant].seconds(job)

    def seconds(self, workers: int) -> float:
        """Return about how long all runs take in so many processes; no run is divided."""
        longest = max(map(self.expected_seconds, self.jobs), default=0.0)
        return max(longest, total_seconds(self.jobs, dict(self.costs)) / workers)

    @property
    def disk(self) -> int:
        """About how many bytes the checkpoints take."""
        return total_bytes(self.jobs, dict(self.costs))


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended: all its runs accounted for."""

    standing: Standing
    failures: list[Failure]
    stopped: bool


def make_plan(
    sets: Sequence[SweepData],
    variants: Sequence[Variant],
    preset: Preset,
    selectors: Sequence[str],
    *,
    n_hparams: int,
    trials: int,
    steps: int | None = None,
    device: str = "auto",
    precision: str = "fp32",
    test_domains: Sequence[str] = (),
    progress: Progress = silent,
) -> SweepPlan:
    """Plan the runs that the selectors need, and measure a few steps of each kind."""
    if n_hparams < 1 or trials < 1:
        raise InvalidValue("a sweep needs at least one draw of hyper-parameters and one trial")
    if steps is not None:
        preset = replace(preset, steps=steps)
    names = [data.name for data in sets]
    if len(set(names)) < len(names):
        raise InvalidValue(f"two datasets of one name among {', '.join(names)}")
    needs = {name: SELECTORS.get(name).needs for name in selectors}
    if preset.holdout == 0:
        _check_parts(needs, preset)
    together = combined([*needs.values()])
    jobs: list[Job] = []
    costs: dict[tuple[str, str], Cost] = {}
    counts = dict.fromkeys(selectors, 0)
    for data in sets:
        loaded = {trial: data.load(trial, progress) for trial in range(trials)}
        own = list(
            plan(
                data,
                loaded,
                variants,
                preset,
                needs=together,
                hparams_seeds=range(n_hparams),
                test_domains=test_domains,
                device=device,
                precision=precision,
            )
        )
        for name, need in needs.items():
            per_draw = len(test_sets(loaded[0], need, test_domains))
            counts[name] += len(variants) * trials * n_hparams * per_draw
        for done, variant in enumerate(variants):
            progress(f"measuring steps on {data.name}", done, len(variants))
            first = next(job for job in own if job.variant == variant.name)
            costs[data.name, variant.name] = measure(first, loaded[0])
        progress(f"measuring steps on {data.name}", len(variants), len(variants))
        jobs += own
    settings = {
        "preset": preset.name,
        "steps": preset.steps,
        "precision": precision,
        # What a run evaluates is part of what it is: under other --selection it is another run.
        EVALUATED: sorted(together.evaluate) + ["each"] * together.every_step,
    }
    return SweepPlan(tuple(jobs), costs, counts, settings, memory_so_far())


def run_sweep(
    planned: SweepPlan,
    out: Path,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    show: Callable[[Standing], None] = lambda standing: None,
) -> SweepResult:
    """Run what is left of a sweep in ``out``.

    By default in ``workers`` processes on this machine (see `sweeps.executors`
    for others).  The first SIGINT or SIGTERM stops the runs after their current steps, with
    checkpoints.
    """
    folder = SweepFolder(out)
    executor = executor or LocalExecutor(workers)
    with folder.claim(planned.settings), stop_on_signal() as stop_asked:
        _check_places(planned.jobs, folder)
        if retry_failed:
            for job in planned.jobs:
                folder.forgive(job)
        tracker = Tracker(
            planned.jobs,
            folder,
            planned.expected_seconds,
            executor.workers(planned.jobs, planned.memory),
            show,
        )

        def listen(event: Any) -> bool:
            tracker.stop = tracker.stop or stop_asked()
            return tracker(event)

        try:
            executor.run(longest_first(tracker.left, planned), folder, listen, planned.memory)
        finally:
            tracker.end()
        return SweepResult(tracker.standing, folder.failures(planned.jobs), tracker.stop)


def longest_first(jobs: Sequence[Job], planned: SweepPlan) -> list[Job]:
    """Return jobs dataset by dataset, the long ones first: at the end no process waits long."""
    datasets = list(dict.fromkeys(job.data.name for job in planned.jobs))
    return sorted(
        jobs, key=lambda job: (datasets.index(job.data.name), -planned.expected_seconds(job))
    )


def _check_parts(needs: Mapping[str, Needs], preset: Preset) -> None:
    """Refuse selectors that would find nothing: there are no out parts to score."""
    blind = [name for name, need in needs.items() if _reads_out(need)]
    if blind:
        others = [name for name, selector in SELECTORS.items() if not _reads_out(selector.needs)]
        raise InvalidValue(
            f"--selection {','.join(blind)} reads samples that are not trained on, and the preset"
            f" {preset.name} holds none out; use --selection {' or '.join(others)}"
        )


def _reads_out(needs: Needs) -> bool:
    return any(name.endswith("-out") for name in needs.evaluate + needs.evaluate_pairs)


def _check_places(jobs: Sequence[Job], folder: SweepFolder) -> None:
    """Refuse a folder that has one of the runs as another row's, or another run in its place.

    Only one of two rows would show the run; of two runs in one place, made with other weights say,
    no report could tell which to take.
    """
    paths = folder.path.glob("runs/*/job.json")
    there = {path.parent: read_object(path, RUN_NAMES) for path in sorted(paths)}
    by_place = {_place(place): run for run, place in there.items()}
    for job in jobs:
        run = folder.run(job)
        if run not in there:
            if twin := by_place.get(_place(job.to_json())):
                raise RunConflict(f"{twin} has {job.title}, {_otherwise(twin, job)}")
        elif (row := row_of(there[run])) != job.variant:
            raise RunConflict(
                f"{run} has this run as {row}, not {job.variant};"
                " choose another --out (report puts several together)"
            )


def _place(job: Mapping[str, Any]) -> str:
    return json.dumps(job, sort_keys=True)


def _otherwise(run: Path, job: Job) -> str:
    """Say what sets a run apart from a job in its place."""
    path = run / "config.json"
    if not path.exists():
        return "planned otherwise and not begun; delete it, or choose another --out"
    named = changes(read_json(path), job.config.to_json())
    return f"made otherwise ({named}); choose another --out"


def memory_so_far() -> int:
    """Return the most memory that this process, which has measured every kind of run, has used."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
