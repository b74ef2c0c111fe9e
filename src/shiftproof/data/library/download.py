"""Downloads that resume after an interruption.

pooch checks the hash of a file and puts it in place only if it is right.  It cannot resume, so its
downloader is ours: it appends to `NAME.partial`.  A file without a known hash starts over, because
its parts could belong to two versions.
"""

from __future__ import annotations

import errno
import html
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from shiftproof import __version__
from shiftproof.core.errors import DataError
from shiftproof.core.text import reason_of
from shiftproof.data.base import Source

if TYPE_CHECKING:
    from requests import RequestException, Response

# Called with the number of bytes done, and the total number if known.
ByteProgress = Callable[[int, int | None], None]

BY_HAND = "download it in a browser, then run `shiftproof data import NAME PATH`"
# Seconds that a server may take, attempts in a row, and seconds between them.
TIMEOUT = 30.0
ATTEMPTS = 4
PAUSE, LONGEST_PAUSE = 1.0, 60.0
CHUNK = 1 << 16
WORTH_RETRYING = (408, 429, *range(500, 600))
PAGE_TAG = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html|head|body|meta)[\s>]", re.I)
TITLE = re.compile(rb"<title[^>]*>(.*?)</title", re.I | re.S)


class _LinkFailed(DataError):
    """The error for a link that does not deliver the file; another link may work."""

    def __init__(self, source: Source, reason: str) -> None:
        super().__init__(f"cannot download {source.filename} from {source.url}: {reason}")
        self.link = f"{source.url} ({reason})"


def silent(done: int, total: int | None) -> None:
    """Show no progress."""


def fetch(source: Source, target: Path, progress: ByteProgress = silent) -> None:
    """Download `source` to `target`, resuming an earlier interrupted call.

    Fail after `ATTEMPTS` failures in a row without new bytes; wait `PAUSE` seconds after the first
    failure, then twice, then four times as long.  A second process waits for the first and then
    finds the file.
    """
    import pooch

    def download(url: str, output: str, _: object) -> None:
        _download(source, partial, progress)
        partial.replace(output)

    partial = _partial(target)
    if target.is_dir():
        raise DataError(f"{target} is a folder, but the download needs a file there; move it")
    pooch.get_logger().setLevel("WARNING")
    with _disk_errors(partial):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The lock is released however the process ends.
        with FileLock(target.with_name(target.name + ".lock")):
            try:
                pooch.retrieve(
                    source.url, source.known_hash, target.name, target.parent, downloader=download
                )
            except ValueError as error:
                reason = f"wrong content, now deleted: {reason_of(error, 400)}"
                raise _LinkFailed(source, reason) from None


def fetch_any(
    sources: Sequence[Source], folder: Path, progress: ByteProgress = silent, by_hand: str = BY_HAND
) -> Path:
    """Download the first of `sources` that works into `folder` and return its path.

    Links whose download is finished or begun are tried first.  If none works, the error names each
    link with its reason and ends with `by_hand`.
    """

    def is_new(source: Source) -> bool:
        target = folder / source.filename
        return not (target.exists() or _partial(target).exists())

    failures = []
    for source in sorted(sources, key=is_new):
        try:
            fetch(source, folder / source.filename, progress)
        except _LinkFailed as failure:
            failures.append(failure.link)
        else:
            return folder / source.filename
    raise DataError(f"no link works: {'; '.join(failures) or 'none is known'}; {by_hand}")


def _partial(target: Path) -> Path:
    return target.with_name(target.name + ".partial")


def _download(source: Source, partial: Path, progress: ByteProgress) -> None:
    """Complete the partial file, asking again after failures that may be temporary."""
    from requests import ConnectionError, RequestException, Timeout
    from requests.exceptions import ChunkedEncodingError

    if not source.known_hash:
        partial.unlink(missing_ok=True)
    failures = most = 0
    while True:
        try:
            _advance(source, partial, progress)
            break
        except RequestException as error:
            answer, reason = error.response, _reason(error)
            temporary = isinstance(error, ConnectionError | Timeout | ChunkedEncodingError)
            if not temporary and (answer is None or answer.status_code not in WORTH_RETRYING):
                raise _LinkFailed(source, reason) from None
            size = partial.stat().st_size if partial.exists() else 0
            failures = 1 if size > most else failures + 1
            most = max(most, size)
            if failures >= ATTEMPTS:
                raise _LinkFailed(source, f"{reason}, {failures} times in a row") from None
            asked = "" if answer is None else answer.headers.get("Retry-After", "")
            wait = float(asked) if re.fullmatch("[0-9]{1,9}", asked) else 0.0
            time.sleep(min(max(PAUSE * 2 ** (failures - 1), wait), LONGEST_PAUSE))
    if not partial.exists() or not partial.stat().st_size:
        partial.unlink(missing_ok=True)
        raise _LinkFailed(source, "the file is empty")


def _advance(source: Source, partial: Path, progress: ByteProgress) -> None:
    """Append the rest of the file to the partial file with one request."""
    import requests

    done = partial.stat().st_size if source.known_hash and partial.exists() else 0
    headers = {"User-Agent": f"shiftproof/{__version__}", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    with requests.get(source.url, headers=headers, timeout=TIMEOUT, stream=True) as answer:
        if answer.status_code == 416 and done:
            return  # there is no rest; the hash tells whether the file is right
        answer.raise_for_status()
        if answer.status_code == 206 and done:
            if not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
                partial.unlink()
                raise requests.ConnectionError("the server sends another part of the file")
        elif answer.status_code == 200:
            done = 0
        else:
            raise _LinkFailed(source, f"it answers {answer.status_code} {answer.reason}")
        length = answer.headers.get("Content-Length", "")
        total = source.size or (done + int(length) if length.isdecimal() else None)
        if not done and length.isdecimal() and int(length) != total:
            raise _LinkFailed(source, f"the file has {length} bytes instead of {total}")
        chunks = answer.iter_content(CHUNK)
        beginning = b"" if done else next(chunks, b"")
        _refuse_web_page(source, answer, beginning)
        progress(done, total)
        with open(partial, "ab" if done else "wb") as file:
            while chunk := beginning or next(chunks, b""):
                beginning = b""
                done += file.write(chunk)
                if total is not None and done > total:
                    partial.unlink()
                    raise _LinkFailed(source, f"the server sends more than {total} bytes")
                progress(done, total)
    if total is not None and done < total:
        raise requests.ConnectionError("the connection was cut")


def _refuse_web_page(source: Source, answer: Response, beginning: bytes) -> None:
    """Reject a web page that asks for consent or a login, which comes with status 200."""
    is_page = answer.headers.get("Content-Type", "").lower().startswith("text/html")
    if source.filename.lower().endswith((".html", ".htm")):
        return
    if is_page or PAGE_TAG.match(beginning):
        title = TITLE.search(beginning)
        text = "" if title is None else html.unescape(title[1].decode("utf-8", "replace"))
        words = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:80]
        what = "the server sends a web page instead of the file"
        raise _LinkFailed(source, f"{what}: {words!r}" if words else what)


def _reason(error: RequestException) -> str:
    """Return what went wrong; requests wraps the reason in the error of its pool."""
    if (answer := error.response) is not None and not answer.ok:
        return reason_of(Exception(f"it answers {answer.status_code} {answer.reason or ''}"))
    cause: Any = error.args[0] if error.args else error
    if "IncompleteRead" in str(cause):
        return "the connection was cut"
    return reason_of(getattr(cause, "reason", None) or error)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
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
