"""An index of the hash, size and thumbnail of image files, kept between commands.

Whether an image is readable shows only when it is decoded, which takes minutes to hours for a large
set.  So the result is stored in an SQLite file in Shiftproof's cache folder and used as long as the
image file keeps its size and times.  A replaced file gets a new change time (ctime), which no
program can set, even if its size and modification time are those of the old file.  The index is
only a cache: a damaged one is replaced, and if it cannot be written, every file is read again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from shiftproof.core.errors import DataError
from shiftproof.core.text import reason_of
from shiftproof.data.base import Progress, cache_dir, silent

INDEX = "index.sqlite"
# The version is in the name, so that processes of two versions do not share a table whose columns
# have another meaning.
TABLE = "images_2"
THUMBNAIL_SIDE = 24
# A larger file is not accepted as an image and not read into memory.
MOST_BYTES = 2**30
# Number of files between two commits: an interruption loses at most this many.
BATCH = 256
COLUMNS = "path BLOB PRIMARY KEY, size, mtime_ns, ctime_ns, sha256, width, height, thumbnail"
SECONDS_TO_WAIT_FOR_OTHERS = 30.0


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """The indexed properties of one image file.

    `width` and `height` are those of the upright picture; `thumbnail` holds the grey picture,
    scaled to a square of `THUMBNAIL_SIDE` pixels per side, row by row, one byte per pixel.  A file
    that is not a readable image has only a one-line `error`, and its hash if its bytes could be
    read.
    """

    path: Path
    sha256: str = ""
    width: int = 0
    height: int = 0
    thumbnail: bytes = b""
    error: str = ""

    @property
    def readable(self) -> bool:
        """Whether the file is an image that can be decoded."""
        return not self.error


def scan(
    paths: Sequence[Path], progress: Progress = silent, workers: int | None = None
) -> list[ImageRecord]:
    """Return a record of each file, in order; new and changed files are decoded.

    An unreadable file gives a record with an error, never an exception.  `workers` is the number of
    decoding threads, by default one per core; at most that many pictures are in memory at once.
    """
    records: list[ImageRecord] = []

    def add(record: ImageRecord) -> None:
        records.append(record)
        progress("reading images", len(records), len(paths))

    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1, "shiftproof-scan")
    with contextlib.closing(_Index(cache_dir() / INDEX)) as index:
        try:
            for start in range(0, len(paths), BATCH):
                _scan_batch(paths[start : start + BATCH], index, pool, add)
        finally:
            pool.shutdown(cancel_futures=True)
    return records


def thumbnail(image: Image.Image) -> bytes:
    """Return the thumbnail of a picture for an `ImageRecord`."""
    # A Hamming window rather than a box: the box assigns whole pixels to one cell or another, so
    # the thumbnail of a rescaled copy would differ too much.
    side = (THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    return image.convert("L").resize(side, Image.Resampling.HAMMING).tobytes()


class _Version(NamedTuple):
    """A version of a file: the key of the index."""

    path: bytes  # as the system stores it; a name need not be valid text
    size: int
    mtime_ns: int
    ctime_ns: int


def _scan_batch(
    paths: Sequence[Path],
    index: _Index,
    pool: ThreadPoolExecutor,
    add: Callable[[ImageRecord], None],
) -> None:
    versions = list(pool.map(_version, paths))
    known = index.load([version for version in versions if version is not None])
    read = pool.map(_read, [p for p, v in zip(paths, versions, strict=True) if v not in known])
    new: dict[_Version, ImageRecord] = {}
    try:
        for path, version in zip(paths, versions, strict=True):
            if version in known:
                add(ImageRecord(path, *known[version]))
                continue
            record, now = next(read)
            if now is not None:
                new[now] = record
            add(record)
    finally:
        index.store(new)


def _version(path: Path) -> _Version | None:
    try:
        return _version_of(path, path.stat())
    except (OSError, ValueError):  # ValueError: a name with a null character
        return None  # reading it will report the error


def _version_of(path: Path, status: os.stat_result) -> _Version:
    times = status.st_mtime_ns, status.st_ctime_ns
    return _Version(os.fsencode(path.absolute()), status.st_size, *times)


def _read(path: Path) -> tuple[ImageRecord, _Version | None]:
    """Decode a file; a record without a version is not stored."""
    try:
        # Checked before opening, because opening a pipe waits for a writer.
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            return ImageRecord(path, error=kind), None
        if status.st_size > MOST_BYTES:
            return ImageRecord(path, error=f"{status.st_size:,} bytes are too many"), None
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            data = file.read()
            after = os.fstat(file.fileno())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return ImageRecord(path, error=(reason or " ".join(str(error).split())).lower()), None
    version = _version_of(path, before)
    sha256 = hashlib.sha256(data).hexdigest()
    if not data:
        return ImageRecord(path, sha256, error="an empty file"), None
    try:
        image = decode(data, path)
    except DataError as error:
        return ImageRecord(path, sha256, error=str(error).removeprefix(f"{path}: ")), None
    record = ImageRecord(path, sha256, image.width, image.height, thumbnail(image))
    return record, version if _version_of(path, after) == version else None


_Stored = tuple[str, int, int, bytes]


class _Index:
    """The SQLite file; if it fails, the index is not used, and no exception is raised.

    Errors are not stored: they are rare, and a file that failed for lack of memory or of a codec
    may be readable later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        with self._ignoring_failures():
            self._open()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(self._path, timeout=SECONDS_TO_WAIT_FOR_OTHERS)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({COLUMNS})")

    def load(self, versions: Sequence[_Version]) -> dict[_Version | None, _Stored]:
        """Return the stored records of exactly these versions."""
        known: dict[_Version | None, _Stored] = {}
        if self._connection is not None:
            marks = ",".join("?" * len(versions))
            query = f"SELECT * FROM {TABLE} WHERE path IN ({marks})"
            with self._ignoring_failures():
                for row in self._connection.execute(query, [version.path for version in versions]):
                    known[_Version(*row[:4])] = row[4:]
        return {version: known[version] for version in versions if version in known}

    def store(self, records: dict[_Version, ImageRecord]) -> None:
        """Store records, all or none."""
        if self._connection is not None:
            rows = [(*v, r.sha256, r.width, r.height, r.thumbnail) for v, r in records.items()]
            with self._ignoring_failures(), self._connection:
                self._connection.executemany(
                    f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows
                )

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _ignoring_failures(self) -> Iterator[None]:
        """Continue without the index if it fails; replace a damaged file."""
        try:
            yield
        except (OSError, sqlite3.OperationalError):  # read-only, full, locked for too long
            self.close()
        except sqlite3.DatabaseError:  # damaged
            self.close()
            with contextlib.suppress(OSError, sqlite3.Error):
                for suffix in ("", "-wal", "-shm"):  # SQLite's files beside it
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
                self._open()


