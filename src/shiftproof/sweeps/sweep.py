"""Plan and run a sweep, which can be interrupted at any time and resumed."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from shiftproof.core.errors import InvalidValue
from shiftproof.core.types import UNWEIGHTED
from shiftproof.data.base import Progress, silent
from shiftproof.sweeps.estimate import Cost, measure
from shiftproof.sweeps.executors.base import Executor
from shiftproof.sweeps.executors.local import LocalExecutor
from shiftproof.sweeps.jobs import DatasetCache, Job, SweepData, Variant
from shiftproof.sweeps.plan import Block, check_interval, check_parts, chosen_draws, combined, plan
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.selection import SELECTORS, Needs
from shiftproof.sweeps.store import Failure, Standing, SweepFolder
from shiftproof.sweeps.tracker import Tracker
from shiftproof.training.interrupt import stop_on_signal


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep and their expected cost.

    All runs in a folder must share ``settings``.  ``memory`` is the memory of one process in bytes,
    and ``needs`` lists what each selection method reads.
    """

    jobs: tuple[Job, ...]
    costs: Mapping[tuple[str, str], Cost]
    settings: Mapping[str, Any]
    memory: int
    needs: Mapping[str, Needs] = field(default_factory=dict)

    def left(self, is_left: Callable[[Job], bool]) -> SweepPlan:
        """Return the plan restricted to the remaining runs."""
        return replace(self, jobs=tuple(job for job in self.jobs if is_left(job)))

    @property
    def by_selector(self) -> dict[str, int]:
        """The number of runs that each selection method needs."""
        pairs = sum(len(job.config.test_domains) > 1 for job in self.jobs)
        return {
            name: len(self.jobs) - (0 if need.evaluate_pairs else pairs)
            for name, need in self.needs.items()
        }

    def expected_seconds(self, job: Job) -> float:
        """Return the estimated duration of a run in seconds."""
        return self.costs[job.data.name, job.variant].seconds(job)

    def seconds(self, workers: int) -> float:
        """Return the estimated duration of all runs in ``workers`` processes; no run is split."""
        seconds = [self.expected_seconds(job) for job in self.jobs]
        return max(max(seconds, default=0.0), sum(seconds) / workers)

    @property
    def disk(self) -> int:
        """The estimated size of all checkpoints in bytes."""
        return sum(self.costs[job.data.name, job.variant].checkpoint for job in self.jobs)


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended; ``gave_up`` is True if every kind of run failed at its start."""

    standing: Standing
    failures: list[Failure]
    stopped: bool
    gave_up: bool = False

    @property
    def complete(self) -> bool:
        """Whether all runs have ended without an error."""
        return not self.failures and not self.stopped


class SweepObserver:
    """Callbacks for the progress of a sweep; subclasses override the ones they need."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Called while data is loaded or steps are measured."""

    def planned(self, plan: SweepPlan, workers: int, done: int) -> None:
        """Called with the plan of the remaining runs; ``done`` runs ended earlier."""

    def standing(self, standing: Standing) -> None:
        """Called with the current state of all runs."""

    def ended(self, result: SweepResult) -> None:
        """Called when no run is left, or the sweep was stopped."""


def make_plan(
    sets: Sequence[SweepData],
    variants: Sequence[Variant],
    preset: Preset,
    selectors: Sequence[str],
    *,
    n_hparams: int,
    trials: int,
    draws: Sequence[int] = (),
    is_left: Callable[[Job], bool] = lambda job: True,
    steps: int | None = None,
    eval_every: int | None = None,
    test_domains: Sequence[str] = (),
    threads: int = 1,
    progress: Progress = silent,
    **common: Any,
) -> SweepPlan:
    """Plan the runs that the selectors need, and time a few steps of each remaining kind.

    ``common`` are keywords of `configure` that apply to every run.
    """
    if n_hparams < 1 or trials < 1:
        raise InvalidValue("a sweep needs at least one draw of hyper-parameters and one trial")
    chosen = chosen_draws(n_hparams, draws)
    if steps is not None:
        preset = replace(preset, steps=steps)
    needs = {name: SELECTORS.get(name).needs for name in selectors}
    if preset.holdout == 0:
        check_parts(needs, preset)
    together = combined([*needs.values()])
    if eval_every is not None:
        check_interval(eval_every, together, selectors)
        preset = replace(preset, interval=eval_every)
    blocks = [Block(data, variants, together, chosen, trials, test_domains) for data in sets]
    planned = plan_blocks(
        blocks, preset, is_left=is_left, threads=threads, progress=progress, **common
    )
    return replace(planned, needs=needs)


