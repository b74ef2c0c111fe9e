"""Hostile and broken archives, made by hand: each leaves nothing outside and nothing behind."""

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import shutil
import stat
import struct
import tarfile
import warnings
import zipfile
from collections import namedtuple
from functools import partial
from pathlib import PurePosixPath

import pytest
from _internals import DataError, data_unpack as archives, extract

FILES = {
    "set/photo/dog/1.jpg": random.Random(0).randbytes(100_000),
    "set/photo/cat/2.jpg": b"",
    "set/sketch/dog/3.jpg": b"three" * 50_000,
    "set/readme.txt": b"read me",
}
TAR_MODES = ["w:", "w:gz", "w:bz2", "w:xz"]


def zipped(*members, compression=zipfile.ZIP_DEFLATED):
    """Return a zip of (name or ZipInfo, content)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicates are wanted here
        for name, content in members:
            archive.writestr(name, content, compression)
    return buffer.getvalue()


def special(name, kind, mode=0o777):
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (kind | mode) << 16
    return info


def header(name, content=b"", kind=tarfile.REGTYPE, link="", **attributes):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info, content


def tarred(*members, mode="w:", form=tarfile.PAX_FORMAT):
    """Return a tar of (name or TarInfo, content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=form) as archive:
        for name, content in members:
            info = header(name, content)[0] if isinstance(name, str) else name
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def block(name, size=b"%011o\0" % 0, kind=b"0"):
    """Return one tar header with any size field, its checksum right."""
    raw = bytearray(name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2)
    raw += size.ljust(12, b"\0") + b"00000000000\0" + b" " * 8 + kind + bytes(100)
    raw += b"ustar\x0000"
    raw += bytes(512 - len(raw))
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


END = bytes(1024)


def swap(data, old, new, count=None):
    assert len(old) == len(new)
    assert old in data
    return data.replace(old, new) if count is None else data.replace(old, new, count)


def zip_field(data, offset, value):
    """Overwrite a field of the first entry in a zip's list at the end."""
    at = data.index(b"PK\x01\x02") + offset
    return data[:at] + value + data[at + len(value) :]


def everything(pack):
    return pack(*FILES.items())


def overlapping(copies):
    """Return a zip whose list names the same compressed bytes many times."""
    data = zipped(("a", bytes(1_000_000)))
    at = data.index(b"PK\x01\x02")
    local, entry = data[:at], data[at : data.index(b"PK\x05\x06")]
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, copies, copies, len(entry) * copies, at, 0)
    return local + entry * copies + end


SOUND_GZIP = everything(lambda *members: tarred(*members, mode="w:gz"))
SOUND_ZIP = zipped(*FILES.items())
SOUND_TAR = tarred(*FILES.items(), form=tarfile.USTAR_FORMAT)
LINK = stat.S_IFLNK

HOSTILE_NAMES = {
    "absolute": ("/tmp/escaped", "absolute path"),
    "two slashes": ("//server/escaped", "absolute path"),
    "parent": ("../escaped", "leads out"),
    "parent inside": ("a/../../escaped", "leads out"),
    "parent only": ("..", "leads out"),
    "parent that stays": ("a/../b", "leads out"),
    "parent at the end": ("a/b/..", "leads out"),
    "dots and spaces": ("a/.. /escaped", "leads out"),
    "many dots": ("....", "leads out"),
    "drive": ("C:/escaped", "drive letter"),
    "drive without slash": ("c:escaped", "drive letter"),
    "drive inside": ("a/C:/escaped", "drive letter"),
    "backslash": ("a\\b", "backslash"),
    "backslash parent": ("..\\..\\escaped", "backslash"),
    "network path": ("\\\\server\\escaped", "backslash"),
    "new line": ("a\nb", "control characters"),
    "terminal escape": ("a\x1b[31mb", "control characters"),
    "next line": ("a\x85b", "control characters"),
    "too long": ("a" * 300, "name too long"),
    "too deep": ("a/" * 100 + "b", "64 folders deep"),
}

