"""Downloads that resume after any interruption.

A file is downloaded to a partial file (see `PartialFile`), which is renamed to the target only when
it is complete and its checksum is correct.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.client import HTTPResponse
from itertools import chain
from pathlib import Path
from urllib import request

from shiftproof import __version__
from shiftproof.core.errors import DataError
from shiftproof.data.base import Source
from shiftproof.data.library.partial_file import FileVersion, PartialFile, disk_errors
from shiftproof.data.library.web import (
    Interrupted,
    Refused,
    content_range,
    in_words,
    network,
    opener,
    retry_after,
)

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


class _LinkFailed(DataError):
    """The error for a link that does not deliver the file; another link may work."""

    def __init__(self, source: Source, reason: str) -> None:
        super().__init__(f"cannot download {source.filename} from {source.url}: {reason}")
        self.link = f"{source.url} ({reason})"


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
    partial = PartialFile(target)
    with partial.held():
        if _finished(source, target):
            return
        failures = most = 0
        while True:
            try:
                _advance(source, partial, progress, timeout)
                break
            except Refused as refusal:
                raise _LinkFailed(source, str(refusal)) from None
            except Interrupted as cut:
                failures = 1 if partial.size > most else failures + 1
                most = max(most, partial.size)
                if failures >= attempts:
                    raise _LinkFailed(source, f"{cut}, {failures} times in a row") from None
                time.sleep(min(max(pause * 2 ** (failures - 1), cut.wait), LONGEST_PAUSE))
        with disk_errors(partial.path):
            flaw = source.flaw(partial.path)
        if flaw:
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
    for source in sorted(sources, key=lambda s: PartialFile(folder / s.filename).begun(s) is None):
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
    with disk_errors(target):
        return target.exists() and not source.flaw(target)


def _advance(source: Source, partial: PartialFile, progress: ByteProgress, timeout: float) -> None:
    """Complete the partial file with one request, or raise the reason for the failure."""
    begun = partial.begun(source)
    start = partial.size if begun else 0
    if begun and begun.total == start:
        return  # an earlier process ended after the last byte, before renaming the file
    headers = {"User-Agent": f"shiftproof/{__version__}", "Accept-Encoding": "identity"}
    if begun:
        headers["Range"] = f"bytes={start}-"
        if begun.validator:
            headers["If-Range"] = begun.validator
    with network():
        answer = opener().open(request.Request(source.url, headers=headers), timeout=timeout)
    with answer:
        if begun and answer.status in (206, 416):
            first, total = content_range(answer.headers)
            if not begun.agrees(answer.headers, total) or (answer.status == 206 and first != start):
                partial.discard()
                raise Interrupted("the file on the server has changed")
            if answer.status == 416:
                if total == start:
                    return
                partial.discard()
                raise Interrupted("the server does not have the rest of the file")
        elif answer.status == 200:
            start, total = 0, answer.length
        elif answer.status in WORTH_RETRYING:
            raise Interrupted(in_words(answer.status), retry_after(answer.headers))
        else:
            raise Refused(in_words(answer.status))
        if source.size and total is not None and total != source.size:
            raise Refused(f"the file has {total} bytes instead of {source.size}")
        if total is None:
            total = source.size or (begun.total if begun and start else None)
        fresh = None if start else FileVersion.of(source, answer.headers, total)
        _receive(source, partial, answer, fresh, total, progress)


def _receive(
    source: Source,
    partial: PartialFile,
    answer: HTTPResponse,
    fresh: FileVersion | None,
    total: int | None,
    progress: ByteProgress,
) -> None:
    """Append the response body to the partial file, or start it over if `fresh` is given."""
    chunks = _body(answer)
    beginning = _gather(chunks, BEGINNING) if fresh else b""
    _refuse_web_page(source, answer, beginning, chunks)
    if fresh:
        partial.begin(fresh)
    done = partial.size
    progress(done, total)
    with partial.appending() as append:
        for chunk in chain([beginning], chunks):
            append(chunk)
            done += len(chunk)
            if total is not None and done > total:
                break
            progress(done, total)
    if total is not None and done > total:
        partial.discard()
        raise Refused(f"the server sends more than the expected {total} bytes")
    if total is not None and done < total:
        raise Interrupted(f"the connection was cut at {done} of {total} bytes")


def _body(answer: HTTPResponse) -> Iterator[bytes]:
    while True:
        with network():
            # Not read(), which would lose the bytes already received if the connection breaks.
            chunk = answer.read1(CHUNK)
        if not chunk:
            return
        yield chunk


def _gather(chunks: Iterator[bytes], size: int) -> bytes:
    gathered = b""
    while len(gathered) < size and (chunk := next(chunks, b"")):
        gathered += chunk
    return gathered


def _refuse_web_page(
    source: Source, answer: HTTPResponse, beginning: bytes, rest: Iterator[bytes]
) -> None:
    """Reject a web page that asks for consent or a login, which comes with status 200."""
    if source.filename.lower().endswith((".html", ".htm")):
        return
    if answer.headers.get_content_type() != "text/html" and not PAGE_TAG.match(beginning):
        return
    page = beginning
    with suppress(Interrupted):
        page += _gather(rest, PAGE)
    title = TITLE.search(page)
    words = html.unescape(title[1].decode("utf-8", "replace")) if title else ""
    words = " ".join("".join(c if c.isprintable() else " " for c in words).split())[:80]
    raise Refused("the server sends a web page instead of the file" + (words and f": {words!r}"))
