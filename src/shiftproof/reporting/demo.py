"""The demonstration's table, sentence, picture and page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.table import Table as TerminalTable

from shiftproof.core.files import write_atomically
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.datasets.colored_mnist import LABEL_NOISE
from shiftproof.reporting.page import Source, results_page
from shiftproof.reporting.page.axes import Axis
from shiftproof.reporting.page.image_address import image_address
from shiftproof.reporting.page.values import Block, DotPlot, Mark, Pictures, Section
from shiftproof.reporting.plots import BLUE, GREEN, ORANGE, Curve, Panel, learning_picture
from shiftproof.reporting.table import Column, Row, Table
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
) -> TerminalTable:
    """Return train, test and gray accuracy of each algorithm, and the limit of the digit alone."""
    table = TerminalTable(
        title="Colored MNIST",
        caption=f"one run each, seed {seed}, scored at the last step",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("")
    for name in ("train", "test (reversed)", "gray", "seconds"):
        table.add_column(name, justify="right")
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
    kept = "kept" if idm.test > erm.test else "reached only"
    return (
        "ERM learnt the colour, which predicts the label better than the digit in training, and"
        f" {lost} {100 * erm.test:.0f}% where the colours are reversed. IDM matched the gradients"
        " of the two training domains, which differ only in how reliable the colour is, so it had"
        f" to read the digit and {kept} {100 * idm.test:.0f}%. Because {100 * LABEL_NOISE:.0f}% of"
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
    """Return a PNG: sample digits of each domain, and both learning curves."""
    panels = []
    for algorithm, result in results.items():
        steps = [record["step"] for record in result.records]
        points = [Accuracies.of(record) for record in result.records]
        curves = [
            Curve("training domains", steps, [p.train for p in points], BLUE),
            Curve("gray", steps, [p.gray for p in points], GREEN),
            Curve("reversed colours (never seen)", steps, [p.test for p in points], ORANGE),
        ]
        switch = (WARMUP, "matching on") if algorithm == "idm" else None
        panels.append(Panel(algorithm.upper(), curves, switch))
    samples = {
        DOMAIN_TITLES[domain.name]: _sample_images(domain)
        for domain in (*dataset.domains, *dataset.extras)
    }
    return learning_picture(panels, samples, (CEILING, "limit of the digit alone"))


def demo_page(folder: Path, accuracies: Mapping[str, Accuracies], dataset: DomainDataset) -> str:
    """Return the results page of the two runs in ``folder``, with digits and the ceiling."""
    outcomes = read_sweep(folder)
    results = [aggregate(outcomes, LastStep(), runs_to_compare(outcomes))]
    source = Source(
        [str(folder)],
        "shiftproof demo",
        remark=demo_sentence(accuracies),
        first=[
            Section("ceiling", "Both against the ceiling", [Block("dots", _ceiling(accuracies))]),
            Section("data", "The data", _digits(dataset)),
        ],
    )
    return results_page(outcomes, results, "erm", source)


def _digits(dataset: DomainDataset) -> list[Block]:
    """Return a row of digits of each domain."""
    found = []
    for domain in (*dataset.domains, *dataset.extras):
        shown = [(image_address(image), "") for image in _sample_images(domain, 8)]
        found.append(Block("pictures", Pictures(DOMAIN_TITLES[domain.name], shown)))
    return found


def _ceiling(accuracies: Mapping[str, Accuracies]) -> DotPlot:
    """Plot the accuracy under reversed colours, and the limit of the digit alone."""
    axis = Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0))
    values = {name.upper(): own.test for name, own in accuracies.items()}
    values["limit of the digit alone"] = CEILING
    limit = Mark("zero", axis.percent(100 * CEILING))
    rows = [Row.of(name, f"{100 * value:.1f}") for name, value in values.items()]
    marks = [[limit, Mark("dot", axis.percent(100 * value))] for value in values.values()]
    tips = [f"{name}: {value:.1%}" for name, value in values.items()]
    table = Table(
        "Accuracy where the colours are reversed",
        (Column("Accuracy (%)", 1),),
        tuple(rows),
        notes=(f"The line is the limit of the digit alone, {CEILING:.0%}.",),
        foot=1,
    )
    return DotPlot(table, "Accuracy (%)", axis.percent_ticks(), marks, (), tips)


def _sample_images(domain: Domain, count: int = 18) -> np.ndarray:
    """Return the first images, class by class, in red and green: [count, h, w, 3] in [0, 1]."""
    half = count // 2
    index = np.concatenate([(domain.y == label).nonzero()[:half, 0].numpy() for label in (0, 1)])
    red_green = domain.stored(index).numpy().transpose(0, 2, 3, 1) / 255.0
    blue = np.where(domain.name == "gray", red_green[..., :1], 0.0)
    return np.concatenate([red_green, blue], axis=-1)
