"""The settings of the public functions and of their commands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from shiftproof.core.cores import MOST_THREADS
from shiftproof.core.errors import InvalidValue, UnknownName, nearest
from shiftproof.core.settings import (
    Names,
    Parser,
    Settings,
    StrPath,
    anything,
    checked,
    flag,
    joined,
    names,
    number,
    one_of,
    path,
    same,
    setting,
    text,
    whole,
)
from shiftproof.core.standardize import ADAPTATION
from shiftproof.data.settings import DataSettings, LabelColumn, LabelSettings, SiteSettings
from shiftproof.learners.base import ALGORITHMS
from shiftproof.metrics import METRICS
from shiftproof.training.settings import (
    ALL,
    POOLS,
    BackboneSettings,
    DeviceSettings,
    HeldOutSettings,
    TrainingSettings,
)

# Settings in the panels of a help page.
data_setting = partial(setting, panel="Data")
model_setting = partial(setting, panel="Model")
training_setting = partial(setting, panel="Training")
expectation_setting = partial(setting, panel="Expectation")
runs_setting = partial(setting, panel="Runs")
# A file, or one of the words of `weights`.
path_or_name = Parser(lambda _, value: os.fspath(value), "PATH")


def _algorithms(name: str, value: Any) -> Any:
    """Return `all`, or one or several known names."""
    if value == "all":
        return value
    asked = joined.parse(name, value)
    for algorithm in asked:
        if algorithm not in ALGORITHMS:
            raise UnknownName(ALGORITHMS.kind, algorithm, ALGORITHMS.names())
    return asked


def _draws(name: str, value: Any) -> tuple[int, ...]:
    """Return one or several seeds: a number, a list, or words such as 0,4,10."""
    if isinstance(value, int):
        return (value,)
    words = value.split(",") if isinstance(value, str) else value
    for word in words:
        if not str(word).strip().isdecimal():
            raise InvalidValue(f"`{name}` takes whole numbers, as in 0,4,10, not {word!r}")
    return tuple(int(word) for word in words)


CLASS_METRICS = (
    "accuracy (default), balanced_accuracy, auroc, average_precision, f1, log_loss, brier,"
    " calibration_slope, calibration_intercept or calibration_error"
)


def _metric(name: Any) -> str:
    if name not in METRICS:
        raise InvalidValue(f"`metric` {name!r} is unknown; {nearest(str(name), METRICS.names())}")
    return str(name)


@dataclass(frozen=True, kw_only=True)
class ProgressSettings(Settings):
    """Where to report progress."""

    progress: Any = setting(
        None,
        anything,
        "called with the name of the task, the amount done and the total.",
        option=None,
    )


@dataclass(frozen=True, kw_only=True)
class ReadingSettings(Settings):
    """How to read images."""

    workers: int | None = data_setting(
        None, whole(), "Threads that prefetch images; default one per core, at most eight."
    )


@dataclass(frozen=True, kw_only=True)
class LoadSettings(DataSettings, ProgressSettings):
    """The settings of `load`."""

    seed: int = data_setting(0, whole(0), "Seed of generated data.")


@dataclass(frozen=True, kw_only=True)
class MetricSettings(Settings):
    """The score to show."""

    metric: str | None = expectation_setting(
        None,
        checked(_metric, "NAME"),
        f"Score to show first for a new domain: {CLASS_METRICS}; for numbers mae (default), rmse or"
        " r2. If given, [bold]best[/] selects the settings of its members by this score on held-out"
        " training domains, and for numbers mae implies the loss absolute, rmse and r2 squared.",
    )


@dataclass(frozen=True, kw_only=True)
class FrozenSettings(BackboneSettings):
    """The network, its starting weights, and whether it computes features once."""

    weights: StrPath | None = setting(
        None,
        path_or_name,
        "Starting weights of resnet18, resnet50 or a timm network: a file (safetensors or torch),"
        " pretrained (downloaded; the default) or random.",
        panel="Model",
        metavar="PATH",
    )
    freeze: bool = model_setting(
        False,
        flag,
        "Freeze the backbone: compute the features of all images once, and train on them."
        " Separate several backbones by commas.",
    )


@dataclass(frozen=True, kw_only=True)
class LearningSettings(TrainingSettings, FrozenSettings, MetricSettings, ReadingSettings):
    """The settings of training besides the data and the held-out domains."""

    pool: str = model_setting(
        ALL,
        one_of(POOLS),
        "How to use several backbones (`backbone` a,b with `freeze`) or vectors: [bold]all[/]"
        " (concatenated) or the [bold]best[/] one on held-out training domains.",
    )
    compile: bool = model_setting(
        False,
        flag,
        "Compile the network with torch.compile; needs a C++ compiler. Results differ by rounding.",
    )
    standardize: str = setting(
        "none",
        one_of(ADAPTATION),
        "Standardize numbers within each domain and, when predicting, within the new site:"
        " [bold]domain[/] (center and scale), [bold]whiten[/] (also remove correlations; for"
        " features) or [bold]none[/]. Results then measure adaptation.",
        panel="Adaptation",
    )
    threads: int | None = training_setting(
        None,
        whole(1, MOST_THREADS),
        "Threads for computation; default one for rows, and one per core for images.",
    )
    checkpoint_seconds: float = training_setting(
        5.0, number("[0, inf)"), "Shortest time between checkpoints."
    )
    out: StrPath | None = setting(
        None, path, "Folder of the run; default one in runs/, named after it."
    )
    observer: Any = setting(
        None,
        anything,
        "callbacks for progress, evaluations and notes; see `Observer`.",
        option=None,
    )


@dataclass(frozen=True, kw_only=True)
class TrainSettings(LearningSettings, HeldOutSettings, DataSettings):
    """The settings of `train`."""


@dataclass(frozen=True, kw_only=True)
class TrainEachSettings(LearningSettings, DataSettings):
    """The settings of `train_each`."""


@dataclass(frozen=True, kw_only=True)
class StudySettings(TrainEachSettings):
    """The settings of `study`."""

    private: bool = same(
        TrainingSettings,
        "private",
        help="Leave everything about single samples out of the page and the model file; trains no"
        " baselines.",
    )
    out: StrPath | None = same(
        LearningSettings,
        "out",
        help="Folder of the study; default one in runs/. Holds the page (report.html), the model"
        " (model), and the runs that hold out each domain (held-out).",
    )


@dataclass(frozen=True, kw_only=True)
class AtLeastSettings(Settings):
    """A threshold for the score."""

    at_least: float | None = expectation_setting(
        None,
        number(),
        "Threshold for the score; adds the probability that the next domain is worse.",
    )


@dataclass(frozen=True, kw_only=True)
class RangeSettings(MetricSettings, AtLeastSettings):
    """What to estimate for a new domain."""

    metric: str | None = same(
        MetricSettings,
        "metric",
        help=f"Score to show: {CLASS_METRICS}; for numbers mae (default), rmse or r2 and, for"
        " finished runs, also calibration_slope, calibration_intercept or interval_coverage. If"
        " given, [bold]best[/] selects settings by it when it is trained here.",
    )
    level: float = expectation_setting(0.95, number("(0, 1)"), "Probability of the intervals.")


@dataclass(frozen=True, kw_only=True)
class ExpectSettings(RangeSettings, TrainEachSettings):
    """The settings of `expect`."""


@dataclass(frozen=True, kw_only=True)
class DiagnoseSettings(DataSettings, FrozenSettings, ReadingSettings, ProgressSettings):
    """The settings of `diagnose`."""

    domains: Names = setting((), joined, "Domains to compare; default all.", panel="Data")
    test_domains: Names = same(
        HeldOutSettings,
        "test_domains",
        help="Domain to leave out, as in training; repeatable.",
        panel="Data",
    )
    most: int = data_setting(10_000, whole(), "Maximum number of samples to measure.")
    seed: int = data_setting(0, whole(0), "Seed of subsampling, folds and permutations.")
    data_seed: int | None = same(TrainingSettings, "data_seed")
    freeze: bool = same(
        FrozenSettings,
        "freeze",
        help="Measure the features of a backbone (images). `backbone` and `weights` imply it.",
    )
    raw: bool = model_setting(False, flag, "Measure photographs as 16×16 pixels.")
    run: StrPath | None = setting(
        None,
        path,
        "Folder of a run trained on this data; also measures its representation and risks.",
        panel="Model",
        metavar="DIR",
    )


@dataclass(frozen=True, kw_only=True)
class FeaturesSettings(DataSettings, BackboneSettings, ReadingSettings, ProgressSettings):
    """The settings of `features`."""

    weights: StrPath | None = same(
        FrozenSettings,
        "weights",
        help="Weights of the backbone: a file, pretrained or random; for several backbones, one for"
        " all or one for each.",
    )
    seed: int = same(LoadSettings, "seed")


@dataclass(frozen=True, kw_only=True)
class TrustSettings(Settings):
    """Whether to load a model that may run code."""

    trust: bool = model_setting(
        False, flag, "Load a model with a scikit-learn estimator of its author, which may run code."
    )


@dataclass(frozen=True, kw_only=True)
class LoadModelSettings(DeviceSettings, TrustSettings):
    """How to load a trained model."""


@dataclass(frozen=True, kw_only=True)
class ModelDataSettings(SiteSettings, LoadModelSettings, ReadingSettings, ProgressSettings):
    """How to read samples for a trained model; columns and seeds default to those of training."""

    data_seed: int | None = same(
        TrainingSettings, "data_seed", help="Seed of generated data; default that of the run."
    )
    expected: Any = setting(
        None,
        anything,
        "Folder of the runs that hold out each domain in turn.",
        panel="Expectation",
        metavar="FOLDER",
    )


@dataclass(frozen=True, kw_only=True)
class PredictSettings(ModelDataSettings):
    """The settings of `predict`."""

    keep: Names = setting(
        (),
        names,
        "Column to copy to the output (tables); repeatable.",
        panel="Data",
        metavar="COLUMN",
        repeats=True,
    )
    sets: float | None = expectation_setting(
        None,
        number(),
        "Add prediction sets: the classes that include the true one with this probability at a"
        " new domain, such as 0.9; needs `expected`.",
    )
    interval: float | None = expectation_setting(
        None,
        number(),
        "Add intervals that contain the true number with this probability at a new domain, such"
        " as 0.9; computed from the runs of `expected`, or from domains held out during"
        " training (best, linear, boosting, forest).",
    )
    adapt: str = setting(
        "none",
        anything,
        "Correct the probabilities for the class proportions of the new site, estimated from"
        " its rows: [bold]auto[/] (as far as they differ from training by more than the error"
        " of the estimate) or [bold]none[/]. With a domain column, each domain is a site.",
        panel="Adaptation",
        metavar="TEXT",
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(LabelSettings, ModelDataSettings):
    """The settings of `evaluate`."""

    metric: str | None = same(
        MetricSettings,
        "metric",
        help=f"Score to compare with `expected`: {CLASS_METRICS}; for numbers mae (default), rmse,"
        " r2, calibration_slope or calibration_intercept.",
    )


@dataclass(frozen=True, kw_only=True)
class RecalibrateSettings(LabelColumn, LoadModelSettings):
    """The settings of `recalibrate`."""


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings(DeviceSettings):
    """Where to execute the runs of a sweep."""

    executor: str = runs_setting(
        "local", text, "Where to execute runs: local (processes) or ray (a cluster)."
    )
    ray_address: str | None = runs_setting(
        None,
        text,
        "Ray cluster, HOST:PORT or auto; default one on this machine.",
        metavar="ADDRESS",
    )
    workers: int | None = runs_setting(
        None, whole(1), "Number of parallel runs; default as many as cores and memory allow."
    )
    precision: str = same(BackboneSettings, "precision")
    retry_failed: bool = runs_setting(False, flag, "Run failed runs again.")
    dry_run: bool = runs_setting(
        False, flag, "Print the plan and the time of a few steps, and stop."
    )
    backbone: str = same(
        BackboneSettings,
        "backbone",
        default="resnet50",
        help="Network that computes the features of images (lite).",
    )
    weights: StrPath = same(
        FrozenSettings,
        "weights",
        default="pretrained",
        help="Weights of that backbone: a file, pretrained or random.",
    )
    test_domains: Names = same(
        HeldOutSettings,
        "test_domains",
        help="Domain to hold out; default each in turn; repeatable. Every dataset must have it.",
    )
    observer: Any = setting(
        None, anything, "callbacks for progress; see `SweepObserver`.", option=None
    )


@dataclass(frozen=True)
class SweepSettings(ExecutorSettings, DataSettings):
    """The settings of `sweep`."""

    algorithms: Names = setting(
        ("erm", "idm"),
        Parser(_algorithms, "A,B,…"),
        "Algorithms, separated by commas, or [bold]all[/] (except two-stage, which is for full"
        " batches).",
        panel="Runs",
    )
    _: KW_ONLY
    preset: str = runs_setting(
        "domainbed",
        text,
        "Size of the runs: domainbed (as published), lite (reduced size) or table1 (500 full"
        " batches, as in IRM's study of Colored MNIST; two classes).",
    )
    n_hparams: int = runs_setting(
        20, whole(), "Number of hyper-parameter draws; the first has the defaults."
    )
    draws: int | Sequence[int] = runs_setting(
        (),
        Parser(_draws, "A,B,…"),
        "Run only these of the `n_hparams` draws, by their seeds (0 is the defaults): 0,4,10. A"
        " later call can add others.",
    )
    trials: int = runs_setting(3, whole(), "Number of repetitions, each with another data seed.")
    selection: Names = setting(
        ("training-domain", "oracle"),
        joined,
        "training-domain, leave-one-domain-out, oracle, invariance, best-minimum; separated by"
        " commas.",
        panel="Runs",
    )
    out: StrPath = setting(Path("sweep"), path, "Folder of the sweep.")
    hparams: Mapping[str, Any] | None = same(
        TrainingSettings,
        "hparams",
        help="Hyper-parameter fixed in every run; repeatable. Tables then show"
        " algorithm\\[NAME=VALUE].",
    )
    steps: int | None = same(
        TrainingSettings, "steps", default=None, help="Number of updates; default the preset's."
    )
    eval_every: int | None = same(
        TrainingSettings,
        "eval_every",
        help="Steps between evaluations; default the preset's. Only evaluated steps can be"
        " selected.",
    )
    class_weight: str = same(TrainingSettings, "class_weight")
    average: str = same(
        TrainingSettings,
        "average",
        help="Final weights of each run: the last (none), averaged (ema, swad) or best.",
    )
    stall_seconds: float | None = runs_setting(
        None,
        number(),
        "Restart a local run from its checkpoint after this many seconds without progress; default"
        " never. Choose more than the time to load the data, plus a step and an evaluation.",
    )
    models: StrPath | None = setting(
        None, path, "After the runs, write the selected models to this folder.", metavar="DIR"
    )
    retrain: bool = runs_setting(
        False,
        flag,
        "After the runs, retrain the selected settings on all samples of the training domains, in"
        " `out`/retrained.",
    )


@dataclass(frozen=True, kw_only=True)
class ReportSettings(Settings):
    """The settings of `report`."""

    selection: Names | None = setting(
        None,
        joined,
        "Selection methods, separated by commas; retrained for retrained runs; default all that the"
        " runs allow.",
    )
    baseline: str | None = setting(
        None, text, "Baseline algorithm; default erm, if present.", metavar="NAME"
    )
    metric: str | None = setting(
        None,
        text,
        "Main score of held-out domains on the html page, as in expect; default the score that the"
        " models were optimised for, or accuracy (numbers: mae).",
        metavar="NAME",
    )
    as_domainbed: bool = setting(
        False,
        flag,
        "Select also among diverged and unfinished runs, and pool all records of a run, as"
        " DomainBed's tool does.",
    )
