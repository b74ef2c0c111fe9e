"""The library: importing and downloading sets, whatever happens in the middle."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import threading
import warnings
import zipfile
from collections import namedtuple
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from _internals import (
    PACS,
    DataError,
    UnknownName,
    completeness_notes,
    data_importing as module,
    folder_of,
    import_dataset,
    local_copy,
    pull_dataset,
    remove_dataset,
    sources_Source as Source,
)
from filelock import FileLock
from PIL import Image
from rich.filesize import decimal

WRONG_TYPE = '{"format": 2, "counts": 3, "complete": true, "notes": []}'


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SHIFTPROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "datasets"


def pacs(root: Path, per_class: int = 2, domains=tuple(PACS.card.counts), above: str = "") -> Path:
    """A little PACS; every file has bytes of its own."""
    for domain in domains:
        for label in PACS.card.classes:
            folder = root / above / domain / label
            folder.mkdir(parents=True)
            for number in range(per_class):
                (folder / f"{number}.jpg").write_bytes(f"{domain}/{label}/{number}".encode())
    return root


@pytest.fixture(scope="module")
def full_pacs(tmp_path_factory) -> Path:
    """All 9,991 files of the set, one picture under as many names."""
    root = tmp_path_factory.mktemp("full")
    Image.new("RGB", (4, 4)).save(root / "picture.png")
    for domain, by_class in PACS.card.class_counts.items():
        for label, count in zip(PACS.card.classes, by_class, strict=True):
            folder = root / "kfold" / domain / label
            folder.mkdir(parents=True)
            for number in range(count):
                os.link(root / "picture.png", folder / f"{number}.png")
    return root


def content(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*.jpg")}


def leftovers(library: Path) -> list[str]:
    return sorted(p.name for p in library.iterdir() if not p.name.endswith(".lock"))


def test_a_set_is_copied_and_recorded(tmp_path, library):
    given = pacs(tmp_path / "given")
    held = import_dataset("pacs", given)
    assert (held.images, held.complete, held.notes) == (56, False, ())
    assert local_copy("pacs") == held
    assert content(library / "pacs") == content(given)
    record = json.loads((library / "pacs/dataset.json").read_text())
    assert record["complete"] is False
    assert record["counts"]["photo"] == [2] * 7
    assert leftovers(library) == ["pacs"]


def test_all_of_a_set_is_complete_and_stays_until_told_otherwise(tmp_path, library, full_pacs):
    held = import_dataset("pacs", full_pacs, link=True)
    assert (held.images, held.complete) == (9_991, True)
    assert held.counts == PACS.card.class_counts
    part = pacs(tmp_path / "part")
    with pytest.raises(
        DataError, match=r"already here and complete \(9,991 images\); `replace=True`"
    ):
        import_dataset("pacs", part)
    with pytest.raises(DataError, match="already here"):
        pull_dataset("pacs")
    assert local_copy("pacs") == held
    assert not import_dataset("pacs", part, replace=True).complete
    assert content(library / "pacs") == content(part)
    assert leftovers(library) == ["pacs"]


def test_one_image_short_is_incomplete_and_one_too_many_is_told(tmp_path, full_pacs):
    given = tmp_path / "given"
    for folder in (full_pacs / "kfold").glob("*/*"):
        link = given / folder.parent.name / folder.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
    (given / "photo/dog").unlink()
    shutil.copytree(full_pacs / "kfold/photo/dog", given / "photo/dog")
    lost = (given / "photo/dog/0.png").rename(tmp_path / "lost.png")
    held = import_dataset("pacs", given, link=True)
    assert (held.images, held.complete) == (9_990, False)
    for name in ("0.png", "more.png"):
        shutil.copyfile(lost, given / "photo/dog" / name)
    held = import_dataset("pacs", given, link=True)
    assert (held.images, held.complete) == (9_992, True)
    assert completeness_notes(PACS, held.counts) == [
        "pacs has more images than were published: photo 1,671 instead of 1,670"
    ]


def test_an_incomplete_set_gives_way_to_one_no_smaller_or_when_told(tmp_path, library):
    import_dataset("pacs", pacs(tmp_path / "one", 2, ["photo"]))
    import_dataset("pacs", pacs(tmp_path / "two", 3, ["sketch"]))
    assert content(library / "pacs") == content(tmp_path / "two")
    smaller = pacs(tmp_path / "three", 1, ["photo"])
    with pytest.raises(
        DataError, match=r"pacs is already here with 21 images, but .* has 7; `replace=True`"
    ):
        import_dataset("pacs", smaller)
    assert content(library / "pacs") == content(tmp_path / "two")
    import_dataset("pacs", smaller, replace=True)
    assert content(library / "pacs") == content(tmp_path / "three")
    assert leftovers(library) == ["pacs"]


def test_links_share_their_bytes_and_copies_do_not(tmp_path, library):
    given = pacs(tmp_path / "given", 1, ["photo"])
    (given / "photo/dog/0.jpg").rename(tmp_path / "elsewhere.jpg")
    (given / "photo/dog/0.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    import_dataset("pacs", given)
    ours = library / "pacs/photo/dog/0.jpg"
    assert not ours.is_symlink()
    assert ours.stat().st_ino != (tmp_path / "elsewhere.jpg").stat().st_ino
    import_dataset("pacs", given, link=True)
    assert not ours.is_symlink()
    assert ours.stat().st_ino == (tmp_path / "elsewhere.jpg").stat().st_ino


def test_links_to_another_disk_are_one_line(tmp_path, library, monkeypatch):
    def link(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    given = pacs(tmp_path / "given", 1, ["photo"], above="kfold")
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(DataError, match="import without `link`"):
        import_dataset("pacs", given, link=True)
    assert leftovers(library) == []
    # What was unpacked is copied where there are no links.
    shutil.make_archive(str(tmp_path / "PACS"), "zip", given)
    assert import_dataset("pacs", tmp_path / "PACS.zip", link=True).images == 7


def test_a_disk_that_is_full_is_noticed_before_anything_is_written(tmp_path, library, monkeypatch):
    usage = namedtuple("usage", "total used free")
    given = pacs(tmp_path / "given")
    size = sum(p.stat().st_size for p in given.rglob("*.jpg"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(size, 1, size - 1))
    with pytest.raises(DataError, match="free some space, use `link=True`") as error:
        import_dataset("pacs", given)
    assert f"pacs needs {decimal(size)} in" in str(error.value)
    assert f"{decimal(size - 1)} are free" in str(error.value)
    assert leftovers(library) == []
    assert import_dataset("pacs", given, link=True).images == 56


def test_two_imports_at_once_are_refused(tmp_path, library):
    given = pacs(tmp_path / "given", 1, ["photo"])
    library.mkdir(parents=True)
    with FileLock(library / ".pacs.lock"):
        with pytest.raises(DataError, match="another process is changing pacs"):
            import_dataset("pacs", given)
        with pytest.raises(DataError, match="another process is changing pacs"):
            remove_dataset("pacs")
    assert import_dataset("pacs", given).images == 7


@pytest.mark.parametrize("name", ["pasc", "rotated-mnist"])
def test_only_sets_of_the_library_can_be_brought_and_removed(tmp_path, name):
    kind = UnknownName if name == "pasc" else DataError
    for attempt in (
        partial(import_dataset, name, tmp_path),
        partial(pull_dataset, name),
        partial(remove_dataset, name),
    ):
        with pytest.raises(kind):
            attempt()


def test_removing(tmp_path, library):
    with pytest.raises(DataError, match="pacs is not on this machine"):
        remove_dataset("pacs")
    import_dataset("pacs", pacs(tmp_path / "given", 1, ["photo"]))
    remove_dataset("pacs")
    assert local_copy("pacs") is None
    assert leftovers(library) == []


@pytest.mark.parametrize("damage", [None, "", "{", "[]", '{"format": 2, "counts": {}}', WRONG_TYPE])
def test_a_damaged_record_is_one_line_and_can_be_removed(tmp_path, library, damage):
    import_dataset("pacs", pacs(tmp_path / "given", 1, ["photo"]))
    record = library / "pacs/dataset.json"
    if damage is None:
        record.unlink()
    else:
        record.write_text(damage)
    with pytest.raises(DataError, match=r"dataset.json is .*damaged.*; .* data remove pacs"):
        local_copy("pacs")
    remove_dataset("pacs")
    assert local_copy("pacs") is None


# --- killed in the middle ---------------------------------------------------------------------


def die_at(event: int):
    """Count what happens, and kill this process at that event."""
    happened = 0

    def happen() -> None:
        nonlocal happened
        happened += 1
        if happened == event:
            os.kill(os.getpid(), signal.SIGKILL)

    return happen


def killed(work, event: int) -> bool:
    """Run ``work`` in a process that is killed at an event; whether it came to that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child starts no threads
        child = os.fork()
    if child == 0:
        happen = die_at(event)

        def before(function):
            def wrapped(*arguments, **options):
                happen()
                return function(*arguments, **options)

            return wrapped

        for owner, name in ((os, "rename"), (os, "fsync"), (shutil, "copyfile"), (os, "link")):
            setattr(owner, name, before(getattr(owner, name)))
        module.extract = before(module.extract)
        os._exit(work(lambda *_: happen()))
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def work(path: Path, progress) -> int:
    return 0 if import_dataset("pacs", path, progress=progress).images == 28 else 1


