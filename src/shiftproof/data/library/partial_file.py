"""A partially downloaded file, with the information needed to resume the download.

The file is written to `NAME.partial` beside its target; `NAME.partial.json` records which version
of it the server was sending.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import Any

from filelock import FileLock

from shiftproof.core.errors import DataError
from shiftproof.data.base import Source


@dataclass(frozen=True)
class FileVersion:
    """The link and the version of a file, as the server describes it."""

    url: str
    etag: str
    modified: str
    total: int | None

    @classmethod
    def of(cls, source: Source, headers: Message, total: int | None) -> FileVersion:
        """Read the version from the headers of a response."""
        return cls(source.url, headers.get("ETag", ""), headers.get("Last-Modified", ""), total)

    @property
    def validator(self) -> str:
        """The value for `If-Range`; a weak tag does not identify the bytes."""
        return "" if self.etag.startswith("W/") else self.etag or self.modified

    def agrees(self, headers: Message, total: int | None) -> bool:
        """Whether a response is about this version; some servers ignore `If-Range`."""
        pairs = ((self.etag, headers.get("ETag")), (self.modified, headers.get("Last-Modified")))
        known = next(((old, new) for old, new in pairs if old and new), None)
        return (known is None or known[0] == known[1]) and (
            self.total is None or total is None or self.total == total
        )


class PartialFile:
    """The partial file of a target, its record, and a lock on both."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(target.name + ".partial")
        self._record = target.with_name(target.name + ".partial.json")
        self._lock = target.with_name(target.name + ".lock")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock out other processes; the lock is released however the process ends."""
        lock = FileLock(self._lock)
        with disk_errors(self._lock):
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @property
    def size(self) -> int:
        """The number of bytes downloaded so far."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def begun(self, source: Source) -> FileVersion | None:
        """Return the partially downloaded version, if it can safely be resumed from `source`.

        If the server does not identify versions, resuming is safe only with a checksum.
        """
        try:
            record = json.loads(self._record.read_bytes())
            url, etag, modified = (str(record[name]) for name in ("url", "etag", "modified"))
            total = None if record["total"] is None else int(record["total"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        version = FileVersion(url, etag, modified, total)
        safe = version.url == source.url and (version.validator or source.sha256 or source.md5)
        beyond = total is not None and self.size > total
        return version if safe and not beyond and self.size else None

    def begin(self, version: FileVersion) -> None:
        """Start over with `version`; the record never describes bytes of another version."""
        self.discard()
        with disk_errors(self.path):
            self._record.write_text(json.dumps(asdict(version)))

    @contextmanager
    def appending(self) -> Iterator[Callable[[bytes], Any]]:
        """Open the file and yield a function that appends bytes."""
        with disk_errors(self.path):
            file = open(self.path, "ab")  # noqa: SIM115

        def append(data: bytes) -> None:
            with disk_errors(self.path):
                file.write(data)

        try:
            yield append
        finally:
            with disk_errors(self.path):
                file.close()

    def discard(self) -> None:
        """Delete the record, then the file."""
        with disk_errors(self.path):
            self._record.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        """Flush the file to disk and rename it to its target."""
        with disk_errors(target):
            with open(self.path, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(self.path, target)
            self._record.unlink(missing_ok=True)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Convert file system errors to a `DataError` with a one-line message."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                f"no space left for {path}; free some space and run the command again: the"
                " download resumes"
            ) from error
        raise DataError(f"cannot read or write {path}: {error.strerror or error}") from error
