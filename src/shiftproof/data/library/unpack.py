"""Unpack an untrusted archive completely and safely, or not at all.

Everything is written to a new folder beside the target, which is renamed to the target at the end.
In that folder, files and folders are only created, and links never are.  So no member can reach
outside or overwrite another one, however the file system treats case, accents or dots in names.
Names that differ only in case (some datasets have an `a.jpg` and an `a.JPG`) are both kept if the
file system distinguishes them; otherwise, creating the second one fails.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import re
import shutil
import stat
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from rich.filesize import decimal

from shiftproof.core.errors import DataError
from shiftproof.core.text import reason_of
from shiftproof.data.library.download import ByteProgress, silent

Keep = Callable[[PurePosixPath], bool]

BY_HAND = "if you trust it, unpack it yourself and import the folder"
AGAIN = "download it again"
DEEPEST = 64
CHUNK = 1 << 16
LONGEST_HEADER = 1 << 20
# The first bytes of each format, and how to decompress it; a plain tar has none.
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
# Headers with a long name or other attributes of the next member.
EXTENDING = (*tarfile.GNU_TYPES, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
# Links, devices, pipes and sockets.
SPECIAL = (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK)


# Limits on what an archive unpacks to, far above what any known dataset needs: its members, and its
# bytes in total and relative to the size of the archive.  The last applies only above SMALL bytes:
# a small archive may hold blank images, which compress well.
MEMBERS = 3_000_000
TOTAL = 200 * 10**9
RATIO = 200
SMALL = 10**8


class Member(NamedTuple):
    """A member of an archive: its name, stated size, and a function that opens it.

    `kind` is `file`, `folder` or anything else, which is refused.  `done` is how many bytes of the
    archive come before its content.
    """

    name: str
    kind: str
    size: int
    done: int
    opened: Callable[[], Any]


def extract(
    archive: Path, target: Path, *, progress: ByteProgress = silent, keep: Keep = lambda path: True
) -> int:
    """Unpack a zip or tar (plain, gzip, bzip2 or xz) into `target`; return the number of files.

    `target` must be empty or not exist.  `keep` decides which files and folders to keep, by their
    paths in the archive; files that macOS adds are always left out.  `progress` is called with the
    number of bytes read from the archive so far, and its size.  A failure leaves nothing behind.
    """
    if not archive.is_file():
        raise DataError(f"cannot read {archive}: no such file")
    with (
        _new_folder(archive, target) as folder,
        closing(_members(archive, folder, keep)) as content,
    ):
        size = archive.stat().st_size
        folders = {PurePosixPath()}
        members = files = 0
        for member in content:
            members += 1
            if members > MEMBERS:
                raise DataError(f"{archive} has more than {MEMBERS:,} members; {BY_HAND}")
            path = _safe_path(archive, member)
            # Files that macOS adds.
            junk = any(p in ("__MACOSX", ".DS_Store") or p.startswith("._") for p in path.parts)
            if not junk and keep(path):
                _write(archive, folder, path, member, folders)
                files += member.kind == "file"
            progress(min(member.done, size), size)
        if not members:
            raise DataError(f"{archive} is empty; {AGAIN}")
        progress(size, size)
        return files


@contextmanager
def _new_folder(archive: Path, target: Path) -> Iterator[Path]:
    """Yield a folder that becomes `target` on success and is deleted on failure."""
    aside = target.with_name(target.name + ".partial")
    with _one_line_errors(archive, target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise DataError(f"{target} must be an empty folder to unpack {archive} into")
        shutil.rmtree(aside, ignore_errors=True)  # left by a killed process
        aside.mkdir(parents=True)
    try:
        yield aside
        with _one_line_errors(archive, target):
            getattr(os, "sync", lambda: None)()
            if target.exists():
                target.rmdir()
            os.rename(aside, target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


# --- reading ----------------------------------------------------------------------------------


def _members(archive: Path, folder: Path, keep: Keep) -> Generator[Member, None, None]:
    """Yield the members of an archive, which is recognised by its content, not its name.

    Read the content of one before the next.
    """
    most = int(min(TOTAL, max(RATIO * archive.stat().st_size, SMALL)))
    with _one_line_errors(archive, archive), open(archive, "rb") as raw:
        head = raw.read(tarfile.BLOCKSIZE)
        raw.seek(0)
        if head.startswith(ZIP):
            yield from _zip_members(archive, raw, folder, most, keep)
            return
        stream: Any = raw
        for magic, decompressed in COMPRESSED.items():
            if head.startswith(magic):
                stream = decompressed(raw)
        if stream is raw:
            try:
                tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
            except (tarfile.TarError, ValueError):
                raise DataError(f"{archive} is neither a zip nor a tar archive; {AGAIN}") from None
        yield from _tar_members(archive, raw, stream, most)


def _require_size(archive: Path, count: int, most: int) -> None:
    if count > most:
        raise DataError(f"{archive} unpacks to more than {decimal(most)}; {BY_HAND}")


def _zip_members(
    archive: Path, raw: IO[bytes], folder: Path, most: int, keep: Keep
) -> Iterator[Member]:
    """Yield the members of a zip, in the order of its directory."""
    opened = zipfile.ZipFile(raw)
    members = opened.infolist()
    # zipfile reads no more of a member than its stated size.
    needed = sum(info.file_size for info in members if keep(PurePosixPath(info.filename)))
    _require_size(archive, needed, most)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{archive} needs {decimal(needed)} in {folder.parent}, where {decimal(free)} are"
            f" free: {decimal(needed - free)} are missing; free some space or choose another disk"
        )
    done = 0
    for info in members:
        # zipfile truncates a name at a NUL byte; the original name contains it.
        name, mode = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
        kind = "folder" if name.endswith("/") or mode == stat.S_IFDIR else "file"
        kind = "special" if mode in SPECIAL else kind
        yield Member(name, kind, info.file_size, done, partial(opened.open, info))
        done += info.compress_size


def _tar_members(archive: Path, raw: IO[bytes], stream: IO[bytes], most: int) -> Iterator[Member]:
    """Yield the members of a tar, one after another."""

    class Header(tarfile.TarInfo):
        latest = b""

        @classmethod
        def frombuf(cls, buf: Any, encoding: str, errors: str) -> Any:
            cls.latest = buf
            info: Any = super().frombuf(buf, encoding, errors)
            # tarfile reads the headers that extend another one into memory.
            if info.type in EXTENDING and info.size > LONGEST_HEADER:
                raise tarfile.ReadError(f"a header of {info.size} bytes")
            return info

    total = 0
    tar: Any = tarfile.open(  # noqa: SIM115
        fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape", tarinfo=Header
    )
    while info := tar.next():
        tar.members = []  # else all of them stay in memory
        total += info.size
        _require_size(archive, total, most)
        kind = "file" if info.isreg() and not info.issparse() else "special"
        kind = "folder" if info.isdir() else kind
        content = partial(tar.extractfile, info)
        yield Member(_as_text(info.name), kind, info.size, raw.tell(), content)
    # tarfile accepts any end: a truncation between two members, even a damaged header.
    if Header.latest != bytes(tarfile.BLOCKSIZE):
        raise EOFError("its end is missing")
    while chunk := stream.read(CHUNK):  # the checksum of a compressed stream comes last
        total += len(chunk)
        _require_size(archive, total, most)


def _as_text(name: str) -> str:
    """Decode a name as UTF-8 or, as zip does, in code page 437, which accepts every byte."""
    raw = name.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp437")


# --- writing ----------------------------------------------------------------------------------


def _safe_path(archive: Path, member: Member) -> PurePosixPath:
    """Return the path of a member relative to the target, or reject the whole archive."""
    path = PurePosixPath(member.name)
    reasons = {
        "is a link or device, or of another special kind": member.kind not in ("file", "folder"),
        "has no name": member.kind == "file" and not path.parts,
        "has a name with control characters": any(
            unicodedata.category(character) == "Cc" for character in member.name
        ),
        "has a name with a backslash": "\\" in member.name,
        "has an absolute path": path.is_absolute(),
        "has a path with a drive letter": any(re.match(r"[A-Za-z]:", part) for part in path.parts),
        # Some systems remove dots and spaces at the end of a name.
        "has a path that leads out of its folder": any(not p.strip(". ") for p in path.parts),
        f"is more than {DEEPEST} folders deep": len(path.parts) > DEEPEST,
    }
    for reason, applies in reasons.items():
        if applies:
            raise DataError(
                f"{archive} is not unpacked because its member {_shown(member.name)} {reason};"
                f" {BY_HAND}"
            )
    return path


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 100 else name[:100] + "…")


def _write(
    archive: Path, root: Path, path: PurePosixPath, member: Member, folders: set[PurePosixPath]
) -> None:
    """Create a member and the folders above it; `folders` are those that exist."""
    with _one_line_errors(archive, root / path):
        for folder in reversed((path, *path.parents)):
            if folder not in folders and (folder != path or member.kind == "folder"):
                os.mkdir(root / folder)
                folders.add(folder)
        if member.kind == "folder":
            return
        with member.opened() as source, _new_file(root / path) as file:
            shutil.copyfileobj(source, file, CHUNK)
        if (root / path).stat().st_size != member.size:
            raise EOFError(f"{_shown(member.name)} does not have {member.size} bytes")


def _new_file(path: Path) -> IO[bytes]:
    # Ignores the modes in the archive, so that no file is executable.
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o644))


@contextmanager
def _one_line_errors(archive: Path, path: Path) -> Iterator[None]:
    """Convert the errors of a disk, and those of the libraries on broken archives, to one line.

    The libraries document only some of theirs: a hostile header can make them fail in many ways.
    """
    try:
        yield
    except (DataError, MemoryError):
        raise
    except FileExistsError as error:
        raise DataError(
            f"{archive} is not unpacked because it holds {_shown(Path(error.filename).name)} twice,"
            " as a file and as a folder, or in two spellings that this disk cannot tell apart;"
            f" {BY_HAND}"
        ) from None
    except Exception as error:
        # A seek to an impossible place is EINVAL.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            why = "the disk is full; free some space" if full else error.strerror or str(error)
            raise DataError(f"cannot unpack {archive} to {_shown(str(path))}: {why}") from error
        raise DataError(
            f"{archive} is damaged, incomplete or needs an unsupported feature"
            f" ({reason_of(error)}); {AGAIN}"
        ) from error