@pytest.mark.parametrize("packed", [False, True])
def test_an_import_killed_anywhere_never_looks_complete_and_starts_clean(tmp_path, library, packed):
    given = pacs(tmp_path / "given", 1)
    wanted = content(given)
    if packed:
        given = Path(shutil.make_archive(str(tmp_path / "PACS"), "zip", given))
    event, deaths = 1, 0
    while killed(partial(work, given), event):
        assert not folder_of("pacs").exists(), event
        assert local_copy("pacs") is None
        deaths += 1
        event += 1 if deaths < 8 else 7
    assert deaths > 10
    assert content(library / "pacs") == wanted  # of the one that was not killed
    remove_dataset("pacs")
    assert killed(partial(work, given), 9)
    assert leftovers(library) == [".pacs"]
    assert import_dataset("pacs", given).images == 28
    assert content(library / "pacs") == wanted
    assert leftovers(library) == ["pacs"]


def test_a_replacement_killed_anywhere_leaves_the_old_or_the_new(tmp_path, library):
    old, new = pacs(tmp_path / "old", 3, ["photo"]), pacs(tmp_path / "new", 1)
    import_dataset("pacs", old)
    between = 0
    # The last events are the two renamings; the third from the end comes before the first.
    for event in range(80):
        if not killed(partial(work, new), event + 1):
            break
        if folder_of("pacs").exists():
            assert content(library / "pacs") == content(old)
        else:
            between += 1
            assert local_copy("pacs") is None
            with pytest.raises(DataError, match="no image"):  # which puts the old one back
                import_dataset("pacs", tmp_path / "old/photo/dog")
            assert content(library / "pacs") == content(old)
    assert between == 1
    assert content(library / "pacs") == content(new)
    assert leftovers(library) == ["pacs"]


