"""Downloads from a server on this machine that misbehaves in every way a test asks it to."""

import errno
import gc
import hashlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from _internals import (
    BY_HAND,
    DataError,
    data_download as download,
    download_CHUNK as CHUNK,
    fetch,
    fetch_any,
    sources_Source as Source,
)

BODY = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(BODY).hexdigest()


@contextmanager
def patient(**limits):
    """Replace `timeout`, `attempts` or `pause`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(download, name.upper(), value)
        yield


def quickly(source, target, progress=download.silent, **limits):
    with patient(**{"timeout": 5, "pause": 0.001} | limits):
        fetch(source, target, progress)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site = self.server.site
        site.requests.append(dict(self.headers))
        self.close_connection = True
        site.respond(self, len(site.requests))

    def log_message(self, *_):
        pass

    def answer(self, status, headers=(), body=b"", length=None):
        self.send_response(status)
        headers = {"Connection": "close", "Content-Type": "application/zip"} | dict(headers)
        if "Transfer-Encoding" not in headers and length != "unknown":
            headers["Content-Length"] = len(body) if length is None else length
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def file(self, body=BODY, stop=None, ranges=True, if_range=True, **headers):
        """Send ``body`` as a proper server would, but at most ``stop`` bytes of what it promised.

        Returns the position in the file that was reached.
        """
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        asked = self.headers.get("Range") if ranges else None
        condition = self.headers.get("If-Range")
        known = (headers.get("ETag"), headers.get("Last-Modified"))
        if if_range and condition is not None and condition not in known:
            asked = None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if asked and start >= len(body):
            self.answer(416, {"Content-Range": f"bytes */{len(body)}"})
            return start
        if asked:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        sent = body[start:] if stop is None else body[start : start + stop]
        self.answer(206 if asked else 200, headers, sent, len(body) - start)
        return start + len(sent)

    def reset(self):
        """Cut the connection rudely: what is on its way is lost, and reading is an error."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # a client that was killed, or a connection cut on purpose


class Site:
    def __init__(self, server):
        self.url = f"http://127.0.0.1:{server.server_port}/set.zip"
        self.requests = []
        self.respond = lambda handler, _: handler.file(ETag='"1"')
        self.released = threading.Event()

    def source(self, **known):
        return Source(self.url, "set.zip", **known)

    @property
    def ranges(self):
        return [request.get("Range") for request in self.requests]


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    server.site = Site(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.site
    server.site.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "downloads" / "set.zip"


@pytest.fixture
def sleeps(monkeypatch):
    slept = []
    monkeypatch.setattr(download.time, "sleep", slept.append)
    return slept


def partial_of(target):
    return target.with_name(target.name + ".partial")


def leftovers(target):
    there = {path.name for path in target.parent.iterdir()} - {target.name, target.name + ".lock"}
    return {name for name in there if not name.startswith("tmp")}  # of pooch, after a kill


def cut_once(at, body=BODY, **headers):
    """Cut the first connection after ``at`` bytes; then behave."""
    return lambda handler, n: handler.file(body, stop=at if n == 1 else None, **headers)


def interrupt(site, target, at=100_000, **headers):
    """Leave a partial download of ``at`` bytes, as a cut connection does, and forget it."""
    site.respond = lambda handler, _: handler.file(stop=at, **headers or {"ETag": '"1"'})
    with pytest.raises(DataError, match="was cut"):
        quickly(site.source(sha256=SHA256), target, attempts=1)
    with open(partial_of(target), "wb") as file:  # an incomplete chunk is not written
        file.write(BODY[:at])
    site.requests.clear()


def failure(source, target, **options):
    with pytest.raises(DataError) as caught:
        quickly(source, target, **options)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert source.url in message
    assert not target.exists()
    return message


def test_a_file_arrives_with_its_progress(site, target):
    told = []
    quickly(site.source(sha256=SHA256, size=len(BODY)), target, progress=lambda *p: told.append(p))
    assert target.read_bytes() == BODY
    assert leftovers(target) == set()
    assert told[0] == (0, len(BODY))
    assert told[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert site.ranges == [None]


@pytest.mark.parametrize("known", [{}, {"sha256": SHA256}, {"size": len(BODY)}])
def test_a_finished_file_is_not_downloaded_again(site, target, known):
    quickly(site.source(), target)
    quickly(site.source(**known), target)
    assert len(site.requests) == 1


@pytest.mark.parametrize("content", [b"", b"something else", OTHER])
def test_a_file_that_is_not_the_one_is_replaced(site, target, content):
    target.parent.mkdir()
    target.write_bytes(content)
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 416, 451, 204, 206, 304])
def test_a_refusal_is_not_asked_again(site, target, status):
    site.respond = lambda handler, _: handler.answer(status, {"Content-Type": "text/html"})
    message = failure(site.source(), target)
    assert f"answers {status}" in message
    assert len(site.requests) == 1
    assert leftovers(target) == set()


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 599])
def test_trouble_that_passes_is_asked_again(site, target, status):
    site.respond = lambda handler, n: handler.answer(status) if n < 3 else handler.file()
    quickly(site.source(), target)
    assert target.read_bytes() == BODY
    assert len(site.requests) == 3