BROKEN = {
    # What is no archive.
    "empty file": (b"", "neither a zip nor a tar"),
    "text": (b"a,b\n1,2\n" * 200, "neither a zip nor a tar"),
    "web page": (b"<!doctype html><html></html>", "neither a zip nor a tar"),
    "rar": (b"Rar!\x1a\x07\x01\x00" + bytes(1000), "neither a zip nor a tar"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(1000), "neither a zip nor a tar"),
    "zeros": (bytes(10_240), "neither a zip nor a tar"),
    "noise": (random.Random(1).randbytes(5000), "neither a zip nor a tar"),
    "gzip of text": (gzip.compress(b"a,b\n" * 1000), "damaged"),
    "gzip of nothing": (gzip.compress(b""), "damaged"),
    "xz of zeros": (lzma.compress(bytes(10_240)), "empty"),
    "gzip mark only": (b"\x1f\x8b", "damaged"),
    "bzip2 mark only": (b"BZh9", "damaged"),
    "zip mark only": (b"PK\x03\x04", "damaged"),
    "empty zip": (zipped(), "empty"),
    "empty gzipped tar": (tarred(mode="w:gz"), "empty"),
    # Zips.
    "zip link": (zipped((special("a", LINK), b"../../escaped")), "special kind"),
    "zip link and a file through it": (
        zipped((special("a", LINK), b".."), ("a/escaped", b"x")),
        "special kind",
    ),
    "zip link to a folder inside": (
        zipped(("b/c", b"x"), (special("a", LINK), b"b")),
        "special kind",
    ),
    "zip pipe": (zipped((special("a", stat.S_IFIFO), b"")), "special kind"),
    "zip device": (zipped((special("a", stat.S_IFBLK), b"")), "special kind"),
    "zip socket": (zipped((special("a", stat.S_IFSOCK), b"")), "special kind"),
    "zip NUL in a name": (
        swap(zipped(("a.jpg#.exe", b"x")), b"a.jpg#", b"a.jpg\0"),
        "control characters",
    ),
    "zip NUL as a name": (swap(zipped(("#", b"x")), b"#", b"\0"), "control characters"),
    "zip without a name": (zipped(("./", b""), (".", b"x")), "has no name"),
    "zip twice": (zipped(("a/b", b"one"), ("a/b", b"two")), "twice"),
    "zip twice by other spellings": (zipped(("a/b", b"1"), ("./a//b", b"2")), "twice"),
    "zip file, then folder": (zipped(("a", b"x"), ("a/", b"")), "as a file and as a folder"),
    "zip folder, then file": (zipped(("a/", b""), ("a", b"x")), "as a file and as a folder"),
    "zip file below a file": (zipped(("a", b"x"), ("a/b", b"y")), "as a file and as a folder"),
    "zip file above a file": (zipped(("a/b", b"y"), ("a", b"x")), "as a file and as a folder"),
    "zip under a password": (zip_field(SOUND_ZIP, 8, b"\1\0"), "password required"),
    "zip strongly encrypted": (zip_field(SOUND_ZIP, 8, b"\x41\0"), "strong encryption"),
    "zip of unknown compression": (zip_field(SOUND_ZIP, 10, b"\x62\0"), "unsupported feature"),
    "zip of a later version": (zip_field(SOUND_ZIP, 6, b"\xff\0"), "unsupported feature"),
    "zip with a wrong checksum": (zip_field(SOUND_ZIP, 16, b"abcd"), "CRC"),
    "zip with wrong bytes": (
        swap(zipped(("a", b"right"), compression=zipfile.ZIP_STORED), b"right", b"wrong"),
        "CRC",
    ),
    "zip with too long a size": (zip_field(SOUND_ZIP, 24, struct.pack("<I", 100_001)), "damaged"),
    "zip with too short a size": (zip_field(SOUND_ZIP, 24, struct.pack("<I", 99_999)), "damaged"),
    "zip with two names for one": (zip_field(SOUND_ZIP, 46, b"SET"), "damaged"),
    "zip with a name in no encoding": (
        swap(zipped(("äöü", b"x")), "ä".encode(), b"\xff\xfe"),
        "damaged",
    ),
    "zip cut in the middle": (SOUND_ZIP[: len(SOUND_ZIP) // 2], "damaged"),
    "zip without its last byte": (SOUND_ZIP[:-1], "damaged"),
    "zip without its beginning": (b"PK\x03\x04" + SOUND_ZIP[5000:], "damaged"),
    "zip that points outside itself": (zip_field(SOUND_ZIP, 42, b"\xff\xff\xff\x7f"), "damaged"),
    "zip deflated badly": (swap(SOUND_ZIP, SOUND_ZIP[200:400], bytes(200)), "damaged"),
    # Tars.
    "tar link": (tarred(header("a", kind=tarfile.SYMTYPE, link="/etc")), "special kind"),
    "tar link and a file through it": (
        tarred(header("a", kind=tarfile.SYMTYPE, link=".."), ("a/escaped", b"x")),
        "special kind",
    ),
    "tar link to nothing": (tarred(header("a", kind=tarfile.SYMTYPE)), "special kind"),
    "tar hard link": (
        tarred(("b", b"x"), header("a", kind=tarfile.LNKTYPE, link="b")),
        "special kind",
    ),
    "tar hard link out": (
        tarred(header("a", kind=tarfile.LNKTYPE, link="../secret")),
        "special kind",
    ),
    "tar character device": (tarred(header("a", kind=tarfile.CHRTYPE)), "special kind"),
    "tar block device": (tarred(header("a", kind=tarfile.BLKTYPE)), "special kind"),
    "tar pipe": (tarred(header("a", kind=tarfile.FIFOTYPE)), "special kind"),
    "tar unknown kind": (block(b"a", kind=b"Z") + END, "special kind"),
    "tar volume": (block(b"a", kind=b"V") + END, "special kind"),
    "tar with holes": (block(b"a", kind=b"S") + END, "special kind"),
    "tar NUL in a name": (
        tarred(header("b", pax_headers={"path": "a\0/../../escaped"})),
        "control characters",
    ),
    "tar long name out": (tarred(("../" * 50 + "x", b""), form=tarfile.GNU_FORMAT), "leads out"),
    "tar without a name": (block(b"") + END, "has no name"),
    "tar file as its folder": (block(b".") + END, "has no name"),
    "tar twice": (tarred(("a", b"one"), ("a", b"two")), "twice"),
    "tar file, then folder": (
        tarred(("a", b"x"), header("a", kind=tarfile.DIRTYPE)),
        "as a file and as a folder",
    ),
    "tar file below a file": (tarred(("a", b"x"), ("a/b", b"")), "as a file and as a folder"),
    "tar size below zero": (block(b"a", b"\xff" * 12) + END, "damaged"),
    "tar size beyond the file": (block(b"a", b"%011o\0" % 5000) + END, "damaged"),
    "tar size of yottabytes": (block(b"a", b"\x80\1" + bytes(10)) + END, "unpacks to more"),
    "tar size of no number": (block(b"b") + block(b"a", b"twelve") + END, "damaged"),
    "tar damaged between members": (swap(SOUND_TAR, b"sketch", b"skitch"), "end is missing"),
    "tar cut in a header": (SOUND_TAR[: SOUND_TAR.index(b"set/readme") + 99], "end is missing"),
    "tar cut in a file": (SOUND_TAR[:50_000], "damaged"),
    "tar cut between members": (SOUND_TAR[: SOUND_TAR.index(b"set/readme")], "end is missing"),
    "tar cut before its end": (block(b"a"), "end is missing"),
    "tar header of gigabytes": (
        block(b"a", b"%011o\0" % (1 << 32), b"x") + END,
        "header of 4294967296 bytes",
    ),
    "tar name of gigabytes": (block(b"a", b"%011o\0" % (1 << 32), b"L") + END, "header of 429"),
    "tar name without its file": (block(b"a", b"%011o\0" % 1, b"L") + END, "damaged"),
    "tar headers of headers": (
        (block(b"a", b"%011o\0" % 1, b"L") + b"a".ljust(512, b"\0")) * 5000 + END,
        "damaged",
    ),
    "gzip with a wrong checksum": (SOUND_GZIP[:-8] + b"abcd" + SOUND_GZIP[-4:], "CRC"),
    "gzip without its checksum": (SOUND_GZIP[:-8], "damaged"),
    "gzip cut in the middle": (SOUND_GZIP[: len(SOUND_GZIP) // 2], "damaged"),
    "gzip and something behind it": (SOUND_GZIP + b"more", "damaged"),
    "bzip2 cut": (tarred(*FILES.items(), mode="w:bz2")[:-5], "damaged"),
    "bzip2 damaged": (
        bz2.compress(SOUND_TAR)[:500] + bytes(100) + bz2.compress(SOUND_TAR)[600:],
        "damaged",
    ),
    "xz cut": (tarred(*FILES.items(), mode="w:xz")[:-5], "damaged"),
    "xz damaged": (
        lzma.compress(SOUND_TAR)[:500] + bytes(100) + lzma.compress(SOUND_TAR)[600:],
        "damaged",
    ),
} | {
    f"{kind}, {case}": (pack((name, b"x")), said)
    for case, (name, said) in HOSTILE_NAMES.items()
    for kind, pack in (("zip", zipped), ("tar", tarred))
} | {
    f"{kind} folder, {case}": (pack(("good", b"x"), (folder(name), b"")), said)
    for case, (name, said) in HOSTILE_NAMES.items()
    if case in ("absolute", "parent inside", "drive", "backslash", "new line")
    for kind, pack, folder in (
        ("zip", zipped, lambda name: name + "/"),
        ("tar", tarred, lambda name: header(name, kind=tarfile.DIRTYPE)[0]),
    )
}  # fmt: skip

BOMBS = {
    "zip ratio": (zipped(("a", bytes(10**6))), {"SMALL": 0}, "unpacks to more"),
    "zip overlapping": (overlapping(50), {"SMALL": 0}, "unpacks to more"),
    "zip overlapping within the list's own size": (
        overlapping(50),
        {"TOTAL": 10**7},
        "more than 10.0 MB",
    ),
    "gzip ratio": (tarred(("a", bytes(10**6)), mode="w:gz"), {"SMALL": 0}, "unpacks to more"),
    "bzip2 ratio": (tarred(("a", bytes(10**6)), mode="w:bz2"), {"SMALL": 0}, "unpacks to more"),
    "xz ratio": (tarred(("a", bytes(10**6)), mode="w:xz"), {"SMALL": 0}, "unpacks to more"),
    "ratio above what is small": (
        tarred(("a", bytes(10**6)), mode="w:gz"),
        {"SMALL": 9 * 10**5},
        "unpacks to more",
    ),
    "xz left out": (tarred(("._a", bytes(10**6)), mode="w:xz"), {"SMALL": 0}, "unpacks to more"),
    "gzip behind its end": (
        gzip.compress(SOUND_TAR + bytes(10**7)),
        {"RATIO": 20, "SMALL": 0},
        "unpacks to more",
    ),
    "zip total": (SOUND_ZIP, {"TOTAL": 350_000}, "more than 350.0 kB"),
    "tar total": (SOUND_TAR, {"TOTAL": 350_000}, "unpacks to more"),
    "gzip total": (SOUND_GZIP, {"TOTAL": 350_000}, "unpacks to more than 350.0 kB"),
    "zip members": (SOUND_ZIP, {"MEMBERS": 3}, "more than 3 members"),
    "tar members": (SOUND_TAR, {"MEMBERS": 3}, "more than 3 members"),
    "zip that claims too much": (
        zip_field(zipped(("a" * 40, b"x")), 24, b"\xfe\xff\xff\xff"),
        {},
        "more than 100.0 MB",
    ),
}


@pytest.fixture(autouse=True)
def flushes(monkeypatch):
    """Flush no disk in hundreds of little extractions; say when it would have been."""
    flushed = []
    monkeypatch.setattr(os, "sync", lambda: flushed.append(True), raising=False)
    return flushed


@pytest.fixture
def place(tmp_path):
    """A folder with something outside the target that must stay as it is."""
    (tmp_path / "secret").write_bytes(b"outside")
    (tmp_path / "inner").mkdir()
    return tmp_path / "inner"


def snapshot(folder):
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def refusal(place, content, **options):
    """Extract, and return the one line that says why not, after a look at what is left."""
    archive, target = place / "archive", place / "target"
    archive.write_bytes(content)
    before = snapshot(place.parent)
    with pytest.raises(DataError) as caught:
        extract(archive, target, **options)
    assert snapshot(place.parent) == before
    assert not os.path.lexists("/tmp/escaped")
    message = str(caught.value)
    assert message.isprintable()
    assert str(archive) in message
    assert len(message) < 500 + len(str(place)) * 2
    return message


@pytest.mark.parametrize("case", BROKEN)
def test_an_archive_that_is_hostile_or_broken_leaves_nothing(place, case):
    content, said = BROKEN[case]
    assert said.lower() in refusal(place, content).lower()


@pytest.mark.parametrize("case", BOMBS)
def test_an_archive_that_is_too_much_leaves_nothing(place, case, monkeypatch):
    content, limits, said = BOMBS[case]
    for name, value in limits.items():
        monkeypatch.setattr(archives, name, value)
    assert said in refusal(place, content)


def test_the_cases_are_many():
    assert len({content for content, *_ in [*BROKEN.values(), *BOMBS.values()]}) > 100


def unpacked(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


SOUND = {mode: tarred(*FILES.items(), mode=mode) for mode in TAR_MODES} | {
    "stored": zipped(*FILES.items(), compression=zipfile.ZIP_STORED),
    "deflated": SOUND_ZIP,
    "bzip2": zipped(*FILES.items(), compression=zipfile.ZIP_BZIP2),
    "lzma": zipped(*FILES.items(), compression=zipfile.ZIP_LZMA),
    "old tar": SOUND_TAR,
    "gnu tar": tarred(*FILES.items(), form=tarfile.GNU_FORMAT),
}


@pytest.mark.parametrize("kind", SOUND)
@pytest.mark.parametrize("there", [False, True])
def test_every_kind_is_known_by_its_content(place, kind, there):
    archive, target = place / "archive.rar", place / "deep" / "target"
    archive.write_bytes(SOUND[kind])
    if there:
        target.mkdir(parents=True)
    told = []
    assert extract(archive, target, progress=lambda *p: told.append(p)) == 4
    assert unpacked(target) == FILES
    assert os.listdir(target.parent) == ["target"]
    size = len(SOUND[kind])
    assert told == sorted(told)
    assert told[-1] == (size, size)
    assert {total for _, total in told} == {size}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_modes_are_ignored(place, kind):
    name = "run.sh"
    if kind == "zip":
        content = zipped((special(name, stat.S_IFREG, 0o6777), b"x"))
    else:
        content = tarred(header(name, b"x", mode=0o6777, uid=12345, gid=12345, mtime=-1))
    (place / "archive").write_bytes(content)
    old = os.umask(0o022)
    try:
        extract(place / "archive", place / "target")
    finally:
        os.umask(old)
    status = (place / "target" / name).stat()
    assert stat.S_IMODE(status.st_mode) == 0o644
    assert status.st_uid == os.getuid()


JUNK = ["__MACOSX/set/._1.jpg", "__MACOSX/x", ".DS_Store", "set/.DS_Store", "set/._1.jpg", "._a/b"]


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_what_macos_adds_is_left_out(place, pack):
    (place / "archive").write_bytes(pack(*FILES.items(), *((name, b"junk") for name in JUNK)))
    assert extract(place / "archive", place / "target") == 4
    assert unpacked(place / "target") == FILES
    assert os.listdir(place / "target") == ["set"]


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_only_what_is_asked_for_is_written(place, pack):
    content = pack(*FILES.items(), ("a", b"1"), ("a", b"2"))
    (place / "archive").write_bytes(content)
    asked = []

    def keep(path):
        asked.append(path)
        return path.suffix == ".jpg"

    assert extract(place / "archive", place / "target", keep=keep) == 3
    assert unpacked(place / "target") == {k: v for k, v in FILES.items() if k.endswith(".jpg")}
    assert set(asked) == {PurePosixPath(name) for name in (*FILES, "a")}


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_what_is_left_out_must_be_harmless_too(place, pack):
    content = pack(("a", b"1"), ("../b", b"2"))
    assert "leads out" in refusal(place, content, keep=lambda path: path.name == "a")


def test_folders_dots_and_a_global_header(place):
    members = [header(".", kind=tarfile.DIRTYPE), header("./empty", kind=tarfile.DIRTYPE)]
    members += [("./set/1.jpg", b"x"), header("./set", kind=tarfile.DIRTYPE, mode=0)]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", pax_headers={"comment": "a commit"}) as tar:
        for name, content in members:
            info = name if not isinstance(name, str) else header(name, content)[0]
            tar.addfile(info, io.BytesIO(content))
    (place / "archive").write_bytes(buffer.getvalue())
    assert extract(place / "archive", place / "target") == 1
    assert snapshot(place / "target").keys() == {
        PurePosixPath(name) for name in ("empty", "set", "set/1.jpg")
    }


def test_names_in_any_encoding(place):
    raws = [
        b"\xe9t\xe9.jpg",
        b"\x8e\x84.jpg",
        b"\xff\xfe.jpg",
        "été.jpg".encode(),
        b"\xe9t\xea.jpg",
    ]
    names = [raw.decode("utf-8", "surrogateescape") for raw in raws]
    content = tarred(*((name, raw) for name, raw in zip(names, raws, strict=True)),
                     form=tarfile.GNU_FORMAT)  # fmt: skip
    (place / "archive").write_bytes(content)
    assert extract(place / "archive", place / "target") == 5
    found = unpacked(place / "target")
    assert set(found.values()) == set(raws)
    assert all(name.encode().decode() == name for name in found)
    assert found["été.jpg"] == "été.jpg".encode()

    old_zip = swap(zipped(("##.jpg", b"x")), b"##.jpg", b"\xe9\x81.jpg")
    (place / "archive").write_bytes(old_zip)
    assert extract(place / "archive", place / "old zip") == 1
    assert unpacked(place / "old zip") == {b"\xe9\x81.jpg".decode("cp437"): b"x"}


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_names_that_differ_in_case_are_kept_apart_or_refused(place, pack):
    content = pack(("Dog/1.jpg", b"upper"), ("dog/1.jpg", b"lower"), ("dog/1.JPG", b"third"))
    (place / "probe").touch()
    if (place / "PROBE").exists():
        assert "two spellings" in refusal(place, content)
    else:
        (place / "archive").write_bytes(content)
        assert extract(place / "archive", place / "target") == 3
        assert sorted(unpacked(place / "target").values()) == [b"lower", b"third", b"upper"]


def test_a_disk_where_case_does_not_count(place, monkeypatch):
    """Two class folders that become one would be wrong labels: it must not pass unseen."""
    real = os.mkdir

    def mkdir(path, *rest, **options):
        if any(other.name.lower() == path.name.lower() for other in path.parent.iterdir()):
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        real(path, *rest, **options)

    content = zipped(("set/Dog/1.jpg", b"upper"), ("set/dog/2.jpg", b"lower"))
    monkeypatch.setattr(archives.os, "mkdir", mkdir)
    assert "two spellings" in refusal(place, content)


@pytest.mark.parametrize("in_the_way", ["file", "folder with a file"])
def test_a_target_in_use_is_not_touched(place, in_the_way):
    target = place / "target"
    if in_the_way == "file":
        target.write_bytes(b"precious")
    else:
        target.mkdir()
        (target / "precious").touch()
    assert "must be an empty folder" in refusal(place, SOUND_ZIP)


@pytest.mark.parametrize("archive", ["missing", "folder"])
def test_an_archive_that_cannot_be_opened(place, archive):
    (place / "folder").mkdir()
    with pytest.raises(DataError, match=f"cannot read .*{archive}"):
        extract(place / archive, place / "target")
    assert sorted(os.listdir(place)) == ["folder"]


def test_a_disk_too_small_says_how_much_is_missing(place, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 50_000, 50_000))
    message = refusal(place, SOUND_ZIP)  # 350,007 bytes
    assert "needs 350.0 kB" in message
    assert "50.0 kB are free: 300.0 kB are missing" in message
    # Of a few files only, no more space is asked than they take.
    (place / "archive").write_bytes(SOUND_ZIP)
    assert extract(place / "archive", place / "t", keep=lambda p: p.suffix == ".txt") == 1


@pytest.mark.parametrize("content", [SOUND_ZIP, SOUND_GZIP])
def test_a_disk_that_fills_up_on_the_way(place, monkeypatch, content):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archives, "_new_file", lambda path: (path.touch(), Full())[1])
    assert "the disk is full" in refusal(place, content)


@pytest.mark.parametrize("content", [SOUND_ZIP, SOUND_GZIP])
@pytest.mark.parametrize("where", ["progress", "keep"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError, BrokenPipeError])
def test_whatever_stops_it_leaves_nothing_and_is_passed_on(place, content, where, kind):
    def stop(*_):
        written = list(place.glob("target.partial/**/*.jpg"))
        if written:
            raise kind
        return True

    (place / "archive").write_bytes(content)
    before = snapshot(place)
    with pytest.raises(kind):
        extract(place / "archive", place / "target", **{where: stop})
    assert snapshot(place) == before


def test_the_disk_is_flushed_before_the_folder_gets_its_name(place, flushes, monkeypatch):
    real = os.rename
    monkeypatch.setattr(os, "rename", lambda *paths: flushes and real(*paths))
    (place / "archive").write_bytes(SOUND_ZIP)
    extract(place / "archive", place / "target")
    assert unpacked(place / "target") == FILES


def test_what_a_killed_process_has_left_is_swept_away(place):
    left = place / "target.partial" / "set" / "photo"
    left.mkdir(parents=True)
    (left / "half.jpg").write_bytes(b"half")
    (place / "archive").write_bytes(SOUND_ZIP)
    assert extract(place / "archive", place / "target") == 4
    assert unpacked(place / "target") == FILES
    assert sorted(os.listdir(place)) == ["archive", "target"]


def damage(content, rng):
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 3])):
        at = rng.choice([rng.randrange(len(content)), -rng.randrange(1, min(400, len(content)))])
        how = rng.randrange(4)
        if how == 0:
            content[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            content[at] = rng.randrange(256)
        elif how == 2:
            del content[at:]
        else:
            content[at:at] = rng.randbytes(rng.randrange(1, 40))
        if len(content) < 2:
            break
    return bytes(content)


SMALL = {"a/1.jpg": b"one", "a/2.jpg": b"two" * 300, "b/3.jpg": random.Random(2).randbytes(700)}


PACKS = {
    "zip": zipped,
    "plain": tarred,
    "gzip": partial(tarred, mode="w:gz"),
    "bzip2": partial(tarred, mode="w:bz2"),
    "xz": partial(tarred, mode="w:xz"),
}


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_random_damage_is_told_or_does_no_harm(place, pack):
    """An archive with checksums gives the right files or one line; a plain tar cannot know."""
    rng = random.Random(7)
    sound = pack(*SMALL.items())
    archive, target = place / "archive", place / "target"
    told = []
    for _ in range(60):
        archive.write_bytes(damage(sound, rng))
        try:
            extract(archive, target)
        except DataError as error:
            told.append(str(error))
        else:
            if pack is not PACKS["plain"]:
                assert unpacked(target) == SMALL
            shutil.rmtree(target)
        assert os.listdir(place) == ["archive"]
    assert len(told) > 10
    assert all(message.isprintable() for message in told)
