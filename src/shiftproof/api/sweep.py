"""`sweep`: run the DomainBed protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from shiftproof.api.report import Report, report
from shiftproof.core.errors import InvalidValue
from shiftproof.core.types import UNWEIGHTED, checked_class_weight
from shiftproof.sweeps.executors import open_executor
from shiftproof.sweeps.executors.base import Executor
from shiftproof.sweeps.jobs import Frozen, Job, SweepData, algorithm_names, variants_of
from shiftproof.sweeps.presets import preset_named
from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.retrain import check_retraining, retrain as retrain_selected
from shiftproof.sweeps.retrained import RetrainedRun
from shiftproof.sweeps.selected_models import SelectedModel, export_models, select_models
from shiftproof.sweeps.selection import SELECTORS
from shiftproof.sweeps.standing import Standing
from shiftproof.sweeps.store import Failure, SweepFolder
from shiftproof.sweeps.sweep import SweepObserver, SweepPlan, SweepResult, make_plan, run_sweep

SELECTION = ("training-domain", "oracle")


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
    retrained: tuple[RetrainedRun, ...] = ()

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


def sweep(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    algorithms: str | Sequence[str] = ("erm", "idm"),
    *,
    preset: str = "domainbed",
    n_hparams: int = 20,
    draws: int | Sequence[int] = (),
    trials: int = 3,
    selection: str | Sequence[str] = SELECTION,
    out: str | os.PathLike[str] = "sweep",
    hparams: Mapping[str, object] | None = None,
    test_domains: str | Sequence[str] = (),
    steps: int | None = None,
    eval_every: int | None = None,
    label: str | None = None,
    domain: str | None = None,
    weights_column: str | None = None,
    class_weight: str = UNWEIGHTED,
    backbone: str | None = None,
    weights: str | os.PathLike[str] = "pretrained",
    options: Mapping[str, str] | None = None,
    executor: str = "local",
    ray_address: str | None = None,
    workers: int | None = None,
    stall_seconds: float | None = None,
    models: str | os.PathLike[str] | None = None,
    retrain: bool = False,
    average: str = "none",
    device: str = "auto",
    precision: str = "fp32",
    retry_failed: bool = False,
    dry_run: bool = False,
    observer: SweepObserver | None = None,
) -> Sweep:
    """Run the DomainBed protocol in a folder; called again with the same settings, resume it.

    The first Ctrl-C stops the runs after their current steps, with checkpoints.

    Args:
        data: one or several dataset names, image folders or tables.
        algorithms: names in `shiftproof.ALGORITHMS`; `all` means all but those for full batches.
        preset: size of the runs: `domainbed` (as published), `lite` (reduced size) or `table1` (500
            full batches, as in IRM's study of Colored MNIST; two classes).
        n_hparams: number of hyper-parameter draws; the first draw is the defaults.
        draws: run only these draws, given by their seeds from 0 to `n_hparams` - 1; a later call
            with the same folder can add others.
        trials: number of repetitions with different data seeds.
        selection: training-domain, leave-one-domain-out, oracle, invariance, best-minimum.
        out: folder of the sweep.
        hparams: hyper-parameters fixed in every run; tables show them after the algorithm name.
        test_domains: domains to hold out, which every dataset must have; by default each in turn.
        steps: number of updates; overrides the preset.
        eval_every: steps between evaluations; overrides the preset.  Only evaluated steps can be
            selected.
        label: label column of tables.
        domain: domain column of tables.
        weights_column: column of tables with the weight of each row in training.
        class_weight: class weights in training: `none`, or `balanced` to weight classes equally.
        backbone: network that computes the features if the preset freezes images; resnet50 by
            default.
        weights: weights of that network: a file, `pretrained` or `random`.
        options: options of every dataset.
        executor: where to run: `local` (processes) or `ray` (a cluster).
        ray_address: HOST:PORT of a Ray cluster, or `auto`; by default Ray runs on this machine.
        workers: number of parallel runs; by default limited by cores and memory.
        stall_seconds: restart a local run from its checkpoint if it reports no step for this long;
            it fails the third time.  By default there is no limit.  Choose more than the time to
            load the data, plus a step and an evaluation.
        models: folder to write the selected models to, after the runs.
        retrain: after the runs, retrain the selected models on all samples of the training domains,
            in `out`/retrained, with model files.
        average: final weights of every run: `none`, `ema`, `swad` or `best`, as in `train`.
        device: auto, cpu, cuda or mps.
        precision: fp32 or bf16.
        retry_failed: repeat failed runs.
        dry_run: plan the runs and time a few steps, but run nothing.
        observer: callbacks for progress; see `SweepObserver`.
    """
    several = [data] if isinstance(data, str | os.PathLike) else data
    if not isinstance(several, Sequence) or not all(
        isinstance(each, str | os.PathLike) for each in several
    ):
        raise InvalidValue("`data` must be names and paths, because every process loads the data")
    names = [os.fspath(each) for each in several]
    if not names:
        raise InvalidValue("`data` must name at least one dataset")
    if workers is not None and workers < 1:
        raise InvalidValue(f"`workers` must be at least 1, not {workers}")
    observer = observer or SweepObserver()
    size = preset_named(preset)
    variants = variants_of(algorithm_names(algorithms), hparams or {})
    some = [draws] if isinstance(draws, int) else list(draws)
    if retrain:
        check_retraining(size, average)
    frozen = Frozen(backbone or "resnet50", os.fspath(weights), precision)
    selectors = [selection] if isinstance(selection, str) else list(selection)
    held_out = [test_domains] if isinstance(test_domains, str) else list(test_domains)
    columns = (label, domain, weights_column)
    folder = Path(out)
    is_left = partial(SweepFolder(folder).is_left, retry_failed=retry_failed)
    # Open the executor first, so that its errors appear before planning, which takes a while.
    with open_executor(executor, workers, ray_address, stall_seconds) as place:
        plan = make_plan(
            [SweepData.at_size(size, name, frozen, options, *columns) for name in names],
            variants,
            size,
            selectors,
            n_hparams=n_hparams,
            trials=trials,
            draws=some,
            is_left=is_left,
            steps=steps,
            eval_every=eval_every,
            device=device,
            precision=precision,
            test_domains=held_out,
            average=average,
            class_weight=checked_class_weight(class_weight),
            threads=place.threads,
            progress=observer.progress,
        )
        left = plan.left(is_left)
        workers_used = place.workers(left.jobs, plan.memory)
        observer.planned(left, workers_used, len(plan.jobs) - len(left.jobs))
        if dry_run:
            return Sweep(folder, plan)
        result = run_sweep(
            plan, folder, executor=place, retry_failed=retry_failed, observer=observer
        )
        found = Sweep(folder, plan, result)
        if found.status == "finished" and retrain:
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
