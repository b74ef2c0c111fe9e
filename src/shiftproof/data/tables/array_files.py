"""Read NumPy files, `.npy` and `.npz`, as the columns of a table or as images.

Reading never runs code: arrays of Python objects are rejected.  A header that promises more bytes
than the file has is rejected before memory is allocated.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, listed, quoted, reason_of
from shiftproof.data.tables.cell_types import named
from shiftproof.data.tables.column_names import ARRAYS
from shiftproof.data.tables.label_kind import is_one_hot
from shiftproof.data.tables.vectors import vector_frame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# The usual names of labels and domains, as arrays or as files beside a `.npy` file.
USUAL = {"label": ("label", "labels", "y"), "domain": ("domain", "domains", "d")}


class ArraySamples(NamedTuple):
    """The samples in array files.

    `frame` has a column for each array [n] and for each component of a vector, but none for
    `images` [n, channels, height, width].  `label` and `domain` name the columns with labels and
    domains, or are None.
    """

    frame: pd.DataFrame
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
    import pandas as pd

    if label is not None and label == domain:
        raise InvalidValue(f"`label` and `domain` name the same array, {label}")
    arrays = read_arrays(path)
    found = {
        role: _role_array(arrays, path, role, given, (usual or {}).get(role), labelled)
        for role, given in (("label", label), ("domain", domain))
    }
    roles = {name: role for role, own in found.items() for name in _parts(own.name, arrays)}
    samples = {name: own for name, own in arrays.items() if name not in roles and own.ndim > 0}
    if not samples:
        raise DataError(f"{path.name} has no array of inputs, [n, features]")
    count = len(max(samples.values(), key=lambda own: own.ndim))
    columns = {role: own.name for role, own in found.items()}
    beside = {own.name: own.file for own in found.values() if own.file}
    frames, images = [], {}
    for name, own in arrays.items():
        where, role = beside.get(name, f"{path.name}: {quoted(name)}"), roles.get(name)
        if role is not None:
            own = _entries(own, role, where)
        elif own.ndim == 0:
            continue
        if len(own) != count:
            if role == "domain" and name in beside and domain is None and not labelled:
                columns["domain"] = None
                continue
            all_samples = counted(count, "sample")
            needed = f"the {all_samples} of {path.name}" if name in beside else all_samples
            raise DataError(f"{where} has {len(own):,} entries for {needed}")
        if own.ndim == 1:
            frames.append(pd.DataFrame({name: own}))
        elif own.ndim == 2 and own.dtype.kind in "biuf":
            frames.append(vector_frame(name, own, path.name))
        elif own.ndim == 4 and own.dtype.kind in "biuf":
            images[name] = own
        else:
            grey = "; save grey images as x[:, None]" if own.ndim == 3 else ""
            raise DataError(
                f"{where} must be numbers [n, features] or images [n, channels, height, width], not"
                f" {own.dtype} of shape {own.shape}{grey}"
            )
    if len(images) > 1:
        raise DataError(f"{path.name} has two arrays of images, {listed(list(images))}; keep one")
    if count == 0:
        raise DataError(f"{path.name} has no samples")
    frame = pd.concat(frames, axis=1) if frames else pd.DataFrame(index=range(count))
    return ArraySamples(
        named(frame, path.name),
        next(iter(images.values()), None),
        columns["label"],
        columns["domain"],
    )


class _Role(NamedTuple):
    """The name of the array of labels or domains (several joined by commas), and its file."""

    name: str | None
    file: str | None = None


def _role_array(
    arrays: dict[str, np.ndarray],
    path: Path,
    role: str,
    given: str | None,
    usual: str | None,
    labelled: bool,
) -> _Role:
    """Find the array of labels or domains; one from a file is added to `arrays` as `role`."""
    if given is not None and _parts(given, arrays):
        return _Role(given)
    if given is not None and not given.lower().endswith(".npy"):
        lacking = next(part for part in given.split(",") if part.strip() not in arrays).strip()
        raise DataError(
            f"{path.name} has no array {quoted(lacking)}, only {listed(sorted(arrays))}; set"
            f" `{role}` to one of them, or to a .npy file"
        )
    if given is None and path.suffix.lower() == ".npz":
        names = (*([usual] if usual else []), *USUAL[role])
        return _Role(next((name for name in names if _parts(name, arrays)), None))
    if given is None and role == "label" and not labelled:
        return _Role(None)
    if given is not None and Path(given).expanduser().absolute() == path.absolute():
        raise DataError(f"`{role}` names {path.name}, which holds the inputs; name another file")
    beside = [path.with_name(f"{name}.npy") for name in USUAL[role]]
    choices = beside if given is None else [Path(given).expanduser()]
    found = next((file for file in choices if file.is_file() and file != path), None)
    if found is None:
        if given is not None:
            raise DataError(f"no such file: {given}")
        return _Role(None)
    (arrays[role],) = read_arrays(found).values()
    return _Role(role, found.name)


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
    if array.ndim == 0:
        raise DataError(f"{where} is a single value; {role}s must be [n], one entry per sample")
    if array.ndim == 2 and 1 in array.shape:
        return array.reshape(-1)
    if role == "label" and is_one_hot(array):
        raise DataError(
            f"{where} holds classes as one-hot rows: save y.argmax(axis=1), one entry per sample"
        )
    if array.ndim == 1:
        return array
    raise DataError(
        f"{where} is {array.dtype} of shape {array.shape}; {role}s must be [n], one entry per"
        " sample"
    )


# An archive that unpacks to more than SMALL bytes may unpack to at most MOST_RATIO times its size.
MOST_RATIO, SMALL = 200, 10**8


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name; the array of a `.npy` file has the file's name."""
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            if path.suffix.lower() == ".npy":
                return {path.stem: _read(file, size, path.name)}
            with zipfile.ZipFile(file) as archive:
                return _members(archive, path, size)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a crafted header can make the libraries fail in many ways
        raise DataError(
            f"{path} is not a file of NumPy arrays ({reason_of(error, 120)})"
        ) from error


