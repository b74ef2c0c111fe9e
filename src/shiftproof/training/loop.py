"""The training loop, the same for every algorithm."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

import shiftproof
from shiftproof.core.errors import CheckpointError, DataError, RunConflict
from shiftproof.core.seeding import seed_hash, stream_seed, torch_generator
from shiftproof.core.types import Batch, Task
from shiftproof.data import DomainDataset
from shiftproof.data.base import as_numbers
from shiftproof.data.prefetch import prefetch
from shiftproof.data.sampling import BatchSampler
from shiftproof.data.splits import split_domain
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.checkpoint import State
from shiftproof.training.config import INVARIANCE, RunConfig
from shiftproof.training.device_series import Series
from shiftproof.training.evaluate import (
    EvaluationSet,
    Score,
    evaluate,
    plan_evaluation,
    reading_threads,
)
from shiftproof.training.interrupt import stop_on_signal
from shiftproof.training.invariance import shift_of_outputs
from shiftproof.training.observers import Observer
from shiftproof.training.preflight import concerns
from shiftproof.training.records import Record
from shiftproof.training.run_folder import RunFolder

# How often the losses are looked at for a value that is not finite; between, nothing waits for
# the device.
CHECK_EVERY = 100
# Checkpoints take at most this share of the time.
CHECKPOINT_SHARE = 0.02


@dataclass(frozen=True)
class RunResult:
    """How a run stands: ``finished``, ``diverged`` (its loss was not finite) or ``stopped``.

    ``seconds`` is the time spent training and evaluating, over all its sessions.
    """

    status: str
    step: int
    seconds: float
    records: list[Record]
    folder: Path

    @property
    def final(self) -> Record:
        """The last record."""
        return self.records[-1]


def train(
    config: RunConfig,
    dataset: DomainDataset,
    folder: Path,
    observer: Observer | None = None,
    checkpoint_seconds: float = 5.0,
    workers: int | None = None,
) -> RunResult:
    """Train as ``config`` says, in ``folder``; called again, go on where it stopped.

    A run that was killed at any moment ends with the same records and weights as one that was
    not.  The first SIGINT or SIGTERM stops it after the current step with a checkpoint.

    ``workers`` threads read image files ahead; by default as many as the machine has cores, up to
    eight.  The outcome does not depend on their number.
    """
    workers = reading_threads(workers)
    if dataset.fingerprint != config.fingerprint:
        raise DataError(f"the run was configured for other data than this {dataset.name}")
    run = RunFolder(folder)
    observer = observer or Observer()
    with run.claim(config):
        ended = run.done()
        if ended is None:
            # Dropout draws from torch's global generators: ours for the while, the caller's after.
            with torch.random.fork_rng(), stop_on_signal() as stop_asked:
                trainer = Trainer(config, dataset, workers)
                _restore(trainer, run)
                observer.begin(config, trainer.step)
                for concern in concerns(config, trainer.dataset, trainer.splits, trainer.algorithm):
                    observer.note(concern)
                with contextlib.closing(trainer):
                    ended = _run(trainer, run, observer, stop_asked, checkpoint_seconds)
        records = run.records()
        if ended["status"] != "stopped" and (not records or records[-1]["step"] != ended["step"]):
            raise RunConflict(f"the run in {folder} has lost records; delete it to start over")
        return RunResult(records=records, folder=folder, **_standing(ended))


@dataclass
class Trainer:
    """An algorithm under training, and all the state that the next step depends on."""

    config: RunConfig
    dataset: DomainDataset
    workers: int = 0
    step: int = 0
    seconds: float = 0.0
    pending: dict[str, Series] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = self.config
        self.splits = [
            split_domain(len(domain), config.holdout, config.data_seed, index)
            for index, domain in enumerate(self.dataset.domains)
        ]
        trained_on = {
            domain.name: split.in_
            for domain, split in zip(self.dataset.domains, self.splits, strict=True)
            if domain.name not in config.test_domains
        }
        self.dataset = self.dataset.prepared(trained_on).in_memory()
        self.algorithm = build_algorithm(config, config.task(self.dataset))
        self.average = AVERAGES[config.average](self.algorithm)
        dataset = self.dataset.to(torch.device(config.device))
        self.sampler = BatchSampler(
            [domain for domain in dataset.domains if domain.name in trained_on],
            list(trained_on.values()),
            self.algorithm.hparams.batch_size,
            stream_seed(config.seed, "sampler"),
        )
        self.evaluation = plan_evaluation(config, dataset, self.splits)
        self._batches: Generator[Batch, None, None] | None = None
        torch.manual_seed(stream_seed(config.seed, "noise"))
        self.algorithm.train()

    def advance(self) -> dict[str, Tensor]:
        """Take one step; return what it measured, still on the device."""
        batch = self._next_batch()
        with self._autocast():
            measured = self.algorithm.update(batch)
        self.step += 1
        self.average.follow(self.step)
        for name, value in measured.items():
            self.pending.setdefault(name, Series()).append(value)
        return measured

    def _next_batch(self) -> Batch:
        if self._batches is None:
            steps = range(self.step, self.config.steps)
            lazy = any(domain.is_lazy for domain in self.dataset.domains)
            self._batches = prefetch(self.sampler.stored, steps, self.workers if lazy else 0)
        x, y = next(self._batches)
        device = torch.device(self.config.device)
        return Batch(as_numbers(x.to(device)), y.to(device))

    def close(self) -> None:
        """End the reading ahead."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def evaluation_due(self) -> bool:
        """Whether the protocol evaluates after this many updates: 1, 1 + every, …, the last."""
        return self.config.evaluates_after(self.step)

    def divergence(self) -> int | None:
        """Return the step whose loss was the first not finite, of those pending, or None."""
        losses = self.pending.get("loss")
        if not losses:
            return None
        bad = (~losses.values().isfinite()).nonzero()
        return None if len(bad) == 0 else self.step - len(losses) + int(bad[0]) + 1

    def measure(self) -> Record:
        """Evaluate, and sum up the steps since the last record (each number their mean).

        With averaging on, what is scored is the average (see `averaging`), and the field
        ``scored`` says so; ``validation_risk`` is what an average judged the raw weights by.
        ``shift`` is that of the scored outputs (see `invariance`), where it was asked for.
        """
        record: Record = {"step": self.step}
        record |= {name: series.values().mean().item() for name, series in self.pending.items()}
        self.pending.clear()
        if self.average.judges:
            record["validation_risk"] = self._validation_risk()
            self.average.judge(record["validation_risk"])
        with self.average.in_place():
            scores = self._scores(self.evaluation)
        record["accuracy"] = {name: score.accuracy for name, score in scores.items()}
        record["risk"] = {name: score.risk for name, score in scores.items()}
        if INVARIANCE in self.config.evaluate:
            outputs = {name: score.outputs for name, score in scores.items() if score.outputs}
            # The same samples and resamples at every step and in every run on this data.
            record["shift"] = shift_of_outputs(
                outputs, seed_hash(INVARIANCE, self.config.data_seed)
            )
        return record | self.average.described()

    def state(self) -> State:
        """Return everything the next step depends on."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "pending": {name: series.values() for name, series in self.pending.items()},
            "algorithm": self.algorithm.training_state(),
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            **self.average.state(),
        }

    def load(self, state: State) -> None:
        """Take up a state."""
        self.close()
        self.step, self.seconds = state["step"], state["seconds"]
        device = torch.device(self.config.device)
        self.pending = {k: Series(v.to(device)) for k, v in state["pending"].items()}
        self.algorithm.load_training_state(state["algorithm"])
        self.average.load(state)
        torch.set_rng_state(state["rng"])
        if state["cuda_rng"]:
            torch.cuda.set_rng_state_all(state["cuda_rng"])

    def _validation_risk(self) -> float:
        """Return the raw weights' risk on the held-out parts, each training domain alike."""
        held_out = [subset for subset in self.evaluation if subset.kind == "train-out"]
        return fmean(score.risk for score in self._scores(held_out).values())

    def _scores(self, subsets: list[EvaluationSet]) -> dict[str, Score]:
        # Autocast remembers the weights that it has cast: entered anew for each set of weights.
        with self._autocast():
            return {subset.name: self._score(subset) for subset in subsets}

    def _score(self, subset: EvaluationSet) -> Score:
        view_seed = seed_hash("views", self.config.seed, self.step, subset.name)
        keep = INVARIANCE in self.config.evaluate and subset.kind == "train-out"
        return evaluate(self.algorithm, subset, self.workers, view_seed, keep_outputs=keep)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.config.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.config.device).type, dtype=torch.bfloat16)


