"""From what a user calls the data to the data: a name, a folder of images, a table, a manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.space import hparam, resolve
from shiftproof.data.base import DATASETS, DomainDataset, Progress, silent
from shiftproof.data.images.files import ImageView
from shiftproof.data.images.folder import load_image_folder
from shiftproof.data.images.manifest import load_manifest
from shiftproof.data.tables.dataset import load_table


@dataclass(frozen=True)
class TableOptions:
    """The options of a table."""

    missing_indicators: bool = hparam(
        False, help="add a column for each one with missing values that says where they are"
    )


@dataclass(frozen=True)
class DataRequest:
    """Which data, and how to read them: what another process needs to load the same.

    ``data`` is a registered name, or the path of a folder or table; a name comes first.
    ``options`` are those of the dataset, the images or the table.  The others name columns of a
    table or manifest: ``image`` makes a manifest of a table.
    """

    data: str
    options: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    domain: str | None = None
    image: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the dataset; all chance in making it comes from ``seed``."""
        path = Path(self.data).expanduser()
        if self.data in DATASETS:
            self._refuse_columns(f"{self.data} is a dataset by name")
            source = DATASETS.get(self.data)
            kind = f"option of {self.data}"
            return resolve(source, source.card.regime, self.options, kind).load(seed, progress)
        if path.is_dir():
            self._refuse_columns(f"{self.data} is a folder of images")
            view = resolve(ImageView, "large-image", self.options, "option of an image folder")
            return load_image_folder(path, view, progress=progress)
        if not path.exists():
            if len(path.parts) > 1 or path.suffix:
                raise DataError(f"there is no file or folder {self.data}")
            raise UnknownName("dataset, file or folder", self.data, DATASETS)
        if self.image is not None:
            view = resolve(ImageView, "large-image", self.options, "option of an image manifest")
            return load_manifest(
                path,
                view,
                image=self.image,
                label=self.label,
                domain=self.domain,
                progress=progress,
            )
        table = resolve(TableOptions, "table", self.options, "option of a table")
        return load_table(
            path,
            self.label,
            self.domain,
            drop=self.drop,
            categorical=self.categorical,
            missing_indicators=table.missing_indicators,
        )

    def columns(self, dataset: DomainDataset) -> dict[str, str]:
        """Return which columns of the table held label, domain and image; of others, nothing.

        ``dataset`` is what was loaded.  A column is called after what it holds by default.
        """
        given = {"label": self.label, "domain": self.domain, "image": self.image}
        if self.image is None:
            del given["image"]
            if dataset.preparation is None:
                return {}
        return {what: " ".join((name or what).split()) for what, name in given.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DataRequest:
        """Rebuild what `to_json` returned, perhaps by way of JSON text."""
        lists = {key: tuple(value[key]) for key in ("drop", "categorical")}
        return cls(**{**value, **lists})

    def _refuse_columns(self, because: str) -> None:
        for name in ("label", "domain", "image", "drop", "categorical"):
            if getattr(self, name):
                raise InvalidValue(f"--{name} is for tables and manifests; {because}")
