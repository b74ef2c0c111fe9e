"""The demonstration's table, sentence, picture and page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from shiftproof.core.files import write_atomically
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.datasets.colored_mnist import LABEL_NOISE
from shiftproof.reporting.page import Source, results_page
from shiftproof.reporting.page.evidence import image_address
from shiftproof.reporting.page.values import (
    PERCENT,
    Block,
    DotPlot,
    Mark,
    Pictures,
    PlotRow,
    Section,
)
from shiftproof.reporting.pictures import BLUE, GREEN, GREY, ORANGE, picture_bytes, without_frame
from shiftproof.reporting.table import Column, Row
from shiftproof.reporting.terminal import titled_table
from shiftproof.sweeps.aggregate import aggregate
from shiftproof.sweeps.demo import CEILING, REVERSED_DOMAIN, WARMUP, Accuracies, Demo
from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.standalone_runs import LastStep, runs_to_compare
from shiftproof.training.loop import RunResult

# The titles of the domains in the picture.
DOMAIN_TITLES = {
    "90%": "training: colour agrees 90%",
    "80%": "training: colour agrees 80%",
    REVERSED_DOMAIN: "never seen: colour agrees 10%",
    "gray": "never seen: gray",
}


def demo_table(
    accuracies: Mapping[str, Accuracies], seconds: Mapping[str, float], seed: int
) -> Table:
    """Return train, test and gray accuracy of each algorithm, and the limit of the digit alone."""
    columns = ("train", "test (reversed)", "gray", "seconds")
    table = titled_table(
        "Colored MNIST", f"one run each, seed {seed}, scored at the last step", "", columns
    )
    for algorithm, values in accuracies.items():
        shares = (values.train, values.test, values.gray)
        table.add_row(
            algorithm.upper(), *(f"{100 * s:.1f}%" for s in shares), f"{seconds[algorithm]:.0f}"
        )
    limit = f"{100 * CEILING:.0f}%"
    table.add_row("limit of the digit alone", limit, limit, limit, "", style="dim")
    return table


def demo_sentence(accuracies: Mapping[str, Accuracies]) -> str:
    """Say what happened and why."""
    erm, idm = accuracies["erm"], accuracies["idm"]
    lost = "collapsed to" if erm.test < 0.5 else "reached"
    verb = "kept" if idm.test > erm.test else "reached only"
    return (
        "ERM learnt the colour, which predicts the label better than the digit in training, and"
        f" {lost} {100 * erm.test:.0f}% where the colours are reversed. IDM matched the gradients"
        " of the two training domains, which differ only in how reliable the colour is, so it had"
        f" to read the digit and {verb} {100 * idm.test:.0f}%. Because {100 * LABEL_NOISE:.0f}% of"
        " the labels are flipped, a model that reads only the digit cannot pass"
        f" {100 * CEILING:.0f}%."
    )


def write_demo(demo: Demo, folder: Path) -> tuple[Path, Path]:
    """Write the picture and the page of a demonstration beside its runs; return both paths."""
    picture, page = folder / "demo.png", folder / "report.html"
    write_atomically(picture, demo_picture(demo.dataset, demo.results))
    write_atomically(page, demo_page(folder, demo.accuracies, demo.dataset).encode())
    return picture, page


def demo_picture(dataset: DomainDataset, results: Mapping[str, RunResult]) -> bytes:
    """Return a PNG: sample digits of each domain, and the learning curves of both algorithms."""
    figure = Figure(figsize=(10, 6), dpi=110, layout="constrained")
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1, 2.6]))
    domains = (*dataset.domains, *dataset.extras)
    for axes, domain in zip(top.subplots(1, len(domains)), domains, strict=True):
        axes.imshow(_tile(_sample_images(domain)), interpolation="nearest")
        axes.set_title(DOMAIN_TITLES[domain.name], fontsize=10)
        axes.set_axis_off()
    charts = bottom.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for axes, (algorithm, result) in zip(charts, results.items(), strict=True):
        _draw_curves(axes, algorithm, result)
    charts[0].set_ylabel("accuracy (%)")
    lines, labels = charts[0].get_legend_handles_labels()
    bottom.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return picture_bytes(figure)


def _draw_curves(axes: Axes, algorithm: str, result: RunResult) -> None:
    steps = [record["step"] for record in result.records]
    last, limit = steps[-1], 100 * CEILING
    axes.axhline(limit, color=GREY, linestyle=":", linewidth=1)
    axes.text(
        last, limit + 1, "limit of the digit alone", ha="right", va="bottom", fontsize=8, color=GREY
    )
    if algorithm == "idm":
        axes.axvline(WARMUP, color=GREY, linestyle="--", linewidth=1)
        axes.text(WARMUP + last / 100, 96, "matching on", fontsize=8, color=GREY, va="top")
    curves = {
        "train": ("training domains", BLUE),
        "gray": ("gray", GREEN),
        "test": ("reversed colours (never seen)", ORANGE),
    }
    for name, (label, colour) in curves.items():
        values = [100 * getattr(Accuracies.of(record), name) for record in result.records]
        axes.plot(steps, values, color=colour, label=label, linewidth=2)
    axes.set_title(algorithm.upper(), fontsize=11)
    axes.set_xlabel("step")
    axes.set_ylim(0, 100)
    without_frame(axes)


def _tile(images: np.ndarray, columns: int = 6) -> np.ndarray:
    """Lay out images [n, h, w, 3] in rows, each with a white border of one pixel."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=1.0)
    n, h, w, channels = padded.shape
    rows = n // columns
    grid = padded[: rows * columns].reshape(rows, columns, h, w, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(rows * h, columns * w, channels)


def demo_page(folder: Path, accuracies: Mapping[str, Accuracies], dataset: DomainDataset) -> str:
    """Return the results page of the two runs in ``folder``, with digits and the ceiling."""
    outcomes = read_sweep(folder)
    results = [aggregate(outcomes, LastStep(), runs_to_compare(outcomes))]
    source = Source(
        [str(folder)],
        "shiftproof demo",
        remark=demo_sentence(accuracies),
        first=[
            Section("ceiling", "Both against the ceiling", [Block(_ceiling(accuracies))]),
            Section("data", "The data", _digits(dataset)),
        ],
    )
    return results_page(outcomes, results, "erm", source)


def _digits(dataset: DomainDataset) -> list[Block]:
    """Return a row of digits of each domain."""
    return [
        Block(
            Pictures(DOMAIN_TITLES[d.name], [(image_address(i), "") for i in _sample_images(d, 8)])
        )
        for d in (*dataset.domains, *dataset.extras)
    ]


def _ceiling(accuracies: Mapping[str, Accuracies]) -> DotPlot:
    """Plot the accuracy under reversed colours, and the limit of the digit alone."""
    limit = Mark("zero", 100 * CEILING)
    values = {name.upper(): scores.test for name, scores in accuracies.items()}
    values["limit of the digit alone"] = CEILING
    rows = [
        PlotRow(
            Row.of(name, f"{100 * value:.1f}"),
            [limit, Mark("dot", 100 * value)],
            f"{name}: {value:.1%}",
        )
        for name, value in values.items()
    ]
    return DotPlot.of(
        "Accuracy where the colours are reversed",
        [Column("Accuracy (%)", 1)],
        rows,
        *("Accuracy (%)", PERCENT),
        notes=(f"The line is the limit of the digit alone, {CEILING:.0%}.",),
        foot=1,
    )


def _sample_images(domain: Domain, count: int = 18) -> np.ndarray:
    """Return the first images, class by class, in red and green: [count, h, w, 3] in [0, 1]."""
    half = count // 2
    index = np.concatenate([(domain.y == label).nonzero()[:half, 0].numpy() for label in (0, 1)])
    red_green = domain.stored(index).numpy().transpose(0, 2, 3, 1) / 255.0
    blue = np.where(domain.name == "gray", red_green[..., :1], 0.0)
    return np.concatenate([red_green, blue], axis=-1)
