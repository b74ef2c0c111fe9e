"""`shiftproof features`: write the features of images to a file to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from shiftproof.cli import options
from shiftproof.cli.options import option, parse_assignments
from shiftproof.cli.preflight import check_data

EXAMPLE = (
    "Example: [bold]shiftproof features photos --backbone resnet50,vit_base_patch16_224"
    " --out features.parquet[/]"
)


def features(
    data: options.Data,
    out: Annotated[Path, option("Output", "File to write, .parquet.", metavar="PARQUET")],
    image: options.ImageColumn = None,
    label: options.LabelColumn = None,
    domain: options.DomainColumn = None,
    image_size: options.ImageSize = None,
    data_option: options.DataOption = None,
    seed: Annotated[int, option("Data", "Seed of generated data.")] = 0,
    workers: options.Workers = None,
    backbone: options.Backbone = None,
    weights: options.Weights = None,
    device: options.Device = "auto",
    precision: options.Precision = "fp32",
    quiet: options.Quiet = False,
) -> None:
    """Compute the features of images with a backbone, and write them with labels and domains.

    The file has one row per image and one vector per backbone. Training on it gives the same result
    as training on the images with --freeze.
    """
    check_data(data, label, domain, image)

    from shiftproof import api
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.terminal import dataset_summary

    with LoadingBar(quiet=quiet) as progress:
        found = api.features(
            data,
            out,
            backbone=backbone,
            weights=weights,
            seed=seed,
            device=device,
            precision=precision,
            workers=workers,
            progress=progress,
            image=image,
            label=label,
            domain=domain,
            options=parse_assignments("--data-option", data_option),
            image_size=image_size,
        )
    print(f"{out}: {dataset_summary(found)}")
