"""From a study to a sweep: its runs as jobs, and what those that are left will cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shiftproof.core.errors import InvalidValue
from shiftproof.data import DATASETS
from shiftproof.data.base import Progress, silent
from shiftproof.data.load import DataRequest
from shiftproof.paper.studies import Block, Choice, Study
from shiftproof.sweeps.estimate import Cost, measure
from shiftproof.sweeps.jobs import Frozen, Job, SweepData
from shiftproof.sweeps.plan import plan
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.store import EVALUATED
from shiftproof.sweeps.sweep import SweepPlan, memory_so_far


def plan_study(
    study: Study,
    choice: Choice,
    *,
    is_left: Callable[[Job], bool] = lambda job: True,
    frozen: Frozen | None = None,
    device: str = "auto",
    precision: str = "fp32",
    progress: Progress = silent,
) -> SweepPlan:
    """Plan the runs of a study, and measure a few steps of each row that has runs left.

    ``frozen`` is the network whose features stand for images where the preset says so.
    """
    preset = study.preset(choice.scale)
    jobs: list[Job] = []
    costs: dict[tuple[str, str], Cost] = {}
    evaluated: set[str] = set()
    blocks = study.blocks(choice)
    sets = [sweep_data(block.dataset, choice, preset, frozen) for block in blocks]
    names = [data.name for data in sets]
    if len(set(names)) < len(names):
        raise InvalidValue(f"two datasets of one name among {', '.join(names)}; rename a folder")
    # All of them first: what is not there, or misspelt, is told before anything is measured.
    trials = [
        {trial: data.load(trial, progress) for trial in range(block.trials)}
        for block, data in zip(blocks, sets, strict=True)
    ]
    planned = [
        list(
            plan(
                data,
                loaded,
                block.variants,
                preset,
                hparams_seeds=range(block.draws),
                needs=block.needs,
                test_domains=block.test_domains,
                device=device,
                precision=precision,
            )
        )
        for block, data, loaded in zip(blocks, sets, trials, strict=True)
    ]
    for block, data, loaded, own in zip(blocks, sets, trials, planned, strict=True):
        for done, variant in enumerate(block.variants):
            progress(f"measuring steps on {data.name}", done, len(block.variants))
            left = [job for job in own if job.variant == variant.name and is_left(job)]
            cost = measure(left[0], loaded[left[0].trial_seed]) if left else Cost(0.0, 0.0, 0)
            costs[data.name, variant.name] = cost
        progress(f"measuring steps on {data.name}", len(block.variants), len(block.variants))
        jobs += own
        evaluated.update(_evaluated(block))
    settings = {
        "preset": preset.name,
        "steps": preset.steps,
        "precision": precision,
        EVALUATED: sorted(evaluated),
    }
    return SweepPlan(tuple(jobs), costs, {}, settings, memory_so_far())


def sweep_data(dataset: str, choice: Choice, preset: Preset, frozen: Frozen | None) -> SweepData:
    """Return where a dataset comes from: the package, a download, or a place of the user's."""
    path = choice.data.get(dataset)
    images = DATASETS.get(dataset).card.regime in ("large-image", "huge-image")
    # A folder of the user's is that folder, even if it has a dataset's name.
    request = DataRequest(dataset if path is None else str(Path(path).expanduser().absolute()))
    freezes = images and preset.freeze_images
    return SweepData(choice.name_of(dataset), preset.request(request), frozen if freezes else None)


def _evaluated(block: Block) -> list[str]:
    return [*block.needs.evaluate, *(["each"] * block.needs.every_step)]
