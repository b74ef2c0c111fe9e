"""Options that several commands share, and their parsing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftproof.core.errors import InvalidValue


def option(panel: str, help: str, *names: str, **settings: Any) -> Any:
    """Return an option that the help page lists in a panel."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


# --- data -------------------------------------------------------------------------------------
Data = Annotated[
    str,
    typer.Argument(
        help="Folder of images (DIR/domain/class/*.jpg), table (CSV or Parquet), vectors (.npy,"
        " .npz or Parquet) or dataset name (see [bold]shiftproof data list[/])."
    ),
]
LabelColumn = Annotated[
    str | None,
    option(
        "Data",
        "Label column (tables). Several, joined by commas: diagnose, expect, train and study handle"
        " each of them in turn.",
        metavar="COLUMN",
    ),
]
DomainColumn = Annotated[
    str | None,
    option(
        "Data", "Domain column (tables); several joined by commas: hospital,year.", metavar="COLUMN"
    ),
]
By = Annotated[
    str | None,
    option(
        "Data",
        "How to form domains from the domain column: year, quarter or month (dates), a number of"
        " bins (numbers), or value (one domain per value).",
        metavar="HOW",
    ),
]
PoolBelow = Annotated[
    int, option("Data", "Pool domains with fewer rows than this into one.", metavar="ROWS")
]
Task = Annotated[
    str,
    option(
        "Data",
        "[bold]classification[/] (labels are classes), [bold]regression[/] (labels are numbers) or"
        " [bold]auto[/] (decided by the label column of a table).",
    ),
]
ImageColumn = Annotated[
    str | None, option("Data", "Column of image paths (manifests).", metavar="COLUMN")
]
DropColumns = Annotated[
    list[str] | None,
    option(
        "Data",
        "Column not to use (tables); several joined by commas, or repeated.",
        metavar="COLUMN",
    ),
]
CategoricalColumns = Annotated[
    list[str] | None,
    option(
        "Data",
        "Column whose numbers are codes of categories; several joined by commas, or repeated.",
        metavar="COLUMN",
    ),
]
WeightsColumn = Annotated[
    str | None,
    option(
        "Data",
        "Column of sample weights for training (tables); not used as a feature. Scores are"
        " unweighted.",
        metavar="COLUMN",
    ),
]
ImageSize = Annotated[int | None, option("Data", "Height and width of images; default 224.")]
DataOption = Annotated[
    list[str] | None,
    option("Data", "Option of the dataset; repeatable.", metavar="NAME=VALUE"),
]
DataSeed = Annotated[
    int | None, option("Data", "Seed of generated data and of splits; default --seed.")
]
ModelDataSeed = Annotated[
    int | None, option("Data", "Seed of generated data; default that of the run.")
]
Workers = Annotated[
    int | None, option("Data", "Threads that prefetch images; default one per core.")
]

# --- training ---------------------------------------------------------------------------------
AlgorithmName = Annotated[
    str | None,
    option(
        "Model",
        "See [bold]shiftproof algorithms[/]; default best for tables and features, and idm-auto"
        " for images.",
        "--algorithm",
        "-a",
    ),
]
Hparam = Annotated[
    list[str] | None,
    option(
        "Training",
        "Hyper-parameter of the algorithm or the backbone; repeatable.",
        metavar="NAME=VALUE",
    ),
]
Loss = Annotated[
    str | None,
    option(
        "Training",
        "Regression loss: squared (default), absolute, huber, huber:DELTA or quantile:Q; linear,"
        " trees and best support only the first two.",
        metavar="NAME",
    ),
]
ClassWeight = Annotated[
    str,
    option(
        "Training",
        "Class weights in training: [bold]balanced[/] (equal total weight per class) or"
        " [bold]none[/]. Scores are unweighted.",
    ),
]
Steps = Annotated[int, option("Training", "Number of updates.")]
Seed = Annotated[int, option("Training", "Seed of starting weights, batches and noise.")]
Holdout = Annotated[
    float | None,
    option(
        "Training",
        "Share of each domain not trained on; default 0.2, and 0 for linear, trees and best.",
    ),
]
Evaluate = Annotated[
    str,
    option(
        "Training",
        "Sets to evaluate, separated by commas: train-in, train-out, test-in, test-out, extra;"
        " train-out is the part of the training domains that is not trained on. Add invariance"
        " to test whether the outputs on train-out mean the same in every training domain.",
    ),
]
Average = Annotated[
    str,
    option(
        "Training",
        "Weights to score: the last (none), averaged (ema, swad), or the best on the held-out"
        " parts of the training domains (best).",
    ),
]
Standardize = Annotated[
    str,
    option(
        "Adaptation",
        "Standardize numbers within each domain and, when predicting, within the new site:"
        " [bold]domain[/] (center and scale), [bold]whiten[/] (also remove correlations; for"
        " features) or [bold]none[/]."
        " Results then measure adaptation.",
    ),
]
AugmentValidation = Annotated[
    bool,
    option(
        "Training",
        "Apply data augmentation when evaluating training domains, as DomainBed does.",
        "--augment-validation",
    ),
]

