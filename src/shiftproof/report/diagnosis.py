"""A diagnosis as text and as a picture: values in, characters or pixels out."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from shiftproof.core.errors import DataError
from shiftproof.information import Estimate, Shift
from shiftproof.report.plots import BLUE, GREY, ORANGE
from shiftproof.shift.advise import Advice
from shiftproof.shift.diagnose import Diagnosis
from shiftproof.shift.interpretation import nats

KINDS = {
    "covariate": "covariate shift",
    "label": "label shift",
    "concept": "concept shift",
    "joint": "all together",
    "within_label": "within a class",
}
MOST_PAIRS, MOST_FEATURES, MOST_CLASSES = 10, 8, 10
# In the picture.
MOST_BARS, MOST_ROWS, LONGEST = 12, 12, 14
NUMBERED = 20


@dataclass(frozen=True)
class About:
    """What a report says around the diagnosis itself.

    ``title`` names the data and says what they are; ``command`` and ``beside`` carry out the
    advice.
    """

    title: str
    notes: Sequence[str] = ()
    command: str = ""
    beside: str = ""


def diagnosis_text(diagnosis: Diagnosis, advice: Advice, about: About, width: int = 100) -> str:
    """Return the report: amounts, reading, where it shifts, and what to do."""
    lines = [*_wrapped(about.title, width)]
    if diagnosis.left_out:
        measured = sum(diagnosis.sizes)
        lines += _wrapped(
            f"{measured:,} of {measured + diagnosis.left_out:,} samples are measured, of each"
            f" domain {_range(diagnosis.sizes)}; --most N measures more",
            width,
        )
    for note in about.notes:
        lines += _wrapped(f"note: {note}", width, hang=6)
    lines += ["", *_amounts(diagnosis, width)]
    lines += ["", "In words"]
    for finding in advice.findings:
        lines += _wrapped(f"- {KINDS[finding.shift]}: {finding.text}", width, hang=2)
    lines += ["", *_pairs(diagnosis), "", *_features(diagnosis), "", *_classes(diagnosis)]
    lines += ["", "What to do"]
    lines += _wrapped(f"- {advice.choice.algorithm}: {advice.choice.why}", width, hang=2)
    lines += [f"    {about.command}"] * bool(about.command)
    if advice.beside is not None:
        lines += _wrapped(f"- beside it, {advice.beside.algorithm}: {advice.beside.why}", width, 2)
        lines += [f"    {about.beside}"] * bool(about.beside)
    for remark in advice.remarks:
        lines += _wrapped(f"- {remark}", width, hang=2)
    return "\n".join(lines) + "\n"


def diagnosis_json(
    diagnosis: Diagnosis, advice: Advice, about: About, data: str, inputs: str
) -> dict[str, Any]:
    """Return everything as JSON values; ``data`` is what was asked about, ``inputs`` as what."""
    return {
        "data": data,
        "inputs": inputs,
        "notes": list(about.notes),
        **diagnosis.to_json(),
        "advice": {
            **advice.to_json(),
            "command": about.command,
            "compare_with": about.beside or None,
        },
    }


def read_diagnosis(path: Path) -> dict[str, Any]:
    """Return what `diagnosis_json` returned, from a file."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        value = None
    wanted = ("data", "inputs", "notes", "domains", "counts", "level", "shift", "advice")
    if not isinstance(value, dict) or not set(wanted) <= value.keys():
        raise DataError(
            f"{path} is not what shiftproof diagnose --out writes; write it again or remove it"
        )
    return value


