"""Pictures, drawn without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can distinguish.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"


@dataclass(frozen=True)
class Curve:
    """One line of a learning-curve panel: steps, and accuracies in [0, 1]."""

    label: str
    steps: Sequence[int]
    accuracy: Sequence[float]
    colour: str


@dataclass(frozen=True)
class Panel:
    """Learning curves of one algorithm; ``switch`` is a step to mark, and its label."""

    title: str
    curves: Sequence[Curve]
    switch: tuple[int, str] | None = None


def learning_picture(
    panels: Sequence[Panel], samples: Mapping[str, np.ndarray], ceiling: tuple[float, str]
) -> bytes:
    """Return a PNG: sample images above, and a panel of learning curves per algorithm below.

    ``samples`` maps a title to images [n, h, w, 3] in [0, 1]; ``ceiling`` is a level to mark, and
    its label.
    """
    figure = Figure(figsize=(10, 6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1, 2.6]))
    for axes, (title, images) in zip(
        top.subplots(1, len(samples), squeeze=False)[0], samples.items(), strict=True
    ):
        axes.imshow(_tile(images), interpolation="nearest")
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
    rows = bottom.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(rows, panels, strict=True):
        _draw_panel(axes, panel, ceiling)
    rows[0].set_ylabel("accuracy (%)")
    lines, labels = rows[0].get_legend_handles_labels()
    bottom.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _draw_panel(axes: Axes, panel: Panel, ceiling: tuple[float, str]) -> None:
    level, meaning = ceiling
    axes.axhline(100 * level, color=GREY, linestyle=":", linewidth=1)
    last = max(curve.steps[-1] for curve in panel.curves)
    axes.text(last, 100 * level + 1, meaning, ha="right", va="bottom", fontsize=8, color=GREY)
    if panel.switch:
        step, label = panel.switch
        axes.axvline(step, color=GREY, linestyle="--", linewidth=1)
        axes.text(step + last / 100, 96, label, fontsize=8, color=GREY, va="top")
    for curve in panel.curves:
        values = 100 * np.asarray(curve.accuracy)
        axes.plot(curve.steps, values, color=curve.colour, label=curve.label, linewidth=2)
    axes.set_title(panel.title, fontsize=11)
    axes.set_xlabel("step")
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)


def _tile(images: np.ndarray, columns: int = 6) -> np.ndarray:
    """Lay out images [n, h, w, 3] in rows, each with a white border of one pixel."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=1.0)
    n, h, w, channels = padded.shape
    rows = n // columns
    grid = padded[: rows * columns].reshape(rows, columns, h, w, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(rows * h, columns * w, channels)
