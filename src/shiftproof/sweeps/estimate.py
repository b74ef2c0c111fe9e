"""What a sweep will cost, from a few measured steps of each algorithm on each dataset."""

from __future__ import annotations

import time
from typing import NamedTuple

from torch import Tensor

from shiftproof.data import DomainDataset
from shiftproof.sweeps.jobs import Job
from shiftproof.training.trainer import Trainer

WARM_UP = 2
LONGEST_SECONDS = 1.0
MOST_STEPS = 20


class Cost(NamedTuple):
    """Seconds of a step and of an evaluation, and bytes of a checkpoint."""

    step: float
    evaluation: float
    checkpoint: int

    def seconds(self, job: Job) -> float:
        """Return what a whole run takes."""
        config = job.config
        evaluations = 1 if config.eval_every == 0 else 2 + (config.steps - 1) // config.eval_every
        return config.steps * self.step + evaluations * self.evaluation


def measure(job: Job, dataset: DomainDataset) -> Cost:
    """Take a few steps of a job, and one evaluation."""
    trainer = Trainer(job.config, dataset)
    try:
        for _ in range(min(WARM_UP, job.config.steps - 1)):
            trainer.advance()
        started = time.perf_counter()
        taken = 0
        while trainer.step < job.config.steps and taken < MOST_STEPS:
            trainer.advance()
            taken += 1
            if time.perf_counter() - started > LONGEST_SECONDS:
                break
        step = (time.perf_counter() - started) / max(taken, 1)
        started = time.perf_counter()
        trainer.measure()
        return Cost(step, time.perf_counter() - started, bytes_of(trainer.state()))
    finally:
        trainer.close()


def bytes_of(state: object) -> int:
    """Return the bytes of a state on disk or in memory: tensors, and 8 for anything else."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, dict):
        return sum(map(bytes_of, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(bytes_of, state))
    return 8