# --- model ------------------------------------------------------------------------------------
RunOrModel = Annotated[
    Path, typer.Argument(help="Folder of a finished run or study, or a model file.")
]
Backbone = Annotated[
    str | None,
    option(
        "Model",
        "Network: mlp, mnist-cnn, resnet18, resnet50 or a timm name; default the dataset's own.",
    ),
]
Weights = Annotated[
    str | None,
    option(
        "Model",
        "Starting weights of resnet18, resnet50 or a timm network: a file (safetensors or torch),"
        " pretrained (downloaded; the default) or random.",
        metavar="PATH",
    ),
]
Freeze = Annotated[
    bool,
    option(
        "Model",
        "Freeze the backbone: compute the features of all images once, and train on them.",
        "--freeze",
    ),
]
Pool = Annotated[
    str,
    option(
        "Model",
        "How to use several backbones (--backbone a,b with --freeze) or vectors: [bold]all[/]"
        " (concatenated) or the [bold]best[/] one on held-out training domains.",
    ),
]
Device = Annotated[str, option("Model", "auto, cpu, cuda or mps.")]
Precision = Annotated[str, option("Model", "fp32 or bf16.")]

# --- expectation ------------------------------------------------------------------------------
ExpectedRuns = Annotated[
    Path | None,
    option(
        "Expectation",
        "Folder with the runs of [bold]train --test-domain each[/].",
        metavar="FOLDER",
    ),
]
# Training accepts fewer scores of numbers than finished runs do.
_CLASS_METRICS = (
    "accuracy (default), balanced_accuracy, auroc, average_precision, f1, log_loss, brier,"
    " calibration_slope, calibration_intercept or calibration_error"
)
TrainMetric = Annotated[
    str | None,
    option(
        "Expectation",
        f"Score to show with --test-domain each: {_CLASS_METRICS}; for numbers mae (default), rmse"
        " or r2. If given, [bold]best[/] chooses settings by it.",
    ),
]
ExpectMetric = Annotated[
    str | None,
    option(
        "Expectation",
        f"Score to show: {_CLASS_METRICS}; for numbers mae (default), rmse or r2 and, for finished"
        " runs, also calibration_slope, calibration_intercept or interval_coverage. If given,"
        " [bold]best[/] chooses settings by it when it is trained here.",
    ),
]
EvaluateMetric = Annotated[
    str | None,
    option(
        "Expectation",
        f"Score to compare with --expected: {_CLASS_METRICS}; for numbers mae (default), rmse, r2,"
        " calibration_slope or calibration_intercept.",
    ),
]
AtLeast = Annotated[
    float | None,
    option(
        "Expectation",
        "Threshold for the score; prints the probability that the next domain is worse.",
    ),
]

# --- output -----------------------------------------------------------------------------------
Quiet = Annotated[bool, option("Output", "Show no progress.", "--quiet", "-q")]
AsJson = Annotated[bool, option("Output", "Print the result as JSON.", "--json")]

# --- sweeps and the studies of the paper -------------------------------------------------------
TestDomains = Annotated[
    list[str] | None,
    typer.Option(
        help="Domain to hold out; default each in turn; repeatable. Every dataset must have it."
    ),
]
FrozenWeights = Annotated[
    str,
    typer.Option(metavar="PATH", help="Weights of that backbone: a file, pretrained or random."),
]
Executor = Annotated[
    str, option("Runs", "Where to execute runs: local (processes) or ray (a cluster).")
]
RayAddress = Annotated[
    str | None,
    option(
        "Runs", "Ray cluster, HOST:PORT or auto; default one on this machine.", metavar="ADDRESS"
    ),
]
StallSeconds = Annotated[
    float | None,
    option("Runs", "Restart a run after this many seconds without progress; default never."),
]
RunsAtOnce = Annotated[
    int | None,
    option("Runs", "Number of parallel runs; default as many as cores and memory allow."),
]
RetryFailed = Annotated[bool, option("Runs", "Run failed runs again.", "--retry-failed")]
DryRun = Annotated[bool, option("Runs", "Print the plan and stop.", "--dry-run")]


def split(text: str | None) -> tuple[str, ...] | None:
    """Split a comma-separated list of names.

    >>> split("erm, idm")
    ('erm', 'idm')
    """
    return None if text is None else tuple(name.strip() for name in text.split(","))


def parse_assignments(option: str, items: Iterable[str] | None) -> dict[str, str]:
    """Parse items like `lr=0.001` into {name: value}.

    >>> parse_assignments("--hparam", ["lr=0.001", "order=1"])
    {'lr': '0.001', 'order': '1'}
    """
    values: dict[str, str] = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise InvalidValue(f"{option} takes name=value, not {item!r}")
        if name in values:
            raise InvalidValue(f"{option} gives {name} twice")
        values[name] = value
    return values
