"""``shiftproof diagnose``: what shifts between the domains, and what to do about it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from shiftproof.cli.options import parse_assignments
from shiftproof.core.errors import DataError, InvalidValue

if TYPE_CHECKING:
    from shiftproof.data import DomainDataset
    from shiftproof.data.base import Progress
    from shiftproof.data.load import DataRequest
    from shiftproof.training.config import RunConfig

EXAMPLE = (
    "Example: [bold]shiftproof diagnose patients.csv --label ill --domain hospital"
    " --picture shift.png[/]"
)
# Photographs are measured, if as pixels at all, at so many a side.
RAW_SIDE = 16


def diagnose(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of images (DIR/domain/class/*.jpg), a table (CSV or Parquet), or a"
            " dataset by name (see [bold]shiftproof data list[/])."
        ),
    ],
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
    domains: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="The domains to compare; all by default."),
    ] = None,
    test_domain: Annotated[
        list[str] | None,
        typer.Option(help="Domain to leave out, as in training; repeatable."),
    ] = None,
    freeze: Annotated[
        bool,
        typer.Option(
            "--freeze",
            help="Of images: measure the features of a backbone (as --backbone or --weights do).",
        ),
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(help="Whose features: resnet18, resnet50 or any of timm's."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Of that backbone: a file (safetensors or torch), pretrained (downloaded; the"
            " default) or random.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help=f"Of photographs: measure {RAW_SIDE}×{RAW_SIDE} pixels."),
    ] = False,
    image_size: Annotated[
        int | None, typer.Option(help="Height and width of the images; 224 by default.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Of a run trained on these data: measure its representation and risks too.",
        ),
    ] = None,
    most: Annotated[int, typer.Option(help="Samples to measure at most.")] = 10_000,
    picture: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw domains, features and classes.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="JSON",
            help="Keep everything in this file: as diagnosis.json in the folder of runs, it becomes"
            " part of their page (see [bold]shiftproof report[/]).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Which samples, folds and permutations.")] = 0,
    data_seed: Annotated[
        int | None, typer.Option(help="Of data made by chance; --seed by default.")
    ] = None,
    data_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the dataset; repeatable.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="Of the features: fp32 or bf16.")] = "fp32",
    workers: Annotated[
        int | None, typer.Option(help="Threads that read images ahead; by default one a core.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, for programs.")] = False,
) -> None:
    """Measure which shifts the data have, where they are, and say what helps."""
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.core.files import write_atomically
    from shiftproof.data.load import DataRequest
    from shiftproof.report.diagnosis import (
        About,
        diagnosis_json,
        diagnosis_picture,
        diagnosis_text,
    )
    from shiftproof.report.terminal import dataset_summary
    from shiftproof.shift.advise import advise
    from shiftproof.shift.diagnose import check_most
    from shiftproof.shift.diagnose import diagnose as measure
    from shiftproof.shift.samples import choose_domains, collect, every_sample, some_of
    from shiftproof.shift.trained_run import unseen_samples, view_of_run
    from shiftproof.training.load_run import read_run

    if seed < 0 or (data_seed or 0) < 0:
        raise InvalidValue("--seed and --data-seed must be at least 0")
    _check_picture(picture)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
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
    network = _Network(freeze or bool(backbone or weights), backbone, weights, precision, device)
    trained = None if run is None else read_run(run)
    wanted = [name.strip() for name in domains.split(",")] if domains else []
    view = None
    try:
        with LoadingBar(quiet=quiet or as_json) as progress:
            made_by = seed if data_seed is None else data_seed
            dataset = request.load(made_by if trained is None else trained.data_seed, progress)
            chosen = choose_domains(dataset, wanted, test_domain or ())
            if trained is None:
                dataset = _only(dataset, chosen)
            dataset = network.applied(dataset, trained, raw=raw, workers=workers, progress=progress)
            if trained is None:
                there = every_sample(dataset, chosen)
            else:
                there = unseen_samples(dataset, chosen, trained)
            check_most(most, len(there))
            positions = some_of(there, most, seed)
            reading: dict[str, Any] = {"workers": workers, "progress": progress}
            side = RAW_SIDE if raw else None
            samples = collect(dataset, positions, side=side, **reading)
            if run is not None and trained is not None:
                view = view_of_run(run, trained, dataset, positions, device=device, **reading)
            found = measure(
                samples.x,
                samples.y,
                samples.d,
                domains=samples.domains,
                classes=samples.classes,
                features=samples.features,
                seed=seed,
                most=most,
                model=view,
                progress=progress,
            )
    except KeyboardInterrupt:
        typer.echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None
    found = replace(found, left_out=sum(map(len, there.values())) - sum(found.sizes))
    advice = advise(found)
    named = [*_arguments(request), *network.arguments(dataset.frozen)]
    command = advice.choice.command(named, test_domain or ["each"])
    beside = advice.beside.command(named, test_domain or ["each"]) if advice.beside else ""
    notes = list(samples.notes)
    if raw:
        notes.append(f"measured are {samples.inputs}, not the images as they are trained on")
    if trained is not None:
        notes.append("only samples that the run was not trained on are measured")
    if picture is not None:
        write_atomically(picture, diagnosis_picture(found, dataset.name))
    title = f"{dataset.name}: {dataset_summary(_only(dataset, chosen))}"
    about = About(title, notes, command, beside)
    outcome = diagnosis_json(found, advice, about, data, samples.inputs)
    if out is not None:
        text = json.dumps(outcome, ensure_ascii=False, allow_nan=False, indent=1)
        write_atomically(out, text.encode() + b"\n")
    if as_json:
        outcome["picture"] = None if picture is None else str(picture)
        print(json.dumps(outcome, ensure_ascii=False, allow_nan=False))
        return
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    print(diagnosis_text(found, advice, about, width), end="")
    if picture is not None:
        print(f"Picture: {picture}")
    if out is not None:
        print(f"Kept in {out}")


def _only(dataset: DomainDataset, domains: Sequence[str]) -> DomainDataset:
    """Return the dataset with some of its domains, and no extras."""
    kept = tuple(domain for domain in dataset.domains if domain.name in domains)
    return replace(dataset, domains=kept, extras=())


class _Network(NamedTuple):
    """Whose features stand for images, if any."""

    asked: bool
    backbone: str | None
    weights: str | None
    precision: str
    device: str

    def applied(
        self,
        dataset: DomainDataset,
        trained: RunConfig | None,
        *,
        raw: bool,
        workers: int | None,
        progress: Progress,
    ) -> DomainDataset:
        """Return the data as they are measured: as features, or as they are if that is allowed.

        Nothing is downloaded unless the user has asked for a network.
        """
        from shiftproof.training.features import freeze

        images = len(dataset.input_shape) == 3 and dataset.preparation is None
        if (self.asked or raw) and not images:
            raise InvalidValue(
                f"--raw, --freeze, --backbone and --weights are for images, and {dataset.name} has"
                " none"
            )
        if self.asked and raw:
            raise InvalidValue(
                "--raw measures pixels, and --freeze, --backbone or --weights the features of a"
                " network; give one of the two"
            )
        backbone, weights, precision = self.backbone, self.weights, self.precision
        if trained is not None and trained.frozen:
            backbone, precision = trained.frozen["backbone"], trained.frozen["precision"]
            weights = weights or trained.frozen["weights"]
        elif trained is not None and self.asked:
            raise InvalidValue(
                f"the run was trained on the images themselves by {trained.backbone}; give --raw in"
                " place of --freeze, --backbone or --weights"
            )
        elif not self.asked:
            if dataset.regime in ("large-image", "huge-image") and not raw:
                raise InvalidValue(
                    f"{dataset.name} holds photographs: give --weights FILE and --backbone NAME to"
                    f" measure the features of a network, --freeze to download {dataset.backbone},"
                    " or --raw to measure coarse pixels"
                )
            return dataset
        return freeze(
            dataset,
            backbone or dataset.backbone,
            weights or "pretrained",
            device=self.device,
            precision=precision,
            workers=workers,
            progress=progress,
        )

    def arguments(self, frozen: Mapping[str, str]) -> list[str]:
        """Return what gives ``shiftproof train`` the same features, if any were measured."""
        if not frozen:
            return []
        given = ["--freeze", "--backbone", self.backbone or frozen["backbone"]]
        if self.weights:
            given += ["--weights", self.weights]
        elif frozen["weights"] == "random":
            given += ["--weights", "random"]
        return given + (["--precision", "bf16"] if frozen["precision"] == "bf16" else [])


def _arguments(request: DataRequest) -> list[str]:
    """Return what names the data, for ``shiftproof train``."""
    given = [request.data]
    for option, value in (
        ("--label", request.label),
        ("--domain", request.domain),
        ("--image", request.image),
    ):
        given += [option, value] if value is not None else []
    for option, values in (("--drop", request.drop), ("--categorical", request.categorical)):
        given += [part for value in values for part in (option, value)]
    for name, value in request.options.items():
        given += ["--data-option", f"{name}={value}"]
    return given


def _check_picture(path: Path | None) -> None:
    """Refuse, before anything is measured, what could not be written after."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise InvalidValue(f"--picture writes a PNG, and {path} is not called so; end it in .png")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent} to put the picture in")
