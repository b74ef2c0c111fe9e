"""`features`: write the features that networks compute from images to a file to train on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

from shiftproof.api.load import Data, LoadOptions, checked_seed, load
from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import refuse_data_itself, write_atomically
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.tables.feature_file import feature_bytes
from shiftproof.models.weights_name import PRETRAINED
from shiftproof.training.features import freeze, several_backbones

SUFFIX = ".parquet"


def features(
    data: Data,
    out: str | os.PathLike[str],
    *,
    backbone: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "fp32",
    workers: int | None = None,
    progress: Progress = silent,
    **loading: Unpack[LoadOptions],
) -> DomainDataset:
    """Write the features that `freeze` trains on to a file, and return them as a dataset.

    The Parquet file has one row per image, with its label, its domain, and a vector for each
    backbone.  Training on it gives the same result as training on the images with `freeze`.

    Args:
        data: images as for `load`, whose keywords (`image`, `image_size`, …) are also accepted
            here.
        out: the file to write, ending in .parquet.
        backbone: resnet18, resnet50 or a timm name; separate several by commas.  By default the
            dataset's default backbone.
        weights: weights of the backbone: a file, `pretrained` or `random`; for several backbones,
            one for all or one for each.
        seed: seed of generated data.
        device: auto, cpu, cuda or mps.
        precision: fp32 or bf16.
        workers: threads that prefetch images; by default one per core, at most eight.
        progress: called with the name of the task, the amount done and the total.
    """
    path = Path(out).expanduser()
    if path.suffix.lower() != SUFFIX:
        raise InvalidValue(f"`out` must end in {SUFFIX}, not {path.name!r}")
    _check_out(path, data)
    dataset = load(data, seed=checked_seed(seed), progress=progress, **loading)
    if dataset.preparation is not None or len(dataset.input_shape) != 3:
        raise InvalidValue(f"`data` must be images, and {dataset.name} has none")
    given = PRETRAINED if weights is None else os.fspath(weights)
    made = {}
    for name, own in several_backbones(backbone or dataset.backbone, given):
        found = freeze(
            dataset,
            name,
            own,
            device=device,
            precision=precision,
            workers=workers,
            progress=progress,
        )
        made[found.frozen["backbone"]] = found
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, feature_bytes(made))
    return load(path)


def _check_out(path: Path, data: Data) -> None:
    """Raise if the file cannot be written, before the long computation of features."""
    if path.is_dir():
        raise InvalidValue(f"{path} is a folder; `out` must be a file")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise InvalidValue(f"{above} is not a folder; choose another `out`")
    if isinstance(data, str | os.PathLike):
        refuse_data_itself(path, data)
