import contextlib
import hashlib
import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from _internals import (
    INDEX,
    THUMBNAIL_SIDE,
    ImageRecord,
    data_index as image_index,
    index_BATCH as BATCH,
    scan,
    thumbnail,
)
from PIL import Image


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index's own folder for each test; the file is not there yet."""
    monkeypatch.setenv("SHIFTPROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / INDEX


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files decoded so far."""
    names: list[str] = []
    decode = image_index.decode

    def counting(data: bytes, where: Path) -> Image.Image:
        names.append(where.name)
        return decode(data, where)

    monkeypatch.setattr(image_index, "decode", counting)
    return names


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (12, 8)) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def pictures(folder: Path, n: int) -> list[Path]:
    return [picture(folder / f"{number}.png", number) for number in range(n)]


def connect(index: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(index, isolation_level=None))


def remembered(index: Path) -> int:
    with connect(index) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {image_index.TABLE}").fetchone()[0])


# --- what is learnt ---------------------------------------------------------------------------


def test_a_record_says_what_the_file_is(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png", size=(30, 20))
    (record,) = scan([path])
    assert record.path == path
    assert record.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (record.width, record.height) == (30, 20)
    assert record.error == ""
    assert record.readable
    assert len(record.thumbnail) == THUMBNAIL_SIDE**2


def test_the_size_is_that_of_the_upright_picture(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(tmp_path / "a.jpg", exif=exif)
    (record,) = scan([tmp_path / "a.jpg"])
    assert (record.width, record.height) == (20, 30)


def test_a_thumbnail_is_the_picture_in_small_and_grey() -> None:
    """Left half black, right half white, top to bottom; away from the edge nothing mixes."""
    pixels = np.zeros((100, 240, 3), np.uint8)
    pixels[:, 120:] = 255
    small = np.frombuffer(thumbnail(Image.fromarray(pixels)), np.uint8)
    small = small.reshape(THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    half = THUMBNAIL_SIDE // 2
    assert (small[:, : half - 1] == 0).all()
    assert (small[:, half + 1 :] == 255).all()


def test_a_thumbnail_weighs_colours_by_their_lightness() -> None:
    """ITU-R 601: 0.299, 0.587 and 0.114 of red, green and blue."""
    for colour, level in (((255, 0, 0), 76), ((0, 255, 0), 150), ((0, 0, 255), 29)):
        small = thumbnail(Image.new("RGB", (50, 50), colour))
        assert small == bytes([level]) * THUMBNAIL_SIDE**2


@pytest.mark.parametrize("workers", [None, 1, 5])
def test_the_order_is_the_one_given(tmp_path: Path, workers: int | None) -> None:
    paths = pictures(tmp_path, 20)[::-1]
    paths.insert(3, tmp_path / "missing.png")
    records = scan(paths, workers=workers)
    assert [record.path for record in records] == paths
    # Again, half of them remembered, half new: mixed in any order.
    more = [picture(tmp_path / f"x{n}.png", 100 + n) for n in range(20)]
    mixed = [path for pair in zip(paths, more, strict=False) for path in pair]
    again = scan(mixed, workers=workers)
    assert [record.path for record in again] == mixed
    known = {record.path: record for record in records}
    for record in again:
        if record.readable:
            assert record.sha256 == hashlib.sha256(record.path.read_bytes()).hexdigest()
        if record.path in known:
            assert record == known[record.path]


def test_nothing_to_scan() -> None:
    assert scan([]) == []


# --- what is no image -------------------------------------------------------------------------


def test_a_file_that_is_no_image_is_a_record_with_the_reason_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_text("not a picture")
    (record,) = scan([path])
    assert record.error == "not a readable image (unknown format)"
    assert not record.readable
    assert record.sha256 == hashlib.sha256(b"not a picture").hexdigest()


def test_a_name_of_two_lines_leaves_the_reason_on_one(tmp_path: Path) -> None:
    path = tmp_path / "two\nlines.jpg"
    path.write_text("not a picture")
    assert scan([path])[0].error == "not a readable image (unknown format)"


def test_everything_else_in_a_folder_is_a_record_too(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    os.mkfifo(tmp_path / "pipe.png")
    whole = picture(tmp_path / "whole.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    wanted = {
        "empty.png": "an empty file",
        "folder.png": "a folder",
        "dangling.png": "no such file or directory",
        "loop.png": "too many levels of symbolic links",
        "pipe.png": "not a regular file",
        "missing.png": "no such file or directory",
        "cut.png": "not a readable image (",
        "whole.png": "",
        "null\0.png": "embedded null",
        "x" * 300: "file name too long",
        "whole.png/inside": "not a directory",
    }
    records = scan([tmp_path / name for name in wanted])
    for record, (name, error) in zip(records, wanted.items(), strict=True):
        assert error in record.error, name  # Python 3.13 says which function found it first
        assert record.readable == (name == "whole.png")
        assert "\n" not in record.error


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a file that refuses to be opened, because a superuser may open any."""
    path = picture(tmp_path / "a.png")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert scan([path]) == [ImageRecord(path, error="permission denied")]


def test_a_file_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str]
) -> None:
    monkeypatch.setattr(image_index, "MOST_BYTES", 1000)
    with (tmp_path / "a.png").open("wb") as file:
        file.truncate(1001)
    assert scan([tmp_path / "a.png"])[0].error == "1,001 bytes are too many"
    assert decoded == []


