"""What is in an archive, read with suspicion: zip and tar, member by member, every byte counted."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from rich.filesize import decimal

from shiftproof.core.errors import DataError

Keep = Callable[[PurePosixPath], bool]

CHUNK = 1 << 16
LONGEST_HEADER = 1 << 20
BY_HAND = "if you trust it, unpack it yourself and import the folder"
AGAIN = "download it again"

# How a file begins, and what it is.  A tar has no such mark.
MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
}
DECOMPRESSED: dict[str, Callable[[IO[bytes]], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "tar": lambda raw: raw,
}
ZIP_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}
TAR_KINDS = {
    tarfile.DIRTYPE: "folder",
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "pipe",
}


@dataclass(frozen=True)
class Limits:
    """What an archive may unpack to; far more than any known dataset needs.

    ``total`` and ``member`` are bytes.  ``ratio`` bounds all bytes by the size of the archive, but
    only from ``small`` bytes on: an honest little archive may hold blank images, and a bomb that
    size does no harm.
    """

    total: int = 200 * 10**9
    member: int = 8 * 10**9
    members: int = 3_000_000
    ratio: float = 200
    small: int = 10**8


def everything(path: PurePosixPath) -> bool:
    """Keep all of an archive."""
    return True


class _Unreadable(Exception):
    """An archive that cannot be read, with what is wrong and what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{' '.join(reason.split())}; {remedy}")


def damaged(reason: str) -> _Unreadable:
    """Return the error of an archive whose bytes are wrong."""
    return _Unreadable(f"it is damaged or cut short ({reason})", AGAIN)


def too_big(archive: Path, limits: Limits) -> DataError:
    """Return the error of an archive that unpacks to too much."""
    return DataError(f"{archive} unpacks to more than {decimal(limits.total)}; {BY_HAND}")


class _Meter:
    """Counts the bytes that an archive turns into, and stops it before they are too many."""

    def __init__(self, archive: Path, limits: Limits) -> None:
        self._archive = archive
        self._limits = limits
        self._by_ratio = max(limits.ratio * archive.stat().st_size, limits.small)
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        if self._count > self._limits.total:
            raise too_big(self._archive, self._limits)
        if self._count > self._by_ratio:
            raise DataError(
                f"{self._archive} unpacks to more than {self._limits.ratio:g} times its own size,"
                f" as an archive made to fill disks does; {BY_HAND}"
            )


@contextmanager
def opened_archive(archive: Path, limits: Limits) -> Iterator[ZipReader | TarReader]:
    """Open an archive by what it is, not by its name; whatever is wrong with it is one line."""
    try:
        raw = open(archive, "rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(f"cannot read {archive}: {error.strerror}") from error
    with raw:
        head = raw.read(tarfile.BLOCKSIZE)
        raw.seek(0)
        kind = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), "tar")
        if kind == "tar" and not _is_tar(head):
            raise DataError(f"{archive} is neither a zip nor a tar archive; {AGAIN}")
        meter = _Meter(archive, limits)
        try:
            if kind == "zip":
                with _reading():
                    opened = zipfile.ZipFile(raw)
                    listed = _listed(raw)
                if (len(opened.infolist()) - listed) % 2**16:
                    raise damaged(f"{len(opened.infolist())} of {listed} members are listed")
                yield ZipReader(opened, meter)
            else:
                yield TarReader(_Tape(DECOMPRESSED[kind](raw), meter), raw)
        except _Unreadable as error:
            raise DataError(f"{archive} cannot be unpacked: {error}") from error


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def _listed(raw: IO[bytes]) -> int:
    """Return how many members a zip claims at its end, which zipfile does not compare.

    Some programs write no more than the lowest 16 bits of the number, and zip64 has more.
    """
    raw.seek(max(0, raw.seek(0, os.SEEK_END) - 2**16 - 100))
    tail = raw.read()
    end = tail.rindex(b"PK\5\6")
    (count,) = struct.unpack_from("<H", tail, end + 10)
    zip64 = tail[max(0, end - 76) : end]
    if count == 0xFFFF and zip64.startswith(b"PK\6\6"):
        (count,) = struct.unpack_from("<Q", zip64, 32)
    return int(count)


@contextmanager
def _reading() -> Iterator[None]:
    """Turn what the libraries raise on broken archives into one exception.

    They document only some of it: a hostile header reaches many a line that expects a sound one.
    """
    try:
        yield
    except NotImplementedError as error:
        raise _Unreadable(f"it needs what is not supported here ({error})", BY_HAND) from error
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        struct.error,
        EOFError,
        OSError,
        ArithmeticError,
        LookupError,
        RuntimeError,
        ValueError,
    ) as error:
        raise damaged(str(error) or type(error).__name__) from error