def test_pauses_grow_until_the_attempts_are_spent(site, target, sleeps):
    site.respond = lambda handler, _: handler.answer(500)
    message = failure(site.source(), target, attempts=4, pause=0.5)
    assert "500 Internal Server Error, 4 times in a row" in message
    assert len(site.requests) == 4
    assert sleeps == [0.5, 1.0, 2.0]


def test_pauses_have_an_end(site, target, sleeps):
    site.respond = lambda handler, _: handler.answer(500)
    failure(site.source(), target, attempts=9, pause=1.0)
    assert sleeps == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize(
    ("asked", "slept"),
    [("7", 7), ("86400", 60), ("soon", 0.001), ("-5", 0.001), ("9" * 5000, 0.001), ("²", 0.001)],
)
def test_the_server_says_how_long_to_wait(site, target, sleeps, asked, slept):
    site.respond = lambda handler, n: (
        handler.answer(429, {"Retry-After": asked.encode("utf-8").decode("latin-1")})
        if n == 1
        else handler.file()
    )
    quickly(site.source(), target)
    assert sleeps == [slept]


@pytest.mark.parametrize("seed", range(5))
def test_cuts_at_random_places_lose_and_double_nothing(site, target, seed):
    rng = random.Random(seed)
    reached = []

    def respond(handler, n):
        stop = rng.choice([1, 700, 8192, 65_536, rng.randrange(1, 60_000)]) if n <= 12 else None
        reached.append(handler.file(stop=stop))

    site.respond = respond
    quickly(site.source(sha256=SHA256), target, attempts=13)
    assert target.read_bytes() == BODY
    resumed = [int((asked or "bytes=0-")[6:-1]) for asked in site.ranges[1:]]
    assert resumed == sorted(resumed)
    # What arrived in an incomplete chunk may be asked for again.
    assert all(0 <= at - start < CHUNK for at, start in zip(reached, resumed, strict=False))


def test_connections_reset_midway(site, target):
    def respond(handler, n):
        handler.file(stop=100_000 if n < 4 else None, ETag='"1"')
        if n < 4:
            handler.reset()

    site.respond = respond
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1", b"nonsense\r\n\r\n", b"\x15\x03\x01"])
def test_connections_cut_before_a_proper_answer(site, target, answer):
    site.respond = lambda handler, n: (
        handler.connection.sendall(answer) if n < 3 else handler.file()
    )
    quickly(site.source(), target)
    assert target.read_bytes() == BODY


def test_a_server_that_sends_the_rest_in_pieces(site, target):
    def respond(handler, n):
        start = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
        part = BODY[start : start + 90_000]
        span = f"bytes {start}-{start + len(part) - 1}/{len(BODY)}"
        if n == 1:
            handler.file(stop=100_000)
        else:
            handler.answer(206, {"Content-Range": span}, part)

    site.respond = respond
    quickly(site.source(sha256=SHA256, size=len(BODY)), target)
    assert target.read_bytes() == BODY
    assert len(site.requests) == 4


