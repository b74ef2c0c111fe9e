"""Files that are read and replaced as a whole, and locks on folders."""

from __future__ import annotations

import contextlib
import errno
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
from shiftproof.core.file_format import with_format, without_format

# How the names of files that are being written begin.
_TEMPORARY = ".shiftproof-"
# Files of a run, which are read as a whole, have at most some megabytes.
_LARGEST = 2**30
_TO_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that any reader, after any crash, sees the old or the new.

    The data go to a new file beside it first (`is_temporary`).  A symbolic link at ``path`` is
    replaced, not followed.
    """
    if path.is_dir():
        raise InvalidValue(f"{path} is a folder; name a file to write")
    # A name that nobody can guess and a file that must be new: a link planted by others could
    # otherwise make us overwrite what it points to.
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
        # Nothing to delete once it has been renamed.
        with contextlib.suppress(OSError):
            aside.unlink()
    with contextlib.suppress(OSError):  # not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def refuse_data_itself(out: Path, data: str | os.PathLike[str]) -> None:
    """Raise if a file to write is the one that is read: the data would be lost."""
    given = Path(data).expanduser()
    if out.exists() and given.exists() and given.samefile(out):
        raise InvalidValue(f"`out` is the data itself, {out}; choose another file")


def without_links(path: str, flags: int) -> int:
    """Open a file for `open`, but not through a symbolic link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def read_regular(path: str | Path) -> bytes:
    """Return the content of a file in a folder that may come from a stranger.

    A link there could make us read a file from elsewhere, and a pipe or a device has no end: they
    are refused.
    """
    try:
        opened = os.open(path, _TO_READ)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _not_regular(path) from None
    try:
        told = os.fstat(opened)
        if not stat.S_ISREG(told.st_mode):
            raise _not_regular(path)
        if told.st_size > _LARGEST:
            raise DataError(
                f"{path} has more than {_LARGEST // 2**20} MiB: it is damaged; remove it"
            )
        # Half the time of a file object: a sweep has a hundred thousand small files.
        data = os.read(opened, told.st_size + 1)
        while len(data) != told.st_size and (more := os.read(opened, told.st_size + 1)):
            data += more  # it grew meanwhile, or is larger than one call reads
        return data
    finally:
        os.close(opened)


def require_regular(path: Path) -> None:
    """Refuse what `read_regular` refuses, for libraries that read files by themselves."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise _not_regular(path)


def _not_regular(path: str | Path) -> DataError:
    return DataError(f"{path} is a link, a folder, a pipe or a device; put the file itself there")


def is_temporary(path: Path) -> bool:
    """Whether the file is one that `write_atomically` was writing when its process was killed."""
    return path.name.startswith(_TEMPORARY) and path.suffix == ".new"


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object and the version of its format, indented, with `write_atomically`."""
    text = json.dumps(with_format(value), indent=2, ensure_ascii=False)
    write_atomically(path, text.encode() + b"\n")


def read_json(path: Path, required: Collection[str] = (), remedy: str = "") -> dict[str, Any]:
    """Return the JSON object in a file, which must have the keys ``required``.

    The version of its format is checked and left out.  ``remedy`` tells the user what to do if
    the file is missing or damaged.
    """
    value = read_json_if_any(path, required, remedy)
    if value is None:
        raise DataError(_damaged(path, required, remedy))
    return value


def read_json_if_any(
    path: str | Path, required: Collection[str] = (), remedy: str = ""
) -> dict[str, Any] | None:
    """Return the JSON object in a file as `read_json` does, or None if there is no file."""
    try:
        value = json.loads(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):  # the last: nested without end
        value = None
    if not isinstance(value, dict) or not set(required) <= value.keys():
        raise DataError(_damaged(path, required, remedy))
    return without_format(value, path)


def _damaged(path: str | Path, required: Collection[str], remedy: str) -> str:
    keys = f" with {', '.join(required)}" if required else ""
    message = f"{path} is missing or damaged: expected a JSON object{keys}"
    return "; ".join(filter(None, (message, remedy)))


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    """Return the hash of a file's content, in hexadecimal digits."""
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
    """Lock the folder by its handle too: someone may have deleted the lock file of a process.

    Where the system cannot lock a folder, the lock file must do.
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
