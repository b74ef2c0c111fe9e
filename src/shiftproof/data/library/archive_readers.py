"""Read untrusted zip and tar archives, member by member, with a limit on the unpacked bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from shiftproof.core.errors import DataError
from shiftproof.data.library.archive_limits import (
    AGAIN,
    Limits,
    Meter,
    UnreadableArchive,
    archive_errors,
    damaged,
)

Keep = Callable[[PurePosixPath], bool]

CHUNK = 1 << 16
LONGEST_HEADER = 1 << 20

# Magic bytes of each format; a tar has none.
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


def everything(path: PurePosixPath) -> bool:
    """Keep every member of an archive."""
    return True


@contextmanager
def opened_archive(archive: Path, limits: Limits) -> Iterator[ZipReader | TarReader]:
    """Open an archive by its content, not its name; any error message is one line."""
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
        meter = Meter(archive, limits)
        try:
            if kind == "zip":
                with archive_errors():
                    opened = zipfile.ZipFile(raw)
                    listed = _listed(raw)
                if (len(opened.infolist()) - listed) % 2**16:
                    raise damaged(f"{len(opened.infolist())} of {listed} members are listed")
                yield ZipReader(opened, meter)
            else:
                yield TarReader(_Tape(DECOMPRESSED[kind](raw), meter), raw)
        except UnreadableArchive as error:
            raise DataError(f"{archive} cannot be unpacked: {error}") from error


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def _listed(raw: IO[bytes]) -> int:
    """Return the number of members stated at the end of a zip, which zipfile does not check.

    Some programs write only the lowest 16 bits of the number; zip64 stores more.
    """
    raw.seek(max(0, raw.seek(0, os.SEEK_END) - 2**16 - 100))
    tail = raw.read()
    end = tail.rindex(b"PK\5\6")
    (count,) = struct.unpack_from("<H", tail, end + 10)
    zip64 = tail[max(0, end - 76) : end]
    if count == 0xFFFF and zip64.startswith(b"PK\6\6"):
        (count,) = struct.unpack_from("<Q", zip64, 32)
    return int(count)


@dataclass(frozen=True)
class Member:
    """A member of an archive: its name, kind, stated size, and a function that reads it."""

    name: str
    kind: str
    size: int
    contents: Callable[[], Iterator[bytes]]


class ZipReader:
    """The members of a zip, in the order of its directory."""

    def __init__(self, opened: zipfile.ZipFile, meter: Meter) -> None:
        self._zip = opened
        self._meter = meter
        self._done = 0

    def members(self) -> Iterator[Member]:
        """Yield the members; read the contents of one before the next."""
        for info in self._zip.infolist():
            kind = ZIP_KINDS.get(stat.S_IFMT(info.external_attr >> 16), "file")
            if kind == "file" and info.filename.endswith("/"):
                kind = "folder"
            if info.flag_bits & 0x41:
                kind = "file under a password"
            # zipfile truncates a name at a NUL byte; the original name contains it.
            name = info.orig_filename if "\0" in info.orig_filename else info.filename
            yield Member(name, kind, info.file_size, partial(self._contents, info))
            self._done += info.compress_size

    def _contents(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        with archive_errors(), self._zip.open(info) as file:
            while chunk := file.read(CHUNK):
                self._meter.add(len(chunk))
                yield chunk

    def promised(self, keep: Keep) -> int:
        """Return the stated size of the kept members after unpacking, in bytes."""
        kept = (info for info in self._zip.infolist() if keep(PurePosixPath(info.filename)))
        return sum(info.file_size for info in kept)

    def done(self) -> int:
        """Return how many bytes of the archive have been read."""
        return self._done


class _Tape:
    """A forward-only file object for tarfile: a decompressed tar with a limit on the bytes.

    tarfile reads headers as a whole, so a header of gigabytes would fill the memory.
    """

    def __init__(self, stream: IO[bytes], meter: Meter) -> None:
        self._stream = stream
        self._meter = meter
        self._position = 0
        self.latest = b""

    def read(self, size: int) -> bytes:
        if size > LONGEST_HEADER:
            raise damaged(f"a header of {size} bytes")
        with archive_errors():
            self.latest = self._stream.read(size)
        self._position += len(self.latest)
        self._meter.add(len(self.latest))
        return self.latest

    def seek(self, position: int) -> None:
        if position < self._position:
            raise damaged("two members overlap")
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
        """Yield the members; read the contents of one before the next."""
        tape: Any = self._tape
        with archive_errors():
            tar = tarfile.TarFile(fileobj=tape, encoding="utf-8", errors="surrogateescape")
        while info := self._next(tar):
            tar.members = []  # type: ignore[attr-defined]  # else all of them stay in memory
            kind = TAR_KINDS.get(info.type, "member of an unknown kind")
            if kind == "file" and info.isdir():
                kind = "folder"
            if info.issparse():
                kind = "file with holes"
            if info.size < 0:
                raise damaged("a member with a negative size")
            yield Member(_as_text(info.name), kind, info.size, partial(self._contents, info))
        # tarfile accepts any end: a truncation between two members, even a damaged header.
        if tape.latest != bytes(tarfile.BLOCKSIZE):
            raise damaged("its end is missing")
        while tape.read(CHUNK):
            pass  # the checksum of a compressed stream comes last

    def _next(self, tar: tarfile.TarFile) -> tarfile.TarInfo | None:
        with archive_errors():
            return tar.next()

    def _contents(self, info: tarfile.TarInfo) -> Iterator[bytes]:
        self._tape.seek(info.offset_data)
        left = info.size
        while left and (chunk := self._tape.read(min(CHUNK, left))):
            left -= len(chunk)
            yield chunk

    def promised(self, keep: Keep) -> int:
        """Estimate the unpacked size by the archive's size, because images hardly compress."""
        return os.fstat(self._raw.fileno()).st_size if keep is everything else 0

    def done(self) -> int:
        """Return how many bytes of the archive have been read."""
        return self._raw.tell()


def _as_text(name: str) -> str:
    """Decode a name as UTF-8 or, as zip does, in code page 437, which accepts every byte."""
    raw = name.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp437")
