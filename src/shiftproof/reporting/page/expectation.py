"""What to expect at the next domain: a forest plot, the report card, and reliability diagrams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shiftproof.core.text import counted
from shiftproof.inference.expected import Expected, ExpectedScore, sentences
from shiftproof.metrics import METRICS
from shiftproof.metrics.base import worst_scores
from shiftproof.metrics.classification import commonest_class
from shiftproof.metrics.outputs import AnyOutputs, NumberOutputs, confusion, of_classes, pooled
from shiftproof.metrics.regression import COVERAGE_LEVEL
from shiftproof.reporting.page.answer.card import cell_of
from shiftproof.reporting.page.answer.lead import nouns
from shiftproof.reporting.page.axes import Axis
from shiftproof.reporting.page.numbers import errors_plot, predicted_panels
from shiftproof.reporting.page.reliability import POOLED, reliability_panels
from shiftproof.reporting.page.values import Block, DotPlot, Mark
from shiftproof.reporting.table import NOTHING, Cell, Column, Row, Table

NEXT = "next domain"


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


def expectation_blocks(held_out: Sequence[HeldOut]) -> list[Block]:
    """Return the forest plot, report card and reliability of each model, the best model first."""
    blocks = []
    for position, own in enumerate(sorted(held_out, key=_order)):
        heading = own.title if len(held_out) > 1 else ""
        folded = position > 0
        pictures: list[tuple[str, object, str, str]] = [
            ("dots", forest_plot(own), heading, " ".join(_said(own))),
            ("table", card_table(own), _headed(heading, "Report card"), ""),
        ]
        if own.expected.numbers:
            against, errors = predicted_panels(own.expected), errors_plot(own.expected)
            pictures.append(("panels", against, _headed(heading, against.title), ""))
            pictures.append(("dots", errors, _headed(heading, "Errors"), ""))
        else:
            panels = reliability_panels(own.expected)
            pictures.append(("panels", panels, _headed(heading, "Reliability"), ""))
        for kind, value, name, words in pictures:
            if value is not None:
                blocks.append(Block(kind, value, name, folded, words))
        if own.expected.numbers:
            continue
        if (table := confusion_table(own.expected)) is not None:
            blocks.append(Block("table", table, _headed(heading, "Confusion matrices"), True))
    return blocks


def forest_plot(own: HeldOut, noun: str = "domain") -> DotPlot | None:
    """Return one row per held-out domain, the mean as a diamond, and the next domain as a bar.

    None if the score is defined in fewer than two domains.  ``noun`` is the word for a domain.
    """
    metric = METRICS.get(own.expected.metric)
    score = own.expected.score(metric.name)
    if score is None:
        return None
    low, high = score.interval
    middle = score.mean_interval
    values = [end for each in score.estimates.values() for end in (each.low, each.high)]
    scale = metric.factor
    axis = Axis.over([scale * end for end in (low, high, *values)], margin=0.02)

    def place(value: float) -> float:
        return axis.percent(scale * value)

    def span(ends: tuple[float, float], kind: str = "span") -> Mark:
        return Mark(kind, *map(place, ends))

    def row(label: str, value: float | None, ends: tuple[float, float], rows: int | None) -> Row:
        return Row.of(
            label,
            NOTHING if value is None else metric.text(value),
            metric.interval_text(*ends),
            NOTHING if rows is None else f"{rows:,}",
        )

    marks, rows, tips = [], [], []
    for domain, each in score.estimates.items():
        samples = len(own.expected.outputs[domain].labels)
        odd = domain in score.outliers
        ends = each.low, each.high
        marks.append([span(ends), Mark("dot", place(each.value))])
        rows.append(row(f"{domain} *" if odd else domain, each.value, ends, samples))
        unlike = f"\nunlike the other {nouns(noun)}" if odd else ""
        said = f"{metric.text(each.value)} ({metric.interval_text(*ends)})"
        tips.append(f"{domain}: {said}\n{counted(samples, 'row')}{unlike}")
    total = sum(len(each.labels) for each in own.expected.outputs.values())
    marks += [[span(middle), Mark("diamond", place(score.mean))], [span((low, high), "bar")]]
    typical, following = f"typical {noun}", f"next {noun}"
    rows += [row(typical, score.mean, middle, total), row(following, None, (low, high), None)]
    percent = " (%)" if scale == 100 else ""
    tips += [
        f"A typical {noun}: {metric.text(score.mean)} ({metric.interval_text(*middle)})",
        f"The next {noun} is between {metric.text(low)} and {metric.text(high)} with"
        f" probability {score.level:.0%}",
    ]
    columns = (
        Column(f"{metric.heading}{percent}", metric.direction),
        Column("Interval"),
        Column("Rows", wide=True),
    )
    table = Table(
        f"{metric.heading} on each {noun} held out, and at the next one",
        columns,
        tuple(rows),
        notes=tuple(_forest_notes(own, score, noun)),
        heads=("Held out",),
        foot=2,
    )
    key = [
        ("dot", f"{noun} held out"),
        ("span", f"interval of {score.level:.0%}, for its number of rows"),
        ("diamond", f"typical {noun}"),
        ("bar", f"the next {noun}, with probability {score.level:.0%}"),
    ]
    title = f"{metric.heading}{percent}"
    return DotPlot(table, title, axis.percent_ticks(), marks, key, tips)


def card_table(own: HeldOut) -> Table:
    """Return all scores with intervals: one row per domain, the worst, and all rows pooled."""
    expected = own.expected
    found = {name: expected.estimates(name) for name in expected.metrics}
    shown = [METRICS.get(name) for name, by_domain in found.items() if any(by_domain.values())]
    outputs = list(expected.outputs.values())
    whole = pooled(outputs)
    worst = worst_scores(
        [
            {
                metric.name: value.value
                for metric in shown
                if (value := found[metric.name][domain]) is not None
            }
            for domain in expected.outputs
        ]
    )
    rows = []
    for domain, answers in expected.outputs.items():
        cells = [
            Cell(f"{len(answers.labels):,}"),
            *(cell_of(metric, found[metric.name][domain]) for metric in shown),
        ]
        rows.append(Row((domain,), (*cells, *_plain(answers))))
    several = len(outputs) > 1
    if several:
        bad = [
            Cell() if (v := worst.get(metric.name)) is None else Cell(metric.text(v))
            for metric in shown
        ]
        empty = (Cell(),) * len(_plain(whole))
        rows.append(Row(("worst domain",), (Cell(), *bad, *empty)))
        alike = [
            Cell() if metric.jointly else cell_of(metric, metric.estimate(whole, expected.level))
            for metric in shown
        ]
        rows.append(Row((POOLED,), (Cell(f"{len(whole.labels):,}"), *alike, *_plain(whole))))
        ahead = [_range(expected.score(metric.name)) for metric in shown]
        rows.append(Row((f"{NEXT}, {expected.level:.0%}",), (Cell(), *ahead, *empty)))
    columns = [Column("Samples"), *(Column(metric.heading, metric.direction) for metric in shown)]
    columns += [] if expected.numbers else [Column("Commonest class")]
    return Table(
        "Report card by held-out domain",
        tuple(columns),
        tuple(rows),
        notes=(_card_note(expected),),
        heads=("Held out",),
        foot=3 if several else 0,
    )


def _plain(own: AnyOutputs) -> tuple[Cell, ...]:
    """Return the accuracy of always predicting the commonest class; empty for regression."""
    if isinstance(own, NumberOutputs):
        return ()
    return (Cell(f"{100 * commonest_class(own):.1f}"),)


def _card_note(expected: Expected) -> str:
    said = (
        f"Intervals of {expected.level:.0%} below each score are for the number of samples; those"
        f" of the {NEXT} are for how domains differ. "
    )
    if expected.numbers:
        return said + (
            "R² is taken within a domain: 0 is its own mean, below 0 worse than that. MAE, RMSE and"
            " intercept have the unit of the label. Calibrated predictions have slope 1 and"
            " intercept 0 (the mean of label less prediction). Interval coverage is the share of"
            f" labels inside intervals of {COVERAGE_LEVEL:.0%} that come from the errors on all"
            " other held-out domains."
        )
    return said + (
        "AUROC, F1, average precision and balanced"
        " accuracy are means over classes. Accuracies and the calibration error are in percent."
        " Calibrated probabilities have slope 1, intercept 0 and"
        " error 0. The commonest class is what always predicting it would score."
    )


def confusion_table(expected: Expected) -> Table | None:
    """Return counts of predicted classes by domain and class; None if there are many classes."""
    outputs = of_classes(expected.outputs, "a confusion matrix")
    classes = expected.classes or tuple(
        str(code) for code in range(next(iter(outputs.values())).probabilities.shape[1])
    )
    if len(classes) > 20:
        return None
    rows = [
        Row((domain,), (Cell(name), *(Cell(f"{count}") for count in counts)))
        for domain, own in outputs.items()
        for name, counts in zip(classes, confusion(own), strict=True)
    ]
    columns = (Column("Class", words=True), *(Column(f"as {name}") for name in classes))
    return Table("Samples by class and predicted class", columns, tuple(rows), heads=("Held out",))


def _said(own: HeldOut) -> list[str]:
    if own.expected.score(own.expected.metric) is None:
        return []
    return sentences(own.expected)


def _forest_notes(own: HeldOut, score: ExpectedScore, noun: str) -> Iterable[str]:
    yield (
        f"Each {noun} was held out of the training of the model that is scored there. A typical"
        f" {noun} is in the middle: about half of all {nouns(noun)} do better than it. It and the"
        f" prediction interval of the next {noun} come from a random-effects meta-analysis."
    )
    if undefined := len(own.expected.outputs) - len(score.estimates):
        yield f"{counted(undefined, 'domain')} where the score is undefined: not shown."
    if score.outliers:
        yield f"*: unlike the other {nouns(noun)} (p < 0.05, corrected for their number)."
    if own.seeds > 1:
        yield f"Seed {own.seed}, of {own.seeds}."


def _order(own: HeldOut) -> tuple[bool, float, str]:
    """Return a sort key: the best typical domain first, those without one and adaptation last."""
    score = own.expected.score(own.expected.metric)
    if score is None:
        return bool(own.expected.adaptation), np.inf, own.title
    value = METRICS.get(own.expected.metric).loss(score.mean)
    return bool(own.expected.adaptation), value, own.title


def _range(score: ExpectedScore | None) -> Cell:
    if score is None:
        return Cell()
    metric = score.metric
    return Cell(metric.text(score.mean), interval=metric.interval_text(*score.interval))


def _headed(title: str, name: str) -> str:
    return f"{title}: {name.lower()}" if title else name
