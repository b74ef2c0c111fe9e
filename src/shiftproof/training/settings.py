"""The settings of training that determine a run, and the words that they allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from shiftproof.core.errors import UnknownName
from shiftproof.core.settings import (
    Names,
    Settings,
    anything,
    checked,
    flag,
    joined,
    names,
    number,
    one_of,
    pairs,
    setting,
    text,
    whole,
)
from shiftproof.core.types import CLASS_WEIGHTS, UNWEIGHTED
from shiftproof.learners.base import ALGORITHMS

# A colon and a number may follow.
DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("fp32", "bf16")
# How to use several vectors (`training.choose_vector`).
ALL, BEST = "all", "best"
POOLS = (ALL, BEST)
# Weight averages (`training.averaging`), and whether they need the risk on train-out.
AVERAGES = {"none": False, "ema": False, "swad": True, "best": True}
# Which samples to evaluate on: the two parts of the training and of the test domains, and the
# dataset's extra sets.
EVALUATION_SETS = ("train-in", "train-out", "test-in", "test-out", "extra")
# Values of `evaluate`: the sets, and a test of whether the outputs on train-out mean the same in
# every training domain (see `training.invariance`).
INVARIANCE = "invariance"
EVALUATIONS = (*EVALUATION_SETS, INVARIANCE)
DEFAULT_EVALUATION = ("train-out", "test-in", "test-out", "extra")

training = partial(setting, panel="Training")


def _algorithm(given: Any) -> Any:
    """Return a known name, or the user's own estimator."""
    if isinstance(given, str) and given not in ALGORITHMS:
        raise UnknownName(ALGORITHMS.kind, given, ALGORITHMS.names())
    return given


def _device(name: Any) -> str:
    if str(name).partition(":")[0] not in DEVICES:
        raise UnknownName("device", str(name), DEVICES)
    return str(name)


@dataclass(frozen=True, kw_only=True)
class DeviceSettings(Settings):
    """Where to compute."""

    device: str = setting("auto", checked(_device), "auto, cpu, cuda or mps.", panel="Model")


@dataclass(frozen=True, kw_only=True)
class BackboneSettings(DeviceSettings):
    """The network and its precision."""

    backbone: str | None = setting(
        None,
        text,
        "Network: mlp, mnist-cnn, resnet18, resnet50 or a timm name; default the dataset's own.",
        panel="Model",
    )
    precision: str = setting("fp32", one_of(PRECISIONS), "fp32 or bf16.", panel="Model")


@dataclass(frozen=True)
class TrainingSettings(BackboneSettings):
    """The settings of one run; see `training.configure`."""

    algorithm: Any = setting(
        None,
        checked(_algorithm),
        "See [bold]shiftproof algorithms[/]; default best for tables and features, and idm-auto"
        " for images.",
        panel="Model",
        letter="a",
    )
    _: KW_ONLY
    hparams: Mapping[str, Any] | None = training(
        None,
        pairs,
        "Hyper-parameter of the algorithm or the backbone; repeatable.",
        option="hparam",
        repeats=True,
    )
    loss: str | None = training(
        None,
        text,
        "Regression loss: squared (default), absolute, huber, huber:DELTA (in standard deviations"
        " of the label) or quantile:Q; linear, trees and best support only the first two.",
        metavar="NAME",
    )
    class_weight: str = training(
        UNWEIGHTED,
        one_of(CLASS_WEIGHTS),
        "Class weights in training: [bold]balanced[/] (equal total weight per class) or"
        " [bold]none[/]. Scores are unweighted.",
    )
    steps: int = training(5001, whole(1), "Number of updates.")
    seed: int = training(0, whole(0), "Seed of starting weights, batches and noise.")
    data_seed: int | None = setting(
        None, whole(0), "Seed of generated data and of splits; default `seed`.", panel="Data"
    )
    holdout: float | None = training(
        None,
        number("[0, 1)"),
        "Share of each domain not trained on; default 0.2, and 0 for linear, trees and best.",
    )
    eval_every: int | None = training(
        None, whole(0), "Steps between evaluations; 0 evaluates after the last step only."
    )
    evaluate: Names = setting(
        DEFAULT_EVALUATION,
        joined,
        "Sets to evaluate, separated by commas: train-in, train-out, test-in, test-out, extra;"
        " train-out is the part of the training domains that is not trained on. Add invariance"
        " to test whether the outputs on train-out mean the same in every training domain.",
        panel="Training",
    )
    average: str = training(
        "none",
        one_of(AVERAGES),
        "Weights to score: the last (none), averaged (ema, swad), or the best on the held-out"
        " parts of the training domains (best).",
    )
    augment_validation: bool = training(
        False, flag, "Apply data augmentation when evaluating training domains, as DomainBed does."
    )
    private: bool = training(
        False,
        flag,
        "Leave everything about single samples, and everything that prediction does not need,"
        " out of the model file.",
    )

    @property
    def seed_of_data(self) -> int:
        """The seed of generated data and of splits."""
        return self.seed if self.data_seed is None else self.data_seed


@dataclass(frozen=True, kw_only=True)
class HeldOutSettings(TrainingSettings):
    """A run that holds out domains."""

    test_domains: Names = setting(
        (),
        names,
        "Domain to hold out; repeatable. By default, all domains are trained on.",
        option="test-domain",
        repeats=True,
        panel="Training",
    )


@dataclass(frozen=True, kw_only=True)
class ConfigureSettings(HeldOutSettings):
    """The settings of `training.configure`."""

    fewest_training_domains: int = setting(
        2, anything, "The smallest number of domains to train on.", option=None
    )
