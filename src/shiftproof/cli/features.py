"""`shiftproof features`: write the features of images to a file to train on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import shiftproof
from shiftproof.api.settings import FeaturesSettings
from shiftproof.cli._options import DATA, Quiet, command
from shiftproof.cli.preflight import check_data
from shiftproof.core.settings import path, setting

EXAMPLE = (
    "[bold]shiftproof features photos --backbone resnet50,vit_base_patch16_224"
    " --out features.parquet[/]"
)


@dataclass(frozen=True, kw_only=True)
class FeaturesOptions(FeaturesSettings, Quiet):
    """The options of `shiftproof features`."""

    out: Path = setting(None, path, "File to write, .parquet.", metavar="PARQUET", required=True)


@command(FeaturesOptions, DATA, example=EXAMPLE)
def features(data: str, settings: FeaturesOptions) -> None:
    """Compute the features of images with a backbone, and write them with labels and domains.

    The file has one row per image and one vector per backbone. Training on it gives the same result
    as training on the images with --freeze.
    """
    check_data(data, settings)

    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.terminal import dataset_summary

    with LoadingBar(quiet=settings.quiet) as progress:
        given = settings.given(FeaturesSettings)
        written = shiftproof.features(data, settings.out, progress=progress, **given)
    print(f"{settings.out}: {dataset_summary(written)}")
