"""The library: published datasets on this machine, each in a folder of its own, all laid out alike.

A set lies in ``datasets/NAME`` of Shiftproof's folder as ``domain/class/file``, with a
``dataset.json`` that says how many images there are.  It is built in ``datasets/.NAME`` and renamed
when it is whole, so what has a set's name is all that was imported, whenever a process is killed.
"""

from __future__ import annotations

import json
import os
import shutil
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from filelock import FileLock, Timeout

from shiftproof.core.errors import DataError
from shiftproof.data.base import DATASETS, DatasetCard, DatasetSource, Progress, silent
from shiftproof.data.cache_dir import home
from shiftproof.data.images.decode import SUFFIXES
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.completeness import Counts, count, lacks
from shiftproof.data.library.download import fetch_any
from shiftproof.data.library.unpack import extract
from shiftproof.data.sources import Source

RECORD = "dataset.json"
# What is unpacked of an archive: images, and annotations that say what is in them.
WANTED = (*SUFFIXES, ".json")


class Found(NamedTuple):
    """The images of a set in folders as they were published, and what was left out."""

    samples: list[LabelledPath]
    notes: list[str]


@dataclass(frozen=True)
class KeptSet(DatasetSource):
    """A registered dataset whose images are kept in the library.

    ``bounds`` gives the least and the most images of a domain where no single number is certain;
    elsewhere the card's number counts.
    """

    name: ClassVar[str]
    layout: ClassVar[str] = "folders DOMAIN/CLASS"
    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {}

    @classmethod
    @abstractmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find what there is of the set in folders as published, by the card's names."""


@dataclass(frozen=True)
class Holding:
    """What the library holds of a set."""

    name: str
    counts: Counts
    complete: bool
    notes: tuple[str, ...] = ()

    @property
    def images(self) -> int:
        """The number of images."""
        return sum(map(sum, self.counts.values()))


def kept_sets() -> dict[str, type[KeptSet]]:
    """Return the registered datasets that the library can hold, by name."""
    return {name: source for name, source in DATASETS.items() if issubclass(source, KeptSet)}


def folder_of(name: str) -> Path:
    """Return where a set lies or would lie."""
    return home() / "datasets" / name


def holding(name: str) -> Holding | None:
    """Return what there is of a set, or None."""
    folder = folder_of(name)
    if not folder.is_dir():
        return None
    try:
        record = json.loads((folder / RECORD).read_bytes())
        counts = {domain: tuple(map(int, row)) for domain, row in record["counts"].items()}
        return Holding(name, counts, bool(record["complete"]), tuple(map(str, record["notes"])))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise DataError(
            f"{folder / RECORD} is missing or damaged; shiftproof data remove {name}, then pull or"
            " import it again"
        ) from None


def import_set(
    name: str,
    path: Path,
    *,
    replace: bool = False,
    link: bool = False,
    progress: Progress = silent,
) -> Holding:
    """Take a set from ``path``, a folder or an archive as published, into the library.

    Part of a set is taken too, and marked as incomplete; a later import of no fewer images takes
    its place, while a complete or larger one gives way only if ``replace`` is set.
    ``link`` makes hard links to files that lie in a folder in place of copies.  Images are not
    decoded; files without a byte are not images.
    """
    path = path.expanduser()
    if not path.exists():
        raise DataError(f"there is no file or folder {path}")
    source = _kept_set(name)
    with _workshop(name) as workshop:
        _refuse_complete(name, replace)
        return _take(source, [path], workshop, link, progress, replace)


