"""Select the recorded runs that belong to a study, by data, rows and size."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.core.errors import DataError
from shiftproof.data import DATASETS
from shiftproof.paper.studies import Block, Choice, Study
from shiftproof.sweeps.jobs import Variant
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.results import Run


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
    found = []
    for run in outcomes:
        for block in blocks:
            variant = _variant(run, block, choice)
            if variant is not None:
                _check_size(run, variant, preset.steps)
                if choice.stand_in_of(block.dataset) is None:
                    _check_network(run, block.dataset, preset)
                found.append(run)
    return found


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


def _check_size(run: Run, variant: Variant, steps: int) -> None:
    config = run.config
    ended = run.status == "finished" and run.evaluations
    taken = config.get("steps", run.evaluations[-1].step if ended else steps)
    if taken != steps:
        raise DataError(
            f"{run.folder} has runs of {taken:,} steps, not {steps:,}; is it of another `scale`?"
        )
    hparams = config.get("hparams", {})
    for name, value in variant.hparams.items():
        if hparams.get(name, value) != value:
            raise DataError(
                f"{run.folder} has {run.algorithm} with {name}={hparams[name]}, not {value}; is it"
                " of another `scale`?"
            )


def _check_network(run: Run, dataset: str, preset: Preset) -> None:
    """Raise for runs of another network, which may have as many steps."""
    config, card = run.config, DATASETS.get(dataset).card
    network = preset.backbones.get(card.regime, card.backbone)
    trained, frozen = config.get("backbone", network), bool(config.get("extractor"))
    fits = preset.freeze_images if frozen else trained == network
    if not fits:
        kind = "frozen features" if frozen else f"the network {trained}"
        raise DataError(
            f"{run.folder} has runs of {kind} on {dataset}, not of {network}; is it of another"
            " `scale`?"
        )