# --- memory between commands ------------------------------------------------------------------


def test_an_unchanged_file_is_decoded_once(tmp_path: Path, decoded: list[str]) -> None:
    paths = pictures(tmp_path, 10)
    first = scan(paths)
    assert sorted(decoded) == sorted(path.name for path in paths)
    assert scan(paths) == first
    assert scan(paths[::-1]) == first[::-1]
    assert len(decoded) == 10


def test_a_changed_file_is_decoded_again(tmp_path: Path, decoded: list[str]) -> None:
    a, b, c = pictures(tmp_path, 3)
    scan([a, b, c])
    status = b.stat()
    picture(a, seed=7, size=(40, 40))  # another size
    os.utime(b, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # another time alone
    records = scan([a, b, c])
    assert sorted(decoded[3:]) == [a.name, b.name]
    assert records[0].width == 40
    assert records[0].sha256 == hashlib.sha256(a.read_bytes()).hexdigest()
    scan([a, b, c])
    assert len(decoded) == 5


def test_one_file_by_any_path_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str]
) -> None:
    path = picture(tmp_path / "a.png")
    scan([path])
    monkeypatch.chdir(tmp_path)
    (record,) = scan([Path("a.png")])
    assert record.path == Path("a.png")
    assert len(decoded) == 1
    monkeypatch.chdir("/")
    assert not scan([Path("a.png")])[0].readable


def test_a_name_that_is_no_text(tmp_path: Path, decoded: list[str]) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.png")
    try:
        picture(path)
    except OSError:
        pytest.skip("this system has names in Unicode only")
    assert scan([path]) == scan([path])
    assert len(decoded) == 1


def test_errors_are_looked_at_again(tmp_path: Path, decoded: list[str]) -> None:
    path = tmp_path / "a.png"
    path.write_text("text")
    scan([path])
    scan([path])
    assert decoded == ["a.png", "a.png"]


def test_a_file_that_changes_while_it_is_read_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Path
) -> None:
    path = picture(tmp_path / "a.png")
    fstat, times = os.fstat, itertools.count()

    def changing(descriptor: int) -> os.stat_result:
        os.utime(path, ns=(0, next(times)))
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", changing)
    assert scan([path])[0].readable
    assert remembered(index) == 0


def test_an_interrupted_scan_goes_on_where_it_stopped(
    tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch, index: Path
) -> None:
    monkeypatch.setattr(image_index, "BATCH", 8)
    paths = pictures(tmp_path, 30)

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(paths, interrupt, workers=2)
    assert remembered(index) == 20
    decoded.clear()
    assert all(record.readable for record in scan(paths))
    assert sorted(decoded) == sorted(path.name for path in paths[20:])


def test_what_is_done_is_on_disk_before_the_end(tmp_path: Path, index: Path) -> None:
    paths = [picture(tmp_path / "a.png")] * (2 * BATCH + 1)
    paths[BATCH] = picture(tmp_path / "b.png")
    seen = []

    def look(what: str, done: int, total: int) -> None:
        if done in (BATCH + 1, 2 * BATCH + 1):
            seen.append(remembered(index))

    scan(paths, look)
    assert seen == [1, 2]