def plan_blocks(
    blocks: Sequence[Block],
    preset: Preset,
    *,
    is_left: Callable[[Job], bool] = lambda job: True,
    threads: int = 1,
    progress: Progress = silent,
    **common: Any,
) -> SweepPlan:
    """Plan runs, and time a few steps of each variant that has runs left, on ``threads`` threads.

    All runs are planned first, so that mistakes are reported before anything is measured.
    """
    names = [block.data.name for block in blocks]
    if len(set(names)) < len(names):
        raise InvalidValue(f"two datasets have the same name ({', '.join(names)}); rename one")
    planned = []
    cache = DatasetCache()
    for block in blocks:
        loaded = {trial: block.data.load(trial, progress) for trial in range(block.trials)}
        planned.append([*plan(block, loaded, preset, **common)])
        cache.keep(block.data, 0, loaded[0])
    costs: dict[tuple[str, str], Cost] = {}
    for block, jobs_of_block in zip(blocks, planned, strict=True):
        what, count = f"measuring steps on {block.data.name}", len(block.variants)
        for done, variant in enumerate(block.variants):
            progress(what, done, count)
            left = [job for job in jobs_of_block if job.variant == variant.name and is_left(job)]
            alike = [job for job in left if _size(job) == _size(left[0])]
            cost = measure(alike, cache.get(left[0]), threads) if left else Cost(0.0, 0.0, 0)
            costs[block.data.name, variant.name] = cost
        progress(what, count, count)
    # What a run evaluates is part of its identity: another selection makes another run.
    settings: dict[str, Any] = {
        "preset": preset.name,
        "steps": preset.steps,
        "precision": common.get("precision", "fp32"),
        "evaluate": sorted({name for block in blocks for name in block.needs.evaluate}),
    }
    # Stored files leave out what has its default.
    optional = {
        "every_step": (any(block.needs.every_step for block in blocks), False),
        "eval_every": (preset.interval, None),
        "average": (common.get("average", "none"), "none"),
        "class_weight": (common.get("class_weight", UNWEIGHTED), UNWEIGHTED),
    }
    settings |= {name: value for name, (value, default) in optional.items() if value != default}
    return SweepPlan(tuple(chain.from_iterable(planned)), costs, settings, memory_so_far())


def run_sweep(
    planned: SweepPlan,
    out: Path,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    observer: SweepObserver | None = None,
) -> SweepResult:
    """Run the remaining runs of a sweep in the folder ``out``.

    The default ``executor`` starts ``workers`` processes on this machine.  The first SIGINT,
    SIGTERM or SIGHUP stops the runs after their current step and saves checkpoints.
    """
    folder = SweepFolder(out)
    executor = executor or LocalExecutor(workers)
    observer = observer or SweepObserver()
    with folder.claim(planned.settings), stop_on_signal() as stop:
        folder.check_places(planned.jobs)
        if retry_failed:
            for job in planned.jobs:
                folder.clear_failure(job)
        tracker = Tracker(
            planned.jobs,
            folder,
            planned.expected_seconds,
            executor.workers(planned.jobs, planned.memory),
            observer.standing,
        )

        def listen(event: Any) -> bool:
            tracker.stop = tracker.stop or stop.asked()
            return tracker(event)

        try:
            order = one_of_each_first(longest_first(tracker.left, planned))
            executor.run(order, folder, listen, planned.memory)
        finally:
            tracker.end()
        stop.heeded = tracker.stop
        result = SweepResult(
            tracker.standing, folder.failures(planned.jobs), tracker.stop, tracker.gave_up
        )
    observer.ended(result)
    return result


def longest_first(jobs: Sequence[Job], planned: SweepPlan) -> list[Job]:
    """Sort jobs by dataset, longest first, so that no process waits long."""
    datasets = list(dict.fromkeys(job.data.name for job in planned.jobs))
    return sorted(
        jobs, key=lambda job: (datasets.index(job.data.name), -planned.expected_seconds(job))
    )


def one_of_each_first(jobs: Sequence[Job]) -> list[Job]:
    """Return the first job of each dataset and variant, then the rest: mistakes show early."""
    first = {(job.data.name, job.variant): job for job in reversed(jobs)}
    ahead = [job for job in jobs if first[job.data.name, job.variant] is job]
    return ahead + [job for job in jobs if first[job.data.name, job.variant] is not job]


def _size(job: Job) -> tuple[int, int]:
    """Return what determines the size of a run, apart from its hyper-parameters."""
    return job.trial_seed, len(job.config.test_domains)


def memory_so_far() -> int:
    """Return the peak memory in bytes of this process, which has measured every kind of run."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
