"""Downloads that resume after any interruption.

A file is downloaded to `NAME.partial` beside its target, and renamed to the target only when it is
complete and its checksum is correct.  `NAME.partial.json` records which version of the file the
server was sending.
"""

from __future__ import annotations

import errno
import html
import json
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib import request
from urllib.error import HTTPError, URLError

from filelock import FileLock

from shiftproof import __version__
from shiftproof.core.errors import DataError
from shiftproof.data.base import Source

# Called with the number of bytes done, and the total number if known.
ByteProgress = Callable[[int, int | None], None]

BY_HAND = "download it in a browser, then run `shiftproof data import NAME PATH`"
LONGEST_PAUSE = 60.0
CHUNK = 1 << 16
# Number of bytes needed to recognise a web page, and to find its title.
BEGINNING, PAGE = 512, 1 << 16
WORTH_RETRYING = (408, 429, *range(500, 600))
PAGE_TAG = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html|head|body|meta)[\s>]", re.I)
TITLE = re.compile(rb"<title[^>]*>(.*?)</title", re.I | re.S)
SPAN = re.compile(r"bytes\s+([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)")


class _LinkFailed(DataError):
    """The error for a link that does not deliver the file; another link may work."""

    def __init__(self, source: Source, reason: str) -> None:
        super().__init__(f"cannot download {source.filename} from {source.url}: {reason}")
        self.link = f"{source.url} ({reason})"


class _Refused(Exception):
    """A permanent failure, which a retry would not change."""


