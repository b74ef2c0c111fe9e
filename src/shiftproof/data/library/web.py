"""HTTP and HTTPS requests, with a clear reason for every failure."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

REDIRECTS = (301, 302, 303, 307, 308)
FOLLOWED = ("http", "https")


class Refused(Exception):
    """A permanent failure, which a retry would not change."""


class Interrupted(Exception):
    """A temporary failure; a retry after `wait` seconds may succeed."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _Redirects(request.HTTPRedirectHandler):
    """Follow redirects to http and https only; urllib would also follow ftp."""

    def redirect_request(
        self, req: request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> request.Request | None:
        if urlsplit(newurl).scheme not in FOLLOWED:
            raise HTTPError(newurl, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Answers(request.HTTPErrorProcessor):
    """Return every response except a redirect, whatever its status."""

    def http_response(self, request: request.Request, response: HTTPResponse) -> Any:
        if response.status not in REDIRECTS:
            return response
        try:
            return super().http_response(request, response)
        except ValueError:  # not a valid address; urllib leaves the connection open
            response.close()
            raise

    https_response = http_response


def opener() -> request.OpenerDirector:
    """Return an opener for http and https only, which uses the system's proxies."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.UnknownHandler(),
        _Redirects(),
        _Answers(),
    ):
        opener.add_handler(handler)
    return opener


@contextmanager
def network() -> Iterator[None]:
    """Convert network errors to `Interrupted` if they may be temporary, else to `Refused`."""
    try:
        yield
    except HTTPError as error:
        with error:
            raise Refused(_redirect_trouble(error)) from None
    except (OSError, HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise Refused(f"its certificate is not valid ({cause.verify_message})") from None
        if isinstance(cause, TimeoutError):
            raise Interrupted("the server does not answer in time") from None
        if isinstance(cause, socket.gaierror):
            raise Interrupted("the server's name cannot be resolved") from None
        if isinstance(cause, ConnectionRefusedError):
            raise Interrupted("the server refuses the connection") from None
        if isinstance(cause, ConnectionError | HTTPException):
            raise Interrupted("the connection was cut") from None
        kind = Interrupted if isinstance(cause, OSError) else Refused
        raise kind(" ".join(str(cause).split())) from None


def _redirect_trouble(error: HTTPError) -> str:
    scheme = urlsplit(error.url or "").scheme
    if scheme not in FOLLOWED:
        return f"it redirects to {scheme}:, but only http and https are allowed"
    return "it redirects in a loop" if error.headers.get("Location") else in_words(error.code)


def in_words(code: int) -> str:
    """Describe an HTTP status code, as the end of a sentence."""
    known = code in HTTPStatus._value2member_map_
    return f"it answers {code}" + (f" {HTTPStatus(code).phrase}" if known else "")


def content_range(headers: Message) -> tuple[int | None, int | None]:
    """Return the first byte and the size of the whole file, if `Content-Range` gives them."""
    given = re.fullmatch(
        r"bytes\s+(?:(\d{1,18})-\d{1,18}|\*)/(?:(\d{1,18})|\*)",
        headers.get("Content-Range", "").strip(),
        re.A,
    )
    first, total = (int(n) if n else None for n in given.groups()) if given else (None, None)
    return first, total


def retry_after(headers: Message) -> float:
    """Return the seconds to wait from `Retry-After` (a number or a date), or 0 if not given."""
    asked = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d{1,9}", asked, re.A):
        return float(asked)
    with suppress(ValueError, TypeError, OverflowError):
        return (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
    return 0.0
