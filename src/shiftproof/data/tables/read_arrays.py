"""Read the arrays of `.npy` and `.npz` files.

Reading never runs code: arrays of Python objects are rejected.  A header that promises more bytes
than the file has is rejected before memory is allocated.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.text import quoted, reason_of

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