@dataclass(frozen=True)
class Member:
    """A name as the archive has it, what it names, how many bytes are promised, and the bytes."""

    name: str
    kind: str
    size: int
    contents: Callable[[], Iterator[bytes]]


class ZipReader:
    """The members of a zip, as its list at the end has them."""

    def __init__(self, opened: zipfile.ZipFile, meter: _Meter) -> None:
        self._zip = opened
        self._meter = meter
        self._done = 0

    def members(self) -> Iterator[Member]:
        """Yield what is in the archive; contents are to be read before the next."""
        for info in self._zip.infolist():
            kind = ZIP_KINDS.get(stat.S_IFMT(info.external_attr >> 16), "file")
            if kind == "file" and info.filename.endswith("/"):
                kind = "folder"
            if info.flag_bits & 0x41:
                kind = "file under a password"
            # zipfile cuts a name at a NUL; the original shows it.
            name = info.orig_filename if "\0" in info.orig_filename else info.filename
            yield Member(name, kind, info.file_size, partial(self._contents, info))
            self._done += info.compress_size

    def _contents(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        with _reading(), self._zip.open(info) as file:
            while chunk := file.read(CHUNK):
                self._meter.add(len(chunk))
                yield chunk

    def promised(self, keep: Keep) -> int:
        """Say how many bytes it claims to unpack to."""
        kept = (info for info in self._zip.infolist() if keep(PurePosixPath(info.filename)))
        return sum(info.file_size for info in kept)

    def done(self) -> int:
        """Say how many bytes of the archive have been read."""
        return self._done


class _Tape:
    """A decompressed tar: read forward only, every byte counted; all that tarfile asks of a file.

    tarfile reads headers whole, so that one of gigabytes would fill the memory.
    """

    def __init__(self, stream: IO[bytes], meter: _Meter) -> None:
        self._stream = stream
        self._meter = meter
        self._position = 0
        self.latest = b""

    def read(self, size: int) -> bytes:
        if size > LONGEST_HEADER:
            raise damaged(f"a header of {size} bytes")
        with _reading():
            self.latest = self._stream.read(size)
        self._position += len(self.latest)
        self._meter.add(len(self.latest))
        return self.latest

    def seek(self, position: int) -> None:
        if position < self._position:
            raise damaged("a member that begins before the one before it ends")
        while self._position < position and self.read(min(CHUNK, position - self._position)):
            pass

    def tell(self) -> int:
        return self._position


class TarReader:
    """The members of a tar, one after another."""

    def __init__(self, tape: _Tape, raw: IO[bytes]) -> None:
        self._tape = tape
        self._raw = raw

    def members(self) -> Iterator[Member]:
        """Yield what is in the archive; contents are to be read before the next."""
        tape: Any = self._tape
        with _reading():
            tar = tarfile.TarFile(fileobj=tape, encoding="utf-8", errors="surrogateescape")
        while info := self._next(tar):
            tar.members = []  # type: ignore[attr-defined]  # or all of them stay in memory
            kind = TAR_KINDS.get(info.type, "member of an unknown kind")
            if kind == "file" and info.isdir():
                kind = "folder"
            if info.issparse():
                kind = "file with holes"
            if info.size < 0:
                raise damaged("a member of less than no bytes")
            yield Member(_as_text(info.name), kind, info.size, partial(self._contents, info))
        # tarfile takes any end for the end: a cut between two members, even a damaged header.
        if tape.latest != bytes(tarfile.BLOCKSIZE):
            raise damaged("its end is missing")
        while tape.read(CHUNK):
            pass  # the checksum of a compressed stream comes last

    def _next(self, tar: tarfile.TarFile) -> tarfile.TarInfo | None:
        with _reading():
            return tar.next()

    def _contents(self, info: tarfile.TarInfo) -> Iterator[bytes]:
        self._tape.seek(info.offset_data)
        left = info.size
        while left and (chunk := self._tape.read(min(CHUNK, left))):
            left -= len(chunk)
            yield chunk

    def promised(self, keep: Keep) -> int:
        """Say how many bytes it will unpack to: images do not shrink, so about its own size."""
        return os.fstat(self._raw.fileno()).st_size if keep is everything else 0

    def done(self) -> int:
        """Say how many bytes of the archive have been read."""
        return self._raw.tell()


def _as_text(name: str) -> str:
    """Read a name that is not UTF-8 as zip does: in code page 437, which knows every byte."""
    raw = name.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp437")
