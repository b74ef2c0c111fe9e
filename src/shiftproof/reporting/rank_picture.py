"""The critical-difference diagram of a sweep (Demšar, 2006), a panel for each selector."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shiftproof.core.text import counted
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.comparisons import LEVEL, RankComparison, compare_selected
from shiftproof.sweeps.domainbed.names import algorithm_title

# In inches.  The heights below are in rows of names, from the axis downward.
WIDTH, ROW = 7.5, 0.25
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
    panels = [_Panel(results) for results in all_results]
    heights = [panel.height for panel in panels]
    figure = Figure(figsize=(WIDTH, ROW * sum(heights)))
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    figure.subplots_adjust(0, 0, 1, 1, hspace=0)
    for axes, panel in zip(grid, panels, strict=True):
        panel.draw(axes)
    return figure


class _Panel:
    """One selector: an axis of ranks, the names on both sides, and bars that join groups."""

    def __init__(self, results: SelectionResults) -> None:
        self.results = results
        self.found = compare_selected(results)
        self.notes = list(_notes(self.found, results))
        count = len(self.found.mean_ranks)
        self._names = FIRST_BAR + BAR * len(self.found.groups) + 0.5
        self._end = self._names + (count + 1) // 2
        self.height = self._end + len(self.notes) + 1 - TITLE

    def draw(self, axes: Axes) -> None:
        """Draw the panel into axes, without their ticks and frame."""
        last = len(self.found.mean_ranks)
        pad = SIDE * (last - 1)
        axes.set_axis_off()
        axes.set_xlim(1 - pad, last + pad)
        axes.set_ylim(TITLE + self.height, TITLE)
        title = self.results.selector.title
        axes.text(1 - pad, TITLE + 0.8, title, fontsize=11, weight="bold")
        self._draw_axis(axes, last, pad)
        self._draw_groups(axes, pad)
        ordered = list(self.found.mean_ranks)
        half = (last + 1) // 2
        for row, name in enumerate(ordered[:half]):
            self._draw_name(axes, name, row, 1 - pad / 4, left=True)
        for row, name in enumerate(reversed(ordered[half:])):
            self._draw_name(axes, name, row, last + pad / 4, left=False)
        for line, text in enumerate(self.notes):
            axes.text(1 - pad, self._end + 0.6 + line, text, va="center", fontsize=8)

    def _draw_axis(self, axes: Axes, last: int, pad: float) -> None:
        axes.plot([1, last], [0, 0], color="black", linewidth=1)
        for rank in range(1, last + 1):
            axes.plot([rank, rank], [-TICK, 0], color="black", linewidth=1)
            if (rank - 1) % (1 + last // MOST_TICKS) == 0:
                axes.text(rank, -TICK - 0.1, f"{rank}", ha="center", va="bottom", fontsize=8)
        difference = self.found.difference
        start = (1 + last - difference) / 2
        end = start + difference
        axes.plot([start, end], [DIFFERENCE] * 2, color="black", linewidth=1, marker="|")
        says = f"critical difference {difference:.2f}"
        axes.text(end + pad / 15, DIFFERENCE, says, va="center", fontsize=8)

    def _draw_groups(self, axes: Axes, pad: float) -> None:
        ranks = self.found.mean_ranks
        for level, group in enumerate(self.found.groups):
            # A little wider than the group, so that its ends visibly belong to it.
            reach = [ranks[group[0]] - pad / 40, ranks[group[-1]] + pad / 40]
            at = FIRST_BAR + BAR * level
            axes.plot(reach, [at, at], color="black", linewidth=3, solid_capstyle="butt")

    def _draw_name(self, axes: Axes, name: str, row: int, edge: float, *, left: bool) -> None:
        rank, title, at = self.found.mean_ranks[name], algorithm_title(name), self._names + row
        axes.plot([rank, rank, edge], [0, at, at], color="black", linewidth=0.7)
        axes.annotate(
            f"{title}  {rank:.2f}" if left else f"{rank:.2f}  {title}",
            (edge, at), (-4 if left else 4, 0), textcoords="offset points",
            ha="right" if left else "left", va="center", fontsize=9,
        )  # fmt: skip


def _notes(compared: RankComparison, results: SelectionResults) -> Iterator[str]:
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
