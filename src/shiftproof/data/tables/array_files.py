"""Read NumPy files, `.npy` and `.npz`, as the columns of a table or as images.

Reading never runs code: arrays of Python objects are rejected.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, listed, quoted, reason_of
from shiftproof.data.tables.cell_types import arrow_array
from shiftproof.data.tables.column_names import ARRAYS
from shiftproof.data.tables.label_kind import is_one_hot
from shiftproof.data.tables.read import named
from shiftproof.data.tables.vectors import vector_columns

# The usual names of labels and domains, as arrays or as files beside a `.npy` file.
USUAL = {"label": ("label", "labels", "y"), "domain": ("domain", "domains", "d")}


class ArraySamples(NamedTuple):
    """The samples in array files.

    `table` has a column for each array [n] and for each component of a vector, but none for
    `images` [n, channels, height, width].  `label` and `domain` name the columns with labels and
    domains, or are None.
    """

    table: pa.Table
    size: int
    images: np.ndarray | None
    label: str | None
    domain: str | None


def is_array_file(path: Path) -> bool:
    """Whether a file holds arrays, according to its suffix."""
    return path.suffix.lower() in ARRAYS


def array_samples(
    path: Path,
    label: str | None = None,
    domain: str | None = None,
    *,
    usual: Mapping[str, str] | None = None,
    labelled: bool = True,
) -> ArraySamples:
    """Read samples from a `.npz` file, or a `.npy` file with labels and domains beside it.

    `label` and `domain` name arrays of the archive, several separated by commas, or `.npy` files;
    by default they are found by the names in `usual` and `USUAL`.  Arrays [n] are columns, arrays
    [n, k] are vectors, and one array [n, channels, height, width] holds images.
    Single values, such as a version, are not read.

    Without `labelled`, no label file is searched for beside a `.npy` file, and a domain file there
    of another length is ignored.
    """
    if label is not None and label == domain:
        raise InvalidValue(f"`label` and `domain` name the same array, {label}")
    arrays = read_arrays(path)
    known = {
        role: _role_array(arrays, path, role, given, (usual or {}).get(role), labelled)
        for role, given in (("label", label), ("domain", domain))
    }
    roles = {name: role for role, (names, _) in known.items() for name in _parts(names, arrays)}
    inputs = [array for name, array in arrays.items() if name not in roles and array.ndim > 0]
    if not inputs:
        raise DataError(f"{path.name} has no array of inputs, [n, features]")
    count = len(max(inputs, key=lambda array: array.ndim))
    role_names = {role: names for role, (names, _) in known.items()}
    beside = {name: file for name, file in known.values() if file}
    columns: dict[str, Any] = {}
    images = {}
    for name, array in arrays.items():
        where, role = beside.get(name, f"{path.name}: {quoted(name)}"), roles.get(name)
        if role is not None:
            array = _entries(array, role, where)
        elif array.ndim == 0:
            continue
        if len(array) != count:
            if role == "domain" and name in beside and domain is None and not labelled:
                role_names["domain"] = None
                continue
            samples = counted(count, "sample")
            needed = f"the {samples} of {path.name}" if name in beside else samples
            raise DataError(f"{where} has {len(array):,} entries for {needed}")
        if array.ndim == 1:
            columns[name] = arrow_array(array)
        elif array.ndim == 2 and array.dtype.kind in "biuf":
            columns |= vector_columns(name, array, path.name)
        elif array.ndim == 4 and array.dtype.kind in "biuf":
            images[name] = array
        else:
            grey = "; save grey images as x[:, None]" if array.ndim == 3 else ""
            raise DataError(
                f"{where} must be numbers [n, features] or images [n, channels, height, width], not"
                f" {array.dtype} of shape {array.shape}{grey}"
            )
    if len(images) > 1:
        raise DataError(f"{path.name} has two arrays of images, {listed(list(images))}; keep one")
    if count == 0:
        raise DataError(f"{path.name} has no samples")
    table = named(list(columns), list(columns.values()), path.name)
    pixels = next(iter(images.values()), None)
    return ArraySamples(table, count, pixels, role_names["label"], role_names["domain"])


def _role_array(
    arrays: dict[str, np.ndarray],
    path: Path,
    role: str,
    given: str | None,
    usual: str | None,
    labelled: bool,
) -> tuple[str | None, str | None]:
    """Return the names of the arrays of labels or domains, joined by commas, and their file.

    An array from a file is added to `arrays` as `role`.
    """
    files = [path.with_name(f"{name}.npy") for name in USUAL[role]]
    if given is not None:
        if _parts(given, arrays):
            return given, None
        if not given.lower().endswith(".npy"):
            lacking = next(part for part in given.split(",") if part.strip() not in arrays).strip()
            raise DataError(
                f"{path.name} has no array {quoted(lacking)}, only {listed(sorted(arrays))}; set"
                f" `{role}` to one of them, or to a .npy file"
            )
        files = [Path(given).expanduser()]
        if files[0].absolute() == path.absolute():
            raise DataError(
                f"`{role}` names {path.name}, which holds the inputs; name another file"
            )
        if not files[0].is_file():
            raise DataError(f"no such file: {given}")
    elif path.suffix.lower() == ".npz":
        names = (usual, *USUAL[role])
        return next((name for name in names if _parts(name, arrays)), None), None
    elif role == "label" and not labelled:
        return None, None
    file = next((file for file in files if file.is_file() and file != path), None)
    if file is None:
        return None, None
    (arrays[role],) = read_arrays(file).values()
    return role, file.name


def _parts(names: str | None, arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Return the arrays that `names` lists, separated by commas; none if one is missing.

    >>> _parts("site,year", {"site": np.zeros(1), "year": np.zeros(1)})
    ['site', 'year']
    """
    if names is None or names in arrays:
        return [] if names is None else [names]
    parts = [part.strip() for part in names.split(",")]
    return parts if all(part in arrays for part in parts) else []


