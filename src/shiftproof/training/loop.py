"""The training loop, the same for every algorithm: steps, evaluations, checkpoints."""

from __future__ import annotations

import contextlib
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import shiftproof
from shiftproof.core.cores import checked_threads
from shiftproof.core.errors import DataError, InvalidValue, RunConflict
from shiftproof.core.space import specs
from shiftproof.core.text import counted, listed
from shiftproof.core.types import CLASSIFICATION
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress
from shiftproof.data.splits import Split
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training import processes
from shiftproof.training.array_state import State
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import reading_threads
from shiftproof.training.interrupt import Stop, stop_on_signal
from shiftproof.training.load_run import unfit_checkpoint
from shiftproof.training.observers import Observer
from shiftproof.training.outputs import HELD_OUT, as_stored, save_outputs
from shiftproof.training.records import Record
from shiftproof.training.run_folder import START_OVER, Ended, RunFolder
from shiftproof.training.session import Session, session_for

# Steps between checks that the losses are finite; the other steps do not wait for the device.
CHECK_EVERY = 100
# Writing checkpoints takes at most this share of the time.
CHECKPOINT_SHARE = 0.02
# Seconds until the first checkpoint of a process.
FIRST_CHECKPOINT = 0.5


@dataclass(frozen=True)
class RunResult:
    """The result of a run: `finished`, `diverged` (a loss was not finite) or `stopped`.

    `seconds` is the time spent on training and evaluation, summed over all sessions; `timings`
    holds the time of each member of an ensemble, and `environment` the versions of what computed
    it.  `held_out` are the outputs on the test domains,
    None if an earlier call stored them in `folder`.  `fit` is the session of a learner that was
    fitted at once by this call.
    """

    status: str
    step: int
    seconds: float
    records: list[Record]
    folder: Path
    timings: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, AnyOutputs] | None = field(default=None, repr=False, compare=False)
    fit: Session | None = field(default=None, repr=False, compare=False)

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
    *,
    keeps_outputs: bool = False,
    threads: int | None = None,
    compiled: bool = False,
    finish: Callable[[Session | None], object] = lambda _: None,
) -> RunResult:
    """Train the run that `config` describes in `folder`, or resume it.

    A run that was killed and resumed ends with the same records and weights as one that was not.
    The first SIGINT, SIGTERM or SIGHUP stops it after the current step with a checkpoint.  If the
    run ends before it can stop, the signal has its usual effect.

    `finish` is called when the run has finished, with the session if the run was fitted at once,
    before `done.json` is written with the hashes of
    all files.  With `keeps_outputs`, the outputs on the test domains are saved too
    (`training.outputs`).  `workers` threads prefetch image files; by default one per core, at most
    eight.  The result does not depend on their number.  `threads` is the number of threads torch
    computes with; by default one for rows and all allowed ones for images.  With `compiled`, torch
    compiles the featurizer.

    Processes started by `torchrun` train the run together (`training.processes`), and the first
    of them writes the files.
    """
    processes.join(config.device)
    workers = reading_threads(workers)
    if dataset.fingerprint != config.fingerprint:
        raise DataError(f"the run was configured for other data than this {dataset.name}")
    run = RunFolder(folder)
    observer = observer or Observer()
    held_out, fit = None, None
    with run.claim(config) if processes.leads() else contextlib.nullcontext():
        processes.wait()  # until the folder is claimed
        ended = run.done()
        if ended is None:
            kind: Any = session_for(config)
            with stop_on_signal() as stop:
                with kind.surroundings():
                    state = kind.read(run.checkpoint)
                    trainer: Session = kind(
                        config, dataset, workers, keeps_outputs, compiled, saved=state
                    )
                    _restore(trainer, state, run)
                    trainer.choose_threads(_known_threads(state, threads, run))
                    processes.wait()  # until all have read the checkpoint
                    observer.begin(config, trainer.step)
                    for note in preflight_notes(
                        config, trainer.dataset, trainer.splits, trainer.algorithm
                    ):
                        observer.note(note)
                    with contextlib.closing(trainer), trainer.working():
                        ended = _run(trainer, run, observer, stop, checkpoint_seconds)
                if ended is None:
                    stop.heeded = True
                    processes.wait()  # until the records are written
                    records = run.records.read()
                    return RunResult("stopped", trainer.step, trainer.seconds, records, folder)
                if trainer.algorithm.exact:  # the outputs of networks get a temperature later
                    held_out, fit = as_stored(trainer.outputs) or None, trainer
                del trainer, state  # the model of the run needs the memory
                if processes.leads():
                    if ended.status == "finished":
                        finish(fit)
                    run.finish(ended)
        processes.wait()  # until the files are written
        records = run.records.read()
        if not records or records[-1]["step"] != ended.step:
            raise RunConflict(f"the run in {folder} has lost records; {START_OVER}")
        described = (ended.timings, ended.environment)
        measured = (ended.status, ended.step, ended.seconds, records, folder)
        return RunResult(*measured, *described, held_out, fit)


