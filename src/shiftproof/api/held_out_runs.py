"""What the runs of a report measured on held-out domains, and on training domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.core.standardize import ADAPTATION, NONE
from shiftproof.core.types import CLASSIFICATION
from shiftproof.data.tables.groups import is_number
from shiftproof.inference.expected import Expected
from shiftproof.inference.model_file import MODEL, stored_header
from shiftproof.inference.temperature import calibrated_outputs
from shiftproof.learners.candidate import LOG_LOSS
from shiftproof.metrics import METRICS
from shiftproof.metrics.base import DEFAULT
from shiftproof.metrics.outputs import AnyOutputs, task_of
from shiftproof.reporting.page import HeldOut
from shiftproof.reporting.page.charts import HELD_OUT_WITHIN, SET_ASIDE
from shiftproof.reporting.page.evidence import Evidence
from shiftproof.reporting.page.sentences import noun_of
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title
from shiftproof.sweeps.results import Run
from shiftproof.training.records import Records


def held_out_runs(runs: Sequence[Run], metric: str | None = None) -> list[HeldOut]:
    """Return one entry for each dataset and algorithm whose runs hold out one domain each.

    The score shown first is `metric`, or the score that the runs optimised, or the default score.
    A `metric` that none of the runs has, such as an error of numbers for classes, is an error.
    Among several seeds, the one with the most held-out domains is used; ties go to the lowest.
    """
    groups: dict[tuple[str, str], dict[int, list[Run]]] = {}
    for run in runs:
        if run.status == "finished" and len(run.test_domains) == 1 and run.folder is not None:
            seeds = groups.setdefault((run.dataset, run.algorithm), {})
            seeds.setdefault(run.trial_seed, []).append(run)
    entries = []
    for (dataset, algorithm), seeds in groups.items():
        seed = max(sorted(seeds), key=lambda trial: len(seeds[trial]))
        outputs: dict[str, AnyOutputs] = {}
        folders = [run.folder for run in seeds[seed] if run.folder]
        for folder in folders:
            outputs.update(calibrated_outputs(folder))
        if not outputs:
            continue  # runs of a sweep, or of an older version, store no outputs
        first = seeds[seed][0]
        optimised = first.hparams.get("metric", LOG_LOSS)
        score = metric or str(optimised)
        task = task_of(outputs.values()) or CLASSIFICATION
        if score not in METRICS.of(task) or (metric is None and optimised == LOG_LOSS):
            score = DEFAULT[task]
        title = f"{algorithm_title(algorithm)} on {dataset_title(dataset)}"
        with_model = [folder for folder in folders if (folder / MODEL).is_file()]
        header = stored_header(with_model[0]) if with_model else {}
        adaptation = ADAPTATION[str(first.config.get("standardize", NONE))]
        classes = tuple(header.get("classes", ()))
        expected = Expected(in_order(outputs), score, classes=classes, adaptation=adaptation)
        entries.append(HeldOut(title, expected, seed, len(seeds), header.get("columns", {})))
    if metric is not None and entries and all(e.expected.metric != metric for e in entries):
        METRICS.checked(metric, entries[0].expected.task)  # raises: no run has this score
    return entries


def in_order(outputs: Mapping[str, AnyOutputs]) -> dict[str, AnyOutputs]:
    """Return the outputs with domains that are numbers sorted by value, 2 before 10."""
    if not all(map(is_number, outputs)):
        return dict(outputs)
    return {domain: outputs[domain] for domain in sorted(outputs, key=float)}


def evidence_of(held_out: Sequence[HeldOut]) -> Evidence:
    """Return what the models store about the data, without a study."""
    if len(held_out) != 1:
        return Evidence()
    columns = held_out[0].columns
    return Evidence(noun_of(columns), columns.get("label", ""))


def training_results(runs: Sequence[Run]) -> tuple[Mapping[str, float], str] | None:
    """Return the accuracy on each training domain and its source; None if a domain was held out.

    Algorithms that are fitted at once held out each domain to choose their settings; other runs
    held out some rows of each domain.
    """
    if len(runs) != 1 or runs[0].test_domains or runs[0].folder is None:
        return None
    folder = runs[0].folder
    if runs[0].status != "finished" or not (folder / MODEL).is_file():
        return None
    if accuracies := stored_header(folder).get("held_out_accuracy"):
        return accuracies, HELD_OUT_WITHIN
    records = Records(folder / "records.jsonl").read()
    accuracy = records[-1].get("accuracy", {}) if records else {}
    aside = {
        name.removesuffix("/out"): value
        for name, value in accuracy.items()
        if name.endswith("/out")
    }
    return (aside, SET_ASIDE) if aside else None