def _amounts(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield the table of amounts: of the inputs and, beside them, of a model's representation."""
    level = f"{100 * diagnosis.level:g}%"
    yield f"How much shifts (nats, {level} intervals; p: the chance of such data without a shift)"
    header = ["", "inputs", "", level, "p"]
    shifts: list[Shift] = [diagnosis.shift]
    if diagnosis.model is not None:
        header += ["representation", "", level, "p"]
        shifts.append(diagnosis.model.shift)
    rows = [
        [title, *(cell for shift in shifts for cell in _cells(getattr(shift, name)))]
        for name, title in KINDS.items()
    ]
    if diagnosis.model is not None:
        rows.append(["risks", *[""] * 4, *_cells(diagnosis.model.risk_shift)])
    yield from _table(header, rows, left=(0, 1, 5))
    method = diagnosis.shift.covariate.method
    most = f"at most {nats(diagnosis.domain_entropy)}, log of the number of domains"
    yield from _wrapped(f"  by {method}, all domains counted alike; {most}", width, hang=2)


def _cells(estimate: Estimate) -> list[str]:
    low, high = (f"{bound:.4f}" for bound in estimate.interval)
    p = "" if estimate.p_value is None else f"{estimate.p_value:.3f}"
    return [estimate.symbol, f"{estimate.value:.4f}", f"{low}–{high}", p]


def _pairs(diagnosis: Diagnosis) -> Iterator[str]:
    ordered = sorted(diagnosis.pairs, key=lambda pair: -pair.told_apart_with_label)
    yield "Which domains differ (told apart by a network; 50% is guessing)"
    rows = [
        [
            f"{_cut(pair.first, 24)} – {_cut(pair.second, 24)}",
            f"{pair.told_apart:.0%}",
            f"{pair.told_apart_with_label:.0%}",
            f"{pair.w1:.2f}",
            f"{pair.labels:.0%}",
        ]
        for pair in ordered[:MOST_PAIRS]
    ]
    header = ["", "by inputs", "by inputs and label", "features apart (sd)", "labels apart"]
    yield from _table(header, rows)
    yield from _more(len(ordered) - MOST_PAIRS, "pair")


def _features(diagnosis: Diagnosis) -> Iterator[str]:
    moved = sum(feature.p_value <= 1 - diagnosis.level for feature in diagnosis.features)
    yield (
        f"Which features move ({moved:,} of {len(diagnosis.features):,} do; p adjusted for all"
        " features and pairs)"
    )
    rows = [
        [
            _cut(feature.name, 40),
            f"{feature.w1:.2f}",
            f"{feature.most:.2f}",
            " – ".join(_cut(name, 24) for name in feature.farthest),
            f"{feature.p_value:.3f}",
        ]
        for feature in diagnosis.features[:MOST_FEATURES]
    ]
    yield from _table(["", "mean (sd)", "most (sd)", "between", "p"], rows, left=(0, 3))
    yield from _more(len(diagnosis.features) - MOST_FEATURES, "feature")


def _classes(diagnosis: Diagnosis) -> Iterator[str]:
    moved = sorted(diagnosis.moved_classes, key=lambda each: min(each.shares) - max(each.shares))
    yield "Which classes move (share of each domain; how far their own inputs tell the domain)"
    shown = diagnosis.domains[:6]
    rows = [
        [
            _cut(each.name, 30),
            *(f"{share:.0%}" for share in each.shares[: len(shown)]),
            "–" if each.within is None else f"{each.within:.0%}",
        ]
        for each in moved[:MOST_CLASSES]
    ]
    header = ["", *(_cut(name, LONGEST) for name in shown), "inputs tell"]
    yield from _table(header, rows)
    yield from _more(len(moved) - MOST_CLASSES, "class")
    yield from _more(len(diagnosis.domains) - len(shown), "domain")


def _more(count: int, thing: str) -> list[str]:
    plural = {"class": "classes"}.get(thing, thing + "s")
    return [f"  … and {count:,} more {thing if count == 1 else plural}"] if count > 0 else []


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> Iterator[str]:
    """Yield rows in columns, as wide as they must be; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if position in left else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )


def _range(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _cut(name: str, longest: int = LONGEST) -> str:
    """Shorten a name in its middle, for names that begin alike often end differently.

    >>> _cut("hospital of the north", 14), _cut("north", 14)
    ('hospita… north', 'north')
    """
    if len(name) <= longest:
        return name
    end = (longest - 1) // 2
    return name[: longest - 1 - end] + "…" + name[-end:]


def diagnosis_picture(diagnosis: Diagnosis, title: str) -> bytes:
    """Return a PNG: domains against domains, features by their shift, classes by domain."""
    domains, classes = len(diagnosis.domains), min(len(diagnosis.classes), MOST_ROWS)
    sides = (max(4.0, 0.55 * domains + 2.2), 4.6, max(3.0, 0.5 * domains + 2.2))
    height = max(4.2, 0.42 * max(domains, classes) + 1.8)
    figure = Figure(figsize=(sum(sides), height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3, width_ratios=sides)
    _draw_pairs(axes[0], diagnosis)
    _draw_features(axes[1], diagnosis)
    _draw_classes(axes[2], diagnosis)
    amounts = ", ".join(
        f"{KINDS[name]} {nats(getattr(diagnosis.shift, name).value)}"
        for name in ("covariate", "label", "concept")
    )
    figure.suptitle(f"{_cut(title, 60)}: {amounts} nats", fontsize=12)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _draw_pairs(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw how far two domains are told apart: by inputs below the diagonal, and labels above."""
    count = len(diagnosis.domains)
    place = {name: position for position, name in enumerate(diagnosis.domains)}
    values = np.full((count, count), np.nan)
    for pair in diagnosis.pairs:
        a, b = place[pair.first], place[pair.second]
        values[b, a], values[a, b] = pair.told_apart, pair.told_apart_with_label
    _heat_map(axes, 100 * values, "Oranges", (50, 100))
    axes.plot([-0.5, count - 0.5], [-0.5, count - 0.5], color=GREY, linewidth=1)
    names = [_cut(name) for name in diagnosis.domains]
    axes.set_xticks(range(count), names, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(count), names)
    axes.set_title("Domains told apart (%; 50 is guessing)\nabove: with the label", fontsize=10)
    axes.set_xlabel("below: by the inputs alone")


def _draw_features(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the features' distances: bars for the first of few, a curve for all of many."""
    features = diagnosis.features
    alpha = 1 - diagnosis.level
    if len(features) > 2 * MOST_BARS:
        ranks = np.arange(1, len(features) + 1)
        axes.plot(ranks, [f.most for f in features], ".", color=ORANGE, markersize=2, alpha=0.6)
        axes.plot(ranks, [f.w1 for f in features], color=BLUE, linewidth=2)
        axes.plot([], [], color=BLUE, linewidth=2, label="mean over pairs")
        axes.plot([], [], ".", color=ORANGE, label="farthest pair")
        moved = sum(f.p_value <= alpha for f in features)
        axes.set_title(f"Features by shift: {moved:,} of {len(features):,} move", fontsize=10)
        axes.set_xlabel(f"features in order (first: {_cut(features[0].name, 30)})")
        axes.set_ylabel("distance (standard deviations)")
        axes.set_ylim(bottom=0)
    else:
        shown = features[:MOST_BARS][::-1]
        places = np.arange(len(shown))
        axes.barh(places, [f.most for f in shown], color=ORANGE, alpha=0.45, label="farthest pair")
        colours = [BLUE if f.p_value <= alpha else GREY for f in shown]
        axes.barh(places, [f.w1 for f in shown], color=colours, height=0.45)
        axes.bar([], [], color=BLUE, label="mean over pairs (grey: may be chance)")
        axes.set_yticks(places, [_cut(f.name, 22) for f in shown])
        axes.set_title("Features by shift", fontsize=10)
        axes.set_xlabel("distance (standard deviations)")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_classes(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the share of each class in each domain; of many classes, those that move most."""
    moved = sorted(diagnosis.moved_classes, key=lambda each: min(each.shares) - max(each.shares))
    kept = {id(each) for each in moved[:MOST_ROWS]}
    shown = [each for each in diagnosis.moved_classes if id(each) in kept]
    # Twice the mean share is dark: with many classes every share is small.
    shares = 100 * np.array([each.shares for each in shown])
    _heat_map(axes, shares, "Blues", (0, max(200 / len(moved), shares.max())))
    names = [_cut(name) for name in diagnosis.domains]
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(shown)), [_cut(each.name) for each in shown])
    of = f" ({len(shown)} of {len(moved)})" if len(shown) < len(moved) else ""
    axes.set_title(f"Classes{of}: share of a domain (%)", fontsize=10)


def _heat_map(axes: Axes, values: np.ndarray, colours: str, limits: tuple[float, float]) -> None:
    """Draw a table as colours, with its numbers in it while there is room."""
    low, high = limits
    image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
    axes.tick_params(length=0, labelsize=9)
    axes.spines[:].set_visible(False)
    if values.shape[1] > NUMBERED:
        axes.figure.colorbar(image, ax=axes)
        return
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            dark = value > low + 0.6 * (high - low)
            ink = "white" if dark else "black"
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=9)
