"""What a step of an algorithm costs, as a multiple of a step of ERM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import torch

from shiftproof.core.seeding import torch_generator
from shiftproof.core.space import resolve
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.models import MODELS

TASK = Task((2, 28, 28), num_classes=2, num_domains=3, regime="small-image")
BATCH = 8
# After every warm-up, so that each penalty is active.
LATE = 10**9


def relative_cost(name: str, rounds: int = 3, steps: int = 4) -> float:
    """Return the median ratio of the time of ``steps`` updates to that of as many of ERM.

    DomainBed's MNIST network on 3 domains × 8 random images, both sides in turn in one
    process; several steps a round because some algorithms do not do the same at each.
    """
    erm, other = _build("erm"), _build(name)
    generator = torch.Generator().manual_seed(0)
    batch = Batch(
        torch.rand(TASK.num_domains, BATCH, *TASK.input_shape, generator=generator),
        torch.randint(TASK.num_classes, (TASK.num_domains, BATCH), generator=generator),
    )
    ratios = list(_ratios(erm, other, batch, steps, rounds + 1))
    return median(ratios[1:])  # the first round warms up


def _ratios(
    erm: Algorithm, other: Algorithm, batch: Batch, steps: int, rounds: int
) -> Iterator[float]:
    for _ in range(rounds):
        base = _seconds(erm, batch, steps)
        yield _seconds(other, batch, steps) / base


def _seconds(algorithm: Algorithm, batch: Batch, steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        algorithm.update(batch)
    return time.perf_counter() - start


def _build(name: str) -> Algorithm:
    cls = ALGORITHMS.get(name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = resolve(MODELS.get("mnist-cnn"), TASK.regime).build(cls.network_task(TASK))
        hparams = resolve(cls.Hparams, TASK.regime)
        algorithm = cls(TASK, *network, hparams, torch_generator(0, "noise"))
    algorithm.updates = LATE
    return algorithm.train()
