"""Pictures as PNG, and that of a diagnosis: pairs of domains, features by shift, classes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.reporting.diagnosis import cut, kinds
from shiftproof.shift.diagnosis import Diagnosis
from shiftproof.shift.judging import nats

# Okabe and Ito's palette, which colour-blind readers can distinguish.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
MOST_BARS, MOST_ROWS = 12, 12
# A heat map with more columns shows no numbers.
NUMBERED = 20


def check_picture(path: Path) -> None:
    """Raise if a picture cannot be written to `path`."""
    if path.suffix.lower() != ".png":
        raise InvalidValue(f"`picture` writes a PNG file; {path} does not end in .png")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent} to write the picture to")


def diagnosis_picture(diagnosis: Diagnosis, title: str) -> bytes:
    """Return a PNG: domains against domains, features by their shift, labels by domain."""
    domains, classes = len(diagnosis.domains), min(len(diagnosis.classes), MOST_ROWS)
    sides = (max(4.0, 0.55 * domains + 2.2), 4.6, max(3.0, 0.5 * domains + 2.2))
    height = max(4.2, 0.42 * max(domains, classes) + 1.8)
    figure = Figure(figsize=(sum(sides), height), dpi=110, layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=sides)
    _draw_pairs(axes[0], diagnosis)
    _draw_features(axes[1], diagnosis)
    if diagnosis.numbers:
        _draw_numbers(axes[2], diagnosis)
    else:
        _draw_classes(axes[2], diagnosis)
    titles = kinds({})
    amounts = ", ".join(
        f"{titles[name]} {nats(getattr(diagnosis.shift, name).value)}"
        for name in ("covariate", "label", "concept")
    )
    figure.suptitle(f"{cut(title, 60)}: {amounts} nats", fontsize=12)
    return picture_bytes(figure)


def picture_bytes(figure: Figure, format: str = "png", **metadata: None) -> bytes:
    """Return a figure as the content of a file, without the given `metadata`."""
    out = io.BytesIO()
    figure.savefig(out, format=format, metadata=metadata)
    return out.getvalue()


def without_frame(axes: Axes) -> None:
    """Hide the lines above and on the right of a chart."""
    axes.spines[["top", "right"]].set_visible(False)


def _legend_below(axes: Axes, columns: int, at: float) -> None:
    axes.legend(
        frameon=False, fontsize=8, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, at)
    )


def _name_domains(axes: Axes, diagnosis: Diagnosis) -> None:
    names = [cut(name) for name in diagnosis.domains]
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")


def _draw_pairs(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw how well classifiers distinguish domains: above the diagonal, they see the label too."""
    count = len(diagnosis.domains)
    position = {name: at for at, name in enumerate(diagnosis.domains)}
    values = np.full((count, count), np.nan)
    for pair in diagnosis.pairs:
        a, b = position[pair.first], position[pair.second]
        values[b, a], values[a, b] = pair.told_apart, pair.told_apart_with_label
    _heat_map(axes, 100 * values, "Oranges", (50, 100))
    axes.plot([-0.5, count - 0.5], [-0.5, count - 0.5], color=GREY, linewidth=1)
    _name_domains(axes, diagnosis)
    axes.set_yticks(range(count), [cut(name) for name in diagnosis.domains])
    title = "Accuracy of distinguishing domains (%; chance: 50)\nabove: from inputs and label"
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("below: from inputs alone")


def _draw_features(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the features' distances: bars if features are few, a curve if they are many."""
    features = diagnosis.features
    alpha = 1 - diagnosis.level
    if len(features) > 2 * MOST_BARS:
        ranks = np.arange(1, len(features) + 1)
        axes.plot(ranks, [f.most for f in features], ".", color=ORANGE, markersize=2, alpha=0.6)
        axes.plot(ranks, [f.w1 for f in features], color=BLUE, linewidth=2)
        axes.plot([], [], color=BLUE, linewidth=2, label="mean over pairs")
        axes.plot([], [], ".", color=ORANGE, label="farthest pair")
        moved = sum(f.p_value <= alpha for f in features)
        axes.set_title(f"Features by shift: {moved:,} of {len(features):,} differ", fontsize=10)
        axes.set_xlabel(f"features in order (first: {cut(features[0].name, 30)})")
        axes.set_ylabel("distance (standard deviations)")
        axes.set_ylim(bottom=0)
    else:
        bars = features[:MOST_BARS][::-1]
        places = np.arange(len(bars))
        axes.barh(places, [f.most for f in bars], color=ORANGE, alpha=0.45, label="farthest pair")
        colours = [BLUE if f.p_value <= alpha else GREY for f in bars]
        axes.barh(places, [f.w1 for f in bars], color=colours, height=0.45)
        axes.bar([], [], color=BLUE, label="mean over pairs (grey: not significant)")
        axes.set_yticks(places, [cut(f.name, 22) for f in bars])
        axes.set_title("Features by shift", fontsize=10)
        axes.set_xlabel("distance (standard deviations)")
    _legend_below(axes, 2, -0.14)
    without_frame(axes)


def _draw_classes(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the share of each class in each domain; of many classes, those that differ most."""
    moved = sorted(diagnosis.moved_classes, key=lambda kind: min(kind.shares) - max(kind.shares))
    largest = {id(kind) for kind in moved[:MOST_ROWS]}
    rows = [kind for kind in diagnosis.moved_classes if id(kind) in largest]
    # Twice the mean share is dark, since with many classes every share is small.
    shares = 100 * np.array([kind.shares for kind in rows])
    _heat_map(axes, shares, "Blues", (0, max(200 / len(moved), shares.max())))
    _name_domains(axes, diagnosis)
    axes.set_yticks(range(len(rows)), [cut(kind.name) for kind in rows])
    of = f" ({len(rows)} of {len(moved)})" if len(rows) < len(moved) else ""
    axes.set_title(f"Classes{of}: share of a domain (%)", fontsize=10)


def _draw_numbers(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the labels of each domain: quartiles as a bar, the median and the mean in it."""
    places = np.arange(len(diagnosis.numbers))
    low, high, median, mean = (
        np.array([getattr(labels, name) for labels in diagnosis.numbers])
        for name in ("low", "high", "median", "mean")
    )
    axes.bar(places, high - low, bottom=low, color=BLUE, alpha=0.35, width=0.6, label="quartiles")
    axes.hlines(median, places - 0.3, places + 0.3, color=BLUE, linewidth=2, label="median")
    axes.plot(places, mean, "D", color=ORANGE, markersize=5, label="mean")
    _name_domains(axes, diagnosis)
    axes.tick_params(labelsize=9)
    axes.yaxis.set_major_formatter("{x:,.6g}")
    axes.use_sticky_edges = False  # bars do not begin at zero
    axes.margins(y=0.08)
    axes.set_title("Labels by domain", fontsize=10)
    _legend_below(axes, 3, -0.2)
    without_frame(axes)


def _heat_map(axes: Axes, values: np.ndarray, colours: str, limits: tuple[float, float]) -> None:
    """Draw a heat map, with numbers in it if there is room."""
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