def test_a_server_without_ranges_starts_over(site, target):
    site.respond = cut_once(100_000, ranges=False)
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY
    assert site.ranges == [None, f"bytes={CHUNK}-"]


def test_cuts_that_bring_nothing_new_come_to_an_end(site, target):
    site.respond = lambda handler, _: handler.file(stop=1000, ranges=False, ETag='"1"')
    assert "the connection was cut, 4 times" in failure(site.source(), target)
    assert len(site.requests) == 4


def test_a_file_that_changes_between_attempts_is_never_mixed(site, target):
    site.respond = lambda handler, n: handler.file(BODY if n == 1 else OTHER, stop=100_000 * n)
    known = hashlib.sha256(OTHER).hexdigest()
    assert "wrong content" in failure(site.source(sha256=known), target, attempts=9)
    assert leftovers(target) == set()
    site.respond = lambda handler, _: handler.file(OTHER)
    quickly(site.source(sha256=known), target)
    assert target.read_bytes() == OTHER


@pytest.mark.parametrize("known", [{}, {"sha256": SHA256}])
def test_only_a_file_with_a_checksum_is_resumed(site, target, known):
    site.respond = cut_once(100_000)
    quickly(site.source(**known), target)
    assert target.read_bytes() == BODY
    assert site.ranges == [None, f"bytes={CHUNK}-" if known else None]


@pytest.mark.parametrize("span", [None, "bytes 0-299999/300000", "bytes */*", "pages 1-2/3"])
def test_a_range_other_than_the_one_asked_for_is_not_used(site, target, span):
    def respond(handler, n):
        if n == 1:
            handler.file(stop=100_000)
        elif n == 2:
            handler.answer(206, {"Content-Range": span} if span else {}, OTHER)
        else:
            handler.file()

    site.respond = respond
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY
    assert site.ranges == [None, f"bytes={CHUNK}-", None]


def test_the_process_ended_after_the_last_byte(site, target):
    target.parent.mkdir()
    partial_of(target).write_bytes(BODY)
    site.respond = lambda handler, _: handler.file()
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY
    assert site.ranges == ["bytes=300000-"]


def test_more_is_there_than_the_server_has(site, target):
    target.parent.mkdir()
    partial_of(target).write_bytes(BODY + b"!")
    assert "wrong content" in failure(site.source(sha256=SHA256), target)
    assert leftovers(target) == set()


@pytest.mark.parametrize(
    ("known", "said"), [({"sha256": "0" * 64}, SHA256), ({"md5": "0" * 32}, "md5:0")]
)
def test_wrong_bytes_are_deleted(site, target, known, said):
    message = failure(site.source(**known), target)
    assert "wrong content" in message
    assert said in message
    assert leftovers(target) == set()
    assert len(site.requests) == 1


def test_right_md5(site, target):
    quickly(site.source(md5=hashlib.md5(BODY).hexdigest()), target)
    assert target.read_bytes() == BODY


def test_a_wrong_size_is_seen_before_anything_is_kept(site, target):
    assert "has 300000 bytes instead of 299999" in failure(site.source(size=299_999), target)
    assert leftovers(target) == set()


def test_an_empty_file_is_none(site, target):
    site.respond = lambda handler, _: handler.file(b"")
    assert "empty" in failure(site.source(), target)
    assert leftovers(target) == set()


def unsized(handler, body=BODY, chunked=True, end=True, **headers):
    if not chunked:
        handler.answer(200, headers, body, length="unknown")
        return
    handler.answer(200, {"Transfer-Encoding": "chunked"} | headers)
    for start in range(0, len(body), 50_000):
        part = body[start : start + 50_000]
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
    if end:
        handler.wfile.write(b"0\r\n\r\n")


@pytest.mark.parametrize("chunked", [True, False])
def test_a_file_of_untold_size(site, target, chunked):
    told = []
    site.respond = lambda handler, _: unsized(handler, chunked=chunked)
    quickly(site.source(), target, progress=lambda *p: told.append(p))
    assert target.read_bytes() == BODY
    assert told[-1] == (len(BODY), None)


