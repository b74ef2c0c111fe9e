"""Atomic writing and safe reading of files, and locks on folders.

A few bytes can unpack to many gigabytes (a gzip bomb), so `gzip_lines` counts the unpacked bytes.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from shiftproof.core.errors import DataError, InvalidValue, RunConflict
from shiftproof.core.migrations import current, with_format

# The prefix of temporary files.
_TEMPORARY = ".shiftproof-"
# A size limit: files of a run, which are read at once, have at most a few megabytes.
_LARGEST = 2**30
_TO_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that readers see the old or the new file, even after a crash.

    The data is first written to a temporary file in the same folder (`is_temporary`).  A symbolic
    link at ``path`` is replaced, not followed.
    """
    if path.is_dir():
        raise InvalidValue(f"{path} is a folder; name a file to write")
    # The name cannot be guessed and the file must be new: otherwise a planted link could make us
    # overwrite its target.
    aside = path.with_name(f"{_TEMPORARY}{secrets.token_hex(16)}.new")
    try:
        with open(aside, "xb", opener=without_links) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the name that the user gave
        raise
    finally:
        # After renaming there is nothing to delete.
        with contextlib.suppress(OSError):
            aside.unlink()
    with contextlib.suppress(OSError):  # not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def refuse_data_itself(out: Path, data: str | os.PathLike[str]) -> None:
    """Raise if the output file is the input file, whose data would be lost."""
    given = Path(data).expanduser()
    if out.exists() and given.exists() and given.samefile(out):
        raise InvalidValue(f"`out` is the data itself, {out}; choose another file")


def without_links(path: str, flags: int) -> int:
    """Open a file without following a symbolic link; an opener for `open`."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def read_regular(path: str | Path, sha256: str | None = None) -> bytes:
    """Return the content of a regular file in an untrusted folder, with this hash if it is given.

    Links are rejected because they could point to other files, and pipes and devices because they
    may never end.
    """
    try:
        opened = os.open(path, _TO_READ)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _not_regular(path) from None
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        os.close(opened)
        raise _not_regular(path)
    with open(opened, "rb") as file:
        if status.st_size > _LARGEST:
            raise DataError(
                f"{path} has more than {_LARGEST // 2**20} MiB: it is damaged; remove it"
            )
        data = file.read()
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise changed_file(path)
    return data


def changed_file(path: str | Path) -> DataError:
    """Return the error for a file of an ended run whose hash is not the one in its done.json."""
    return DataError(f"{path} has changed since the run ended; delete the run to start over")


def require_regular(path: Path) -> None:
    """Reject what `read_regular` rejects, for libraries that read files themselves."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise _not_regular(path)


def _not_regular(path: str | Path) -> DataError:
    return DataError(
        f"{path} is not a regular file but a link, folder, pipe or device; replace it with the file"
        " itself"
    )


def is_temporary(path: Path) -> bool:
    """Return whether this is a temporary file that a killed `write_atomically` left behind."""
    return path.name.startswith(_TEMPORARY) and path.suffix == ".new"


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with its format number, indented, with `write_atomically`."""
    text = json.dumps(with_format(value), indent=2, ensure_ascii=False)
    write_atomically(path, text.encode() + b"\n")


def read_json(path: Path, required: Collection[str] = (), remedy: str = "") -> dict[str, Any]:
    """Return the JSON object in a file, which must have the keys ``required``.

    The object is migrated to this format (`migrations`).  ``remedy`` tells the user what to do if
    the file is missing or damaged.
    """
    value = read_json_if_any(path, required, remedy)
    if value is None:
        raise _damaged(path, required, remedy)
    return value


def read_json_if_any(
    path: str | Path, required: Collection[str] = (), remedy: str = "", sha256: str | None = None
) -> dict[str, Any] | None:
    """Return the JSON object in a file like `read_json`, or None if the file does not exist."""
    try:
        value = json.loads(read_regular(path, sha256))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        value = None
    if isinstance(value, dict):
        value = current(value, Path(path).name, path)
    if not isinstance(value, dict) or not set(required) <= value.keys():
        raise _damaged(path, required, remedy)
    return value


def _damaged(path: str | Path, required: Collection[str], remedy: str) -> DataError:
    keys = f" with {', '.join(required)}" if required else ""
    advice = f"; {remedy}" if remedy else ""
    return DataError(f"{path} is missing or damaged: expected a JSON object{keys}{advice}")


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    """Return the hash of a file's content as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


@contextlib.contextmanager
def locked(path: Path, busy: Exception) -> Iterator[None]:
    """Hold the lock file at `path`, or raise `busy` if another process holds it.

    The operating system releases the lock when the process ends, however it ends.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
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
    with locked(folder / "lock", RunConflict(busy)), _locked_itself(folder, RunConflict(busy)):
        yield


@contextlib.contextmanager
def _locked_itself(folder: Path, busy: Exception) -> Iterator[None]:
    """Also lock the folder itself, since the lock file may have been deleted.

    If the system cannot lock a folder, only the lock file is used.
    """
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        except OSError:  # a file system without such locks
            pass
        yield
    finally:
        os.close(handle)


# DEFLATE compresses repeated bytes up to 1032-fold.  Tables and records, which hold different
# numbers, rarely compress 20-fold.
MOST_TIMES = 100
# A small file may always unpack to this many bytes.
ALWAYS_ALLOWED = 64 * 2**20
LONGEST_LINE = 64 * 2**20


def gzip_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a gzipped file; raise as soon as it looks like a gzip bomb."""
    limit = max(ALWAYS_ALLOWED, MOST_TIMES * path.stat().st_size)
    total = 0
    with gzip.open(path) as file:
        while line := file.readline(LONGEST_LINE + 1):
            total += len(line)
            if total > limit or len(line) > LONGEST_LINE:
                raise DataError(
                    f"{path} unpacks to more than {total / 2**20:,.0f} MiB,"
                    f" {total / max(path.stat().st_size, 1):,.0f} times its size: it may be a gzip"
                    " bomb; if you trust it, unpack it yourself and give the unpacked file"
                )
            yield line