def pull(name: str, *, replace: bool = False, progress: Progress = silent) -> Holding:
    """Download a set and import it; what was downloaded is kept until the import has succeeded."""
    source = _kept_set(name)
    _refuse_complete(name, replace)
    downloads = home() / "downloads" / name
    archives = [_fetch(name, sources, downloads, progress) for sources in source.card.sources]
    with _workshop(name) as workshop:
        _refuse_complete(name, replace)
        try:
            held = _take(source, archives, workshop, False, progress, replace)
        except DataError:
            # Nothing vouches for a download without a checksum: the next attempt brings it anew.
            for path, sources in zip(archives, source.card.sources, strict=True):
                if not any(s.sha256 or s.md5 for s in sources if s.filename == path.name):
                    path.unlink(missing_ok=True)
            raise
    shutil.rmtree(downloads, ignore_errors=True)
    return held


def _fetch(name: str, sources: Sequence[Source], folder: Path, progress: Progress) -> Path:
    def tell(done: int, total: int | None) -> None:
        progress(f"downloading {sources[0].filename}, MB", done // 10**6, (total or 0) // 10**6)

    by_hand = f"download it in a browser, then run `shiftproof data import {name} PATH`"
    return fetch_any(sources, folder, tell, by_hand=by_hand)


def remove(name: str) -> None:
    """Delete a set, and what was downloaded of it."""
    _kept_set(name)
    with _workshop(name) as workshop:
        if not folder_of(name).exists():
            raise DataError(f"{name} is not on this machine")
        os.rename(folder_of(name), workshop / "removed")
    shutil.rmtree(home() / "downloads" / name, ignore_errors=True)


# --- the import itself ------------------------------------------------------------------------


def _kept_set(name: str) -> type[KeptSet]:
    source = DATASETS.get(name)
    if not issubclass(source, KeptSet):
        raise DataError(f"{name} is part of the package: there is nothing to bring or to remove")
    return source


def _refuse_complete(name: str, replace: bool) -> None:
    if replace or not folder_of(name).exists():
        return
    held = holding(name)
    if held is not None and held.complete:
        raise DataError(
            f"{name} is here already, complete ({held.images:,} images); --replace brings it anew"
        )


def _refuse_fewer(name: str, images: int, paths: Sequence[Path]) -> None:
    """Keep a part of a set from taking the place of a larger one."""
    held = holding(name)
    if held is not None and held.images > images:
        raise DataError(
            f"{name} is here with {held.images:,} images, and {', '.join(map(str, paths))} has"
            f" {images:,}; --replace puts the fewer in their place"
        )


@contextmanager
def _workshop(name: str) -> Iterator[Path]:
    """Give an empty folder beside the set, to this process alone; it is emptied in the end."""
    target = folder_of(name)
    workshop = target.with_name(f".{name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(target.with_name(f".{name}.lock"), blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise DataError(f"another process is busy with {name}; wait until it has ended") from None
    try:
        # Killed between the two renamings of a replacement: the old set is back.
        if (workshop / "replaced").exists() and not target.exists():
            os.rename(workshop / "replaced", target)
        shutil.rmtree(workshop, ignore_errors=True)
        workshop.mkdir()
        try:
            yield workshop
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    finally:
        lock.release()


def _take(
    source: type[KeptSet],
    paths: Sequence[Path],
    workshop: Path,
    link: bool,
    progress: Progress,
    replace: bool,
) -> Holding:
    """Bring what lies at ``paths`` into the library, by way of the workshop."""
    name = source.name
    found = _find(source, paths, workshop / "unpacked", progress)
    samples, notes = _without_empty_files(found)
    if not replace:
        _refuse_fewer(name, len(samples), paths)
    if not link:
        _require_space(name, [s.path for s in samples if not s.path.is_relative_to(workshop)])
    staged = workshop / "staged"
    for domain, label in sorted({(sample.domain, sample.label) for sample in samples}):
        (staged / domain / label).mkdir(parents=True)
    for done, sample in enumerate(samples):
        progress(f"importing {name}", done, len(samples))
        target = staged / sample.domain / sample.label / sample.path.name
        _place(sample.path, target, ours=sample.path.is_relative_to(workshop), link=link)
    progress(f"importing {name}", len(samples), len(samples))

    counts = count(samples, source.card)
    held = Holding(name, counts, not lacks(source, counts), tuple(notes))
    _finish(staged, held)
    _exchange(staged, folder_of(name), workshop / "replaced")
    return held


def _find(
    source: type[KeptSet], paths: Sequence[Path], unpacked: Path, progress: Progress
) -> Found:
    """Find the images at ``paths``, unpacking archives, and those in a folder if a domain lacks."""
    folders = [path for path in paths if path.is_dir()]
    archives = [path for path in paths if not path.is_dir()]
    found = source.collect(folders, progress)
    if len({sample.domain for sample in found.samples}) < len(source.card.counts):
        archives += [a for folder in folders for a in _archives_in(folder, source.card)]
    for number, archive in enumerate(archives):
        _unpack(archive, unpacked / str(number), progress)
        folders.append(unpacked / str(number))
    if archives:
        found = source.collect(folders, progress)
    if not found.samples:
        card = source.card
        raise DataError(
            f"{', '.join(map(str, paths))} holds no image of {source.name}; looked for:"
            f" {source.layout}, DOMAIN one of {', '.join(card.counts)}, CLASS one of"
            f" {', '.join(card.classes[:5])}{', …' * (len(card.classes) > 5)}"
        )
    return found


def _archives_in(folder: Path, card: DatasetCard) -> list[Path]:
    """Return the published archives in a folder that have not been unpacked beside themselves."""
    names = {source.filename for alternatives in card.sources for source in alternatives}
    found = [folder / name for name in sorted(names) if (folder / name).is_file()]
    return [path for path in found if not path.with_name(path.name.partition(".")[0]).is_dir()]


def _unpack(archive: Path, target: Path, progress: Progress) -> None:
    def tell(done: int, total: int | None) -> None:
        progress(f"unpacking {archive.name}, MB", done // 10**6, (total or 0) // 10**6)

    extract(archive, target, progress=tell, keep=lambda path: path.suffix.lower() in WANTED)


def _without_empty_files(found: Found) -> tuple[list[LabelledPath], list[str]]:
    samples = [sample for sample in found.samples if sample.path.stat().st_size]
    empty = len(found.samples) - len(samples)
    if not empty:
        return samples, found.notes
    return samples, [*found.notes, f"files without a byte, left out: {empty}"]


def _require_space(name: str, copied: Sequence[Path]) -> None:
    needed = sum(path.stat().st_size for path in copied)
    folder = folder_of(name).parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{name} needs {needed / 1e6:,.0f} MB in {folder}, where {free / 1e6:,.0f} MB are free;"
            " make space, link the files (--link), or set SHIFTPROOF_HOME to a larger disk"
        )


def _place(path: Path, target: Path, *, ours: bool, link: bool) -> None:
    """Put a file into the set: by a link if it is ``ours``, unpacked to be deleted, or if asked."""
    if target.exists():
        raise DataError(f"two images would become {target.parent.name}/{target.name}; rename one")
    if ours or link:
        try:
            os.link(path.resolve() if path.is_symlink() else path, target)
            return
        except OSError as error:
            if not ours:
                raise DataError(
                    f"{path} cannot be linked to {target.parent} ({error.strerror}); links need"
                    " one disk that has them: import without --link"
                ) from error
    shutil.copyfile(path, target)


def _finish(staged: Path, held: Holding) -> None:
    """Write the record, which makes a set of the folder, after everything else is on the disk."""
    if hasattr(os, "sync"):
        os.sync()
    record = {key: value for key, value in asdict(held).items() if key != "name"}
    with open(staged / RECORD, "wb") as file:
        file.write(json.dumps(record, indent=1, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _exchange(staged: Path, target: Path, replaced: Path) -> None:
    """Put the new set in the place of the old one; should that fail, the old one stays."""
    try:
        if target.exists():
            os.rename(target, replaced)
        os.rename(staged, target)
    except BaseException:
        if replaced.exists() and not target.exists():
            os.rename(replaced, target)
        raise