class _Interrupted(Exception):
    """A temporary failure; a retry after `wait` seconds may succeed."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def silent(done: int, total: int | None) -> None:
    """Show no progress."""


def fetch(
    source: Source,
    target: Path,
    progress: ByteProgress = silent,
    timeout: float = 30,
    attempts: int = 4,
    pause: float = 1.0,
) -> None:
    """Download `source` to `target`, resuming an earlier interrupted call.

    Fail after `attempts` failures in a row without new bytes; wait `pause` seconds after the first
    failure, then twice, then four times as long.  A second process waits for the first and then
    finds the file.
    """
    partial = _PartialFile(target)
    with _disk_errors(partial.path):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The lock is released however the process ends.
        with FileLock(target.with_name(target.name + ".lock")):
            if _finished(source, target):
                return
            failures = most = 0
            while True:
                try:
                    _advance(source, partial, progress, timeout)
                    break
                except _Refused as refusal:
                    raise _LinkFailed(source, str(refusal)) from None
                except _Interrupted as cut:
                    failures = 1 if partial.size > most else failures + 1
                    most = max(most, partial.size)
                    if failures >= attempts:
                        reason = f"{cut}, {failures} times in a row"
                        raise _LinkFailed(source, reason) from None
                    time.sleep(min(max(pause * 2 ** (failures - 1), cut.wait), LONGEST_PAUSE))
            if flaw := source.flaw(partial.path):
                partial.discard()
                raise _LinkFailed(source, f"wrong content, now deleted: {flaw}")
            partial.finish(target)


def fetch_any(
    sources: Sequence[Source],
    folder: Path,
    progress: ByteProgress = silent,
    timeout: float = 30,
    attempts: int = 4,
    pause: float = 1.0,
    by_hand: str = BY_HAND,
) -> Path:
    """Download the first of `sources` that works into `folder` and return its path.

    A link with an unfinished download is tried first, so that no other link overwrites it.  If none
    works, the error names each link with its reason and ends with `by_hand`.
    """
    for source in sources:
        if _finished(source, folder / source.filename):
            return folder / source.filename
    failures = []
    for source in sorted(sources, key=lambda s: _PartialFile(folder / s.filename).begun(s) is None):
        target = folder / source.filename
        try:
            fetch(source, target, progress, timeout, attempts, pause)
        except _LinkFailed as failure:
            failures.append(failure.link)
        else:
            return target
    raise DataError(f"no link works: {'; '.join(failures) or 'none is known'}; {by_hand}")


def _finished(source: Source, target: Path) -> bool:
    if target.is_dir():
        raise DataError(f"{target} is a folder, but the download needs a file there; move it")
    with _disk_errors(target):
        return target.exists() and not source.flaw(target)


class _PartialFile:
    """The partial file of a target, and the record of its version."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(target.name + ".partial")
        self._record = target.with_name(target.name + ".partial.json")

    @property
    def size(self) -> int:
        """The number of bytes downloaded so far."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def begun(self, source: Source) -> dict[str, Any] | None:
        """Return the record of the partial file, if it can safely be resumed from `source`.

        If the server does not identify versions, resuming is safe only with a checksum.
        """
        try:
            record: dict[str, Any] = json.loads(self._record.read_bytes())
            url, version, total = (record[name] for name in ("url", "version", "total"))
        except (OSError, ValueError, TypeError, KeyError):
            return None
        valid = isinstance(version, str) and (total is None or isinstance(total, int))
        safe = valid and url == source.url and (version or source.sha256 or source.md5)
        beyond = valid and total is not None and self.size > total
        return record if safe and not beyond and self.size else None

    def begin(self, source: Source, version: str, total: int | None) -> None:
        """Start over; the record never describes bytes of another version."""
        self.discard()
        self._record.write_text(json.dumps({"url": source.url, "version": version, "total": total}))

    def discard(self) -> None:
        """Delete the record, then the file."""
        self._record.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        """Flush the file to disk and rename it to its target."""
        with open(self.path, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(self.path, target)
        self._record.unlink(missing_ok=True)


def _advance(source: Source, partial: _PartialFile, progress: ByteProgress, timeout: float) -> None:
    """Complete the partial file with one request, or raise the reason for the failure."""
    begun = partial.begun(source)
    start = partial.size if begun else 0
    if begun and begun["total"] == start:
        return  # an earlier process ended after the last byte, before renaming the file
    headers = {"User-Agent": f"shiftproof/{__version__}", "Accept-Encoding": "identity"}
    if begun:
        headers["Range"] = f"bytes={start}-"
        if begun["version"]:
            headers["If-Range"] = begun["version"]
    try:
        with _network():
            asked = request.Request(source.url, headers=headers)
            answer = request.build_opener(_NoFTP).open(asked, timeout=timeout)
    except HTTPError as error:
        with error:
            reason = f"it answers {error.code} {_plain(str(error.reason))}".rstrip()
            if error.code == 416 and begun:
                partial.discard()
                raise _Interrupted("the server does not have the rest of the file") from None
            if error.code in WORTH_RETRYING:
                raise _Interrupted(reason, _retry_after(error.headers)) from None
            raise _Refused(reason) from None
    with answer:
        if begun and answer.status == 206:
            total = _total_of_rest(answer.headers, begun, start)
            if total == 0:
                partial.discard()
                raise _Interrupted("the file on the server has changed")
        elif answer.status == 200:
            start, total = 0, answer.length
        else:
            raise _Refused(f"it answers {answer.status}")
        if source.size and total is not None and total != source.size:
            raise _Refused(f"the file has {total} bytes instead of {source.size}")
        if total is None:
            total = source.size or (begun["total"] if begun and start else None)
        _receive(source, partial, answer, start, total, progress)


def _total_of_rest(headers: Message, begun: dict[str, Any], start: int) -> int | None:
    """Return the size of the whole file, None if unknown; 0 if this is not the rest of it.

    Some servers ignore `If-Range`.
    """
    span = SPAN.fullmatch(headers.get("Content-Range", "").strip())
    if span is None or int(span[1]) != start:
        return 0
    total = None if span[2] == "*" else int(span[2])
    if None not in (total, begun["total"]) and total != begun["total"]:
        return 0
    version = _version(headers)
    return 0 if version and begun["version"] and version != begun["version"] else total


def _version(headers: Message) -> str:
    """Return what identifies the bytes of a file, for `If-Range`; a weak tag does not."""
    tag: str = headers.get("ETag", "")
    return "" if tag.startswith("W/") else tag or headers.get("Last-Modified", "")


def _retry_after(headers: Message) -> float:
    """Return the seconds to wait from `Retry-After`, or 0 if it is not a number."""
    asked = headers.get("Retry-After", "").strip()
    return float(asked) if re.fullmatch("[0-9]{1,9}", asked) else 0.0


def _receive(
    source: Source,
    partial: _PartialFile,
    answer: HTTPResponse,
    start: int,
    total: int | None,
    progress: ByteProgress,
) -> None:
    """Append the response body to the partial file, which starts over if `start` is 0."""
    beginning = b""
    if not start:
        with _network():
            beginning = answer.read(BEGINNING)
        _refuse_web_page(source, answer, beginning)
        partial.begin(source, _version(answer.headers), total)
    done = start
    progress(done, total)
    with open(partial.path, "ab") as file:
        chunk = beginning or _chunk(answer)
        while chunk:
            file.write(chunk)
            done += len(chunk)
            if total is not None and done > total:
                break
            progress(done, total)
            chunk = _chunk(answer)
    if total is not None and done > total:
        partial.discard()
        raise _Refused(f"the server sends more than the expected {total} bytes")
    if total is not None and done < total:
        raise _Interrupted(f"the connection was cut at {done} of {total} bytes")


def _chunk(answer: HTTPResponse) -> bytes:
    with _network():
        # Not read(), which would lose the bytes already received if the connection breaks.
        return answer.read1(CHUNK)


def _refuse_web_page(source: Source, answer: HTTPResponse, beginning: bytes) -> None:
    """Reject a web page that asks for consent or a login, which comes with status 200."""
    if source.filename.lower().endswith((".html", ".htm")):
        return
    if answer.headers.get_content_type() != "text/html" and not PAGE_TAG.match(beginning):
        return
    page = beginning
    with suppress(_Interrupted), _network():
        page += answer.read(PAGE)
    title = TITLE.search(page)
    words = _plain(html.unescape(title[1].decode("utf-8", "replace")))[:80] if title else ""
    raise _Refused("the server sends a web page instead of the file" + (words and f": {words!r}"))


def _plain(text: str) -> str:
    """Return what a server says as one short printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


class _NoFTP(request.FTPHandler):
    """Refuse redirects to ftp; urllib itself refuses all others but http and https."""

    def ftp_open(self, req: request.Request) -> Any:
        """Refuse the address."""
        raise ValueError("it redirects to ftp:, but only http and https are allowed")


@contextmanager
def _network() -> Iterator[None]:
    """Convert network errors to `_Interrupted` if they may be temporary, else to `_Refused`."""
    try:
        yield
    except HTTPError:
        raise
    except (OSError, HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        reason = _plain(str(cause)) or type(cause).__name__
        temporary = isinstance(cause, OSError | HTTPException)
        if isinstance(cause, ssl.SSLCertVerificationError) or not temporary:
            raise _Refused(reason) from None
        raise _Interrupted(reason) from None


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
