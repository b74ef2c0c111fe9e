"""Downloads that can be cut anywhere, by anything, and go on where they stopped.

A file grows as ``NAME.partial`` beside its target, with a note ``NAME.partial.json`` that says
which version of it the server was sending.  Only a file that is whole and has the right checksum
gets the target's name, so whatever has that name can be trusted.
"""

from __future__ import annotations

import errno
import html
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from email.message import Message
from http.client import HTTPResponse
from itertools import chain
from pathlib import Path
from typing import Any
from urllib import request

from filelock import FileLock

from shiftproof import __version__
from shiftproof.core.errors import DataError
from shiftproof.data.library.web import (
    Interrupted,
    Refused,
    content_range,
    in_words,
    network,
    opener,
    retry_after,
)
from shiftproof.data.sources import Source

Progress = Callable[[int, int | None], None]

BY_HAND = "download it in a browser, then run `shiftproof data import NAME PATH`"
LONGEST_PAUSE = 60.0
CHUNK = 1 << 16
# Enough of a file's beginning to tell a web page by, and of a web page to find its title in.
BEGINNING, PAGE = 512, 1 << 16
WORTH_RETRYING = (408, 429, *range(500, 600))
PAGE_TAG = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html|head|body|meta)[\s>]", re.I)
TITLE = re.compile(rb"<title[^>]*>(.*?)</title", re.I | re.S)


class _LinkFailed(DataError):
    """A link that does not give the file; another one may."""

    def __init__(self, source: Source, reason: str) -> None:
        super().__init__(f"cannot download {source.filename} from {source.url}: {reason}")
        self.link = f"{source.url} ({reason})"


def _silent(done: int, total: int | None) -> None:
    pass


def fetch(
    source: Source,
    target: Path,
    progress: Progress = _silent,
    timeout: float = 30,
    attempts: int = 4,
    pause: float = 1.0,
) -> None:
    """Download ``source`` to ``target``, going on with what an earlier call has left.

    It gives up after ``attempts`` failures in a row that bring nothing new; between them it waits
    ``pause`` seconds, then twice, then four times as long.  ``progress`` is told the bytes there
    are and, if known, the bytes there will be.  A second process waits for the first, and then
    finds the file there.
    """
    partial = _Partial(target)
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
        with _on_disk(partial.path):
            flaw = source.flaw(partial.path)
        if flaw:
            partial.discard()
            raise _LinkFailed(source, f"wrong bytes, now deleted: {flaw}")
        partial.finish(target)


def fetch_any(
    sources: Sequence[Source],
    folder: Path,
    progress: Progress = _silent,
    timeout: float = 30,
    attempts: int = 4,
    pause: float = 1.0,
    by_hand: str = BY_HAND,
) -> Path:
    """Download the first of ``sources`` that works into ``folder`` and return its path.

    A link with a half-finished download goes first, lest another one overwrite what there is.
    If none works, the error names each with its reason, and ends with ``by_hand``.
    """
    for source in sources:
        if _finished(source, folder / source.filename):
            return folder / source.filename
    failures = []
    for source in sorted(sources, key=lambda s: _Partial(folder / s.filename).begun(s) is None):
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
        raise DataError(f"{target} is a folder where a file should go; move it away")
    with _on_disk(target):
        return target.exists() and not source.flaw(target)


def _advance(source: Source, partial: _Partial, progress: Progress, timeout: float) -> None:
    """Bring the partial file to its end with one request, or raise what prevents it."""
    begun = partial.begun(source)
    start = partial.size if begun else 0
    if begun and begun.total == start:
        return  # the process ended after the last byte, before the renaming
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
            raise Refused(f"it offers {total} bytes instead of {source.size}")
        if total is None:
            total = source.size or (begun.total if begun and start else None)
        fresh = None if start else _Version.of(source, answer.headers, total)
        _receive(source, partial, answer, fresh, total, progress)


def _receive(
    source: Source,
    partial: _Partial,
    answer: HTTPResponse,
    fresh: _Version | None,
    total: int | None,
    progress: Progress,
) -> None:
    """Append the body to the partial file, which begins anew if ``fresh`` is given."""
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
        raise Refused(f"it sends more than the {total} bytes expected")
    if total is not None and done < total:
        raise Interrupted(f"the connection was cut at {done} of {total} bytes")


def _body(answer: HTTPResponse) -> Iterator[bytes]:
    while True:
        with network():
            # Not read(): what has come before a connection breaks would be lost with the error.
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
    """Stop at a page that asks for consent, a login or patience, which comes with status 200."""
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
    raise Refused("it answers with a web page instead of the file" + (words and f": {words!r}"))


@dataclass(frozen=True)
class _Version:
    """Which version of a file, in the server's words, is being downloaded from where."""

    url: str
    etag: str
    modified: str
    total: int | None

    @classmethod
    def of(cls, source: Source, headers: Message, total: int | None) -> _Version:
        return cls(source.url, headers.get("ETag", ""), headers.get("Last-Modified", ""), total)

    @property
    def validator(self) -> str:
        """What ``If-Range`` may carry; a weak tag promises nothing about bytes."""
        return "" if self.etag.startswith("W/") else self.etag or self.modified

    def agrees(self, headers: Message, total: int | None) -> bool:
        """Whether an answer is about this version; some servers do not know ``If-Range``."""
        pairs = ((self.etag, headers.get("ETag")), (self.modified, headers.get("Last-Modified")))
        known = next(((old, new) for old, new in pairs if old and new), None)
        return (known is None or known[0] == known[1]) and (
            self.total is None or total is None or self.total == total
        )


class _Partial:
    """The file that grows beside a target, the note beside that, and the lock on both."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(target.name + ".partial")
        self._note = target.with_name(target.name + ".partial.json")
        self._lock = target.with_name(target.name + ".lock")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out; the lock goes with the process, however it ends."""
        lock = FileLock(self._lock)
        with _on_disk(self._lock):
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @property
    def size(self) -> int:
        """The bytes there are."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def begun(self, source: Source) -> _Version | None:
        """Return what is half downloaded, if ``source`` can safely add the rest to it.

        Without a word from the server to tell versions apart, only a checksum makes it safe.
        """
        try:
            note = json.loads(self._note.read_bytes())
            url, etag, modified = (str(note[name]) for name in ("url", "etag", "modified"))
            total = None if note["total"] is None else int(note["total"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        version = _Version(url, etag, modified, total)
        safe = version.url == source.url and (version.validator or source.sha256 or source.md5)
        beyond = total is not None and self.size > total
        return version if safe and not beyond and self.size else None

    def begin(self, version: _Version) -> None:
        """Start from nothing; at no moment does a note stand beside bytes of another version."""
        self.discard()
        with _on_disk(self.path):
            self._note.write_text(json.dumps(asdict(version)))

    @contextmanager
    def appending(self) -> Iterator[Callable[[bytes], Any]]:
        """Give a function that adds bytes."""
        with _on_disk(self.path):
            file = open(self.path, "ab")  # noqa: SIM115

        def append(data: bytes) -> None:
            with _on_disk(self.path):
                file.write(data)

        try:
            yield append
        finally:
            with _on_disk(self.path):
                file.close()

    def discard(self) -> None:
        """Delete the bytes, and before them the note."""
        with _on_disk(self.path):
            self._note.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        """Give the file its name, once it is safely on the disk."""
        with _on_disk(target):
            with open(self.path, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(self.path, target)
            self._note.unlink(missing_ok=True)


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                f"no space left for {path}; make some and run this again:"
                " what has been downloaded so far is kept"
            ) from error
        raise DataError(f"cannot read or write {path}: {error.strerror or error}") from error