def test_a_renaming_that_fails_leaves_the_old_set(tmp_path, library, monkeypatch):
    old, new = pacs(tmp_path / "old", 3, ["photo"]), pacs(tmp_path / "new", 1)
    import_dataset("pacs", old)
    rename = os.rename

    def fail(source, target):
        if Path(source).name == "staged":
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="Input/output error"):
        import_dataset("pacs", new)
    assert content(library / "pacs") == content(old)


# --- downloads --------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path):
    """Serve the folder ``served``; returns its address and the list of paths asked for."""
    served, asked = tmp_path / "served", []
    served.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(served))) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", asked
        http.shutdown()
        thread.join()


def serve(tmp_path: Path, name: str, domains) -> str:
    """Put a zip of these domains on the server; returns its md5."""
    made = pacs(tmp_path / f"made-{name}", 1, domains, above="kfold")
    path = tmp_path / "served" / name
    with zipfile.ZipFile(path, "w") as file:
        for image in sorted(made.rglob("*.jpg")):
            file.write(image, image.relative_to(made))
    return hashlib.md5(path.read_bytes()).hexdigest()


def offer(monkeypatch, *sources: tuple[Source, ...]) -> None:
    monkeypatch.setattr(PACS, "card", replace(PACS.card, sources=sources))


def test_pulling_takes_the_first_source_that_works_and_every_part(
    tmp_path, library, server, monkeypatch
):
    address, asked = server
    md5 = serve(tmp_path, "one.zip", ["photo", "sketch"])
    serve(tmp_path, "two.zip", ["cartoon"])
    offer(
        monkeypatch,
        (Source(f"{address}/gone.zip", "gone.zip"), Source(f"{address}/one.zip", "a.zip", md5=md5)),
        (Source(f"{address}/two.zip", "b.zip"),),
    )
    steps = []
    held = pull_dataset("pacs", progress=lambda what, done, total: steps.append(what))
    assert asked == ["/gone.zip", "/one.zip", "/two.zip"]
    assert (held.images, held.complete) == (21, False)
    assert {sum(row) for row in held.counts.values()} == {0, 7}
    assert list(dict.fromkeys(step.partition(",")[0] for step in steps)) == [
        "downloading gone.zip", "downloading b.zip", "unpacking a.zip", "unpacking b.zip",
        "finding images of cartoon", "finding images of photo", "finding images of sketch",
        "importing pacs",
    ]  # fmt: skip
    assert not (library.parent / "downloads/pacs").exists()
    assert leftovers(library) == ["pacs"]