def _members(archive: zipfile.ZipFile, path: Path, size: int) -> dict[str, np.ndarray]:
    members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    if not members:
        raise DataError(f"{path} holds no arrays")
    total = sum(info.file_size for info in members)
    if total > max(MOST_RATIO * size, SMALL):
        raise DataError(
            f"{path} unpacks to more than {MOST_RATIO} times its own size, as a file made to fill"
            " the memory would; if you trust it, write it again with numpy.savez"
        )
    found: dict[str, np.ndarray] = {}
    for info in members:
        name = info.filename.removesuffix(".npy")
        with archive.open(info) as stream:
            found[name] = _read(stream, info.file_size, f"{path.name}: {quoted(name)}")
    return found


def _read(stream: IO[bytes], size: int, where: str) -> np.ndarray:
    """Read one array from a stream of `size` bytes."""
    # The header, at most 64 KiB, gets its own stream, because an archive's cannot go back.
    start = io.BytesIO(stream.read(min(size, 2**16 + 12)))
    major, _ = np.lib.format.read_magic(start)
    if major not in (1, 2):
        raise DataError(
            f"{where} has version {major} of NumPy's format; only 1 and 2 are supported"
        )
    readers = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    shape, by_column, kind = readers[major](start)
    if kind.hasobject:
        raise DataError(
            f"{where} holds Python objects, which could run code (none was run); save numbers, or"
            " text with array.astype(str)"
        )
    if kind.kind not in "biufSU":
        raise DataError(f"{where} holds {kind}, neither numbers nor text")
    promised, there = math.prod(shape) * kind.itemsize, size - start.tell()
    if promised != there or min(shape, default=0) < 0:
        raise DataError(
            f"{where} is damaged: its header announces {promised:,} bytes of data, but it has"
            f" {there:,}"
        )
    data = memoryview(bytearray(promised))
    filled = start.readinto(data)
    while filled < promised:
        if not (more := stream.readinto(data[filled:])):  # type: ignore[attr-defined]
            raise DataError(f"{where} is damaged: it ends too early")
        filled += more
    array = np.frombuffer(data, kind).reshape(shape, order="F" if by_column else "C")
    if kind.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if array.dtype == np.float16:
        return array.astype(np.float32)
    return np.require(array.astype(array.dtype.newbyteorder("="), copy=False), requirements="C")
