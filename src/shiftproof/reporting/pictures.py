"""Pictures: of a diagnosis (PNG), of Figure 1 of the paper, and of ranks (SVG; Demšar, 2006)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.files import write_atomically
from shiftproof.core.text import counted
from shiftproof.data.datasets.colored_mnist import LABEL_NOISE
from shiftproof.reporting.diagnosis import cut, kinds
from shiftproof.shift.diagnosis import Diagnosis
from shiftproof.shift.judging import nats
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.comparisons import LEVEL, RankComparison, compare_selected
from shiftproof.sweeps.domainbed.names import algorithm_title

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


# A model that reads only the digit cannot do better.
CEILING = 1 - LABEL_NOISE
# The width of one of a paper's two columns; font sizes are those in print.
COLUMN_WIDTH, PANEL_HEIGHT, LEGEND_HEIGHT, DPI = 3.5, 1.45, 0.55, 300
MARKERS = 9
STYLE: dict[Any, Any] = {
    "font.size": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "axes.linewidth": 0.6, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "pdf.fonttype": 42,
}  # fmt: skip


class Look(NamedTuple):
    """The style of a line, distinct in greyscale and for colour-blind readers."""

    colour: str
    dashes: str | tuple[float, tuple[float, ...]]
    marker: str = ""
    width: float = 1.0


PURPLE = "#CC79A7"  # Okabe and Ito's, like the other colours
PENALTIES = {
    # First, so that it is drawn below the others.
    "IDM": Look("black", "-", width=1.8),
    "IRM": Look(BLUE, (0, (4, 1.2)), "o"),
    "V-REx": Look(ORANGE, (0, (1, 0.8)), "s"),
    "IGA": Look(GREEN, (0, (5, 1.2, 1, 1.2)), "^"),
    "Fishr": Look(PURPLE, (0, (8, 1.5)), "D"),
}
ACCURACIES = {
    "train": Look(BLUE, "-"),
    "test": Look(ORANGE, (0, (4, 1.2)), width=1.4),
    "gray": Look(GREY, (0, (1, 0.8)), width=1.4),
}


def normalised(series: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Divide each series by its maximum over training; a series of zeros stays as it is.

    Penalties have different units, so only their course can be compared, not their size.  An
    estimate of a penalty may be negative (IRM's is unbiased).

    >>> normalised({"IRM": [2.0, 4.0, 1.0], "IGA": [0.0, 0.0, 0.0]})
    {'IRM': (0.5, 1.0, 0.25), 'IGA': (0.0, 0.0, 0.0)}
    """
    normal = {}
    for name, values in series.items():
        for position, value in enumerate(values):
            if not np.isfinite(value):
                raise DataError(
                    f"value {position} of the penalty {name} is {value}: the run diverged and"
                    " cannot be drawn; look into its records, then run it again"
                )
        largest = max(values, default=0.0)
        if largest <= 0 and any(values):
            raise DataError(f"the penalty {name} is never above 0 and cannot be normalised")
        normal[name] = tuple(float(value / largest) if largest else 0.0 for value in values)
    return normal


def write_dynamics(
    series: Mapping[str, Sequence[float]],
    steps: Sequence[int],
    switch: int,
    path_without_suffix: Path,
    accuracies: Mapping[str, Sequence[float]] | None = None,
) -> list[Path]:
    """Write the figure as PNG and PDF, equal bytes for equal values, and return both paths.

    ``series`` holds each penalty at ``steps``, under the names of `PENALTIES`.  The penalties are
    drawn `normalised`, on a linear axis as in the paper and on a logarithmic one, which leaves out
    values that are not positive.  ``switch`` is the step at which the warm-up ends.  ``accuracies``
    in [0, 1], under the names of `ACCURACIES`, are drawn in a third panel.
    """
    with mpl.rc_context(STYLE):
        figure = _draw_dynamics(normalised(series), steps, switch, accuracies or {})
        files = {
            "png": picture_bytes(figure),
            "pdf": picture_bytes(figure, "pdf", CreationDate=None),
        }
    paths = []
    for suffix, content in files.items():
        path = path_without_suffix.with_name(f"{path_without_suffix.name}.{suffix}")
        write_atomically(path, content)
        paths.append(path)
    return paths