# Pictures with more pixels are rejected, so as not to fill the memory (Pillow warns at 89.5M).
MOST_PIXELS = 89_000_000
# The formats that Pillow may decode.  It supports others, but EPS would run a program.
FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "BMP", "GIF", "TIFF", "PPM")


def decode(data: bytes, where: Path | str) -> Image.Image:
    """Return the picture in `data` as RGB, turned upright; an animation gives its first frame.

    16-bit grey is scaled to 8 bits.  `where` names the file in errors.
    """
    try:
        with Image.open(io.BytesIO(data), formats=known_formats()) as image:
            if image.width * image.height > MOST_PIXELS:
                raise DataError(f"{where}: {image.width} × {image.height} pixels are too many")
            image.load()
            upright = ImageOps.exif_transpose(image)
        return _to_rgb(upright, where)
    except DataError:
        raise
    except Exception as error:  # Pillow's plugins raise any kind of error on damaged bytes
        reason = reason_of(error, 120)
        if reason.startswith("cannot identify image file"):
            reason = "unknown format"
        raise DataError(f"{where}: not a readable image ({reason})") from error


@functools.cache
def known_formats() -> tuple[str, ...]:
    """Return the formats that this build of Pillow can decode."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _to_rgb(image: Image.Image, where: Path | str) -> Image.Image:
    if image.mode.startswith("I"):
        grey = np.asarray(image).astype(np.int64)
        if grey.min() < 0 or grey.max() > 65_535:
            raise DataError(f"{where}: grey levels outside 0–65535; convert it to 8 or 16 bits")
        image = Image.fromarray((grey // 257).astype(np.uint8))
    elif image.mode == "F":
        raise DataError(f"{where}: grey levels in floating point; convert it to 8 or 16 bits")
    elif "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")
