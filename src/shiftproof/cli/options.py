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
        "Label column (tables); several numbers to predict together joined by commas: a,b.",
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
        "How the domain column becomes domains: year, quarter or month of dates, a number of bins"
        " for numbers, or value.",
        metavar="HOW",
    ),
]
PoolBelow = Annotated[
    int, option("Data", "Put domains of fewer rows than this together as one.", metavar="ROWS")
]
Task = Annotated[
    str,
    option(
        "Data",
        "Whether labels are classes or numbers to predict: [bold]classification[/],"
        " [bold]regression[/], or [bold]auto[/], by the label column (tables).",
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
        "Column of weights (tables): how much each row counts in training; not a feature. Scores"
        " count rows alike.",
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
    int | None, option("Data", "Threads that read images ahead; default one a core.")
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
Budget = Annotated[
    str | None,
    option(
        "Training",
        "Time for best to try candidates in, over all domains held out: 30s, 5m or 1h; default"
        " 5m, or 60s a domain if that is more.",
        metavar="TIME",
    ),
]
StudyBudget = Annotated[
    str | None,
    option(
        "Training",
        "Time for best to try candidates in, over all runs: 30s, 5m or 1h; default 15s a run, and"
        " at least 1m.",
        metavar="TIME",
    ),
]
Loss = Annotated[
    str | None,
    option(
        "Training",
        "Loss of numbers: squared (default), absolute, huber, huber:DELTA or quantile:Q; linear,"
        " trees and best take the first two.",
        metavar="NAME",
    ),
]
ClassWeight = Annotated[
    str,
    option(
        "Training",
        "Weigh classes in training: [bold]balanced[/] (all count alike) or [bold]none[/]. Scores"
        " count samples alike.",
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
        "Center and scale the numbers of each domain by its own rows, and those of a new site by"
        " its own when the model predicts: [bold]domain[/]; [bold]whiten[/] (features) removes"
        " correlations too; [bold]auto[/] (best) lets held-out domains judge; or [bold]none[/]."
        " Results then are of adaptation.",
    ),
]
AugmentValidation = Annotated[
    bool,
    option(
        "Training",
        "Evaluate training domains on random views, as DomainBed does.",
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
        "Compute the features of all images with the backbone once, and train on them.",
        "--freeze",
    ),
]
Pool = Annotated[
    str,
    option(
        "Model",
        "Of several backbones (--backbone a,b with --freeze) or vectors: [bold]all[/] side by side,"
        " or the [bold]best[/] by held-out training domains.",
    ),
]
Device = Annotated[str, option("Model", "auto, cpu, cuda or mps.")]
Precision = Annotated[str, option("Model", "fp32 or bf16.")]

# --- expectation ------------------------------------------------------------------------------
ExpectedRuns = Annotated[
    Path | None,
    option(
        "Expectation",
        "Folder that the runs of [bold]train --test-domain each[/] are in.",
        metavar="FOLDER",
    ),
]
Metric = Annotated[
    str | None,
    option(
        "Expectation",
        "Score to show: accuracy (default), balanced_accuracy, auroc, average_precision, f1,"
        " log_loss, brier, calibration_slope, calibration_intercept or calibration_error; of"
        " numbers mae, rmse or r2."
        " Models of [bold]best[/] that are trained here are optimised for it.",
    ),
]
AtLeast = Annotated[
    float | None,
    option("Expectation", "Threshold: print the probability that the next domain is worse."),
]

# --- output -----------------------------------------------------------------------------------
Quiet = Annotated[bool, option("Output", "Show no progress.", "--quiet", "-q")]
AsJson = Annotated[bool, option("Output", "Print the result as JSON.", "--json")]

# --- sweeps and the studies of the paper -------------------------------------------------------
TestDomains = Annotated[
    list[str] | None,
    typer.Option(
        help="Domain to hold out; default each in turn; repeatable. All datasets need it."
    ),
]
FrozenWeights = Annotated[
    str,
    typer.Option(metavar="PATH", help="Weights of that backbone: a file, pretrained or random."),
]
Executor = Annotated[
    str, option("Runs", "Where runs are made: local (processes) or ray (a cluster).")
]
RayAddress = Annotated[
    str | None,
    option(
        "Runs", "Ray cluster, HOST:PORT or auto; default one on this machine.", metavar="ADDRESS"
    ),
]
StallSeconds = Annotated[
    float | None,
    option("Runs", "Restart a run that reports no step for so many seconds; default never."),
]
RunsAtOnce = Annotated[
    int | None, option("Runs", "Runs at once; default as cores and memory allow.")
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
