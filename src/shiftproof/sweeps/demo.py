"""The demonstration: ERM and IDM on Colored MNIST, small enough for three minutes on two cores.

Everything is fixed beforehand, the number of steps included: the domain with reversed colours
plays no part in training, nor in choosing what is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from shiftproof.core.space import Scalar
from shiftproof.data import DomainDataset
from shiftproof.data.datasets.colored_mnist import LABEL_NOISE, ColoredMNISTForIRM
from shiftproof.training.config import RunConfig, configure
from shiftproof.training.loop import RunResult, train
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record
from shiftproof.training.run_folder import RunFolder

TRAINING_DOMAINS = ("90%", "80%")
REVERSED_DOMAIN = "10%"
GRAY = "gray"
# The best that reading the digit alone can do, for one label in four is wrong.
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
    """Shares of correct answers: on the training domains (mean), the reversed one, and in gray."""

    train: float
    test: float
    gray: float

    @classmethod
    def of(cls, record: Record) -> Accuracies:
        """Read them from a record."""
        accuracy = record["accuracy"]
        return cls(
            train=mean(accuracy[f"{name}/in"] for name in TRAINING_DOMAINS),
            test=accuracy[f"{REVERSED_DOMAIN}/in"],
            gray=accuracy[GRAY],
        )


def load_demo_data(seed: int) -> DomainDataset:
    """Return Colored MNIST with 12,500 digits a training domain."""
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


def run_demo(
    dataset: DomainDataset, seed: int, folder: Path, watch: Watch, device: str = "auto"
) -> dict[str, RunResult]:
    """Train both, or go on with what was interrupted; a finished run is reported as it is."""
    results: dict[str, RunResult] = {}
    for algorithm in HPARAMS:
        config = demo_config(algorithm, dataset, seed, device)
        with watch(algorithm) as observer:
            results[algorithm] = train(config, dataset, folder / algorithm, observer)
        if results[algorithm].status != "finished":
            break
    return results


def is_finished(folder: Path) -> bool:
    """Whether both runs in ``folder`` have ended."""
    return all(RunFolder(folder / algorithm).done() for algorithm in HPARAMS)