def test_a_pull_that_failed_goes_on_with_what_it_has(tmp_path, library, server, monkeypatch):
    address, asked = server
    serve(tmp_path, "one.zip", ["photo"])
    offer(
        monkeypatch,
        (Source(f"{address}/one.zip", "one.zip"),),
        (Source(f"{address}/x.zip", "x.zip"), Source(f"{address}/two.zip", "two.zip")),
    )
    with pytest.raises(DataError) as raised:
        pull_dataset("pacs")
    words = str(raised.value)
    assert f"{address}/x.zip (it answers 404" in words
    assert f"{address}/two.zip (it answers 404" in words
    assert words.endswith("`shiftproof data import pacs PATH`")
    assert local_copy("pacs") is None
    serve(tmp_path, "two.zip", ["cartoon"])
    assert pull_dataset("pacs").images == 14
    assert asked.count("/one.zip") == 1


def test_a_bad_archive_that_nothing_vouches_for_is_fetched_again(
    tmp_path, library, server, monkeypatch
):
    address, asked = server
    offer(monkeypatch, (Source(f"{address}/one.zip", "one.zip"),))
    (tmp_path / "served/one.zip").write_bytes(b"PK\x03\x04 and then nothing of a zip")
    with pytest.raises(DataError, match=r"one\.zip is damaged, incomplete"):
        pull_dataset("pacs")
    assert local_copy("pacs") is None
    serve(tmp_path, "one.zip", ["photo"])
    assert pull_dataset("pacs").images == 7
    assert asked == ["/one.zip"] * 2


def test_wrong_bytes_do_not_become_a_set(tmp_path, library, server, monkeypatch):
    address, _ = server
    serve(tmp_path, "one.zip", ["photo"])
    offer(monkeypatch, (Source(f"{address}/one.zip", "one.zip", md5="0" * 32),))
    with pytest.raises(DataError, match="wrong content"):
        pull_dataset("pacs")
    assert local_copy("pacs") is None