@pytest.mark.parametrize("chunked", [True, False])
def test_a_file_of_untold_size_cut_short(site, target, chunked):
    site.respond = lambda handler, n: (
        unsized(handler, BODY[:70_000], chunked, end=False) if n == 1 else handler.file()
    )
    # Unchunked, nothing but the size tells a cut from the end.
    quickly(site.source(sha256=SHA256, size=len(BODY)), target)
    assert target.read_bytes() == BODY
    assert len(site.ranges) == 2


def test_a_file_that_does_not_end_where_it_should(site, target):
    site.respond = lambda handler, _: unsized(handler)
    assert "more than 200000 bytes" in failure(site.source(size=200_000), target)
    assert leftovers(target) == set()


PAGE = (
    b"<!DOCTYPE html><html><head>%s<title>Google Drive -\n Quota &amp; exceeded</title></head>"
    b"<body>Too many users have viewed or downloaded this file recently.</body></html>"
)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html; charset=utf-8", PAGE % b""),
        ("TEXT/HTML", PAGE % (b"<meta charset=utf-8>" * 500)),
        ("application/octet-stream", PAGE % b""),
        ("application/zip", b"\xef\xbb\xbf \r\n" + PAGE % b""),
        ("application/zip", (PAGE % b"").lower().replace(b"<!doctype html>", b"\n")),
    ],
)
def test_a_web_page_is_not_an_archive(site, target, content_type, body):
    site.respond = lambda handler, _: handler.file(body, Content_Type=content_type)
    message = failure(site.source(), target)
    assert "web page instead of the file" in message
    assert "google drive - quota & exceeded" in message.lower()
    assert leftovers(target) == set()
    assert len(site.requests) == 1


@pytest.mark.parametrize("title", [b"", b"<title>\x1b[31m\xff\x00" + b"x" * 300 + b"</title>"])
def test_a_web_page_with_an_odd_title(site, target, title):
    site.respond = lambda handler, _: handler.file(b"<html>" + title + b"</html>")
    message = failure(site.source(), target)
    assert "web page" in message
    assert message.isprintable()
    assert len(message) < 250


def test_a_web_page_where_the_rest_was_asked_for_leaves_what_there_is(site, target):
    interrupt(site, target)
    site.respond = lambda handler, _: handler.file(
        PAGE % b"", ranges=False, Content_Type="text/html"
    )
    assert "web page" in failure(site.source(sha256=SHA256), target)
    assert partial_of(target).read_bytes() == BODY[:100_000]
    site.respond = lambda handler, _: handler.file()
    quickly(site.source(sha256=SHA256), target)
    assert site.ranges == ["bytes=100000-", "bytes=100000-"]
    assert target.read_bytes() == BODY


@pytest.mark.parametrize(
    ("filename", "body"),
    [("page.html", PAGE % b""), ("set.xml", b"<metadata>1</metadata>"), ("set.csv", b"<5\n")],
)
def test_what_is_no_web_page_or_is_wanted_as_one(site, tmp_path, filename, body):
    kind = "text/html" if filename.endswith("html") else "text/plain"
    site.respond = lambda handler, _: handler.file(body, Content_Type=kind)
    quickly(Source(site.url, filename), tmp_path / filename)
    assert (tmp_path / filename).read_bytes() == body


def test_a_stalled_connection_is_taken_up_again(site, target):
    def respond(handler, n):
        handler.file(stop=100_000 if n == 1 else None, ETag='"1"')
        if n == 1:
            handler.wfile.flush()
            site.released.wait(10)

    site.respond = respond
    began = time.monotonic()
    quickly(site.source(sha256=SHA256), target, timeout=0.3)
    assert time.monotonic() - began < 5
    assert target.read_bytes() == BODY
    assert site.ranges == [None, f"bytes={CHUNK}-"]