def _draw_dynamics(
    series: Mapping[str, Sequence[float]],
    steps: Sequence[int],
    switch: int,
    accuracies: Mapping[str, Sequence[float]],
) -> Figure:
    panels = 3 if accuracies else 2
    size = (COLUMN_WIDTH, PANEL_HEIGHT * panels + LEGEND_HEIGHT)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    grid = figure.subplots(panels, 1, sharex=True)
    linear, logarithmic = grid[0], grid[1]
    for position, (name, look) in enumerate(PENALTIES.items()):
        if name in series:
            values = np.asarray(series[name])
            _line(linear, steps, values, name, look, position)
            _line(logarithmic, steps, np.where(values > 0, values, np.nan), name, look, position)
    linear.set_ylabel("penalty / its maximum")
    logarithmic.set_ylabel("the same, log scale")
    logarithmic.set_yscale("log")
    if accuracies:
        _draw_accuracies(grid[2], steps, accuracies)
    for axes in grid:
        axes.axvline(switch, color="black", linestyle=":", linewidth=0.9, zorder=1)
        without_frame(axes)
        axes.margins(x=0.01)
    left = switch - steps[0] > steps[-1] - switch
    linear.annotate(
        "end of warm-up", (switch, 1), (-3 if left else 3, 0), xycoords=("data", "axes fraction"),
        textcoords="offset points", ha="right" if left else "left", va="top", fontsize=7,
    )  # fmt: skip
    grid[-1].set_xlabel("step")
    lines, labels = linear.get_legend_handles_labels()
    figure.legend(
        lines, labels, loc="outside upper center", ncols=len(labels), frameon=False,
        handlelength=2.6, columnspacing=0.9, handletextpad=0.4,
    )  # fmt: skip
    return figure


def _draw_accuracies(
    axes: Axes, steps: Sequence[int], accuracies: Mapping[str, Sequence[float]]
) -> None:
    for name, look in ACCURACIES.items():
        if name in accuracies:
            _line(axes, steps, 100 * np.asarray(accuracies[name]), name, look)
    axes.axhline(100 * CEILING, color="black", linewidth=0.6, zorder=1)
    axes.annotate(
        f"{100 * CEILING:.0f}%: ceiling without colour", (1, 100 * CEILING), (0, 2),
        xycoords=("axes fraction", "data"), textcoords="offset points", ha="right", fontsize=7,
    )  # fmt: skip
    axes.set_ylim(0, 100)
    axes.set_ylabel("accuracy (%)")
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(accuracies), frameon=False,
        handlelength=2.6, borderpad=0.1,
    )  # fmt: skip


