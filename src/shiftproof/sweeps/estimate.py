"""Estimate the cost of a sweep from a few measured steps of each algorithm on each dataset."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from shiftproof.data import DomainDataset
from shiftproof.sweeps.jobs import Job
from shiftproof.training.session import Session, session_for

WARM_UP = 2
LONGEST_SECONDS = 1.0
MOST_STEPS = 20


class Cost(NamedTuple):
    """Seconds per step and per evaluation, and bytes per checkpoint.

    A step takes ``step`` + ``sample`` × batch size, because draws differ in batch size.
    """

    step: float
    evaluation: float
    checkpoint: int
    sample: float = 0.0

    def seconds(self, job: Job) -> float:
        """Return the estimated duration of a whole run in seconds."""
        config = job.config
        # After steps 1, 1 + every, …, and the last: `RunConfig.evaluates_after`.
        evaluations = 1
        if config.eval_every > 0:
            evaluations += math.ceil((config.steps - 1) / config.eval_every)
        step = self.step + self.sample * batch_size(job)
        return config.steps * step + evaluations * self.evaluation


def batch_size(job: Job) -> int:
    """Return the batch size of a job; 0 for full batches and for algorithms without batches."""
    return int(job.config.hparams.get("batch_size", 0))


def measure(jobs: Sequence[Job], dataset: DomainDataset, threads: int) -> Cost:
    """Time a few steps with the largest and the smallest batch of the jobs, and one evaluation.

    On a CPU, the steps use as many ``threads`` as a run will.
    """
    large, small = max(jobs, key=batch_size), min(jobs, key=batch_size)
    cost = measure_job(large, dataset, threads)
    more = batch_size(large) - batch_size(small)
    if more == 0:
        return cost
    sample = max(cost.step - measure_job(small, dataset, threads, evaluate=False).step, 0.0) / more
    return cost._replace(step=max(cost.step - sample * batch_size(large), 0.0), sample=sample)


def measure_job(job: Job, dataset: DomainDataset, threads: int, *, evaluate: bool = True) -> Cost:
    """Time a few steps of a job (or its single fit), and one evaluation if ``evaluate``."""
    kind: Any = session_for(job.config)
    trainer: Session = kind(job.config, dataset)
    trainer.choose_threads(threads)
    with trainer.working(), contextlib.closing(trainer):
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
        if evaluate:
            trainer.measure()
        return Cost(step, time.perf_counter() - started, bytes_of(trainer.state()))


def bytes_of(state: object) -> int:
    """Return the size of a state in bytes: that of its arrays, and 8 for any other value."""
    if isinstance(state, Tensor | np.ndarray):
        return int(state.nbytes)
    if isinstance(state, dict):
        return sum(map(bytes_of, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(bytes_of, state))
    return 8
