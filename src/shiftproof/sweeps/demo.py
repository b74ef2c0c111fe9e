"""The demonstration: ERM and IDM on Colored MNIST, in three minutes on two cores.

Everything is fixed beforehand, the number of steps included: the domain with reversed colours is
used neither for training nor for selection.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from shiftproof.core.space import Scalar
from shiftproof.data import DomainDataset
from shiftproof.data.datasets.colored_mnist import LABEL_NOISE, ColoredMNISTForIRM
from shiftproof.training.config import RunConfig
from shiftproof.training.configure import configure
from shiftproof.training.loop import RunResult, train
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record
from shiftproof.training.run_folder import RunFolder

TRAINING_DOMAINS = ("90%", "80%")
REVERSED_DOMAIN = "10%"
GRAY = "gray"
# Because 25% of the labels are flipped, a model that reads only the digit cannot do better.
CEILING = 1 - LABEL_NOISE
STEPS = 240
WARMUP = 140

_NETWORK: dict[str, Scalar] = {
    "hidden": 256, "single_logit": True, "batch_size": 0, "lr": 4e-4, "weight_decay": 5e-4,
}  # fmt: skip
HPARAMS: dict[str, dict[str, Scalar]] = {
    "erm": _NETWORK,
    "idm": {
        **_NETWORK,
        "gradient_weight": 1e6,
        "gradient_warmup": WARMUP,
        "gradient_ema": 0.0,
        "match_representations": False,
    },
}

Watch = Callable[[str], AbstractContextManager[Observer]]


@dataclass(frozen=True)
class Accuracies:
    """Accuracies on the training domains (mean), on the reversed domain, and on gray digits."""

    train: float
    test: float
    gray: float

    @classmethod
    def of(cls, record: Record) -> Accuracies:
        """Return the accuracies in a record."""
        accuracy = record["accuracy"]
        return cls(
            train=mean(accuracy[f"{name}/in"] for name in TRAINING_DOMAINS),
            test=accuracy[f"{REVERSED_DOMAIN}/in"],
            gray=accuracy[GRAY],
        )


def load_demo_data(seed: int) -> DomainDataset:
    """Return Colored MNIST with 12,500 digits per training domain."""
    return ColoredMNISTForIRM(per_domain=12_500).load(seed)


def demo_config(algorithm: str, dataset: DomainDataset, seed: int, device: str) -> RunConfig:
    """Return the configuration of one of the two runs."""
    return configure(
        dataset,
        algorithm,
        test_domains=[REVERSED_DOMAIN],
        hparams=HPARAMS[algorithm],
        steps=STEPS,
        eval_every=5,
        evaluate=["train-in", "test-in", "extra"],
        holdout=0.0,
        seed=seed,
        device=device,
    )


class Demo(NamedTuple):
    """The data of the demonstration, and its runs; both runs unless interrupted."""

    dataset: DomainDataset
    results: dict[str, RunResult]

    @property
    def last(self) -> tuple[str, RunResult]:
        """The algorithm and the result of the last run."""
        return list(self.results.items())[-1]

    @property
    def accuracies(self) -> dict[str, Accuracies]:
        """The accuracies at the last step of each run."""
        return {name: Accuracies.of(result.final) for name, result in self.results.items()}


def run_demo(seed: int, folder: Path, watch: Watch, device: str = "auto") -> Demo:
    """Train both algorithms; resume an interrupted demo, or repeat one that had finished."""
    if all(RunFolder(folder / algorithm).done() for algorithm in HPARAMS):
        shutil.rmtree(folder)
    dataset = load_demo_data(seed)
    results: dict[str, RunResult] = {}
    for algorithm in HPARAMS:
        config = demo_config(algorithm, dataset, seed, device)
        with watch(algorithm) as observer:
            results[algorithm] = train(config, dataset, folder / algorithm, observer)
        if results[algorithm].status != "finished":
            break
    return Demo(dataset, results)
