"""What is known of each image file: its hash, size and a thumbnail, remembered between commands.

To know whether an image can be read it must be decoded, which takes minutes to hours for a large
set.  So what was learnt of a file is kept in one SQLite file of Shiftproof's folder and believed
for as long as the file keeps its size and modification time.  The memory is a convenience: where
it cannot be kept, everything is read again, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from shiftproof.core.errors import DataError
from shiftproof.data.cache_dir import home
from shiftproof.data.images.decode import decode

INDEX = "index.sqlite"
THUMBNAIL_SIDE = 24
# A larger file is no picture that decoding would accept, and is not read into memory.
MOST_BYTES = 2**30
# Files between two commits: what an interruption loses at most.
BATCH = 256
# Written into the file, to tell ours from another program's.
APPLICATION = int.from_bytes(b"Shft", "big")
SCHEMA_VERSION = 1
# The version is in the name of the table, so that a process of another version, which may be at
# work at the same time, finds no table rather than one whose columns mean something else.
TABLE = f"images_{SCHEMA_VERSION}"
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
COLUMNS = "path BLOB PRIMARY KEY, size, mtime_ns, sha256, width, height, thumbnail"
SECONDS_TO_WAIT_FOR_OTHERS = 30.0


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """What is known of one image file.

    ``width`` and ``height`` are those of the upright picture, ``thumbnail`` is the picture in
    grey, squeezed to a square of ``THUMBNAIL_SIDE`` pixels a side, row by row, one byte each.  A
    file that is no readable image has a one-line ``error`` and is otherwise blank, but for its
    hash where its bytes could be read.
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
    paths: Sequence[Path],
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> list[ImageRecord]:
    """Return what is known of each file, in order; files that are new or have changed are decoded.

    An unreadable one is a record with an error, never an exception.  ``progress`` is called with
    the number of files done and of all.  ``workers`` is the number of threads that decode, by
    default one a core; no more pictures than that are in memory at once.
    """
    records: list[ImageRecord] = []

    def add(record: ImageRecord) -> None:
        records.append(record)
        if progress is not None:
            progress(len(records), len(paths))

    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1, "shiftproof-scan")
    with contextlib.closing(_Memory(home() / INDEX)) as memory:
        try:
            for start in range(0, len(paths), BATCH):
                _scan_batch(paths[start : start + BATCH], memory, pool, add)
        finally:
            pool.shutdown(cancel_futures=True)
    return records


def thumbnail(image: Image.Image) -> bytes:
    """Return a picture as the small grey square of an `ImageRecord`."""
    # Hamming's window rather than a plain box: the box takes whole pixels into one cell or the
    # other, and a rescaled copy, whose pixels fall elsewhere, would differ by more than it should.
    side = (THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    return image.convert("L").resize(side, Image.Resampling.HAMMING).tobytes()


class _Version(NamedTuple):
    """Which version of which file: the key to what is remembered."""

    path: bytes  # as the system spells it; a name need not be valid text
    size: int
    mtime_ns: int


def _scan_batch(
    paths: Sequence[Path],
    memory: _Memory,
    pool: ThreadPoolExecutor,
    add: Callable[[ImageRecord], None],
) -> None:
    versions = list(pool.map(_version, paths))
    known = memory.recall([version for version in versions if version is not None])
    read = pool.map(_read, [p for p, v in zip(paths, versions, strict=True) if v not in known])
    learnt: dict[_Version, ImageRecord] = {}
    try:
        for path, version in zip(paths, versions, strict=True):
            if version in known:
                add(ImageRecord(path, *known[version]))
                continue
            record, now = next(read)
            if now is not None:
                learnt[now] = record
            add(record)
    finally:
        memory.remember(learnt)


def _version(path: Path) -> _Version | None:
    try:
        return _version_of(path, path.stat())
    except (OSError, ValueError):  # ValueError: a name with a null character
        return None  # reading it will find out what is wrong


def _version_of(path: Path, status: os.stat_result) -> _Version:
    return _Version(os.fsencode(path.absolute()), status.st_size, status.st_mtime_ns)


def _read(path: Path) -> tuple[ImageRecord, _Version | None]:
    """Decode a file; without a version, what was learnt holds for this moment only."""
    try:
        # Asked before it is opened: to open a pipe is to wait until somebody writes to it.
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no ordinary file"
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


_Remembered = tuple[str, int, int, bytes]


class _Memory:
    """The SQLite file; every trouble with it ends in forgetting, never in an exception.

    Errors are not remembered: they are few, and what failed for want of memory or of a codec may
    be read tomorrow.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        with self._forgetting():
            self._connection = _open(path)

    def recall(self, versions: Sequence[_Version]) -> dict[_Version | None, _Remembered]:
        """Return what is remembered of exactly these versions."""
        found: dict[_Version | None, _Remembered] = {}
        if self._connection is None or not versions:
            return found
        wanted = set(versions)
        marks = ",".join("?" * len(versions))
        with self._forgetting():
            rows = self._connection.execute(
                f"SELECT * FROM {TABLE} WHERE path IN ({marks})",
                [version.path for version in versions],
            )
            for *key, sha256, width, height, thumbnail in rows:
                if (version := _Version(*key)) in wanted:
                    found[version] = (sha256, width, height, thumbnail)
        return found

    def remember(self, learnt: dict[_Version, ImageRecord]) -> None:
        """Keep these for later, all or none."""
        if self._connection is None or not learnt:
            return
        with self._forgetting():
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (*version, record.sha256, record.width, record.height, record.thumbnail)
                    for version, record in learnt.items()
                ],
            )
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Go on without memory if it fails; a file that is no index gives way to a new one."""
        try:
            yield
        except (OSError, sqlite3.OperationalError):  # read-only, full, locked for too long
            self.close()
        except sqlite3.DatabaseError:  # damaged, or another program's
            self.close()
            with contextlib.suppress(OSError, sqlite3.Error):
                _set_aside(self._path)
                self._connection = _open(self._path)


def _open(path: Path) -> sqlite3.Connection:
    """Return a connection to an index of this version, made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, SECONDS_TO_WAIT_FOR_OTHERS, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        # Locked while looked at, or two processes would both find it missing and make it.
        connection.execute("BEGIN IMMEDIATE")
        tables = [name for (name,) in connection.execute(TABLES)]
        if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
            if tables:
                raise sqlite3.DatabaseError("another program's")
            connection.execute(f"PRAGMA application_id={APPLICATION}")
        for other in set(tables) - {TABLE}:
            connection.execute(f'DROP TABLE "{other}"')
        connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({COLUMNS})")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _set_aside(path: Path) -> None:
    """Rename a file that is no index; what SQLite kept beside it would spoil the next one."""
    os.replace(path, path.with_name(path.name + ".damaged"))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
