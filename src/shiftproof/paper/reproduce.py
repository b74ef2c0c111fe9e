"""From a study to its findings: run what is missing, read all runs, and compare."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from shiftproof.core.errors import InvalidValue
from shiftproof.paper.recorded_runs import runs_of_study
from shiftproof.paper.studies import Choice, Findings, Study
from shiftproof.sweeps.executors.base import Executor
from shiftproof.sweeps.jobs import Frozen, sweep_data
from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.store import SweepFolder
from shiftproof.sweeps.sweep import Block, SweepObserver, SweepResult, plan_blocks, run_sweep


class Reproduced(NamedTuple):
    """The findings of a study (None for a dry run, or if stopped), and how its runs ended."""

    findings: Findings | None
    result: SweepResult | None


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
) -> Reproduced:
    """Execute the runs of a study that a folder lacks, and compare all results with the paper.

    ``frozen`` is the network whose features replace images where the preset freezes them.
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
        return Reproduced(None, None)
    result = run_sweep(
        plan, folder, executor=executor, retry_failed=retry_failed, observer=observer
    )
    # Even if some runs failed, the others fill a table.
    return Reproduced(None if result.stopped else read_findings(study, choice, folder), result)


def sweep_blocks(study: Study, choice: Choice, frozen: Frozen) -> list[Block]:
    """Return the runs of a study, on its datasets or on their stand-ins."""
    preset = study.preset(choice.scale)
    blocks = []
    for block in study.blocks(choice):
        path = choice.data.get(block.dataset)
        # A user's folder is used as such, even if it has the name of a dataset.
        data = block.dataset if path is None else str(Path(path).expanduser().absolute())
        blocks.append(
            Block(
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