def _line(
    axes: Axes, steps: Sequence[int], values: np.ndarray, name: str, look: Look, turn: int = 0
) -> None:
    apart = max(len(steps) // MARKERS, 1)
    axes.plot(
        steps, values, color=look.colour, linestyle=look.dashes, linewidth=look.width, label=name,
        marker=look.marker, markersize=3.2, markeredgecolor="white", markeredgewidth=0.4,
        # Offset the markers of different lines, so that none hides another.
        markevery=(apart * turn // len(PENALTIES), apart),
    )  # fmt: skip


# In inches.  The heights below are in rows of names, from the axis downward.
RANKS_WIDTH, ROW = 7.5, 0.25
TITLE, DIFFERENCE, TICK, FIRST_BAR, BAR = -3.4, -1.8, 0.2, 0.7, 0.5
# Room for names on each side of the axis, as a share of its length.
SIDE = 0.3
# The most numbers that fit on the axis.
MOST_TICKS = 20


def rank_picture(all_results: Sequence[SelectionResults]) -> str:
    """Return the diagrams of several selectors below each other, as SVG that keeps text as text."""
    out = io.StringIO()
    # The same results give the same bytes.
    with mpl.rc_context({"svg.hashsalt": "shiftproof", "svg.fonttype": "none"}):
        rank_figure(all_results).savefig(
            out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None}
        )
    return out.getvalue()


def rank_figure(all_results: Sequence[SelectionResults]) -> Figure:
    """Draw the diagrams, each as high as its names and notes need."""
    panels = []
    for results in all_results:
        compared = compare_selected(results)
        notes = list(_rank_notes(compared, results))
        first_name = FIRST_BAR + BAR * len(compared.groups) + 0.5
        end = first_name + (len(compared.mean_ranks) + 1) // 2
        panels.append((results.selector.title, compared, notes, first_name, end))
    heights = [end + len(notes) + 1 - TITLE for *_, notes, _, end in panels]
    figure = Figure(figsize=(RANKS_WIDTH, ROW * sum(heights)))
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    figure.subplots_adjust(0, 0, 1, 1, hspace=0)
    for axes, height, (title, compared, notes, first_name, end) in zip(
        grid, heights, panels, strict=True
    ):
        last = len(compared.mean_ranks)
        pad = SIDE * (last - 1)
        axes.set_axis_off()
        axes.set_xlim(1 - pad, last + pad)
        axes.set_ylim(TITLE + height, TITLE)
        axes.text(1 - pad, TITLE + 0.8, title, fontsize=11, weight="bold")
        _draw_ranks(axes, compared, pad, first_name)
        for line, text in enumerate(notes):
            axes.text(1 - pad, end + 0.6 + line, text, va="center", fontsize=8)
    return figure


def _draw_ranks(axes: Axes, compared: RankComparison, pad: float, first_name: float) -> None:
    """Draw an axis of ranks, bars that join groups, and the names on both sides."""
    ranks, difference = compared.mean_ranks, compared.difference
    last = len(ranks)
    axes.plot([1, last], [0, 0], color="black", linewidth=1)
    for rank in range(1, last + 1):
        axes.plot([rank, rank], [-TICK, 0], color="black", linewidth=1)
        if (rank - 1) % (1 + last // MOST_TICKS) == 0:
            axes.text(rank, -TICK - 0.1, f"{rank}", ha="center", va="bottom", fontsize=8)
    start = (1 + last - difference) / 2
    end = start + difference
    axes.plot([start, end], [DIFFERENCE] * 2, color="black", linewidth=1, marker="|")
    text = f"critical difference {difference:.2f}"
    axes.text(end + pad / 15, DIFFERENCE, text, va="center", fontsize=8)
    for level, group in enumerate(compared.groups):
        # A little wider than the group, so that its ends visibly belong to it.
        reach = [ranks[group[0]] - pad / 40, ranks[group[-1]] + pad / 40]
        at = FIRST_BAR + BAR * level
        axes.plot(reach, [at, at], color="black", linewidth=3, solid_capstyle="butt")
    half = (last + 1) // 2
    names = list(ranks)
    for position, name in enumerate([*names[:half], *reversed(names[half:])]):
        left, mean = position < half, ranks[name]
        at = first_name + (position if left else position - half)
        edge = 1 - pad / 4 if left else last + pad / 4
        axes.plot([mean, mean, edge], [0, at, at], color="black", linewidth=0.7)
        title = algorithm_title(name)
        axes.annotate(
            f"{title}  {mean:.2f}" if left else f"{mean:.2f}  {title}",
            (edge, at), (-4 if left else 4, 0), textcoords="offset points",
            ha="right" if left else "left", va="center", fontsize=9,
        )  # fmt: skip


def _rank_notes(compared: RankComparison, results: SelectionResults) -> Iterator[str]:
    """Yield notes that explain the picture, in lines that fit its width."""
    p_value = "p < 0.0001" if compared.p_value < 0.0001 else f"p = {compared.p_value:.4f}"
    yield (
        f"Mean ranks by {results.measure} over {counted(compared.blocks, 'test domain')};"
        f" rank 1 is the highest. Friedman's test: χ² = {compared.statistic:.1f}, {p_value}."
    )
    yield f"Bars join mean ranks that Nemenyi's test ({LEVEL:.0%}) does not tell apart."
    yield ("Both tests take test domains as independent; those of one dataset share training data.")
    lacking = [name for name in results.algorithms if name not in compared.mean_ranks]
    if lacking:
        without = counted(len(lacking), "algorithm")
        yield f"{without} without a number on each test domain: not ranked."
