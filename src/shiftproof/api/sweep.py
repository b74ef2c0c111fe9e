"""`sweep`: run the DomainBed protocol."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from shiftproof.api.report import Report, report
from shiftproof.api.settings import SweepSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import keywords
from shiftproof.sweeps.executors import open_executor
from shiftproof.sweeps.jobs import Frozen, Job, algorithm_names, sweep_data, variants_of
from shiftproof.sweeps.presets import preset_named
from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.retrained import SelectedModel
from shiftproof.sweeps.selected_models import (
    check_retraining,
    export_models,
    retrain,
    select_models,
)
from shiftproof.sweeps.selection import SELECTORS
from shiftproof.sweeps.store import Failure, Standing, SweepFolder
from shiftproof.sweeps.sweep import SweepObserver, SweepPlan, SweepResult, make_plan, run_sweep

# The settings of `make_plan`.
PLANNED = (
    "n_hparams", "draws", "trials", "steps", "eval_every", "device", "precision", "test_domains",
    "average", "class_weight",
)  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """A sweep: its folder, its plan, and the result of its runs.

    ``result`` is None after a dry run.  ``models`` is the file that lists the exported models, and
    ``retrained`` holds the retrained runs, which the report shows.
    """

    folder: Path
    plan: SweepPlan
    result: SweepResult | None = None
    models: Path | None = None
    retrained: tuple[SelectedModel, ...] = ()

    @property
    def status(self) -> str:
        """`planned`, `stopped`, `failed` (some runs failed) or `finished`."""
        if self.result is None:
            return "planned"
        if self.result.stopped:
            return "stopped"
        return "failed" if self.result.failures else "finished"

    @property
    def standing(self) -> Standing:
        """The number of runs in each state."""
        return self.result.standing if self.result else Standing(len(self.plan.jobs))

    @property
    def failures(self) -> list[Failure]:
        """The runs that failed, each with the reason."""
        return self.result.failures if self.result else []

    def report(
        self, *, selection: str | Sequence[str] | None = None, baseline: str | None = None
    ) -> Report:
        """Return the tables of the sweep; see `report`."""
        return report(self.folder, selection=selection, baseline=baseline)

    def __repr__(self) -> str:
        folder, runs = str(self.folder), len(self.plan.jobs)
        return f"Sweep(folder={folder!r}, runs={runs}, status={self.status!r})"


@keywords(SweepSettings)
def sweep(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], settings: SweepSettings
) -> Sweep:
    """Run the DomainBed protocol in a folder; called again with the same settings, resume it.

    The first Ctrl-C stops the runs after their current steps, with checkpoints.

    Args:
        data: one or several dataset names, image folders or tables.
    """
    several = [data] if isinstance(data, str | os.PathLike) else data
    if not isinstance(several, Sequence) or not all(
        isinstance(name, str | os.PathLike) for name in several
    ):
        raise InvalidValue("`data` must be names and paths, because every process loads the data")
    names = [os.fspath(name) for name in several]
    if not names:
        raise InvalidValue("`data` must name at least one dataset")
    observer = settings.observer or SweepObserver()
    size = preset_named(settings.preset)
    variants = variants_of(algorithm_names(settings.algorithms), settings.hparams or {})
    if settings.retrain:
        check_retraining(size, settings.average)
    frozen = Frozen(settings.backbone, str(settings.weights), settings.precision)
    selectors, folder = settings.selection, Path(settings.out)
    is_left = partial(SweepFolder(folder).is_left, retry_failed=settings.retry_failed)
    sets = sweep_data(names, size, frozen, settings)
    # Open the executor first, so that its errors appear before planning, which takes a while.
    with open_executor(
        settings.executor, settings.workers, settings.ray_address, settings.stall_seconds
    ) as place:
        plan = make_plan(
            sets,
            variants,
            size,
            selectors,
            is_left=is_left,
            threads=place.threads,
            progress=observer.progress,
            **{name: getattr(settings, name) for name in PLANNED},
        )
        left = plan.left(is_left)
        workers_used = place.workers(left.jobs, plan.memory)
        observer.planned(left, workers_used, len(plan.jobs) - len(left.jobs))
        if settings.dry_run:
            return Sweep(folder, plan)
        result = run_sweep(
            plan, folder, executor=place, retry_failed=settings.retry_failed, observer=observer
        )

        def repeated(why: str) -> Callable[[Sequence[Job], Path], bool]:
            """Return a function that runs jobs in another folder; `why` is a key in its settings.

            It returns whether all runs finished; if not, `result` is replaced.
            """

            def run(jobs: Sequence[Job], folder: Path) -> bool:
                nonlocal result
                described = {**plan.settings, why: "a sweep"}
                again = replace(plan, jobs=tuple(jobs), settings=described)
                ended = run_sweep(
                    again, folder, executor=place, retry_failed=True, observer=observer
                )
                result = result if ended.complete else ended
                return ended.complete

            return run

        def selected() -> list[tuple[SelectedModel, Job]]:
            chosen = [SELECTORS.get(name)() for name in selectors]
            return select_models(plan.jobs, read_sweep(folder), chosen)

        files = SweepFolder(folder)
        retrained: tuple[SelectedModel, ...] = ()
        index: Path | None = None
        if settings.retrain and result.complete:
            run = repeated("retrained from")
            retrained = tuple(retrain(selected(), files, run, observer.progress))
        if settings.models is not None and result.complete:
            run = repeated("chosen from")
            index = export_models(selected(), files, Path(settings.models), run)
        return Sweep(folder, plan, result, index, retrained)
