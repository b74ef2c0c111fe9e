"""What the runs of a report answered on the domains that they held out, by algorithm."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.data.within_domain import ADAPTATION, NONE
from shiftproof.inference.expected import Expected, default_metric, metrics_of
from shiftproof.inference.model import MODEL, stored_classes
from shiftproof.inference.temperature import calibrated_outputs
from shiftproof.learners.weighting import LOG_LOSS
from shiftproof.reporting.page import HeldOut
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title
from shiftproof.sweeps.results import RunOutcome
from shiftproof.training.outputs import AnyOutputs


def held_out_runs(runs: Sequence[RunOutcome], metric: str | None = None) -> list[HeldOut]:
    """Return one entry a dataset and algorithm whose runs hold out one domain each.

    The score shown first is `metric`, or what the runs were optimised for, or the accuracy.  Of
    several seeds, the first that held out most domains is taken.
    """
    groups: dict[tuple[str, str], dict[int, list[RunOutcome]]] = {}
    for run in runs:
        if run.status == "finished" and len(run.test_domains) == 1 and run.folder is not None:
            seeds = groups.setdefault((run.dataset, run.algorithm), {})
            seeds.setdefault(run.trial_seed, []).append(run)
    found = []
    for (dataset, algorithm), seeds in groups.items():
        seed = max(sorted(seeds), key=lambda each: len(seeds[each]))
        outputs: dict[str, AnyOutputs] = {}
        for run in seeds[seed]:
            if run.folder is not None:
                outputs.update(calibrated_outputs(run.folder))
        if not outputs:
            continue  # runs of a sweep, or of an older version, keep none
        optimised = seeds[seed][0].hparams.get("metric", LOG_LOSS)
        shown = metric or str(optimised)
        if shown not in metrics_of(outputs.values()) or (metric is None and optimised == LOG_LOSS):
            shown = default_metric(outputs.values())
        title = f"{algorithm_title(algorithm)} on {dataset_title(dataset)}"
        classes = _classes(seeds[seed])
        adaptation = ADAPTATION[str(seeds[seed][0].origin.config.get("standardize", NONE))]
        expected = Expected(outputs, shown, classes=classes, adaptation=adaptation)
        found.append(HeldOut(title, expected, seed, len(seeds)))
    return found


def _classes(runs: Sequence[RunOutcome]) -> tuple[str, ...]:
    folders = [run.folder for run in runs if run.folder and (run.folder / MODEL).is_file()]
    return stored_classes(folders[0]) if folders else ()
