"""Limits and errors for untrusted archives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.filesize import decimal

from shiftproof.core.errors import DataError

BY_HAND = "if you trust it, unpack it yourself and import the folder"
AGAIN = "download it again"


@dataclass(frozen=True)
class Limits:
    """Limits on what an archive unpacks to, far above what any known dataset needs.

    `total` and `member` are in bytes.  `ratio` limits the total relative to the size of the
    archive, but only above `small` bytes: a small archive may hold blank images, which compress
    well.
    """

    total: int = 200 * 10**9
    member: int = 8 * 10**9
    members: int = 3_000_000
    ratio: float = 200
    small: int = 10**8


class UnreadableArchive(Exception):
    """The error for an archive that cannot be read: what is wrong and what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{' '.join(reason.split())}; {remedy}")


def damaged(reason: str) -> UnreadableArchive:
    """Return the error for a damaged archive."""
    return UnreadableArchive(f"it is damaged or incomplete ({reason})", AGAIN)


def too_big(archive: Path, limits: Limits) -> DataError:
    """Return the error for an archive that unpacks to too many bytes."""
    return DataError(f"{archive} unpacks to more than {decimal(limits.total)}; {BY_HAND}")


class Meter:
    """Count the unpacked bytes of an archive, and raise if they exceed the limits."""

    def __init__(self, archive: Path, limits: Limits) -> None:
        self._archive = archive
        self._limits = limits
        self._by_ratio = max(limits.ratio * archive.stat().st_size, limits.small)
        self._count = 0

    def add(self, count: int) -> None:
        """Add `count` bytes."""
        self._count += count
        if self._count > self._limits.total:
            raise too_big(self._archive, self._limits)
        if self._count > self._by_ratio:
            raise DataError(
                f"{self._archive} unpacks to more than {self._limits.ratio:g} times its own size,"
                f" as an archive made to fill the disk would; {BY_HAND}"
            )


@contextmanager
def archive_errors() -> Iterator[None]:
    """Convert the libraries' errors on broken archives to one exception.

    The libraries document only some of them: a hostile header can make them fail in many ways.
    """
    try:
        yield
    except (UnreadableArchive, DataError, MemoryError):
        raise
    except NotImplementedError as error:
        raise UnreadableArchive(f"it needs an unsupported feature ({error})", BY_HAND) from error
    except Exception as error:
        raise damaged(str(error) or type(error).__name__) from error
