"""Load data by dataset name, or from a folder of images, a table, arrays or a manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.space import hparam, resolve
from shiftproof.core.text import listed
from shiftproof.core.types import REGRESSION
from shiftproof.data.arrays import from_arrays
from shiftproof.data.base import DATASETS, DomainDataset, Progress, silent
from shiftproof.data.images.files import ImageView, image_dataset
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.manifest import SUFFIX, camera_traps, manifest_images
from shiftproof.data.not_data import require_data
from shiftproof.data.tables.array_files import array_samples, is_array_file
from shiftproof.data.tables.cell_types import cells_of
from shiftproof.data.tables.column_names import column_names
from shiftproof.data.tables.dataset import table_dataset
from shiftproof.data.tables.feature_file import DOMAIN, LABEL, feature_dataset, feature_header
from shiftproof.data.tables.label_kind import AUTO, checked_task, one_label
from shiftproof.data.tables.read import read_table
from shiftproof.data.tables.vectors import vectors_in


@dataclass(frozen=True)
class TableOptions:
    """The options of a table."""

    missing_indicators: bool = hparam(
        False, help="for each column with missing values, add one that marks them"
    )


@dataclass(frozen=True)
class DataRequest:
    """Which data to load and how to read it, so that another process can load the same data.

    `data` is a registered name, or the path of a folder or file; a registered name takes
    precedence.  `options` are the options of the dataset, the images or the table.  `task` says
    whether the labels are classes or numbers; `auto` infers it from the label column.  The other
    fields name columns of a table or manifest, or arrays of a file (`data.tables.array_files`);
    with `image`, a table is read as a manifest.  `by` and `pool_below` say how the domain column
    becomes domains (`data.tables.domain_column`); `weights_column` holds the training weights of
    the rows of a table.
    """

    data: str
    options: Mapping[str, object] = field(default_factory=dict)
    label: str | None = None
    domain: str | None = None
    image: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    by: str | None = None
    pool_below: int = 0
    task: str = AUTO
    weights_column: str | None = None

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Load the dataset; all randomness comes from `seed`."""
        is_file = self.data not in DATASETS and Path(self.data).expanduser().is_file()
        self.check_task(tables=is_file)
        if self.data in DATASETS:
            self.refuse_columns(f"{self.data} is a dataset name")
            source = DATASETS.get(self.data)
            kind = f"option of {self.data}"
            return resolve(source, source.card.regime, self.options, kind).load(seed, progress)
        path = require_data(self.data)
        if not path.exists():
            raise UnknownName("dataset, file or folder", self.data, DATASETS)
        is_list = path.suffix.lower() == SUFFIX
        if path.is_dir() or (self.image is not None and not is_array_file(path)) or is_list:
            return self._images(path, progress)
        if is_array_file(path):
            return self._arrays(path)
        header = feature_header(path) if self._names_no_columns else None
        if header is not None:
            return feature_dataset(path, header, self.drop)
        return self.table(read_table(path), path.name)

    def _images(self, path: Path, progress: Progress) -> DomainDataset:
        """Load a folder of images, a list of camera traps or a manifest."""
        name = path.stem
        classes: tuple[str, ...] | None = None
        targets: tuple[str, ...] = ()
        columns: tuple[str, ...] = ()
        if path.is_dir():
            self.refuse_columns(f"{self.data} is a folder of images")
            samples, notes = find_images(path)
            name, kind = path.absolute().name, "an image folder"
        elif path.suffix.lower() == SUFFIX:
            replace(self, domain=None).refuse_columns(f"{self.data} lists camera traps")
            samples, notes = camera_traps(path, self.domain)
            kind = "camera traps"
        else:
            others = replace(self, label=None, domain=None, image=None)
            others.refuse_columns(f"{self.data} is a manifest of images", "tables")
            samples, notes, groups = manifest_images(
                path, str(self.image), self.label, self.domain, self.task
            )
            kind, columns = "an image manifest", ("label", "domain", "image")
            classes, targets = groups.classes, groups.targets
        view = resolve(ImageView, "large-image", self.options, f"option of {kind}")
        dataset = image_dataset(
            name, samples, view, classes=classes, targets=targets, notes=notes, progress=progress
        )
        return self._with_columns(dataset, *columns) if columns else dataset

    @property
    def _names_no_columns(self) -> bool:
        """Whether a feature file can be read as written: no column or option is set."""
        others = (self.categorical, self.by, self.pool_below, self.weights_column, self.options)
        usual = (self.label or LABEL, self.domain or DOMAIN) == (LABEL, DOMAIN)
        return usual and self.task == AUTO and not any(others)

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
        replace(self, label=None, domain=None).refuse_columns(f"{path.name} holds images")
        for option in self.options:
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
        if "image_size" in self.options:
            raise InvalidValue("`image_size` is for images, not for tables")
        options = resolve(TableOptions, "table", self.options, "option of a table")
        dataset = table_dataset(
            frame,
            name,
            self.label,
            self.domain,
            drop=self.drop,
            categorical=self.categorical,
            by=self.by,
            pool_below=self.pool_below,
            weights_column=self.weights_column,
            missing_indicators=options.missing_indicators,
            task=self.task,
        )
        return self._with_columns(dataset, "label", "domain")

    def refuse_columns(self, because: str, what: str = "tables and manifests") -> None:
        """Raise if a column is named; called for data without columns."""
        named = ("label", "domain", "image", "drop", "categorical", "by", "pool_below")
        for name in (*named, "weights_column"):
            if getattr(self, name):
                raise InvalidValue(f"`{name}` is for {what}; {because}")

    def check_task(self, *, tables: bool) -> None:
        """Raise if `task` is unknown, or is regression for data whose labels are classes."""
        if checked_task(self.task) == REGRESSION and not tables:
            raise InvalidValue(
                f"`task={REGRESSION!r}` is for tables, manifests and arrays; the labels of"
                f" {self.data} are classes: for images with numbers, give a table with a column of"
                " paths (`image`)"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON values, without unset fields that version 0.1 lacked."""
        unset = {"by": None, "pool_below": 0, "task": AUTO, "weights_column": None}
        return {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if name not in unset or value != unset[name]
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DataRequest:
        """Rebuild a request from `to_json` values, which may have been stored as JSON text."""
        lists = {key: tuple(value[key]) for key in ("drop", "categorical")}
        return cls(**{**value, **lists})

    def _with_columns(self, dataset: DomainDataset, *roles: str) -> DomainDataset:
        """Return the dataset with its column names, which default to the roles."""
        columns = {role: " ".join((getattr(self, role) or role).split()) for role in roles}
        if self.by is not None:
            columns["by"] = self.by
        return replace(dataset, columns=columns)
