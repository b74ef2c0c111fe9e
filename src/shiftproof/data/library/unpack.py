"""Unpack an untrusted archive completely and safely, or not at all.

Everything is written to a new folder beside the target, which is renamed to the target at the end.
In that folder, files and folders are only created, and links never are.  So no member can reach
outside or overwrite another one, however the file system treats case, accents or dots in names.
Names that differ only in case (some datasets have an `a.jpg` and an `a.JPG`) are both kept if the
file system distinguishes them; otherwise, creating the second one fails.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from rich.filesize import decimal

from shiftproof.core.errors import DataError
from shiftproof.data.library.archive_limits import AGAIN, BY_HAND, Limits, damaged, too_big
from shiftproof.data.library.archive_readers import (
    Keep,
    Member,
    TarReader,
    ZipReader,
    everything,
    opened_archive,
)
from shiftproof.data.library.download import ByteProgress, silent

Made = TypeVar("Made")
DEEPEST = 64


def extract(
    archive: Path,
    target: Path,
    *,
    limits: Limits = Limits(),  # noqa: B008
    progress: ByteProgress = silent,
    keep: Keep = everything,
) -> int:
    """Unpack a zip or tar (plain, gzip, bzip2 or xz) into `target`; return the number of files.

    `target` must be empty or not exist.  `keep` decides which files and folders to keep, by their
    paths in the archive; files that macOS adds are always left out.  `progress` is called with the
    number of bytes read from the archive so far, and its size.  A failure leaves nothing behind.
    """
    with _new_folder(archive, target) as folder, opened_archive(archive, limits) as reader:
        _check_space(archive, folder, reader.promised(keep), limits)
        return _write(archive, folder, reader, limits, progress, keep)


@contextmanager
def _new_folder(archive: Path, target: Path) -> Iterator[Path]:
    """Yield a folder that becomes `target` on success and is deleted on failure."""
    aside = target.with_name(target.name + ".partial")
    with _disk_errors(archive, target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise DataError(f"{target} must be an empty folder to unpack {archive} into")
        shutil.rmtree(aside, ignore_errors=True)  # left by a killed process
        aside.mkdir(parents=True)
    try:
        yield aside
        with _disk_errors(archive, target):
            getattr(os, "sync", lambda: None)()
            if target.exists():
                target.rmdir()
            os.rename(aside, target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _check_space(archive: Path, folder: Path, needed: int, limits: Limits) -> None:
    if needed > limits.total:
        raise too_big(archive, limits)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{archive} needs {decimal(needed)} in {folder.parent}, where {decimal(free)} are free:"
            f" {decimal(needed - free)} are missing; free some space or choose another disk"
        )


def _write(
    archive: Path,
    root: Path,
    reader: ZipReader | TarReader,
    limits: Limits,
    progress: ByteProgress,
    keep: Keep,
) -> int:
    """Write the members below `root` and return the number of files."""
    size = archive.stat().st_size
    folders = {PurePosixPath()}
    members = files = 0
    for member in reader.members():
        members += 1
        if members > limits.members:
            raise DataError(f"{archive} has more than {limits.members:,} members; {BY_HAND}")
        path = _safe_path(archive, member)
        if not _is_junk(path) and keep(path):
            is_file = member.kind == "file"
            _make_folders(archive, root, path.parent if is_file else path, folders)
            if is_file:
                _write_file(archive, root / path, member, limits)
                files += 1
        progress(min(reader.done(), size), size)
    if not members:
        raise DataError(f"{archive} is empty; {AGAIN}")
    progress(size, size)
    return files


def _safe_path(archive: Path, member: Member) -> PurePosixPath:
    """Return the path of a member relative to the target, or reject the whole archive."""
    path = PurePosixPath(member.name)
    reasons = {
        f"is a {member.kind}": member.kind not in ("file", "folder"),
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


def _is_junk(path: PurePosixPath) -> bool:
    """Whether macOS added a file to the archive."""
    return any(p in ("__MACOSX", ".DS_Store") or p.startswith("._") for p in path.parts)


def _make_folders(
    archive: Path, root: Path, path: PurePosixPath, folders: set[PurePosixPath]
) -> None:
    for folder in reversed((path, *path.parents)):
        if folder not in folders:
            _create(archive, root / folder, os.mkdir)
            folders.add(folder)


def _write_file(archive: Path, path: Path, member: Member, limits: Limits) -> None:
    if member.size > limits.member:
        raise DataError(
            f"{archive} has a member of {decimal(member.size)}, {_shown(member.name)}, but at most"
            f" {decimal(limits.member)} are allowed; {BY_HAND}"
        )
    file = _create(archive, path, _new_file)
    written = 0
    try:
        for chunk in member.contents():
            written += len(chunk)
            if written > member.size:
                break
            with _disk_errors(archive, path):
                file.write(chunk)
    finally:
        with _disk_errors(archive, path):
            file.close()
    if written != member.size:
        raise damaged(f"{_shown(member.name)} does not have {member.size} bytes")


def _new_file(path: Path) -> IO[bytes]:
    # Ignores the modes in the archive, so that no file is executable.
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o644))


def _create(archive: Path, path: Path, make: Callable[[Path], Made]) -> Made:
    """Create a file or folder; if it exists, the archive holds it twice."""
    with _disk_errors(archive, path):
        try:
            return make(path)
        except FileExistsError:
            raise DataError(
                f"{archive} is not unpacked because it holds {_shown(path.name)} twice, as a file"
                f" and as a folder, or in two spellings that this disk cannot tell apart; {BY_HAND}"
            ) from None


@contextmanager
def _disk_errors(archive: Path, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full; free some space" if full else error.strerror or str(error)
        raise DataError(f"cannot unpack {archive} to {_shown(str(path))}: {why}") from error
