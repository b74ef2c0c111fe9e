"""`sweep`: run the DomainBed protocol."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from shiftproof.api.report import Report, report
from shiftproof.api.settings import SweepSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import keywords
from shiftproof.sweeps.executors import open_executor
from shiftproof.sweeps.executors.base import Executor
from shiftproof.sweeps.jobs import Frozen, Job, algorithm_names, sweep_data, variants_of
from shiftproof.sweeps.presets import preset_named
from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.retrained import SelectedModel
from shiftproof.sweeps.selected_models import (
    check_retraining,
    export_models,
    retrain as retrain_selected,
    select_models,
)
from shiftproof.sweeps.selection import SELECTORS
from shiftproof.sweeps.standing import Standing
from shiftproof.sweeps.store import Failure, SweepFolder
from shiftproof.sweeps.sweep import SweepObserver, SweepPlan, SweepResult, make_plan, run_sweep


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
        isinstance(each, str | os.PathLike) for each in several
    ):
        raise InvalidValue("`data` must be names and paths, because every process loads the data")
    names = [os.fspath(each) for each in several]
    if not names:
        raise InvalidValue("`data` must name at least one dataset")
    observer = settings.observer or SweepObserver()
    size = preset_named(settings.preset)
    variants = variants_of(algorithm_names(settings.algorithms), settings.hparams or {})
    if settings.retrain:
        check_retraining(size, settings.average)
    frozen = Frozen(settings.backbone, str(settings.weights), settings.precision)
    selectors, folder, models = settings.selection, Path(settings.out), settings.models
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
            n_hparams=settings.n_hparams,
            trials=settings.trials,
            draws=tuple(settings.draws),  # type: ignore[arg-type]
            is_left=is_left,
            steps=settings.steps,
            eval_every=settings.eval_every,
            device=settings.device,
            precision=settings.precision,
            test_domains=settings.test_domains,
            average=settings.average,
            class_weight=settings.class_weight,
            threads=place.threads,
            progress=observer.progress,
        )
        left = plan.left(is_left)
        workers_used = place.workers(left.jobs, plan.memory)
        observer.planned(left, workers_used, len(plan.jobs) - len(left.jobs))
        if settings.dry_run:
            return Sweep(folder, plan)
        result = run_sweep(
            plan, folder, executor=place, retry_failed=settings.retry_failed, observer=observer
        )
        found = Sweep(folder, plan, result)
        if found.status == "finished" and settings.retrain:
            found = _retrain(found, selectors, place, observer)
        if found.status == "finished" and models is not None:
            found = _export(found, selectors, Path(models), place, observer)
        return found


def _retrain(
    sweep: Sweep, selectors: Sequence[str], executor: Executor, observer: SweepObserver
) -> Sweep:
    """Retrain the selected models on all samples of the training domains."""
    again = _Repeated(sweep, executor, observer, "retrained from")
    selected = _selected(sweep, selectors)
    retrained = retrain_selected(selected, SweepFolder(sweep.folder), again.run, observer.progress)
    return replace(sweep, result=again.result, retrained=tuple(retrained))


def _export(
    sweep: Sweep, selectors: Sequence[str], out: Path, executor: Executor, observer: SweepObserver
) -> Sweep:
    """Write the selected models, repeating runs if necessary."""
    again = _Repeated(sweep, executor, observer, "chosen from")
    index = export_models(_selected(sweep, selectors), SweepFolder(sweep.folder), out, again.run)
    return replace(sweep, result=again.result, models=index)


def _selected(sweep: Sweep, selectors: Sequence[str]) -> list[tuple[SelectedModel, Job]]:
    outcomes = read_sweep(sweep.folder)
    return select_models(sweep.plan.jobs, outcomes, [SELECTORS.get(name)() for name in selectors])


class _Repeated:
    """Additional runs after a sweep, in separate folders; ``why`` is a key in their settings.

    ``result`` is the result of the sweep, or of additional runs that did not complete.
    """

    def __init__(self, sweep: Sweep, executor: Executor, observer: SweepObserver, why: str) -> None:
        self.result = sweep.result
        self._plan = sweep.plan
        self._executor = executor
        self._observer = observer
        self._why = why

    def run(self, jobs: Sequence[Job], folder: Path) -> bool:
        """Run jobs in a folder; return whether all finished."""
        settings = {**self._plan.settings, self._why: "a sweep"}
        plan = replace(self._plan, jobs=tuple(jobs), settings=settings)
        done = run_sweep(
            plan, folder, executor=self._executor, retry_failed=True, observer=self._observer
        )
        if not done.complete:
            self.result = done
        return done.complete
