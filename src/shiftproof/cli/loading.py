"""From what a user calls the data to the data: a name, a folder of images, a table, a manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shiftproof.errors import DataError, InvalidValue, UnknownName
from shiftproof.space import hparam

if TYPE_CHECKING:
    from shiftproof.data import DomainDataset
    from shiftproof.data.base import Progress


@dataclass(frozen=True)
class TableOptions:
    """What --data-option may set of a table."""

    missing_indicators: bool = hparam(
        False, help="add a column for each one with missing values that says where they are"
    )


def load_data(
    data: str,
    options: Mapping[str, str],
    *,
    label: str | None,
    domain: str | None,
    image: str | None,
    drop: Sequence[str],
    categorical: Sequence[str],
    seed: int,
    progress: Progress,
) -> DomainDataset:
    """Return the dataset that ``data`` names; a registered name comes before a file or folder."""
    from shiftproof.data import DATASETS
    from shiftproof.data.folder import load_image_folder
    from shiftproof.data.images import ImageView
    from shiftproof.data.manifest import load_manifest
    from shiftproof.data.table import load_table
    from shiftproof.space import resolve

    path = Path(data).expanduser()
    columns = {
        "--label": label,
        "--domain": domain,
        "--image": image,
        "--drop": drop,
        "--categorical": categorical,
    }
    given = [option for option, value in columns.items() if value]
    if data in DATASETS:
        _refuse(given, f"{data} is a dataset by name")
        source = DATASETS.get(data)
        chosen = resolve(source, source.card.regime, options, kind=f"option of {data}")
        return chosen.load(seed, progress)
    if path.is_dir():
        _refuse(given, f"{data} is a folder of images")
        view = resolve(ImageView, "large-image", options, kind="option of an image folder")
        return load_image_folder(path, view, progress=progress)
    if not path.exists():
        if len(path.parts) > 1 or path.suffix:
            raise DataError(f"there is no file or folder {data}")
        raise UnknownName("dataset, file or folder", data, DATASETS)
    if image is not None:
        view = resolve(ImageView, "large-image", options, kind="option of an image manifest")
        return load_manifest(path, view, image=image, label=label, domain=domain, progress=progress)
    table = resolve(TableOptions, "table", options, kind="option of a table")
    return load_table(
        path,
        label,
        domain,
        drop=drop,
        categorical=categorical,
        missing_indicators=table.missing_indicators,
    )


def _refuse(given: list[str], because: str) -> None:
    if given:
        raise InvalidValue(f"{given[0]} is for tables and manifests; {because}")