def test_a_server_that_never_answers(site, target):
    site.respond = lambda handler, _: site.released.wait(10)
    assert "timed out. (read timeout=0.1), 2 times" in failure(
        site.source(), target, timeout=0.1, attempts=2
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_with_the_range(site, target, status):
    interrupt(site, target)
    site.respond = lambda handler, _: (
        handler.answer(status, {"Location": "/mirror"})
        if handler.path == "/set.zip"
        else handler.file(ETag='"1"')
    )
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY
    assert site.ranges == ["bytes=100000-"] * 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("/set.zip", "30 redirects"),
        ("file:///etc/hostname", "No connection adapters were found for 'file:///etc/hostname'"),
        ("ftp://127.0.0.1/set.zip", "No connection adapters were found for 'ftp:"),
        ("data:application/zip,PK", "No connection adapters"),
        ("http://[", "IPv6"),
        (None, "answers 302 Found"),
    ],
)
def test_a_redirect_to_nowhere(site, target, location, said):
    site.respond = lambda handler, _: handler.answer(
        302, {"Location": location} if location else {}
    )
    assert said in failure(site.source(), target)
    assert leftovers(target) == set()
    gc.collect()  # urllib leaves the connection open if the new address is not valid


def test_redirects_that_never_repeat_and_never_end(site, target):
    site.respond = lambda handler, n: handler.answer(302, {"Location": f"/{n}"})
    assert "30 redirects" in failure(site.source(), target)
    assert len(site.requests) < 40


