"""``shiftproof train``: one run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli.options import parse_assignments
from shiftproof.errors import InvalidValue

EXAMPLE = (
    "Example: [bold]shiftproof train colored-mnist-irm --algorithm idm --test-domain 10%"
    " --hparam batch_size=512 --hparam gradient_warmup=300 --steps 1000 --out runs/first[/]"
)


def train(
    data: Annotated[str, typer.Argument(help="A dataset; see [bold]shiftproof datasets[/].")],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="See [bold]shiftproof algorithms[/].")
    ] = "idm",
    test_domain: Annotated[
        list[str] | None,
        typer.Option(help="Domain kept out of training; repeat for several, or leave out."),
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
            " the parts of the domains trained on (in) and held out (out)."
        ),
    ] = "train-out,test-in,test-out,extra",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    average: Annotated[
        str, typer.Option(help="Weights to score: the last (none), or averaged by ema or swad.")
    ] = "none",
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Shortest time between checkpoints.")
    ] = 5.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome for programs.")] = False,
) -> None:
    """Train one model; the same command again goes on where it stopped."""
    from rich.console import Console

    from shiftproof.cli.progress import ProgressBar
    from shiftproof.data import DATASETS
    from shiftproof.report.tables import accuracy_table
    from shiftproof.space import resolve
    from shiftproof.training.config import configure
    from shiftproof.training.loop import train as run

    if out == Path():
        raise InvalidValue("--out must name a folder")
    hparams = parse_assignments("--hparam", hparam or [])
    if weights is not None:
        if "weights" in hparams:
            raise InvalidValue("--weights and --hparam give weights twice")
        hparams["weights"] = weights

    source = DATASETS.get(data)
    options = parse_assignments("--data-option", data_option or [])
    chosen = resolve(source, source.card.regime, options, kind=f"option of {data}")
    dataset = chosen.load(seed if data_seed is None else data_seed)
    config = configure(
        dataset,
        algorithm,
        test_domains=test_domain or [],
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
    )
    folder = out or Path("runs") / f"{dataset.name}-{algorithm}-{config.run_id[:8]}"
    with ProgressBar(algorithm, quiet=quiet) as progress:
        result = run(config, dataset, folder, progress, checkpoint_seconds)

    if as_json:
        outcome = {
            "status": result.status,
            "step": result.step,
            "seconds": round(result.seconds, 3),
            "folder": str(folder),
            "final": result.records[-1] if result.records else None,
        }
        print(json.dumps(outcome, ensure_ascii=False))
    elif result.status == "finished":
        Console().print(accuracy_table(config, result.final))
        if "scored" in result.final:
            print(f"scored: {_weights(**result.final['scored'])}")
        print(f"{result.step} steps in {result.seconds:.1f} s; the run is in {folder}")
    if result.status == "stopped":
        typer.echo(
            f"stopped after step {result.step}; the same command goes on from there", err=True
        )
        raise typer.Exit(130)
    if result.status == "diverged":
        typer.echo(
            f"diverged: the loss of step {result.step} is not finite; try a smaller lr", err=True
        )
        raise typer.Exit(1)


def _weights(weights: str, steps: Sequence[int] = (), valley: str | None = None) -> str:
    """Say in words which weights a record scored."""
    if not steps:
        return f"the last weights, as they are (valley {valley})"
    state = f" (valley {valley})" if valley else ""
    return f"the {weights} average of steps {steps[0]} to {steps[1]}{state}"
