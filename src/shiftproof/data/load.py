"""Load data by dataset name, or from a folder of images, a table, arrays or a manifest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.settings import setting, text
from shiftproof.core.space import hparam, resolve
from shiftproof.core.text import listed
from shiftproof.core.types import REGRESSION
from shiftproof.data.arrays import from_arrays
from shiftproof.data.base import DATASETS, DomainDataset, Progress, silent
from shiftproof.data.images.files import ImageView, image_dataset
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.manifest import SUFFIX, camera_traps, manifest_images
from shiftproof.data.not_data import require_data
from shiftproof.data.settings import DataSettings
from shiftproof.data.tables.array_files import array_samples, is_array_file
from shiftproof.data.tables.cell_types import cells_of
from shiftproof.data.tables.column_names import column_names
from shiftproof.data.tables.dataset import table_dataset
from shiftproof.data.tables.feature_file import DOMAIN, LABEL, feature_dataset, feature_header
from shiftproof.data.tables.groups import Groups
from shiftproof.data.tables.label_kind import one_label
from shiftproof.data.tables.read import read_table
from shiftproof.data.tables.vectors import vectors_in


@dataclass(frozen=True)
class TableOptions:
    """The options of a table."""

    missing_indicators: bool = hparam(
        False, help="for each column with missing values, add one that marks them"
    )


# The settings that name columns, or say how to read them.
COLUMNS = [
    name
    for name in DataSettings.__dataclass_fields__
    if name not in ("task", "options", "image_size")
]


@dataclass(frozen=True)
class DataRequest(DataSettings):
    """Which data to load and how to read it, so that another process can load the same data.

    `data` is a registered name, or the path of a folder or file; a registered name takes
    precedence.  Columns are those of a table or manifest, or arrays of a file
    (`data.tables.array_files`); with `image`, a table is read as a manifest.
    """

    data: str = setting("", text, "A dataset name, or the path of a folder or file.")

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Load the dataset; all randomness comes from `seed`."""
        is_file = self.data not in DATASETS and Path(self.data).expanduser().is_file()
        if self.task == REGRESSION and not is_file:
            raise InvalidValue(
                f"`task={REGRESSION!r}` is for tables, manifests and arrays; the labels of"
                f" {self.data} are classes: for images with numbers, give a table with a column of"
                " paths (`image`)"
            )
        if self.data in DATASETS:
            self.refuse_columns(f"{self.data} is a dataset name")
            source = DATASETS.get(self.data)
            kind = f"option of {self.data}"
            chosen = resolve(source, source.card.regime, self.all_options(), kind)
            return chosen.load(seed, progress)
        path = require_data(self.data)
        if not path.exists():
            raise UnknownName("dataset, file or folder", self.data, DATASETS)
        is_list = path.suffix.lower() == SUFFIX
        if path.is_dir() or (self.image is not None and not is_array_file(path)) or is_list:
            return self._images(path, progress)
        if is_array_file(path):
            return self._arrays(path)
        # A feature file is read as written, unless a column or option is set.
        as_written = {"data": self.data, "label": LABEL, "domain": DOMAIN, "drop": self.drop}
        plain = self.given().items() <= as_written.items()
        if plain and (header := feature_header(path)) is not None:
            return feature_dataset(path, header, self.drop)
        return self.table(read_table(path), path.name)

    def _images(self, path: Path, progress: Progress) -> DomainDataset:
        """Load a folder of images, a list of camera traps or a manifest."""
        name = path.stem
        groups: Groups | None = None
        if path.is_dir():
            self.refuse_columns(f"{self.data} is a folder of images")
            samples, notes = find_images(path)
            name, kind = path.absolute().name, "an image folder"
        elif path.suffix.lower() == SUFFIX:
            self.refuse_columns(f"{self.data} lists camera traps", allowed=("domain",))
            samples, notes = camera_traps(path, self.domain)
            kind = "camera traps"
        else:
            allowed = ("label", "domain", "image")
            self.refuse_columns(f"{self.data} is a manifest of images", "tables", allowed)
            samples, notes, groups = manifest_images(
                path, str(self.image), self.label, self.domain, self.task
            )
            kind = "an image manifest"
        view = resolve(ImageView, "large-image", self.all_options(), f"option of {kind}")
        dataset = image_dataset(
            name,
            samples,
            view,
            classes=groups.classes if groups else (),
            targets=groups.targets if groups else (),
            notes=notes,
            progress=progress,
        )
        return self._with_columns(dataset, "label", "domain", "image") if groups else dataset

    def _arrays(self, path: Path) -> DomainDataset:
        """Load NumPy arrays: vectors as a table, images as images."""
        if self.image is not None:
            raise InvalidValue(f"`image` is for tables of paths; {self.data} holds arrays")
        arrays = array_samples(path, self.label, self.domain)
        for role in ("label", "domain"):
            if getattr(arrays, role) is None:
                raise DataError(
                    f"{path.name} has no {role}s: set `{role}` to one of its arrays or to a .npy"
                    f" file, or put {role}s.npy in the same folder"
                )
        if arrays.images is None:
            request = replace(self, label=arrays.label, domain=arrays.domain)
            return request.table(arrays.table, path.name)
        self.refuse_columns(f"{path.name} holds images", allowed=("label", "domain"))
        for option in self.all_options():
            raise InvalidValue(f"`{option}` is for image files; {path.name} holds arrays")
        columns = arrays.table.column_names
        label = one_label(columns, path.name, arrays.label)
        sites = column_names(columns, path.name, "domain", arrays.domain)
        if len(sites) > 1:
            raise InvalidValue(
                f"`domain` must name one array, not {len(sites)}, because {path.name} holds images"
            )
        groups = (cells_of(arrays.table, name).array for name in (label, sites[0]))
        dataset = from_arrays(arrays.images, *groups, name=path.name, task=self.task)
        others = [name for name in columns if name not in (label, *sites)]
        if not others:
            return dataset
        whole = {name: vector for vector, parts in vectors_in(others).items() for name in parts}
        left = dict.fromkeys(whole.get(name, name) for name in others)
        note = f"left out, because {path.name} holds images: {listed(list(left))}"
        return replace(dataset, notes=(*dataset.notes, note))

    def table(self, frame: Any, name: str) -> DomainDataset:
        """Return a data frame as a dataset called `name`."""
        if "image_size" in self.all_options():
            raise InvalidValue("`image_size` is for images, not for tables")
        options = resolve(TableOptions, "table", self.options or {}, "option of a table")
        dataset = table_dataset(frame, name, self, options.missing_indicators)
        return self._with_columns(dataset, "label", "domain")

    def refuse_columns(
        self, because: str, what: str = "tables and manifests", allowed: Collection[str] = ()
    ) -> None:
        """Raise if a column is named that is not `allowed`; called for data without columns."""
        for name in COLUMNS:
            if name not in allowed and getattr(self, name):
                raise InvalidValue(f"`{name}` is for {what}; {because}")

    def _with_columns(self, dataset: DomainDataset, *roles: str) -> DomainDataset:
        """Return the dataset with its column names, which default to the roles."""
        columns = {role: " ".join((getattr(self, role) or role).split()) for role in roles}
        if self.by is not None:
            columns["by"] = str(self.by)
        return replace(dataset, columns=columns)
