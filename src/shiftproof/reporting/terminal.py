"""Tables for the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np
from rich.table import Table
from rich.text import Text

from shiftproof.core.standardize import NONE
from shiftproof.core.text import counted, interval_text, score_text, three_digits
from shiftproof.core.types import CLASSIFICATION
from shiftproof.data import DomainDataset
from shiftproof.inference.expected import Expected
from shiftproof.inference.metrics import DomainMetrics, NumberMetrics
from shiftproof.metrics import METRICS, Metric
from shiftproof.metrics.base import LEVEL, Estimate
from shiftproof.training.config import NO_NETWORK, RunConfig
from shiftproof.training.held_out import AnyHeldOut, HeldOutNumbers
from shiftproof.training.loop import RunResult
from shiftproof.training.records import MEASURES, Record

# The weights that a run ends with, by its setting `average`.
_SCORED = {
    "none": "last step (no model selection)",
    "ema": "average of the weights of all steps (ema)",
    "swad": "average of the weights of steps that the training domains choose (swad)",
    "best": "the step that is best on the training domains' held-out parts",
}


def titled_table(
    title: str, caption: str, head: str, columns: Iterable[str | Text], words: Sequence[str] = ()
) -> Table:
    """Return a table without rows: a column of labels, of `words`, and of right-aligned numbers."""
    table = Table(
        title=title or None, caption=caption, title_justify="left", caption_justify="left"
    )
    for name in (head, *words):
        table.add_column(name)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def accuracy_table(config: RunConfig, record: Record) -> Table:
    """Return the accuracy and risk of each evaluated set at one record."""
    measures = next((m for m in MEASURES.values() if m[0] in record), ())
    names = [METRICS.get(m).phrase if m in METRICS else m for m in (*measures, "risk")]
    table = titled_table(
        f"{config.title} on {config.dataset} after step {record['step']}",
        f"one run, seed {config.seed}, {scored_model(config)}{_adapted(config)}",
        "domain",
        names,
        ("role", "part"),
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


def leave_one_out_table(config: RunConfig, scores: Sequence[AnyHeldOut]) -> Table:
    """Return one row per held-out domain; ``config`` is that of any of the runs."""
    numbers = any(isinstance(score, HeldOutNumbers) for score in scores)
    other = " (a report has that of its in part, as DomainBed's tables do)" * (config.holdout > 0)
    columns = {
        "accuracy there": ("accuracy", "accuracy"),
        "AUROC": ("auroc", "auroc"),
        "commonest class": ("accuracy", "commonest_class"),
    }
    explained = (
        f" Accuracy there: of all its samples{other}. Commonest class: accuracy"
        " of always predicting it there."
    )
    if numbers:
        columns = {"R²": ("r2", "r2"), "MAE": ("mae", "mae"), "RMSE": ("rmse", "rmse")}
        columns["training mean"] = ("mae", "training_mean")
        explained = " Training mean: MAE of always predicting the mean of the training domains."
    # A learner that is fitted at once leaves no part of a training domain to score.
    if not all(math.isnan(score.training_domains) for score in scores):
        main = "r2" if numbers else "accuracy"
        columns["training domains"] = (main, "training_domains")
        explained += (
            f" Training domains: mean {METRICS.get(main).phrase} on the parts of them that were not"
            " trained on."
        )
    table = titled_table(
        f"{config.title} on {config.dataset}, each domain held out in turn",
        f"One run each, seed {config.seed}, {scored_model(config)}{_adapted(config)}.{explained}",
        "held out",
        ("samples", *columns),
    )
    fields = [(METRICS.get(name), field) for name, field in columns.values()]
    for score in scores:
        cells = [metric.cell(getattr(score, field)) for metric, field in fields]
        table.add_row(Text(score.domain), f"{score.samples:,}", *cells)
    values = [(metric, [getattr(score, field) for score in scores]) for metric, field in fields]
    _add_summaries(table, values, before=("",))
    return table


def _add_summaries(
    table: Table,
    columns: Sequence[tuple[Metric, Sequence[float | None]]],
    before: Sequence[str] = (),
    after: Sequence[str] = (),
) -> None:
    """Add the mean and the worst value of each column, of the values that are known."""
    means, worst = [], []
    for metric, values in columns:
        known = [value for value in values if value is not None and not math.isnan(value)]
        means.append(metric.cell(fmean(known) if known else None))
        worst.append(metric.cell(max(known, key=metric.loss) if known else None))
    table.add_section()
    table.add_row("mean", *before, *means, *after, style="bold")
    table.add_row("worst", *before, *worst, *after)


def evaluation_tables(
    outcomes: Sequence[DomainMetrics | NumberMetrics], adaptation: str = ""
) -> list[Table]:
    """Return the main metrics by domain, with their mean and the worst, and the report card."""
    numbers = isinstance(outcomes[0], NumberMetrics)
    main = METRICS.get("mae" if numbers else "accuracy")
    used = f". Adaptation, {adaptation}: each domain's rows are used" if adaptation else ""
    of = f" of the {main.phrase}" if numbers else ""
    titles = {"r2": "R²", "mae": "MAE", "rmse": "RMSE"} if numbers else dict(_OF_CLASSES)
    caption = f"± is the standard error{of} over samples{used}"
    table = titled_table("", caption, "domain", ("samples", *titles.values(), "far"))
    columns: dict[str, list[float | None]] = {name: [] for name in titles}
    for outcome in outcomes:
        values = {"accuracy": outcome.accuracy, "log_loss": outcome.risk} if isinstance(
            outcome, DomainMetrics
        ) else outcome.scores  # fmt: skip
        cells = []
        for name, column in columns.items():
            column.append(values[name])
            error = f" ± {main.text(outcome.standard_error)}{main.sign}" * (name == main.name)
            cells.append(METRICS.get(name).cell(values[name]) + error)
        far = "–" if outcome.far is None else f"{outcome.far:.1%}"
        seen = " (trained on)" * outcome.trained_on
        table.add_row(outcome.domain + seen, f"{outcome.samples:,}", *cells, far)
    if len(outcomes) > 1:
        summaries = [(METRICS.get(name), values) for name, values in columns.items()]
        _add_summaries(table, summaries, ("",), ("",))
    return [table, _card_table(outcomes)]


_OF_CLASSES = {"accuracy": "accuracy", "log_loss": "risk"}
# The most domains that a report card shows.
COLUMNS = 3


def _card_table(outcomes: Sequence[DomainMetrics | NumberMetrics]) -> Table:
    """Return all metrics of a few domains with intervals: metrics as rows, domains as columns."""
    chosen = [outcome for outcome in outcomes if outcome.scores][:COLUMNS]
    left_out = len(outcomes) - len(chosen)
    table = titled_table(
        "report card",
        f"Intervals of {LEVEL:.0%}, for the number of samples."
        + (f" {counted(left_out, 'other domain')} not shown." if left_out else ""),
        "score",
        [Text(outcome.domain) for outcome in chosen],
    )
    task = chosen[0].outputs.task if chosen else CLASSIFICATION
    for metric in map(METRICS.get, METRICS.of(task)):
        if not metric.jointly:  # of several held-out domains
            estimates = [metric.estimate(outcome.outputs) for outcome in chosen]
            table.add_row(metric.phrase, *map(_estimate, estimates))
    if task == CLASSIFICATION:
        shares = [outcome.scores["commonest_class"] for outcome in chosen]
        table.add_row("commonest class", *(f"{share:.3f}" for share in shares))
    return table


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    return f"{score_text(estimate.value)} ({interval_text(estimate.low, estimate.high)})"


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
    main, loss = ("r2", "loss") if "r2" in members[0] else ("accuracy", "log loss")
    metric = METRICS.get(main)
    missing = "".join(f" Not tried, {why}: {names}." for why, names in _left_out(records).items())
    table = titled_table(
        "members of the ensemble",
        f"Weight: share of the prediction. {metric.heading} and {loss}: mean over training domains,"
        f" each predicted by models that were not trained on it.{missing}",
        "member",
        ("weight", metric.phrase, loss, "seconds"),
    )
    rows = []
    for name in dict.fromkeys(member["name"] for member in members):
        alike = [member for member in members if member["name"] == name]
        weight = sum(member["weight"] for member in alike) / len(records)
        score, risk = (fmean(member[key] for member in alike) for key in (main, "risk"))
        took = [run.timings[name] for run in runs if name in run.timings]
        seconds = f"{sum(took):.1f}" if took else "–"
        rows.append((weight, name, f"{weight:.0%}", score, risk, seconds))
    for _, name, weight_text, score, risk, seconds in sorted(rows, reverse=True):
        table.add_row(name, weight_text, metric.cell(score), f"{risk:.3f}", seconds)
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


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


# The width of a forest plot.
WIDTH = 33


def forest_table(expected: Expected) -> Table:
    """Return each domain's score with its interval, and the prediction interval below them.

    A domain is drawn as ├──●──┤, with a star if it is an outlier, the typical domain as ├──◆──┤,
    and the range of the next domain as ━━━━━.
    """
    score = expected.headline
    low, high = score.interval
    left = min([low, *(estimate.low for estimate in score.estimates.values())])
    right = max([high, *(estimate.high for estimate in score.estimates.values())])
    name = score.metric.phrase
    table = titled_table(
        f"{name} to expect at the next domain",
        f"Intervals of {score.level:.0%}: of a domain, for its samples; of the next domain,"
        " for how domains differ. Half of the domains are better than the typical one. The line is"
        f" from {three_digits(left)} to {three_digits(right)}.",
        "held out",
        (name,),
    )
    table.add_column("interval", justify="right", no_wrap=True, min_width=len("0.123–0.456"))
    table.add_column("", no_wrap=True, min_width=WIDTH)
    for domain, estimate in score.estimates.items():
        mark = " *" if domain in score.outliers else ""
        drawn = bar(estimate.low, estimate.value, estimate.high, left, right, "├─●─┤")
        table.add_row(
            Text(domain + mark),
            score_text(estimate.value),
            interval_text(estimate.low, estimate.high),
            drawn,
        )
    table.add_section()
    middle = score.mean_interval
    drawn = bar(middle[0], score.mean, middle[1], left, right, "├─◆─┤")
    table.add_row("typical domain", score_text(score.mean), interval_text(*middle), drawn)
    drawn = bar(low, score.mean, high, left, right, "━━━━━")
    table.add_row("next domain", "", interval_text(low, high), drawn, style="bold")
    return table


def bar(low: float, value: float, high: float, left: float, right: float, signs: str) -> str:
    """Draw an interval as text on the line from `left` to `right`.

    `signs` are the characters of the low end, the part below the value, the value, the part above
    it, and the high end.

    >>> bar(0.2, 0.5, 0.8, 0, 1, "├─●─┤")
    '      ├─────────●─────────┤      '
    """
    start, middle, end = (
        round((at - left) / ((right - left) or 1) * (WIDTH - 1)) for at in (low, value, high)
    )
    line = [" "] * WIDTH
    line[start : middle + 1] = signs[1] * (middle + 1 - start)
    line[middle : end + 1] = signs[3] * (end + 1 - middle)
    line[start], line[end], line[middle] = signs[0], signs[4], signs[2]
    return "".join(line)
