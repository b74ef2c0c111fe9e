"""Arrays of NumPy, `.npy` and `.npz`, as the columns of a table or as images.

Reading never runs code: arrays of Python objects are refused, and so is a header that promises more
bytes than the file has, before anything is allocated.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed, quoted, reason_of
from shiftproof.data.tables.cell_types import named
from shiftproof.data.tables.vectors import vector_frame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

SUFFIXES = (".npy", ".npz")
# What labels and domains are usually called, as arrays or as files beside a `.npy` file.
USUAL = {"label": ("label", "labels", "y"), "domain": ("domain", "domains", "d")}
# An archive may unpack to so many times its size, as soon as it is more than so many bytes.
MOST_RATIO, SMALL = 200, 10**8


class ArraySamples(NamedTuple):
    """What array files hold of each sample.

    `frame` has a column for each array of one entry a sample, and for each component of a vector;
    `images` [n, channels, height, width] are not among them.  `label` and `domain` are the columns
    with labels and domains, None if there are none.
    """

    frame: pd.DataFrame
    images: np.ndarray | None
    label: str | None
    domain: str | None


def is_array_file(path: Path) -> bool:
    """Whether a file is one of arrays, by its name."""
    return path.suffix.lower() in SUFFIXES


def array_samples(path: Path, label: str | None = None, domain: str | None = None) -> ArraySamples:
    """Read samples: `.npz` with named arrays, or `.npy` with labels and domains beside it.

    `label` and `domain` name arrays of the archive, or `.npy` files; by default they are found by
    the names in `USUAL`.  Arrays [n] are columns, arrays [n, k] are vectors, and one array [n,
    channels, height, width] holds images.  Labels [n, k] with fractions are k numbers to predict.
    Single values, such as a version, are not read.
    """
    import pandas as pd

    arrays = read_arrays(path)
    columns = {
        role: _named_array(arrays, path, role, given)
        for role, given in (("label", label), ("domain", domain))
    }
    inputs = {name: own for name, own in arrays.items() if name not in columns.values()}
    samples = {name: own for name, own in inputs.items() if own.ndim > 0}
    if not samples:
        raise DataError(f"{path.name} has no array of inputs, [n, features]")
    count = len(max(samples.values(), key=lambda own: own.ndim))
    frames, images = [], None
    for name, own in arrays.items():
        if own.ndim == 0:
            continue
        if len(own) != count:
            raise DataError(
                f"{path.name}: {quoted(name)} has {len(own):,} entries for"
                f" {counted(count, 'sample')}"
            )
        if own.ndim == 1:
            frames.append(pd.DataFrame({name: own}))
        elif own.ndim == 2 and own.dtype.kind == "f" and name == columns["label"]:
            # Several numbers to predict: a column each.
            targets = [f"{name}{place}" for place in range(1, own.shape[1] + 1)]
            frames.append(pd.DataFrame(own, columns=targets))
            columns["label"] = ",".join(targets)
        elif own.ndim == 2 and own.dtype.kind in "biuf" and name not in columns.values():
            frames.append(vector_frame(name, own, path.name))
        elif own.ndim == 4 and own.dtype.kind in "biuf" and images is None:
            images = own
        else:
            raise DataError(
                f"{path.name}: {quoted(name)} is {own.dtype} of shape {own.shape}; needed are"
                " numbers [n, features], or images [n, channels, height, width]"
            )
    if count == 0:
        raise DataError(f"{path.name} has no samples")
    frame = pd.concat(frames, axis=1) if frames else pd.DataFrame(index=range(count))
    return ArraySamples(named(frame, path.name), images, columns["label"], columns["domain"])


def _named_array(
    arrays: dict[str, np.ndarray], path: Path, role: str, given: str | None
) -> str | None:
    """Return the name of the array with labels or domains; a file's array is added as `role`."""
    if given is not None and given in arrays:
        return given
    if given is not None and not given.lower().endswith(".npy"):
        raise DataError(
            f"{path.name} has no array {quoted(given)}, only {listed(sorted(arrays))}; set"
            f" `{role}` to one of them, or to a .npy file"
        )
    if given is None and path.suffix.lower() == ".npz":
        return next((name for name in USUAL[role] if name in arrays), None)
    beside = [path.with_name(f"{name}.npy") for name in USUAL[role]]
    choices = beside if given is None else [Path(given).expanduser()]
    found = next((file for file in choices if file.is_file() and file != path), None)
    if found is None:
        if given is not None:
            raise DataError(f"no such file: {given}")
        return None
    (array,) = read_arrays(found).values()
    arrays[role] = array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array
    return role


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name; that of a `.npy` file is called as the file."""
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            if path.suffix.lower() == ".npy":
                return {path.stem: _read(file, size, path.name)}
            with zipfile.ZipFile(file) as archive:
                return _members(archive, path, size)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a crafted header can make many lines of the libraries fail
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
    # The header is at most 64 KiB; in a stream of its own, because an archive's cannot go back.
    start = io.BytesIO(stream.read(min(size, 2**16 + 12)))
    major, _ = np.lib.format.read_magic(start)
    if major not in (1, 2):
        raise DataError(f"{where} is of version {major} of NumPy's format, which is for records")
    readers = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    shape, by_column, kind = readers[major](start)
    if kind.hasobject:
        raise DataError(
            f"{where} holds Python objects, which could run code (none was run); save numbers, or"
            " texts by array.astype(str)"
        )
    if kind.kind not in "biufSU":
        raise DataError(f"{where} holds {kind}, neither numbers nor text")
    promised, there = math.prod(shape) * kind.itemsize, size - start.tell()
    if promised != there or min(shape, default=0) < 0:
        raise DataError(
            f"{where} is damaged: its header promises {promised:,} bytes of numbers, and there are"
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
