"""The training of a network: one step, one evaluation, and the state of both."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.cores import allowed_threads
from shiftproof.core.errors import InvalidValue
from shiftproof.core.seeding import seed_hash, stream_seed, torch_generator
from shiftproof.core.text import reason_of
from shiftproof.core.types import Batch, Task
from shiftproof.data.base import Progress, silent
from shiftproof.data.domain import as_numbers
from shiftproof.data.prefetch import prefetch
from shiftproof.data.sampling import BatchSampler
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm, HeldOut
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training import processes, shared_batches
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.checkpoint import State, load_state, save_state
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluate import evaluate, outputs_of
from shiftproof.training.evaluation_sets import EvaluationSet, Score, held_out_sets, plan_evaluation
from shiftproof.training.records import Record
from shiftproof.training.sample_weights import training_weights
from shiftproof.training.session import Session


def compile_network(network: nn.Module) -> None:
    """Compile like ``network.compile()``, even a ``Sequential`` of torch's own layers.

    In older torch, such as 2.7, that method silently does nothing for these, because it compiles
    no function of torch's own modules; the function here is ours.
    """

    def call(*inputs: Any) -> Any:
        return network._call_impl(*inputs)  # type: ignore[no-untyped-call]

    network._compiled_call_impl = torch.compile(call)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute with `count` threads, and restore its number on exit."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Raise an error of one line if torch cannot compile a network."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        raise InvalidValue(
            f"torch cannot compile the network ({reason_of(error, 120)}); install a C++ compiler,"
            " or leave out `compile`"
        ) from error


class Trainer(Session):
    """The training of a network; with `compiled`, torch compiles the featurizer."""

    def __post_init__(self, saved: State | None) -> None:
        config = self.config
        splits = self._prepare(saved, build_algorithm)
        self.average = AVERAGES[config.average](self.algorithm)
        dataset = self.dataset.to(torch.device(config.device))
        domains = [domain for domain in dataset.domains if domain.name in splits]
        trained_on = [split.in_ for split in splits.values()]
        weights = training_weights(self.dataset, splits, config.class_weight)
        size = self.algorithm.hparams.batch_size
        seed = stream_seed(config.seed, "sampler")
        # Each process reads only its own share of the images; all other data is in memory.
        self.divided = processes.count() > 1 and any(domain.is_lazy for domain in domains)
        only = shared_batches.own_share(size).numpy() if self.divided else None
        self.sampler = BatchSampler(domains, trained_on, size, seed, weights, only)
        if processes.count() > 1 and self.algorithm.divides_batches:
            featurizer = self.algorithm.train().featurizer
            if not shared_batches.learns_statistics(featurizer):
                shared_batches.share(featurizer)
        if self.compiled:
            compile_network(self.algorithm.featurizer)
        self.evaluation = plan_evaluation(config, dataset, self.splits)
        self.looks = self.algorithm.looks(config.steps)
        self.looked_at = held_out_sets(config, dataset, self.splits) if self.looks else []
        self._batches: Generator[Batch, None, None] | None = None
        torch.manual_seed(stream_seed(config.seed, "noise"))
        self.algorithm.train()

    def advance(self, progress: Progress = silent) -> dict[str, Tensor]:
        """Take one step; return the losses, still on the device."""
        batch = self._next_batch()
        with self._autocast(), compiling():
            measured: dict[str, Tensor] = self.algorithm.update(batch)
        self.step += 1
        if self.step in self.looks:
            self.algorithm.look(self._held_out, last=self.step == self.config.steps)
        self.average.follow(self.step)
        for name, value in measured.items():
            # One tensor a name, on the device: thousands of small ones would fragment the heap.
            values = value.detach().reshape(1)
            if name in self.pending:
                values = torch.cat([self.pending[name], values])
            self.pending[name] = values
        return measured

    def _held_out(self) -> HeldOut:
        """Return the algorithm's outputs on the held-out parts of the training domains."""
        with self._autocast():
            scores = [
                evaluate(self.algorithm, subset, self.workers, keep_outputs=True)
                for subset in self.looked_at
            ]
        return [score.outputs for score in scores if score.outputs is not None]

    def _next_batch(self) -> Batch:
        if self._batches is None:
            steps = range(self.step, self.config.steps)
            lazy = any(domain.is_lazy for domain in self.dataset.domains)
            self._batches = prefetch(self.sampler.stored, steps, self.workers if lazy else 0)
        batch = next(self._batches).to(torch.device(self.config.device))
        if self.divided:
            shares = batch.x.transpose(0, 1)
            x = shared_batches.exchanged(shares, batch.y.shape[1]).transpose(0, 1)
            batch = batch._replace(x=x)
        return batch._replace(x=as_numbers(batch.x))

    def close(self) -> None:
        """Stop reading batches ahead."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    @classmethod
    def surroundings(cls) -> contextlib.AbstractContextManager[Any]:
        """Return a context that restores torch's global generators, which dropout draws from."""
        return torch.random.fork_rng()

    @classmethod
    def read(cls, checkpoint: Path) -> State | None:
        """Return the state in a file; None if there is no file."""
        return load_state(checkpoint)

    def save(self, checkpoint: Path) -> None:
        """Write the state to a file."""
        save_state(checkpoint, self.state())

    def choose_threads(self, known: int | None) -> None:
        """Use `known` threads; by default, on a CPU, one for rows and all allowed ones for images.

        Steps on rows are short: several threads would wait for each other longer than they compute.
        """
        if known is None and torch.device(self.config.device).type == "cpu":
            images = len(self.dataset.input_shape) > 1
            known = min(allowed_threads(), torch.get_num_threads()) if images else 1
        self.threads = known

    @property
    def threads_used(self) -> int:
        """The number of threads torch computes with."""
        return self.threads or torch.get_num_threads()

    def working(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which torch computes with this number of threads."""
        return torch_threads(self.threads_used)

    def agree(self) -> None:
        """Synchronise the weights between the processes of a run."""
        shared_batches.same_weights(self.algorithm)

    def scored(self) -> dict[str, Any]:
        """Describe which weights are scored; empty if they are the last ones."""
        return self.average.described()

    def versions(self) -> dict[str, str]:
        """Return the version of torch."""
        return {"torch": torch.__version__}

    def divergence(self) -> int | None:
        """Return the first pending step whose loss was not finite, or None."""
        losses = self.pending.get("loss")
        if losses is None:
            return None
        bad = (~losses.isfinite()).nonzero()
        return None if len(bad) == 0 else self.step - len(losses) + int(bad[0]) + 1

    def measure(self) -> Record:
        """Evaluate, and average the losses over the steps since the last record.

        If the run averages weights, the average is scored (see `averaging`), and the field
        `scored` describes it; `validation_risk` is the risk of the raw weights, which some
        averages need.
        """
        record: Record = {"step": self.step}
        record |= {name: values.mean().item() for name, values in self.pending.items()}
        self.pending.clear()
        if self.average.judges:
            record["validation_risk"] = self._validation_risk()
            self.average.judge(record["validation_risk"])
        with self.average.in_place():
            scores = self._scores(self.evaluation)
        return record | self._scored_record(scores) | self.scored()

    def state(self) -> State:
        """Return everything the next step depends on."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "threads": self.threads_used,
            "pending": dict(self.pending),
            "algorithm": self.algorithm.training_state(),
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            **self.average.state(),
            **({"preparation": self.preparation.to_json()} if self.preparation else {}),
        }

    def load(self, state: State) -> None:
        """Restore a state."""
        self.close()
        self.step, self.seconds = state["step"], state["seconds"]
        device = torch.device(self.config.device)
        self.pending = {name: values.to(device) for name, values in state["pending"].items()}
        self.algorithm.load_training_state(state["algorithm"])
        self.average.load(state)
        torch.set_rng_state(state["rng"])
        if state["cuda_rng"]:
            torch.cuda.set_rng_state_all(state["cuda_rng"])

    def _validation_risk(self) -> float:
        """Return the mean risk of the raw weights on the held-out parts of the training domains."""
        held_out = [subset for subset in self.evaluation if subset.kind == "train-out"]
        return fmean(score.risk for score in self._scores(held_out).values())

    def _scores(self, subsets: list[EvaluationSet]) -> dict[str, Score]:
        # Autocast caches the weights that it has cast, so each set of weights needs a new context.
        with self._autocast():
            return {subset.name: self._score(subset) for subset in subsets}

    def _joined(
        self, outputs: Sequence[Any], labels: Sequence[Any], rows: np.ndarray
    ) -> AnyOutputs:
        return outputs_of(self.algorithm.task, torch.cat([*outputs]), torch.cat([*labels]), rows)

    def _score(self, subset: EvaluationSet) -> Score:
        view_seed = seed_hash("views", self.config.seed, self.step, subset.name)
        keep = self._keeps(subset)
        return evaluate(self.algorithm, subset, self.workers, view_seed, keep_outputs=keep)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.config.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.config.device).type, dtype=torch.bfloat16)


def build_algorithm(config: RunConfig, task: Task) -> Algorithm:
    """Return the untrained algorithm of a run on its device, weights drawn from stream `init`."""
    with torch.random.fork_rng():
        torch.manual_seed(stream_seed(config.seed, "init"))
        cls = ALGORITHMS.get(config.algorithm)
        network = config.model(task.regime).build(cls.network_task(task))
        algorithm: Algorithm = cls(
            task,
            network.featurizer,
            network.head,
            config.algorithm_hparams(task.regime),
            torch_generator(config.seed, "noise"),
        )
    return algorithm.to(config.device)
