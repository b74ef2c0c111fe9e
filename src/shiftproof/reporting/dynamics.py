"""Figure 1 of the paper: the penalties of other algorithms while IDM's is minimised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shiftproof.core.errors import DataError
from shiftproof.core.files import write_atomically
from shiftproof.data.datasets.colored_mnist import LABEL_NOISE
from shiftproof.reporting.pictures import BLUE, GREEN, GREY, ORANGE, picture_bytes, without_frame

# A model that reads only the digit cannot do better.
CEILING = 1 - LABEL_NOISE
# The width of one of a paper's two columns; font sizes are those in print.
WIDTH, PANEL_HEIGHT, LEGEND_HEIGHT, DPI = 3.5, 1.45, 0.55, 300
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
    with matplotlib.rc_context(STYLE):
        figure = _draw(normalised(series), steps, switch, accuracies or {})
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


def _draw(
    series: Mapping[str, Sequence[float]],
    steps: Sequence[int],
    switch: int,
    accuracies: Mapping[str, Sequence[float]],
) -> Figure:
    panels = 3 if accuracies else 2
    size = (WIDTH, PANEL_HEIGHT * panels + LEGEND_HEIGHT)
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
