"""What to expect at the next domain: the blocks of each model, and the page of a single one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shiftproof.core.text import counted
from shiftproof.inference.expected import Expected, ExpectedScore, sentences
from shiftproof.metrics import METRICS
from shiftproof.reporting.page.card import report_card
from shiftproof.reporting.page.evidence import ColumnByDomain, Evidence
from shiftproof.reporting.page.predictions import (
    confusion_blocks,
    confusion_table,
    error_blocks,
    errors_plot,
    prediction_panels,
)
from shiftproof.reporting.page.sentences import (
    answer_of,
    class_name,
    nouns,
    shares_of,
    worst_facts,
    worst_first,
)
from shiftproof.reporting.page.shifts import study_diagnosis_blocks
from shiftproof.reporting.page.sweeps import LIMITS, level
from shiftproof.reporting.page.values import (
    PERCENT,
    Axis,
    Block,
    DotPlot,
    HeatCell,
    HeatMap,
    Mark,
    Pictures,
    PlotRow,
    Section,
    Strip,
    StripRow,
    Strips,
    Value,
    blocks,
    short,
)
from shiftproof.reporting.table import NOTHING, Column, Row, Table

CUTS = tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))


@dataclass(frozen=True)
class HeldOut:
    """The predictions of an algorithm's runs on the domains that they held out.

    ``title`` names the algorithm and the data.  With several ``seeds``, the first is shown.
    ``columns`` names the label and domain columns of a table.
    """

    title: str
    expected: Expected
    seed: int = 0
    seeds: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def order(self) -> tuple[bool, float, str]:
        """A sort key: the best typical domain first, those without one and adaptation last."""
        score = self.expected.score(self.expected.metric)
        loss = np.inf if score is None else score.metric.loss(score.mean)
        return bool(self.expected.adaptation), loss, self.title


def expectation_blocks(held_out: Sequence[HeldOut]) -> list[Block]:
    """Return the forest plot, report card and predictions of each model, the best model first."""
    blocks = []
    for position, model in enumerate(sorted(held_out, key=lambda model: model.order)):
        heading = model.title if len(held_out) > 1 else ""
        expected, panels = model.expected, prediction_panels(model.expected)
        if forest := forest_plot(model):
            words = " ".join(sentences(expected))
            blocks.append(Block(forest, heading, position > 0, words))
        parts: dict[str, Value] = {
            "Report card": report_card(expected, every=True),
            panels.title: panels,
        }
        if expected.numbers:
            parts["Errors"] = errors_plot(expected)
        elif table := confusion_table(expected):
            parts["Confusion matrices"] = table
        for name, value in parts.items():
            title = f"{heading}: {name.lower()}" if heading else name
            folded = position > 0 or name == "Confusion matrices"
            blocks.append(Block(value, title, folded))
    return blocks


def forest_plot(model: HeldOut, noun: str = "domain") -> DotPlot | None:
    """Return one row per held-out domain, the mean as a diamond, and the next domain as a bar.

    None if the score is defined in fewer than two domains.  ``noun`` is the word for a domain.
    """
    metric = METRICS.get(model.expected.metric)
    score = model.expected.score(metric.name)
    if score is None:
        return None
    scale, interval = metric.factor, score.interval

    def row(
        label: str, value: float | None, ends: tuple[float, float], rows: str, mark: str, tip: str
    ) -> PlotRow:
        text = NOTHING if value is None else metric.text(value)
        low, high = (scale * end for end in ends)
        marks = [Mark("span" if mark else "bar", low, high)]
        marks += [Mark(mark, scale * value)] if value is not None else []
        return PlotRow(Row.of(label, text, metric.interval_text(*ends), rows), marks, tip)

    rows = []
    for domain, estimate in score.estimates.items():
        samples = len(model.expected.outputs[domain].labels)
        odd = domain in score.outliers
        ends = estimate.low, estimate.high
        tip = (
            f"{domain}: {metric.text(estimate.value)} ({metric.interval_text(*ends)})"
            f"\n{counted(samples, 'row')}" + f"\nunlike the other {nouns(noun)}" * odd
        )
        label = domain + " *" * odd
        rows.append(row(label, estimate.value, ends, f"{samples:,}", "dot", tip))
    middle = score.mean_interval
    total = sum(len(outputs.labels) for outputs in model.expected.outputs.values())
    tip = f"A typical {noun}: {metric.text(score.mean)} ({metric.interval_text(*middle)})"
    rows.append(row(f"typical {noun}", score.mean, middle, f"{total:,}", "diamond", tip))
    tip = (
        f"The next {noun} is between {metric.text(interval[0])} and {metric.text(interval[1])} with"
        f" probability {score.level:.0%}"
    )
    rows.append(row(f"next {noun}", None, interval, NOTHING, "", tip))
    limits = [end for e in score.estimates.values() for end in (e.low, e.high)]
    title = f"{metric.heading}{' (%)' * (scale == 100)}"
    return DotPlot.of(
        f"{metric.heading} on each {noun} held out, and at the next one",
        (Column(title, metric.direction), Column("Interval"), Column("Rows", wide=True)),
        rows,
        title,
        Axis.over([scale * end for end in (*interval, *limits)], margin=0.02),
        [
            ("dot", f"{noun} held out"),
            ("span", f"interval of {score.level:.0%}, for its number of rows"),
            ("diamond", f"typical {noun}"),
            ("bar", f"the next {noun}, with probability {score.level:.0%}"),
        ],
        notes=tuple(_forest_notes(model, score, noun)),
        heads=("Held out",),
        foot=2,
    )


def _forest_notes(model: HeldOut, score: ExpectedScore, noun: str) -> Iterable[str]:
    yield (
        f"Each {noun} was held out of the training of the model that is scored there. A typical"
        f" {noun} is in the middle: about half of all {nouns(noun)} do better than it. It and the"
        f" prediction interval of the next {noun} come from a random-effects meta-analysis."
    )
    if undefined := len(model.expected.outputs) - len(score.estimates):
        yield f"{counted(undefined, 'domain')} where the score is undefined: not shown."
    if score.outliers:
        yield f"*: unlike the other {nouns(noun)} (p < 0.05, corrected for their number)."
    if model.seeds > 1:
        yield f"Seed {model.seed}, of {model.seeds}."


def shortfall_plot(expected: Expected, noun: str = "domain") -> DotPlot | None:
    """Return the probability that the next domain is worse than some round thresholds."""
    score = expected.score(expected.metric)
    if score is None:
        return None
    metric = score.metric
    rows = []
    for tick in Axis.over([metric.factor * end for end in score.interval], 6).ticks:
        threshold = tick / metric.factor
        worse = score.probability_worse(threshold)
        value = metric.text(threshold).removesuffix(".0")
        threshold_text = f"{metric.worse_side} {value}{metric.sign}"
        tip = f"The next {noun} has {metric.phrase} {threshold_text} with probability {worse:.0%}"
        bar = Mark("bar", 0.0, 100 * worse)
        rows.append(PlotRow(Row.of(threshold_text, f"{100 * worse:.0f}"), [bar], tip))
    title = f"How likely the next {noun} falls short"
    heads = (metric.heading,)
    return DotPlot.of(title, [Column("%")], rows, "Probability (%)", PERCENT, heads=heads)


def cut_table(expected: Expected, noun: str = "domain", label: str = "") -> Table | None:
    """Return rates at cuts of the probability, mean and lowest over domains; two classes only."""
    outputs = list(expected.of_classes.values())
    if outputs[0].probabilities.shape[1] != 2:
        return None
    rows = []
    for cut in CUTS:
        flagged, sensitivity, specificity = [], [], []
        for domain in outputs:
            positive, ill = domain.probabilities[:, 1] >= cut, domain.labels == 1
            flagged.append(float(positive.mean()))
            if ill.any():
                sensitivity.append(float(positive[ill].mean()))
            if (~ill).any():
                specificity.append(float((~positive[~ill]).mean()))
        cells = [f"{100 * np.mean(flagged):.0f}"]
        for shares in (sensitivity, specificity):
            values = [np.mean(shares), np.min(shares)] if shares else []
            cells += [f"{100 * value:.0f}" for value in values] or [NOTHING] * 2
        rows.append(Row.of(f"{cut:.1f}", *cells))
    what = answer_of(label, class_name(expected.classes, 1))
    titles = ("Flagged", "Sensitivity", "Its lowest", "Specificity", "Its lowest")
    note = (
        f"In percent, means over {nouns(noun)}. A row is flagged as {what} if its probability is at"
        f" least the cut; the predictions above cut at 0.5. The lowest is that of a single {noun}."
    )
    title = f"Where to cut the probability of {what}"
    return Table(title, tuple(map(Column, titles)), tuple(rows), notes=(note,), heads=("Cut",))


# With more domains than this, a section shows the worst and folds the full set.
MANY = 5
WORST = 3


def answer_sections(
    model: HeldOut,
    baselines: Mapping[str, Expected],
    evidence: Evidence,
    diagnoses: Sequence[Mapping[str, Any]] = (),
) -> list[Section]:
    """Return the sections; the page leaves out those without blocks."""
    expected, noun, label = model.expected, evidence.noun, evidence.label
    many = nouns(noun)
    card = blocks(report_card(expected, baselines, noun, label))
    panels = _panels(expected, many)
    if expected.numbers:
        predictions = [
            Section("predicted", "Predicted against true", panels),
            Section("errors", f"Errors by {noun}", blocks(errors_plot(expected, f"all {many}"))),
        ]
        cuts = None
    else:
        scores = report_card(expected, None, noun, label, every=True)
        card.append(Block(scores, "All scores", folded=True))
        predictions = [
            Section("reliability", "Are its probabilities right?", panels),
            Section("confusion", "Confusions", confusion_blocks(expected, noun, label)),
            Section("errors", "Most confident errors", error_blocks(evidence)),
        ]
        cuts = cut_table(expected, noun, label)
    shifts = [block for diagnosis in diagnoses for block in study_diagnosis_blocks(diagnosis, noun)]
    pictures = picture_blocks(expected, evidence)
    by_domain = f"{noun[:1].upper()}{noun[1:]} by {noun}"
    return [
        Section("expect", by_domain, blocks(forest_plot(model, noun))),
        Section("card", "Report card", card),
        Section("worst", f"Worst {noun}", blocks(worst_facts(expected, evidence, diagnoses))),
        *predictions,
        Section("shift", f"What differs between {many}", [*pictures, *shifts]),
        Section("far", "Inputs it has not seen", blocks(far_plot(expected, evidence))),
        Section("thresholds", "Thresholds", blocks(shortfall_plot(expected, noun), cuts)),
    ]


def _panels(expected: Expected, many: str) -> list[Block]:
    """Return panels of all rows and of each domain; with many domains, the worst three first."""
    score = expected.score(expected.metric)
    every = prediction_panels(expected, whole=f"all {many}")
    if len(expected.outputs) <= MANY or score is None:
        return [Block(every)]
    few = prediction_panels(expected, worst_first(score)[:WORST], f"all {many}")
    return [Block(few), Block(every, f"Each of {len(expected.outputs)} {many}", folded=True)]


def figures_of(expected: Expected, evidence: Evidence) -> list[tuple[str, str]]:
    """Return the size of the study: domains, rows, columns and classes."""
    rows = sum(len(outputs.labels) for outputs in expected.outputs.values())
    figures = [(f"{nouns(evidence.noun)} held out in turn", len(expected.outputs)), ("rows", rows)]
    if evidence.columns:
        figures.append(("columns", evidence.columns))
    if not expected.numbers:
        first = next(iter(expected.of_classes.values()))
        figures.append(("classes", first.probabilities.shape[1]))
    return [(name, f"{count:,}") for name, count in figures]


def remarks_of(model: HeldOut, evidence: Evidence) -> list[str]:
    """Return the remarks to print below the first sentence."""
    expected, noun, many = model.expected, evidence.noun, nouns(evidence.noun)
    score = expected.score(expected.metric)
    if score is None:
        return []
    remarks = [
        f"The model was trained {len(expected.outputs)} times, each time without one {noun}, and"
        f" scored there. In brackets: where the next {noun} lies with probability"
        f" {score.level:.0%}."
    ]
    if expected.metric == "mae":
        unit = f" in the unit of {evidence.label}" if evidence.label else ""
        remarks.append(f"The error is the mean absolute error (MAE){unit}.")
    if expected.adaptation:
        remarks.append(
            f"This is adaptation ({expected.adaptation}): it uses the rows of the new {noun},"
            " without labels."
        )
    if len(score.estimates) < MANY:
        remarks.append(
            f"{len(score.estimates)} {many} hardly show how much {many} differ: more would shorten"
            " the interval."
        )
    if score.outliers:
        remarks.append(f"Unlike the other {many}: {', '.join(score.outliers)}.")
    return remarks


MOST_CLASSES = 12


def picture_blocks(expected: Expected, evidence: Evidence) -> list[Block]:
    """Return the pictures that the evidence allows."""
    images = [
        Pictures(domain, [(image, "") for image in images])
        for domain, images in evidence.images.items()
    ]
    strips = column_strips(evidence, list(expected.outputs)) if evidence.shifted else None
    shares = share_map(expected, evidence) if expected.of_classes else None
    return blocks(*images, strips, shares)


def share_map(expected: Expected, evidence: Evidence) -> HeatMap | None:
    """Return the share of each class in each domain, coloured by its difference from their mean."""
    shares = shares_of(expected.of_classes)
    if len(shares) < 2:
        return None
    table = np.array(list(shares.values()))
    mean, spread = table.mean(axis=0), np.ptp(table, axis=0)
    if 100 * spread.max() < LIMITS[0]:
        return None  # nothing moves
    count = len(mean)
    most = sorted(np.argsort(-spread, kind="stable")[:MOST_CLASSES].tolist())
    rows = []
    for code in most:
        cells = [
            HeatCell(f"{100 * share:.0f}", level(float(100 * (share - mean[code]))))
            for share in table[:, code]
        ]
        name = answer_of(evidence.label, class_name(expected.classes, code))
        rows.append((name.strip("'"), cells))
    more = f" The {len(most)} of {count} classes that move most." if len(most) < count else ""
    title = f"Classes: share of the rows of each {evidence.noun} (%)"
    note = (
        f"Blue: more than the mean of all {nouns(evidence.noun)}; orange: less. The colours change"
        f" at 0.5, 2, 5 and 10 points.{more}"
    )
    return HeatMap(title, [("", list(shares))], rows, [note], head="Class")


def column_strips(evidence: Evidence, domains: list[str]) -> Strips:
    """Return one small chart per column: where most of its values lie in each domain."""
    key = [("dot", "median"), ("bar", "half of the rows"), ("span", "nine of ten rows")]
    note = f"The columns that differ most between {nouns(evidence.noun)}, without missing values."
    return Strips([_strip(column, domains) for column in evidence.shifted], key, [note])


def _strip(column: ColumnByDomain, domains: list[str]) -> Strip:
    known = [value for five in column.quantiles.values() if five for value in five]
    axis = Axis.over(known or [0.0], 4, margin=0.02)
    rows = []
    for domain in domains:
        five, missing = column.quantiles.get(domain), column.missing.get(domain, 1.0)
        if five is None:
            rows.append(StripRow(domain, (), "no values", f"{domain}: no values"))
            continue
        absent = f"{missing:.0%} missing" if missing >= 0.005 else ""
        low, lower, middle, upper, high = (short(float(f"{value:.4g}")) for value in five)
        tip = (
            f"{domain}: median {middle}\nhalf between {lower} and {upper},"
            f" nine of ten between {low} and {high}"
        )
        tip += f"\n{absent}" if absent else ""
        rows.append(StripRow(domain, tuple(map(axis.percent, five)), absent, tip))
    return Strip(column.name, axis.percent_ticks(), rows)


def far_plot(expected: Expected, evidence: Evidence) -> DotPlot | None:
    """Return one bar per domain; None if no model can tell which inputs are far."""
    shares = {domain: far for domain, far in evidence.far.items() if far is not None}
    if not shares:
        return None
    metric = METRICS.get("mae" if expected.numbers else "accuracy")
    rows = []
    for domain in sorted(shares, key=lambda domain: -shares[domain]):
        outputs, far = expected.outputs.get(domain), shares[domain]
        value = None if outputs is None else metric.score(outputs)
        score = NOTHING if value is None else metric.text(value)
        tip = f"{far:.1%} of the rows of {domain} are far"
        bar = Mark("bar", 0.0, 100 * far)
        rows.append(PlotRow(Row.of(domain, f"{100 * far:.1f}", score), [bar], tip))
    others = nouns(evidence.noun)
    note = (
        f"A row is far if at most 1% of the rows of the training {others} that were set aside are"
        f" as far from them. The model answers for it all the same: read such answers with care."
    )
    scored = f"{metric.heading}{' (%)' * (metric.factor == 100)}"
    return DotPlot.of(
        f"Rows unlike those of the other {others}",
        (Column("Far (%)"), Column(scored, metric.direction)),
        rows,
        *("Share of rows (%)", PERCENT),
        notes=(note,),
        heads=(evidence.noun[:1].upper() + evidence.noun[1:],),
        by=0,
    )
