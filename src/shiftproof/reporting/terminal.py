"""Tables for the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
from rich.table import Table
from rich.text import Text

from shiftproof.core.standardize import NONE
from shiftproof.data import DomainDataset
from shiftproof.metrics import METRICS
from shiftproof.training.config import NO_NETWORK, RunConfig
from shiftproof.training.held_out import AnyHeldOut, HeldOutNumbers, HeldOutScore
from shiftproof.training.loop import RunResult
from shiftproof.training.records import MEASURES, Record

# The weights that a run ends with, by its setting `average`.
_SCORED = {
    "none": "last step (no model selection)",
    "ema": "average of the weights of all steps (ema)",
    "swad": "average of the weights of steps that the training domains choose (swad)",
    "best": "the step that is best on the training domains' held-out parts",
}


def accuracy_table(config: RunConfig, record: Record) -> Table:
    """Return the accuracy and risk of each evaluated set at one record."""
    table = Table(
        title=f"{config.title} on {config.dataset} after step {record['step']}",
        caption=f"one run, seed {config.seed}, {scored_model(config)}{_adapted(config)}",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("domain")
    table.add_column("role")
    table.add_column("part")
    measures = next((m for m in MEASURES.values() if m[0] in record), ())
    for measure in (*measures, "risk"):
        table.add_column(
            METRICS.get(measure).phrase if measure in METRICS else measure, justify="right"
        )
    for name, risk in record["risk"].items():
        domain, _, part = name.rpartition("/")
        role = "extra" if not domain else "test" if domain in config.test_domains else "training"
        table.add_row(
            domain or name,
            role,
            part if domain else "all",
            *(METRICS.get(measure).cell(record[measure].get(name)) for measure in measures),
            f"{risk:.3f}",
            style="bold" if role == "test" else "",
        )
    return table


# Explains a column of the table below.
TRAINING_DOMAINS = " Training domains: mean accuracy on the parts of them that were not trained on."


def leave_one_out_table(config: RunConfig, scores: Sequence[AnyHeldOut]) -> Table:
    """Return one row per held-out domain; ``config`` is that of any of the runs."""
    numbers = [score for score in scores if isinstance(score, HeldOutNumbers)]
    if numbers:
        return _numbers_table(config, numbers)
    return _classes_table(config, [s for s in scores if isinstance(s, HeldOutScore)])


def _numbers_table(config: RunConfig, scores: Sequence[HeldOutNumbers]) -> Table:
    # A learner that is fitted at once leaves no part of a training domain to score.
    parts = not all(math.isnan(score.training_domains) for score in scores)
    shown = {
        "R²": ("r2", "r2"),
        "MAE": ("mae", "mae"),
        "RMSE": ("rmse", "rmse"),
        "training mean": ("mae", "training_mean"),
        **({"training domains": ("r2", "training_domains")} if parts else {}),
    }
    within = " Training domains: mean R² on the parts of them that were not trained on."
    table = Table(
        title=f"{config.title} on {config.dataset}, each domain held out in turn",
        caption=f"One run each, seed {config.seed}, {scored_model(config)}{_adapted(config)}."
        " Training mean: MAE of always predicting the mean of the training domains."
        f"{within if parts else ''}",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("held out")
    for name in ("samples", *shown):
        table.add_column(name, justify="right")
    for score in scores:
        values = [METRICS.get(kind).cell(getattr(score, name)) for kind, name in shown.values()]
        table.add_row(Text(score.domain), f"{score.samples:,}", *values)
    table.add_section()
    for title, best, style in (("mean", None, "bold"), ("worst", True, "")):
        cells = []
        for kind, name in shown.values():
            worse = min if kind == "r2" else max
            values_there = [getattr(score, name) for score in scores]
            cells.append(METRICS.get(kind).cell(_over(worse if best else fmean, values_there)))
        table.add_row(title, "", *cells, style=style)
    return table


def _classes_table(config: RunConfig, scores: Sequence[HeldOutScore]) -> Table:
    # A learner that is fitted at once leaves no part of a training domain to score.
    parts = not all(math.isnan(score.training_domains) for score in scores)
    table = Table(
        title=f"{config.title} on {config.dataset}, each domain held out in turn",
        caption=f"One run each, seed {config.seed}, {scored_model(config)}{_adapted(config)}."
        f" Accuracy there: of all its samples{_other_accuracy(config)}. Commonest class: accuracy"
        f" of always predicting it there.{TRAINING_DOMAINS if parts else ''}",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("held out")
    titles = ("samples", "accuracy there", "AUROC", "commonest class", "training domains")
    for name in titles if parts else titles[:-1]:
        table.add_column(name, justify="right")
    for score in scores:
        numbers = [score.accuracy, score.auroc, score.commonest_class]
        numbers += [score.training_domains] if parts else []
        table.add_row(Text(score.domain), f"{score.samples:,}", *map(_percent, numbers))
    table.add_section()
    for name, over, style in (("mean", fmean, "bold"), ("worst", min, "")):
        there, auroc, within = (
            _percent(_over(over, [getattr(score, field) for score in scores]))
            for field in ("accuracy", "auroc", "training_domains")
        )
        table.add_row(name, "", there, auroc, "", *([within] if parts else []), style=style)
    return table


def _other_accuracy(config: RunConfig) -> str:
    """Say how the accuracy in reports differs, if it does."""
    return " (a report has that of its in part, as DomainBed's tables do)" * (config.holdout > 0)


def _over(summary: Callable[[list[float]], float], values: Sequence[float]) -> float:
    """Summarise the values that are not NaN."""
    known = [value for value in values if not math.isnan(value)]
    return summary(known) if known else math.nan


def scored_model(config: RunConfig) -> str:
    """Say which model of a run is scored, in a few words."""
    if config.backbone == NO_NETWORK:
        return "fitted at once (no model selection)"
    return _SCORED[config.average]


def _adapted(config: RunConfig) -> str:
    """Say that a run uses adaptation, if it does."""
    if config.standardize == NONE:
        return ""
    return "; adaptation: the rows of the test domain are used, without labels"


def scored_weights(record: Record) -> str:
    """Say which weights a record scored, if not the last ones."""
    if (weights := record.get("weights")) is None:
        return ""
    steps, valley = weights.get("steps", ()), weights.get("valley")
    if not steps:
        return f"the last weights, as they are (valley {valley})"
    if weights["average"] == "best":
        return f"the weights of step {steps[0]}, best on the training domains' held-out parts"
    state = f" (valley {valley})" if valley else ""
    return f"the {weights['average']} average of steps {steps[0]} to {steps[1]}{state}"


def members_table(runs: Sequence[RunResult]) -> Table | None:
    """Return the members of ensembles, averaged over runs, if an ensemble was trained.

    A member that a run left out counts with weight 0.
    """
    records = [run.records[-1] for run in runs if run.records]
    members = [member for record in records for member in record.get("members", ())]
    if len(members) <= len(records):
        return None  # single models
    judged = "R² and loss" if "r2" in members[0] else "Accuracy and log loss"
    missing = "".join(f" Not tried, {why}: {names}." for why, names in _left_out(records).items())
    table = Table(
        title="members of the ensemble",
        title_justify="left",
        caption=f"Weight: share of the prediction. {judged}: mean over training domains, each"
        f" predicted by models that were not trained on it.{missing}",
        caption_justify="left",
    )
    table.add_column("member")
    of_numbers = "r2" in members[0]
    shown = "r2" if of_numbers else "accuracy"
    for name in (
        "weight",
        METRICS.get(shown).phrase,
        "loss" if of_numbers else "log loss",
        "seconds",
    ):
        table.add_column(name, justify="right")
    rows = []
    for name in dict.fromkeys(member["name"] for member in members):
        own = [member for member in members if member["name"] == name]
        weight = sum(each["weight"] for each in own) / len(records)
        score, risk = (fmean(each[key] for each in own) for key in (shown, "risk"))
        took = [run.timings[name] for run in runs if name in run.timings]
        seconds = f"{sum(took):.1f}" if took else "–"
        rows.append((weight, name, f"{weight:.0%}", score, risk, seconds))
    for _, name, weight_text, score, risk, seconds in sorted(rows, reverse=True):
        table.add_row(name, weight_text, METRICS.get(shown).cell(score), f"{risk:.3f}", seconds)
    return table


def _left_out(records: Sequence[Record]) -> dict[str, str]:
    """Return the candidates that were not tried, by reason, and in how many runs if not in all."""
    runs: dict[str, Counter[str]] = {}
    for record in records:
        for name, reason in record.get("excluded", {}).items():
            runs.setdefault(reason, Counter())[name] += 1
    total = len(records)
    return {
        reason: ", ".join(
            name if count == total else f"{name} (in {count} of {total} runs)"
            for name, count in names.items()
        )
        for reason, names in runs.items()
    }


def dataset_summary(dataset: DomainDataset) -> str:
    """Describe the data in one line."""
    domains = _some([f"{domain.name} {len(domain):,}" for domain in dataset.domains])
    columns = dataset.input_shape[0]
    inputs = f"{columns} columns" if len(dataset.input_shape) == 1 else "images"
    if dataset.frozen:
        inputs = f"{columns} features of {dataset.frozen['backbone']}"
    elif len(dataset.input_shape) == 3:
        inputs = f"images of {' × '.join(map(str, dataset.input_shape))}"
    labels = f"{len(dataset.classes)} classes ({_some(dataset.classes)})"
    if dataset.target:
        values = np.concatenate([domain.label_array for domain in dataset.domains])
        labels = f"numbers to predict ({dataset.target}, {values.min():g} to {values.max():g})"
    return f"{len(dataset.domains)} domains ({domains}), {labels}, {inputs}"


def _some(names: Sequence[str], shown: int = 6) -> str:
    return ", ".join(names[:shown]) + (", …" if len(names) > shown else "")


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}%"
