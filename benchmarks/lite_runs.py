"""Runs of a `lite` sweep of Colored MNIST, and the least that any way of training them takes.

A run of ERM has to compute its matrix products: forward, and backward by weights and by inputs, at
every step; forward at every evaluation.  On a processor whose cores are busy with them, training
many networks together can save everything else, but not these.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.figure import Figure
from shiftproof.core.errors import InvalidValue
from shiftproof.data import DomainDataset
from shiftproof.sweeps.jobs import Frozen, Job, SweepData, Variant, sweep_data
from shiftproof.sweeps.plan import Block, combined, plan
from shiftproof.sweeps.presets import preset_named
from shiftproof.sweeps.selection import SELECTORS
from shiftproof.training.evaluation_sets import batches_of
from shiftproof.training.loop import train
from shiftproof.training.trainer import Trainer

ALGORITHMS = ("erm", "idm", "coral", "vrex", "sd", "mixup")
DATA, TEST_DOMAIN, PRESET = "colored-mnist", "10%", "lite"
ROUNDS = 3
# The number of steps to time for the products of a run.
TIMED_STEPS = 200


class Product(NamedTuple):
    """A product of matrices [rows, inner] and [inner, columns]."""

    rows: int
    inner: int
    columns: int

    @property
    def operations(self) -> int:
        """The number of multiplications and additions."""
        return 2 * self.rows * self.inner * self.columns


def lite_runs() -> Iterator[Figure]:
    """Measure the processor time of one run per algorithm on one thread, the median of three."""
    data = sweep_data([DATA], preset_named(PRESET), Frozen("", ""))[0]
    dataset = data.load(0)
    jobs = _jobs(data, dataset)
    taken: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    products, operations = [], 0
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(ROUNDS):
            for name, job in jobs.items():
                taken[name].append(_seconds_of_run(job, dataset))
            seconds, operations = _seconds_of_products(Trainer(jobs["erm"].config, dataset))
            products.append(seconds)
    finally:
        torch.set_num_threads(before)
    least = float(np.median(products))
    medians = {name: float(np.median(own)) for name, own in taken.items()}
    yield Figure(
        "lite-run",
        "processor time of a run of ERM in a `lite` sweep / of its matrix products alone",
        medians["erm"] / least,
        "≤",
        2,
        {
            "processor seconds of a run": medians,
            "of ERM's products": least,
            "billion operations a second of the products": operations / least / 1e9,
        },
    )


def step_products(layers: Sequence[tuple[int, int]], rows: int) -> list[Product]:
    """Return the matrix products of one step of an MLP with these (inputs, outputs) layers."""
    found = []
    for place, (inputs, outputs) in enumerate(layers):
        found += [Product(rows, inputs, outputs), Product(outputs, rows, inputs)]
        if place > 0:  # the inputs of the network need no gradient
            found.append(Product(rows, outputs, inputs))
    return found


def _jobs(data: SweepData, dataset: DomainDataset) -> dict[str, Job]:
    """Return one run per algorithm as a sweep plans it, with default hyper-parameters."""
    needs = combined([SELECTORS.get(name).needs for name in ("training-domain", "oracle")])
    variants = [Variant.plain(name) for name in ALGORITHMS]
    block = Block(data, variants, needs, draws=[0], trials=1, test_domains=[TEST_DOMAIN])
    jobs = plan(block, {0: dataset}, preset_named(PRESET), device="cpu")
    return {job.config.algorithm: job for job in jobs}


def _seconds_of_run(job: Job, dataset: DomainDataset) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        result = train(job.config, dataset, Path(folder, "run"), workers=0, threads=1)
        seconds = time.process_time() - started
    if result.status != "finished":
        raise InvalidValue(f"the run of {job.config.algorithm} has {result.status}")
    return seconds


def _seconds_of_products(trainer: Trainer) -> tuple[float, int]:
    """Return processor seconds and operations of all matrix products of an ERM run."""
    config, algorithm = trainer.config, trainer.algorithm
    linear = [module for module in algorithm.modules() if isinstance(module, nn.Linear)]
    layers = [(layer.in_features, layer.out_features) for layer in linear]
    rows = algorithm.task.num_domains * algorithm.hparams.batch_size
    evaluated = [len(batch) for subset in trainer.evaluation for batch in batches_of(subset)]
    evaluations = sum(config.evaluates_after(step) for step in range(1, config.steps + 1))
    of_step = step_products(layers, rows)
    of_evaluation = [Product(size, *layer) for size in evaluated for layer in layers]
    seconds = config.steps / TIMED_STEPS * _seconds_of(of_step, TIMED_STEPS)
    seconds += evaluations * _seconds_of(of_evaluation, 1)
    operations = config.steps * sum(product.operations for product in of_step)
    operations += evaluations * sum(product.operations for product in of_evaluation)
    return seconds, operations


def _seconds_of(products: Sequence[Product], times: int) -> float:
    """Return the processor seconds of computing products `times` times."""
    generator = torch.Generator().manual_seed(0)
    sizes = {(p.rows, p.inner) for p in products} | {(p.inner, p.columns) for p in products}
    numbers = {size: torch.rand(size, generator=generator) for size in sorted(sizes)}
    pairs = [(numbers[p.rows, p.inner], numbers[p.inner, p.columns]) for p in products]
    for left, right in pairs:
        left @ right
    started = time.process_time()
    for _ in range(times):
        for left, right in pairs:
            left @ right
    return time.process_time() - started
