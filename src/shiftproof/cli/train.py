"""``shiftproof train``: one run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from shiftproof.cli.options import parse_assignments
from shiftproof.core.errors import InvalidValue

if TYPE_CHECKING:
    from shiftproof.data import DomainDataset
    from shiftproof.training.config import RunConfig
    from shiftproof.training.loop import RunResult

# What --test-domain says to hold out every domain in turn.
EACH = "each"
EXAMPLE = (
    "Example: [bold]shiftproof train colored-mnist-irm --algorithm idm --test-domain 10%"
    " --hparam batch_size=512 --hparam gradient_warmup=300 --steps 1000 --out runs/first[/]"
)


def train(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of images (DIR/domain/class/*.jpg), a table (CSV or Parquet), or a"
            " dataset by name (see [bold]shiftproof data list[/])."
        ),
    ],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="See [bold]shiftproof algorithms[/].")
    ] = "idm",
    test_domain: Annotated[
        list[str] | None,
        typer.Option(
            help="Domain kept out of training; repeat for several, leave out to train on all, or"
            " [bold]each[/] for one run per domain."
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: what to predict.")
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: which domain a row is from.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Of a manifest: the paths of image files."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Of a table: not to be used; repeatable."),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Of a table: numbers that are codes of categories; repeatable."
        ),
    ] = None,
    hparam: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE of the algorithm or the backbone; repeatable."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Number of updates.")] = 5001,
    seed: Annotated[int, typer.Option(help="Starting weights, batches and noise.")] = 0,
    data_seed: Annotated[
        int | None, typer.Option(help="Data and splits; --seed by default.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; by default one under runs/, named after it."),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="The network: mlp, mnist-cnn, resnet18, resnet50 or any of timm's;"
            " the dataset's own by default."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Starting weights of resnet18, resnet50 or timm's: a file (safetensors or torch),"
            " pretrained (downloaded; the default) or random.",
        ),
    ] = None,
    freeze: Annotated[
        bool,
        typer.Option(
            "--freeze", help="Run the backbone over the images once, and train on its features."
        ),
    ] = False,
    image_size: Annotated[
        int | None, typer.Option(help="Height and width of the images; 224 by default.")
    ] = None,
    data_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the dataset; repeatable.")
    ] = None,
    holdout: Annotated[float, typer.Option(help="Share of each domain not trained on.")] = 0.2,
    eval_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations; 0 for the last step alone.")
    ] = None,
    evaluate: Annotated[
        str,
        typer.Option(
            help="Some of train-in, train-out, test-in, test-out, extra, separated by commas:"
            " the parts of the domains trained on (in) and held out (out). With invariance, test"
            " whether the outputs on train-out mean the same in every training domain."
        ),
    ] = "train-out,test-in,test-out,extra",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    average: Annotated[
        str,
        typer.Option(
            help="Weights to score: the last (none), averaged by ema or swad, or the best on the"
            " held-out parts of the training domains."
        ),
    ] = "none",
    augment_validation: Annotated[
        bool,
        typer.Option(
            "--augment-validation",
            help="Evaluate training domains on random views, as DomainBed does.",
        ),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Threads that read images ahead; by default one a core.")
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Shortest time between checkpoints.")
    ] = 5.0,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Write the run for TensorBoard, into its folder."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome for programs.")] = False,
) -> None:
    """Train a model; the same command again goes on where it stopped."""
    from shiftproof.cli.progress import LoadingBar, ProgressBar
    from shiftproof.data.load import DataRequest
    from shiftproof.inference.model import MODEL, trained_model
    from shiftproof.report.terminal import dataset_summary
    from shiftproof.training.config import configure
    from shiftproof.training.features import freeze as freeze_backbone
    from shiftproof.training.loop import train as run
    from shiftproof.training.observers import CompositeObserver, Observer
    from shiftproof.training.tensorboard import TensorBoard

    if out == Path():
        raise InvalidValue("--out must name a folder")
    if not checkpoint_seconds >= 0:
        raise InvalidValue(f"--checkpoint-seconds must be at least 0, not {checkpoint_seconds}")
    hparams = parse_assignments("--hparam", hparam or [])
    if weights is not None:
        if "weights" in hparams:
            raise InvalidValue("--weights and --hparam give weights twice")
        hparams["weights"] = weights
    options = parse_assignments("--data-option", data_option or [])
    if image_size is not None:
        if "image_size" in options:
            raise InvalidValue("--image-size and --data-option give image_size twice")
        options["image_size"] = str(image_size)

    request = DataRequest(
        data,
        options,
        label=label,
        domain=domain,
        image=image,
        drop=tuple(drop or ()),
        categorical=tuple(categorical or ()),
    )
    if seed < 0 or (data_seed or 0) < 0:
        raise InvalidValue("--seed and --data-seed must be at least 0")
    each = EACH in (test_domain or [])
    if each and test_domain != [EACH]:
        raise InvalidValue(f"--test-domain {EACH} stands alone: it holds out every domain in turn")
    try:
        with LoadingBar(quiet=quiet or as_json) as progress:
            dataset = request.load(seed if data_seed is None else data_seed, progress)
            if freeze:
                dataset = freeze_backbone(
                    dataset,
                    backbone or dataset.backbone,
                    hparams.pop("weights", "pretrained"),
                    device=device,
                    precision=precision,
                    workers=workers,
                    progress=progress,
                )
                backbone = None
    except KeyboardInterrupt:
        typer.echo("stopped while reading data; the same command goes on from there", err=True)
        raise typer.Exit(130) from None

    def configuration(held_out: Sequence[str]) -> RunConfig:
        return configure(
            dataset,
            algorithm,
            test_domains=held_out,
            backbone=backbone,
            hparams=hparams,
            steps=steps,
            eval_every=eval_every,
            evaluate=[name.strip() for name in evaluate.split(",")],
            holdout=holdout,
            seed=seed,
            data_seed=data_seed,
            device=device,
            precision=precision,
            average=average,
            augment_validation=augment_validation,
        )

    columns = request.columns(dataset)
    held_out = [[name] for name in dataset.domain_names] if each else [test_domain or []]
    runs = []
    said: set[str] = set()
    heading = f"{dataset.name}: {dataset_summary(dataset)}"
    for config in [configuration(domains) for domains in held_out]:
        folder = _folder(config, out, within=each)
        title = f"{algorithm} without {config.test_domains[0]}" if each else algorithm
        with ProgressBar(title, heading, quiet=quiet, said=said) as bar:
            watching: list[Observer] = [bar]
            if tensorboard:
                watching.append(TensorBoard(folder))
            result = run(
                config, dataset, folder, CompositeObserver(watching), checkpoint_seconds, workers
            )
        if result.status == "finished" and not (folder / MODEL).exists():
            with LoadingBar(quiet=quiet or as_json) as progress:
                trained_model(config, dataset, folder, columns, progress).save(folder)
        runs.append(FinishedRun(config, result))
        if result.status == "stopped":
            break
    _show(runs, dataset, each=each, as_json=as_json)


class FinishedRun(NamedTuple):
    """A run and how it ended."""

    config: RunConfig
    result: RunResult


def _folder(config: RunConfig, out: Path | None, *, within: bool) -> Path:
    """Return the folder of a run: ``out``, or one in it named after the domain held out."""
    plain = re.sub(r"[^\w.%-]+", "_", "+".join(config.test_domains))
    if out is None:
        without = f"-without-{plain}" if plain else ""
        name = f"{config.dataset}-{config.algorithm}{without}-{config.run_id[:8]}"
        return Path("runs") / name
    if not within:
        return out
    # Two names that become one when made fit for a folder are told apart by what they were.
    return out / (plain if plain == config.test_domains[0] else f"{plain}-{config.run_id[:8]}")


def _show(runs: list[FinishedRun], dataset: DomainDataset, *, each: bool, as_json: bool) -> None:
    """Print the outcome, and leave with a code that says whether all is well."""
    from rich.console import Console

    from shiftproof.report.terminal import accuracy_table, leave_one_out_table

    if as_json:
        outcomes = [_outcome(run) for run in runs]
        print(json.dumps({"runs": outcomes} if each else outcomes[0], ensure_ascii=False))
    config, result = runs[-1]
    if all(run.result.status == "finished" for run in runs) and not as_json:
        if each:
            Console().print(
                leave_one_out_table([(r.config, r.result.final) for r in runs], dataset)
            )
            print(f"{len(runs)} runs; they are in {result.folder.parent}")
        else:
            Console().print(accuracy_table(config, result.final))
            if "scored" in result.final:
                print(f"scored: {_weights(**result.final['scored'])}")
            print(f"{result.step} steps in {result.seconds:.1f} s; the run is in {result.folder}")
    if result.status == "stopped":
        typer.echo(
            f"stopped after step {result.step}; the same command goes on from there", err=True
        )
        raise typer.Exit(130)
    diverged = [run for run in runs if run.result.status == "diverged"]
    for run in diverged:
        where = f" without {run.config.test_domains[0]}" if each else ""
        typer.echo(
            f"diverged{where}: the loss of step {run.result.step} is not finite; try a smaller lr",
            err=True,
        )
    if diverged:
        raise typer.Exit(1)


def _outcome(run: FinishedRun) -> dict[str, Any]:
    """Return a run's outcome as JSON values."""
    return {
        "test_domains": list(run.config.test_domains),
        "status": run.result.status,
        "step": run.result.step,
        "seconds": round(run.result.seconds, 3),
        "folder": str(run.result.folder),
        "final": run.result.records[-1] if run.result.records else None,
    }


def _weights(weights: str, steps: Sequence[int] = (), valley: str | None = None) -> str:
    """Say in words which weights a record scored."""
    if not steps:
        return f"the last weights, as they are (valley {valley})"
    if weights == "best":
        return f"the weights of step {steps[0]}, best on the training domains' held-out parts"
    state = f" (valley {valley})" if valley else ""
    return f"the {weights} average of steps {steps[0]} to {steps[1]}{state}"
