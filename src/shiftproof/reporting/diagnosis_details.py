"""All measurements of a diagnosis as text: amounts, domains, features and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shiftproof.core.text import three_digits
from shiftproof.information import Estimate, Shift
from shiftproof.reporting.plain_text import LONGEST, columns, cut, more, wrapped
from shiftproof.shift.advise import points
from shiftproof.shift.diagnosis import Diagnosis, NumberDrop
from shiftproof.shift.judging import nats

KINDS = {
    "covariate": "covariate shift",
    "label": "label shift",
    "concept": "concept shift",
    "joint": "joint shift",
    "within_label": "within a class",
}
# For a numeric label.
NUMBER_KINDS = {**KINDS, "within_label": "given the label"}
MOST_PAIRS, MOST_FEATURES, MOST_CLASSES = 10, 8, 10


def kind_titles(diagnosis: Diagnosis) -> Mapping[str, str]:
    """Return the title of each kind of shift."""
    return NUMBER_KINDS if diagnosis.numbers else KINDS


def where_it_is_lost(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield details on the loss in each held-out domain, and the columns that were tried."""
    for drop in diagnosis.drops:
        if isinstance(drop, NumberDrop):
            text = (
                f"{drop.domain}: the mean absolute error is {three_digits(drop.mae.held_out)} if it"
                f" is held out, and {three_digits(drop.mae.trained_with)} if it is trained on;"
                f" {drop.unseen_share:.0%} of its rows hardly occur in other domains"
            )
            yield from wrapped(f"  {text}", width, 4)
            continue
        auroc = "" if drop.auroc is None else f" AUROC lost: {points(drop.auroc.lost)} points;"
        name, lost = drop.worst_class
        text = (
            f"{drop.domain}:{auroc} class {cut(name, 30)!r} loses most accuracy, {lost:.0f} points;"
            f" {drop.unseen_share:.0%} of its rows hardly occur in other domains"
        )
        yield from wrapped(f"  {text}", width, 4)
    for trial in diagnosis.trials:
        change = {"drop": "left out", "rank": "replaced by its rank within each domain"}
        metric = "R²" if diagnosis.numbers else "accuracy"
        text = (
            f"{cut(trial.column, 40)!r} {change[trial.change]}: mean gain of held-out domains"
            f" {points(trial.gain)} points of {metric}"
        )
        yield from wrapped(f"  {text}", width, 4)


def amount_lines(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield the table of amounts: of the inputs and, if there is a model, of its representation."""
    level = f"{100 * diagnosis.level:g}%"
    yield (
        "How much shifts (in nats; lower bounds: what these classifiers detect, with intervals; p:"
        " p-value of a test of no shift)"
    )
    header = ["", "inputs", "", level, "p"]
    shifts: list[Shift] = [diagnosis.shift]
    if diagnosis.model is not None:
        header += ["representation", "", level, "p"]
        shifts.append(diagnosis.model.shift)
    rows = [
        [title, *(cell for shift in shifts for cell in estimate_cells(getattr(shift, name)))]
        for name, title in kind_titles(diagnosis).items()
    ]
    if diagnosis.model is not None:
        rows.append(["risks", *[""] * 4, *estimate_cells(diagnosis.model.risk_shift)])
    yield from columns(header, rows, left=(0, 1, 5))
    method = diagnosis.shift.covariate.method
    most = f"no amount exceeds {nats(diagnosis.domain_entropy)}, the log of the number of domains"
    text = f"  method: {method}; all domains have the same weight; {most}"
    yield from wrapped(text, width, hang=2)


def estimate_cells(estimate: Estimate) -> list[str]:
    """Return an amount in nats as cells: symbol, value, interval and p."""
    low, high = (f"{bound:.4f}" for bound in estimate.interval)
    p = "" if estimate.p_value is None else f"{estimate.p_value:.3f}"
    return [estimate.symbol, f"{estimate.value:.4f}", f"{low}–{high}", p]


def pair_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the pairs of domains that classifiers distinguish best."""
    ordered = sorted(diagnosis.pairs, key=lambda pair: -pair.told_apart_with_label)
    yield "Which domains differ (how often classifiers predict the right one of two; 50% is chance)"
    rows = [
        [
            f"{cut(pair.first, 24)} – {cut(pair.second, 24)}",
            f"{pair.told_apart:.0%}",
            f"{pair.told_apart_with_label:.0%}",
            f"{pair.w1:.2f}",
            f"{pair.labels:.2f}" if diagnosis.numbers else f"{pair.labels:.0%}",
        ]
        for pair in ordered[:MOST_PAIRS]
    ]
    header = ["", "from inputs", "from inputs and label", "feature distance (sd)", "label distance"]
    if diagnosis.numbers:
        header[-1] += " (sd)"
    yield from columns(header, rows)
    yield from more(len(ordered) - MOST_PAIRS, "pair")


def feature_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the features that shift most."""
    moved = sum(feature.p_value <= 1 - diagnosis.level for feature in diagnosis.features)
    yield (
        f"Which features differ ({moved:,} of {len(diagnosis.features):,} significantly; p-values"
        " are adjusted for all features and pairs)"
    )
    rows = [
        [
            cut(feature.name, 40),
            f"{feature.w1:.2f}",
            f"{feature.most:.2f}",
            " – ".join(cut(name, 24) for name in feature.farthest),
            f"{feature.p_value:.3f}",
        ]
        for feature in diagnosis.features[:MOST_FEATURES]
    ]
    yield from columns(
        ["", "mean distance (sd)", "largest (sd)", "between", "p"], rows, left=(0, 3)
    )
    yield from more(len(diagnosis.features) - MOST_FEATURES, "feature")


def class_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the classes whose shares differ most between domains."""
    moved = sorted(diagnosis.moved_classes, key=lambda each: min(each.shares) - max(each.shares))
    yield "Which classes differ (share of each domain; part of the domain's entropy inputs explain)"
    shown = diagnosis.domains[:6]
    rows = [
        [
            cut(each.name, 30),
            *(f"{share:.0%}" for share in each.shares[: len(shown)]),
            "–" if each.within is None else f"{each.within:.0%}",
        ]
        for each in moved[:MOST_CLASSES]
    ]
    header = ["", *(cut(name, LONGEST) for name in shown), "inputs explain"]
    yield from columns(header, rows)
    yield from more(len(moved) - MOST_CLASSES, "class")
    yield from more(len(diagnosis.domains) - len(shown), "domain")


def label_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield statistics of the numeric labels in each domain."""
    yield "Labels by domain"
    rows = [
        [
            cut(name, 30),
            f"{size}",
            *map(three_digits, (own.mean, own.deviation, own.low, own.median, own.high)),
        ]
        for name, size, own in zip(
            diagnosis.domains, diagnosis.sizes, diagnosis.numbers, strict=True
        )
    ]
    header = ["", "samples", "mean", "sd", "lower quartile", "median", "upper quartile"]
    yield from columns(header, rows[:MOST_CLASSES])
    yield from more(len(rows) - MOST_CLASSES, "domain")
