"""Files that are read and replaced as a whole, and locks on folders."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from shiftproof.core.errors import DataError, InvalidValue, RunConflict


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that any reader, after any crash, sees the old or the new."""
    if path.is_dir():
        raise InvalidValue(f"{path} is a folder; name a file to write")
    aside = path.with_name(path.name + ".new")
    with open(aside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    with contextlib.suppress(OSError):  # not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object, indented, with `write_atomically`."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")


def read_json(path: Path, required: Collection[str] = (), remedy: str = "") -> dict[str, Any]:
    """Return the JSON object in a file, which must have the keys ``required``.

    ``remedy`` tells the user what to do if it is missing or damaged.
    """
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, FileNotFoundError):
        value = None
    if not isinstance(value, dict) or not set(required) <= value.keys():
        keys = f" with {', '.join(required)}" if required else ""
        message = f"{path} is missing or damaged: expected a JSON object{keys}"
        raise DataError("; ".join(filter(None, (message, remedy))))
    return value


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    """Return the hash of a file's content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


@contextlib.contextmanager
def locked(path: Path, busy: Exception) -> Iterator[None]:
    """Hold the lock file at `path`, or raise `busy` if another process holds it.

    The operating system releases the lock when the process ends, however it ends.
    """
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise busy from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def locked_folder(folder: Path, busy: str) -> Iterator[None]:
    """Create the folder of a run or sweep if needed, and hold its lock."""
    if folder.exists() and not folder.is_dir():
        raise RunConflict(f"{folder} is a file; `out` must be a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock", RunConflict(busy)):
        yield