def build_algorithm(config: RunConfig, task: Task) -> Algorithm:
    """Return the untrained algorithm of a run on its device; weights come from stream ``init``."""
    with torch.random.fork_rng():
        torch.manual_seed(stream_seed(config.seed, "init"))
        cls = ALGORITHMS.get(config.algorithm)
        network = config.model(task.regime).build(cls.network_task(task))
        algorithm = cls(
            task,
            network.featurizer,
            network.head,
            config.algorithm_hparams(task.regime),
            torch_generator(config.seed, "noise"),
        )
    return algorithm.to(config.device)


def _restore(trainer: Trainer, run: RunFolder) -> None:
    state = run.load()
    if state is not None:
        try:
            trainer.load(state)
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint in {run.path} does not fit this version ({error});"
                " delete it to start over"
            ) from error
    kept = [record["step"] for record in run.rewind(trainer.step)]
    if kept != [
        step for step in range(1, trainer.step + 1) if trainer.config.evaluates_after(step)
    ]:
        raise RunConflict(f"the run in {run.path} has lost records; delete it to start over")


def _run(
    trainer: Trainer, run: RunFolder, observer: Observer, stop_asked: Any, checkpoint_seconds: float
) -> dict[str, Any]:
    """Take the remaining steps; return what done.json says, or the same for a stopped run."""
    config = trainer.config
    clock = _Clock(trainer, checkpoint_seconds)
    diverged_at: int | None = None
    while trainer.step < config.steps and diverged_at is None:
        observer.step(trainer.step + 1, trainer.advance())
        evaluation_due = trainer.evaluation_due()
        if evaluation_due or trainer.step % CHECK_EVERY == 0:
            diverged_at = trainer.divergence()
        if evaluation_due and diverged_at is None:
            record = trainer.measure()
            judged = record.get("validation_risk", 0.0)
            if all(_finite(risk) for risk in (judged, *record["risk"].values())):
                run.append(record)
                observer.record(record)
            else:
                diverged_at = trainer.step
        finished = trainer.step == config.steps
        stopping = stop_asked()
        if diverged_at is None and (clock.checkpoint_due() or stopping or finished):
            clock.read()
            with clock.checkpointing():
                run.save(trainer.state())
        if stopping and not finished and diverged_at is None:
            return {"status": "stopped", "step": trainer.step, "seconds": clock.read()}
    status = "finished"
    if diverged_at is not None:
        status = "diverged"
        run.rewind(diverged_at - 1)
        run.append({"step": diverged_at, "event": "diverged"})
    ended = {
        "status": status,
        "step": trainer.step if diverged_at is None else diverged_at,
        "seconds": clock.read(),
        "run_id": config.run_id,
        "environment": {
            "shiftproof": shiftproof.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
        },
        **(trainer.average.described() if diverged_at is None else {}),
    }
    run.finish(ended)
    return ended


class _Clock:
    """Adds the time that passes to the trainer's, and says when to write a checkpoint."""

    def __init__(self, trainer: Trainer, checkpoint_seconds: float) -> None:
        self._trainer = trainer
        self._last = self._last_checkpoint = time.perf_counter()
        self._interval = self._shortest = checkpoint_seconds

    def read(self) -> float:
        now = time.perf_counter()
        self._trainer.seconds += now - self._last
        self._last = now
        return self._trainer.seconds

    def checkpoint_due(self) -> bool:
        return time.perf_counter() - self._last_checkpoint >= self._interval

    @contextlib.contextmanager
    def checkpointing(self) -> Any:
        started = time.perf_counter()
        yield
        self._last_checkpoint = time.perf_counter()
        took = self._last_checkpoint - started
        self._interval = max(self._shortest, took / CHECKPOINT_SHARE)


def _finite(value: float) -> bool:
    return abs(value) < float("inf")


def _standing(ended: dict[str, Any]) -> dict[str, Any]:
    return {key: ended[key] for key in ("status", "step", "seconds")}
