"""From a study to its findings: run what is missing, read all runs, and compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.data import DATASETS
from shiftproof.paper.colored_mnist import Figure1, Table1
from shiftproof.paper.domainbed import Components, Gradients, Matching, Representations
from shiftproof.paper.studies import Block, Choice, Findings, Study
from shiftproof.paper.table2 import Table2
from shiftproof.sweeps.executors.base import Executor
from shiftproof.sweeps.jobs import Frozen, Variant, sweep_data
from shiftproof.sweeps.plan import Block as SweepBlock
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.store import SweepFolder
from shiftproof.sweeps.sweep import SweepObserver, SweepResult, plan_blocks, run_sweep

# In the order of the paper.  The running times are not made from runs: see `paper.running_time`.
STUDIES: dict[str, type[Study]] = {
    study.name: study
    for study in (Table1, Figure1, Table2, Components, Gradients, Representations, Matching)
}


def reproduce(
    study: Study,
    choice: Choice,
    folder: Path,
    executor: Executor,
    frozen: Frozen,
    *,
    device: str = "auto",
    precision: str = "fp32",
    retry_failed: bool = False,
    dry_run: bool = False,
    observer: SweepObserver | None = None,
) -> tuple[Findings | None, SweepResult | None]:
    """Execute the runs of a study that a folder lacks, and compare all results with the paper.

    ``frozen`` is the network whose features replace images where the preset freezes them.  Return
    the findings (None for a dry run, or if stopped), and how the runs ended.
    """
    observer = observer or SweepObserver()
    is_left = partial(SweepFolder(folder).is_left, retry_failed=retry_failed)
    plan = plan_blocks(
        sweep_blocks(study, choice, frozen),
        study.preset(choice.scale),
        is_left=is_left,
        device=device,
        precision=precision,
        threads=executor.threads,
        progress=observer.progress,
    )
    left = plan.left(is_left)
    workers = executor.workers(left.jobs, plan.memory)
    observer.planned(left, workers, len(plan.jobs) - len(left.jobs))
    if dry_run:
        return None, None
    result = run_sweep(
        plan, folder, executor=executor, retry_failed=retry_failed, observer=observer
    )
    # Even if some runs failed, the others fill a table.
    return None if result.stopped else read_findings(study, choice, folder), result


def sweep_blocks(study: Study, choice: Choice, frozen: Frozen) -> list[SweepBlock]:
    """Return the runs of a study, on its datasets or on their stand-ins."""
    preset = study.preset(choice.scale)
    blocks = []
    for block in study.blocks(choice):
        path = choice.data.get(block.dataset)
        # A user's folder is used as such, even if it has the name of a dataset.
        data = block.dataset if path is None else str(Path(path).expanduser().absolute())
        blocks.append(
            SweepBlock(
                sweep_data([data], preset, frozen)[0],
                block.variants,
                block.needs,
                range(block.draws),
                block.trials,
                block.test_domains,
            )
        )
    return blocks


def read_findings(study: Study, choice: Choice, source: Path) -> Findings:
    """Return the findings of a study from the runs in a folder or a file of records."""
    outcomes = read_sweep(source)
    findings = study.find(runs_of_study(outcomes, study, choice), choice)
    if not findings:
        there = dict.fromkeys(f"{run.algorithm} on {run.dataset}" for run in outcomes)
        some = ", ".join([*there][:3]) + (", …" if len(there) > 3 else "")
        raise InvalidValue(
            f"{source} has no finished run of {study.name} with these settings; it has"
            f" {some or 'no run at all'}"
        )
    return findings


def runs_of_study(outcomes: Sequence[Run], study: Study, choice: Choice) -> list[Run]:
    """Return the requested runs; a folder may contain others.

    Runs of another size under the same names are an error.
    """
    blocks = study.blocks(choice)
    there = {run.dataset: None for run in outcomes}
    for block in blocks:
        stand_in = choice.stand_in_of(block.dataset)
        if stand_in and stand_in not in there:
            raise DataError(f"there is no run on {stand_in}, only on {', '.join(there)}")
    preset = study.preset(choice.scale)
    runs = []
    for run in outcomes:
        for block in blocks:
            if variant := _variant(run, block, choice):
                original = None if choice.stand_in_of(block.dataset) else block.dataset
                for difference in _of_another_scale(run, variant, preset, original):
                    raise DataError(f"{run.folder} has {difference}; is it of another `scale`?")
                runs.append(run)
    return runs


def _variant(run: Run, block: Block, choice: Choice) -> Variant | None:
    """Return the row of a block that a run belongs to, or None."""
    held_out = [run.domains[position] for position in run.test_domains]
    asked = block.test_domains or held_out
    wanted = (
        run.dataset == choice.name_of(block.dataset)
        and run.trial_seed < block.trials
        and run.hparams_seed < block.draws
        and set(asked).intersection(held_out)
    )
    if not wanted:
        return None
    return next((v for v in block.variants if v.name == run.algorithm), None)


def _of_another_scale(
    run: Run, variant: Variant, preset: Preset, dataset: str | None
) -> Iterator[str]:
    """Say what a run has that the runs of a study do not: its steps, settings or network.

    A run on ``dataset`` may have as many steps, but another network; None for a stand-in.
    """
    config, steps = run.config, preset.steps
    ended = run.status == "finished" and run.evaluations
    taken = config.get("steps", run.evaluations[-1].step if ended else steps)
    if taken != steps:
        yield f"runs of {taken:,} steps, not {steps:,}"
    hparams = config.get("hparams", {})
    for name, value in variant.hparams.items():
        if hparams.get(name, value) != value:
            yield f"{run.algorithm} with {name}={hparams[name]}, not {value}"
    if dataset is not None:
        card = DATASETS.get(dataset).card
        network = preset.backbones.get(card.regime, card.backbone)
        trained, frozen = config.get("backbone", network), bool(config.get("extractor"))
        if not (preset.freeze_images if frozen else trained == network):
            kind = "frozen features" if frozen else f"the network {trained}"
            yield f"runs of {kind} on {dataset}, not of {network}"