def _restore(trainer: Session, state: State | None, run: RunFolder) -> None:
    if state is not None:
        try:
            trainer.load(state)
        except (KeyError, RuntimeError, ValueError) as error:
            raise unfit_checkpoint(run.path, error) from error
    if not processes.leads():
        return
    recorded = [record["step"] for record in run.records.rewind(trainer.step)]
    steps = range(1, trainer.step + 1)
    if recorded != [step for step in steps if trainer.config.evaluates_after(step)]:
        raise RunConflict(f"the run in {run.path} has lost records; {START_OVER}")


def _known_threads(state: State | None, asked: int | None, run: RunFolder) -> int | None:
    """Return the requested number of threads, or the one before an interruption, or None."""
    try:
        before = checked_threads((state or {}).get("threads"))
    except InvalidValue as error:
        raise unfit_checkpoint(run.path, error) from error
    return checked_threads(asked) or before


def _run(
    trainer: Session, run: RunFolder, observer: Observer, stop: Stop, checkpoint_seconds: float
) -> Ended | None:
    """Run the remaining steps; return how the run ended, or None if it was stopped."""
    config = trainer.config
    clock = _Clock(trainer, checkpoint_seconds)
    progress = _stoppable(observer, config, stop)
    writes = processes.leads()
    diverged_at: int | None = None
    while trainer.step < config.steps and diverged_at is None:
        try:
            measured = trainer.advance(progress)
        except _Stopped:  # during a fit, which has no steps to resume from
            clock.read()
            return None
        observer.step(trainer.step, measured)
        evaluation_due = trainer.evaluation_due()
        if evaluation_due or trainer.step % CHECK_EVERY == 0:
            diverged_at = trainer.divergence()
        if evaluation_due and diverged_at is None:
            trainer.agree()
            record = trainer.measure()
            judged = record.get("validation_risk", 0.0)
            if all(math.isfinite(risk) for risk in (judged, *record["risk"].values())):
                if writes and trainer.outputs:
                    save_outputs(run.path / HELD_OUT, trainer.outputs)
                if writes:
                    run.records.append(record)
                observer.record(record)
            else:
                diverged_at = trainer.step
        finished = trainer.step == config.steps
        stopping = processes.any_asks(stop.asked(), config.device)
        if writes and diverged_at is None and (clock.checkpoint_due() or stopping or finished):
            clock.read()
            with clock.checkpointing():
                trainer.save(run.checkpoint)
        if stopping and not finished and diverged_at is None:
            clock.read()
            return None
    if diverged_at is not None and writes:
        run.records.rewind(diverged_at - 1)
        run.records.append({"step": diverged_at, "event": "diverged"})
    environment: dict[str, str | int] = {
        "shiftproof": shiftproof.__version__,
        **trainer.versions(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": trainer.threads_used,
    }
    common = (clock.read(), config.run_id, environment, trainer.timings())
    if diverged_at is None:
        return Ended("finished", trainer.step, *common, trainer.scored().get("weights", {}))
    return Ended("diverged", diverged_at, *common)


class _Stopped(Exception):
    """The user has asked to stop."""


def _stoppable(observer: Observer, config: RunConfig, stop: Stop) -> Progress:
    """Return a `Progress` that notifies the observer and raises if the user has asked to stop."""
    without = f" without {', '.join(config.test_domains)}" if config.test_domains else ""

    def progress(what: str, done: int, total: int) -> None:
        if stop.asked():
            raise _Stopped
        observer.progress(f"{config.algorithm}{without}: {what}", done, total)

    return progress


class _Clock:
    """Measure the time of a trainer, and decide when to write a checkpoint.

    The first checkpoint of a process is written early; then the interval doubles, up to
    `checkpoint_seconds`.  So a run advances even if its processes are repeatedly killed early.
    """

    def __init__(self, trainer: Session, checkpoint_seconds: float) -> None:
        self._trainer = trainer
        self._last = self._last_checkpoint = time.perf_counter()
        self._shortest = checkpoint_seconds
        self._wait = self._interval = min(checkpoint_seconds, FIRST_CHECKPOINT)

    def read(self) -> float:
        now = time.perf_counter()
        self._trainer.seconds += now - self._last
        self._last = now
        return self._trainer.seconds

    def checkpoint_due(self) -> bool:
        return time.perf_counter() - self._last_checkpoint >= self._interval

    @contextlib.contextmanager
    def checkpointing(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._last_checkpoint = time.perf_counter()
        took = self._last_checkpoint - started
        self._wait = min(2 * self._wait, self._shortest)
        self._interval = max(self._wait, took / CHECKPOINT_SHARE)


def preflight_notes(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split], algorithm: Any
) -> Iterator[str]:
    """Yield notes on the data and the settings."""
    yield from dataset.notes
    batch_size = 0
    if not algorithm.exact:
        yield from _late_parts(config, algorithm)
        batch_size = algorithm.hparams.batch_size
    yield from _thin_domains(config, dataset, splits, batch_size)
    if dataset.kind == CLASSIFICATION:
        yield from _unseen_labels(config, dataset, splits)


def _late_parts(config: RunConfig, algorithm: Any) -> Iterator[str]:
    for start in sorted(algorithm.optimizer_restarts | algorithm.late_starts):
        if start >= config.steps:
            waits = [
                name
                for name, spec in specs(type(algorithm.hparams)).items()
                if spec.unit == "steps" and getattr(algorithm.hparams, name) == start
            ]
            shorter = f"lower `{waits[0]}` or " if waits else ""
            yield (
                f"a part of {config.algorithm} starts at step {start}, which is never reached in"
                f" {config.steps} steps; {shorter}train for more `steps`"
            )


def _thin_domains(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split], batch_size: int
) -> Iterator[str]:
    for domain, split in zip(dataset.domains, splits, strict=True):
        if domain.name in config.test_domains:
            continue
        if len(split.in_) < batch_size:
            yield (
                f"domain {domain.name!r} has {counted(len(split.in_), 'training sample')}, fewer"
                f" than the batch size of {batch_size}, so they repeat within a batch; lower"
                " `batch_size` or `holdout`"
            )
        present = np.unique(domain.label_array[split.in_], axis=0)
        if len(present) == 1 and dataset.target:
            yield (
                f"domain {domain.name!r} has training samples of one value only"
                f" ({counted(len(split.in_), 'sample')}); check its labels"
            )
        elif len(present) == 1:
            (label,) = present.tolist()
            yield (
                f"domain {domain.name!r} has training samples of one class only"
                f" ({dataset.classes[label]!r}, {counted(len(split.in_), 'sample')}): a method that"
                " matches domains will match classes there; merge it with another domain or hold"
                " it out"
            )


def _unseen_labels(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split]
) -> Iterator[str]:
    pairs = list(zip(dataset.domains, splits, strict=True))
    trained_on = [d.label_array[s.in_] for d, s in pairs if d.name not in config.test_domains]
    seen = np.concatenate(trained_on)
    for domain, _ in pairs:
        unseen = domain.label_array[~np.isin(domain.label_array, seen)]
        if len(unseen) == 0:
            continue
        names = [dataset.classes[label] for label in np.unique(unseen).tolist()]
        yield (
            f"domain {domain.name!r} has {counted(len(unseen), 'sample')} with labels never seen in"
            f" training ({listed(names, most=3)}), which count as wrong; add such samples to a"
            " training domain or remove them"
        )
