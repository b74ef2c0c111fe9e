"""`features`: write the features that networks compute from images to a file to train on."""

from __future__ import annotations

import os
from pathlib import Path

from shiftproof.api.load import Data, load
from shiftproof.api.settings import FeaturesSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import refuse_data_itself, write_atomically
from shiftproof.core.settings import keywords
from shiftproof.data.base import DomainDataset, silent
from shiftproof.data.settings import DataSettings
from shiftproof.data.tables.feature_file import feature_bytes
from shiftproof.models.weights_name import PRETRAINED
from shiftproof.training.features import freeze, several_backbones

SUFFIX = ".parquet"


@keywords(FeaturesSettings)
def features(data: Data, out: str | os.PathLike[str], settings: FeaturesSettings) -> DomainDataset:
    """Write the features that `freeze` trains on to a file, and return them as a dataset.

    The Parquet file has one row per image, with its label, its domain, and a vector for each
    backbone.  Training on it gives the same result as training on the images with `freeze`.

    Args:
        data: images as for `load`, whose keywords (`image`, `image_size`, …) are also accepted
            here.
        out: the file to write, ending in .parquet.
    """
    path = Path(out).expanduser()
    if path.suffix.lower() != SUFFIX:
        raise InvalidValue(f"`out` must end in {SUFFIX}, not {path.name!r}")
    if path.is_dir():
        raise InvalidValue(f"{path} is a folder; `out` must be a file")
    # Before the long computation of features.
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise InvalidValue(f"{above} is not a folder; choose another `out`")
    if isinstance(data, str | os.PathLike):
        refuse_data_itself(path, data)
    progress = settings.progress or silent
    dataset = load(data, seed=settings.seed, progress=progress, **settings.given(DataSettings))
    if dataset.preparation is not None or len(dataset.input_shape) != 3:
        raise InvalidValue(f"`data` must be images, and {dataset.name} has none")
    weights = str(settings.weights or PRETRAINED)
    networks = {}
    for name, chosen in several_backbones(settings.backbone or dataset.backbone, weights):
        frozen = freeze(
            dataset,
            name,
            chosen,
            device=settings.device,
            precision=settings.precision,
            workers=settings.workers,
            progress=progress,
        )
        networks[frozen.frozen["backbone"]] = frozen
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, feature_bytes(networks))
    return load(path)