def _entries(array: np.ndarray, role: str, where: str) -> np.ndarray:
    """Return labels or domains as [n]."""
    if array.ndim == 1 or (array.ndim == 2 and 1 in array.shape):
        return array.reshape(-1)
    if role == "label" and is_one_hot(array):
        raise DataError(
            f"{where} holds classes as one-hot rows: save y.argmax(axis=1), one entry per sample"
        )
    what = f"{array.dtype} of shape {array.shape}" if array.ndim else "a single value"
    raise DataError(f"{where} is {what}; {role}s must be [n], one entry per sample")


# An archive that unpacks to more than SMALL bytes may unpack to at most MOST_RATIO times its size.
MOST_RATIO, SMALL = 200, 10**8


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name; the array of a `.npy` file has the file's name."""
    try:
        with open(path, "rb") as file:
            if path.suffix.lower() == ".npy":
                return {path.stem: _read(file, path.name)}
            return _members(zipfile.ZipFile(file), path)
    except DataError:
        raise
    except Exception as error:  # a crafted header can make the libraries fail in many ways
        raise DataError(
            f"{path} is not a file of NumPy arrays ({reason_of(error, 120)})"
        ) from error


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, np.ndarray]:
    members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    if not members:
        raise DataError(f"{path} holds no arrays")
    total = sum(info.file_size for info in members)
    if total > max(MOST_RATIO * path.stat().st_size, SMALL):
        raise DataError(
            f"{path} unpacks to more than {MOST_RATIO} times its own size, as a file made to fill"
            " the memory would; if you trust it, write it again with numpy.savez"
        )
    arrays = {}
    for info in members:
        name = info.filename.removesuffix(".npy")
        with archive.open(info) as stream:
            arrays[name] = _read(stream, f"{path.name}: {quoted(name)}")
    return arrays


def _read(stream: Any, where: str) -> np.ndarray:
    """Read one array from a stream, which must end with it."""
    try:
        array = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"{where} holds Python objects, which could run code (none was run); save numbers, or"
            " text with array.astype(str)"
        ) from None
    if stream.read(1):
        raise DataError(f"{where} is damaged: it has more data than its header announces")
    if array.dtype.kind not in "biufSU":
        raise DataError(f"{where} holds {array.dtype}, neither numbers nor text")
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if array.dtype == np.float16:
        return array.astype(np.float32)
    return np.require(array.astype(array.dtype.newbyteorder("="), copy=False), requirements="C")