def test_no_server_at_all(target, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        source = Source(f"http://127.0.0.1:{unused.getsockname()[1]}/set.zip", "set.zip")
        assert "Connection refused, 4 times" in failure(source, target)


def test_no_network_at_all(target, monkeypatch):
    def offline(*_, **__):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", offline)
    source = Source("http://host.invalid/set.zip", "set.zip")
    assert "Temporary failure in name resolution" in failure(source, target)


def test_a_server_that_does_not_speak_tls(site, target):
    source = Source(site.url.replace("http:", "https:"), "set.zip")
    assert "SSL" in failure(source, target, attempts=2)


def test_stopping_keeps_what_there_is(site, target):
    def stop(done, total):
        if done >= 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quickly(site.source(sha256=SHA256), target, progress=stop)
    there = partial_of(target).stat().st_size
    assert there >= 100_000
    assert not target.exists()
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY
    assert site.ranges == [None, f"bytes={there}-"]


class FullDisk:
    """A file on a disk with room for 80,000 more bytes."""

    def __init__(self, path, mode):
        self.file, self.room = open(path, mode), 80_000  # noqa: SIM115

    def write(self, data):
        self.file.write(data[: self.room])
        if len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(data)
        return len(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def test_a_full_disk_keeps_what_there_is(site, target, monkeypatch):
    links = [site.source(sha256=SHA256), Source(site.url + "?2", "set.zip")]
    with monkeypatch.context() as patch:
        patch.setattr(download, "open", FullDisk, raising=False)
        with pytest.raises(
            DataError, match=r"^no space left for .*run the command again.*resumes$"
        ):
            fetch_any(links, target.parent)
    assert len(site.requests) == 1  # another link would need as much space
    assert partial_of(target).read_bytes() == BODY[:80_000]
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY
    assert site.ranges == [None, "bytes=80000-"]


def test_a_folder_or_a_file_in_the_way(site, tmp_path):
    with pytest.raises(DataError, match="is a folder, but the download needs a file there"):
        quickly(site.source(), tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot read or write"):
        quickly(site.source(), tmp_path / "file" / "set.zip")
    assert site.requests == []


# A process that fetches, without the seconds that importing the whole data package takes.
CHILD = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("download", sys.argv[1])
download = sys.modules["download"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(download)
print("ready", flush=True)
sys.stdin.readline()
download.fetch(download.Source(sys.argv[2], "set.zip", sys.argv[4]), Path(sys.argv[3]))
"""


def child(site, target, sha256=""):
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, download.__file__, site.url, str(target), sha256],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_killed_process_is_taken_up_by_the_next(site, target):
    def respond(handler, n):
        handler.file(stop=150_000 if n == 1 else None)
        if n == 1:
            handler.wfile.flush()
            site.released.wait(20)

    site.respond = respond
    with child(site, target, SHA256) as process:
        process.stdin.write("\n")
        process.stdin.flush()
        for _ in range(1000):
            if partial_of(target).exists() and partial_of(target).stat().st_size >= 100_000:
                break
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not target.exists()
    there = partial_of(target).stat().st_size
    assert there >= 100_000
    quickly(site.source(sha256=SHA256), target)
    assert target.read_bytes() == BODY
    assert site.ranges == [None, f"bytes={there}-"]
    assert leftovers(target) == set()


def test_two_processes_download_once(site, target):
    def respond(handler, _):
        time.sleep(0.3)
        handler.file(ETag='"1"')

    site.respond = respond
    with child(site, target, SHA256) as one, child(site, target, SHA256) as two:
        for process in (one, two):
            process.stdin.write("\n")
            process.stdin.flush()
        errors = [process.communicate(timeout=30)[1] for process in (one, two)]
    assert errors == ["", ""]
    assert (one.returncode, two.returncode) == (0, 0)
    assert target.read_bytes() == BODY
    assert len(site.requests) == 1


def several(site, *names):
    return [Source(site.url.replace("set.zip", name), f"{name}.zip", SHA256) for name in names]


def routes(**answers):
    return lambda handler, _: answers[handler.path[1:]](handler)


def test_the_next_link_is_tried(site, tmp_path):
    site.respond = routes(
        gone=lambda handler: handler.answer(404),
        page=lambda handler: handler.file(PAGE % b"", Content_Type="text/html"),
        good=lambda handler: handler.file(),
        unused=lambda handler: handler.file(OTHER),
    )
    with patient(pause=0.001):
        got = fetch_any(several(site, "gone", "page", "good", "unused"), tmp_path)
    assert got == tmp_path / "good.zip"
    assert got.read_bytes() == BODY
    assert len(site.requests) == 3


def test_when_no_link_works_each_is_named_with_its_reason(site, tmp_path):
    site.respond = routes(
        gone=lambda handler: handler.answer(404),
        ill=lambda handler: handler.answer(500),
        page=lambda handler: handler.file(PAGE % b"", Content_Type="text/html"),
    )
    sources = several(site, "gone", "ill", "page")
    with patient(pause=0.001), pytest.raises(DataError) as caught:
        fetch_any(sources, tmp_path, by_hand="do it yourself")
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    reasons = ["404 Not Found", "500 Internal Server Error, 4 times", "a web page"]
    assert message.endswith("; do it yourself")
    places = [message.index(text) for pair in zip(sources, reasons, strict=True)
              for text in (pair[0].url, pair[1])]  # fmt: skip
    assert places == sorted(places)
    with pytest.raises(DataError, match="none is known") as caught:
        fetch_any([], tmp_path)
    assert str(caught.value).endswith(BY_HAND)


def test_a_link_begun_goes_first_and_a_finished_file_needs_none(site, target):
    site.respond = routes(
        first=lambda handler: handler.answer(404), second=lambda handler: handler.file(stop=100_000)
    )
    sources = several(site, "first", "second")
    with patient(attempts=1), pytest.raises(DataError):
        fetch_any(sources, target.parent)
    site.requests.clear()
    site.respond = lambda handler, _: handler.file()
    assert fetch_any(sources, target.parent).read_bytes() == BODY
    assert site.ranges == [f"bytes={CHUNK}-"]
    assert fetch_any(sources, target.parent) == target.parent / "second.zip"
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"url": url} for url in ("", "set.zip", "file:///etc/passwd", "ftp://a/b", "http://a/b c")]
    + [{"url": "http://a/\r\nHost: b"}, {"sha256": "abc"}, {"sha256": "A" * 64}, {"md5": "0" * 31}]
    + [{"filename": name} for name in ("", ".", "..", "a/b", "/a", "../a")],
)
def test_a_source_that_is_none(wrong):
    with pytest.raises(DataError) as caught:
        Source(**{"url": "http://localhost/a", "filename": "a"} | wrong)
    assert len(str(caught.value).splitlines()) == 1
