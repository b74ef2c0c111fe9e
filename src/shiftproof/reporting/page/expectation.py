"""What to expect at the next domain: a forest plot, thresholds, and the blocks of each model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shiftproof.core.text import counted
from shiftproof.inference.expected import Expected, ExpectedScore, sentences
from shiftproof.metrics import METRICS
from shiftproof.reporting.page.card import report_card
from shiftproof.reporting.page.constants import class_name
from shiftproof.reporting.page.predictions import confusion_table, errors_plot, prediction_panels
from shiftproof.reporting.page.sentences import answer_of, nouns
from shiftproof.reporting.page.values import PERCENT, Axis, Block, DotPlot, Mark, PlotRow, Value
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