def test_progress_counts_every_file_in_the_calling_thread(tmp_path: Path) -> None:
    paths = [*pictures(tmp_path, 5), tmp_path / "missing.png"]
    calls = []

    def progress(what: str, done: int, total: int) -> None:
        calls.append((done, total, threading.current_thread()))

    for _ in range(2):
        scan(paths, progress, workers=3)
    caller = threading.current_thread()
    assert calls == [(done, 6, caller) for done in range(1, 7)] * 2


def test_no_more_pictures_at_once_than_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, most, lock = 0, 0, threading.Lock()
    decode, shrink = image_index.decode, image_index.thumbnail

    def opened(data: bytes, where: Path) -> Image.Image:
        nonlocal alive, most
        with lock:
            alive += 1
            most = max(most, alive)
        time.sleep(0.005)
        return decode(data, where)

    def done(image: Image.Image) -> bytes:
        nonlocal alive
        with lock:
            alive -= 1
        return shrink(image)

    monkeypatch.setattr(image_index, "decode", opened)
    monkeypatch.setattr(image_index, "thumbnail", done)
    scan(pictures(tmp_path, 20), workers=3)
    assert (alive, most) == (0, 3)


# --- an index that cannot be used -------------------------------------------------------------


def test_an_index_that_is_no_database_is_replaced(
    tmp_path: Path, index: Path, decoded: list[str]
) -> None:
    index.parent.mkdir()
    index.write_bytes(b"anything but a database" * 500)
    path = picture(tmp_path / "a.png")
    assert scan([path])[0].readable
    scan([path])
    assert len(decoded) == 1
    assert remembered(index) == 1


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.9])
def test_a_damaged_index_costs_nothing_but_time(tmp_path: Path, index: Path, place: float) -> None:
    paths = pictures(tmp_path, 60)
    first = scan(paths)
    data = bytearray(index.read_bytes())
    middle = int(place * len(data))
    data[middle : middle + 8192] = b"\xff" * len(data[middle : middle + 8192])
    index.write_bytes(data)
    assert scan(paths) == first
    assert scan(paths) == first
    assert remembered(index) == 60


def blocked_by_a_file(index: Path) -> None:
    index.parent.write_text("a file where the folder should be")


def blocked_by_a_folder(index: Path) -> None:
    index.mkdir(parents=True)


@pytest.mark.parametrize("block", [blocked_by_a_file, blocked_by_a_folder])
def test_without_a_place_for_the_index(
    tmp_path: Path, index: Path, decoded: list[str], block: object
) -> None:
    block(index)  # type: ignore[operator]
    path = picture(tmp_path / "a.png")
    assert scan([path]) == scan([path])
    assert decoded == ["a.png", "a.png"]


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of a superuser, whom no permission stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("known", [True, False])
def test_a_home_that_cannot_be_written(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not in tmp_path, which its owner alone may enter.
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        monkeypatch.setenv("SHIFTPROOF_HOME", str(home))
        path = picture(Path(folder, "a.png"))
        if known:
            scan([path])
        before = sorted(home.iterdir())
        Path(folder).chmod(0o755)
        home.chmod(0o555)
        try:
            with as_nobody():
                assert not os.access(home, os.W_OK, effective_ids=True)
                (record,) = scan([path])
        finally:
            home.chmod(0o755)
        assert record.readable
        assert sorted(home.iterdir()) == before


def test_an_index_that_is_locked_for_too_long(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_index, "SECONDS_TO_WAIT_FOR_OTHERS", 0.05)
    a, b = pictures(tmp_path, 2)
    scan([a])
    with connect(index) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert all(record.readable for record in scan([a, b]))
    assert remembered(index) == 1


# The package's own __init__ imports torch, which takes longer than the test and is not needed.
SCAN = """
import sys, types, shiftproof
from pathlib import Path
package = sys.modules["shiftproof.data"] = types.ModuleType("shiftproof.data")
package.__path__ = [str(Path(shiftproof.__file__).parent / "data")]
from shiftproof.data.images.index import scan
records = scan(sorted(Path(sys.argv[1]).glob("*.png")), workers=2)
print(sum(record.readable for record in records))
"""


def test_several_processes_at_once(tmp_path: Path, index: Path) -> None:
    pictures(tmp_path / "set", 300)
    command = [sys.executable, "-c", SCAN, str(tmp_path / "set")]
    running = [subprocess.Popen(command, stdout=-1, stderr=-1, text=True) for _ in range(3)]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (out.strip(), err) == ("300", "")
    assert remembered(index) == 300
    with connect(index) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
