"""Add datasets to the library by import or download, check and remove them.

A dataset is built in `datasets/.NAME` and renamed when it is finished.  So a folder with a
dataset's name is never half-written, even if a process was killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path, PurePath

from rich.filesize import decimal

from shiftproof.core.errors import DataError, UnknownName
from shiftproof.core.files import locked, write_json
from shiftproof.core.text import counted, quoted
from shiftproof.data.base import DATASETS, Progress, cache_dir, silent
from shiftproof.data.images.findings import ImageCheck, LabelledImage, check_images
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.index import scan
from shiftproof.data.images.walk import SUFFIXES
from shiftproof.data.library.base import (
    RECORD,
    Found,
    LibraryDataset,
    LocalCopy,
    absent,
    count,
    expected_counts,
    folder_of,
    library_datasets,
    local_copy,
    made_of,
    shortages,
)
from shiftproof.data.library.download import ByteProgress, fetch_any
from shiftproof.data.library.unpack import extract

# The files to unpack from an archive: images and their annotations.
WANTED = (*SUFFIXES, ".json", ".csv", ".txt")


def import_dataset(
    name: str, path: Path, *, replace: bool = False, link: bool = False, progress: Progress = silent
) -> LocalCopy:
    """Copy a dataset from `path`, a published folder or archive, into the library.

    A part of a dataset is imported and marked as incomplete; a later import with at least as many
    images replaces it.  A complete or larger copy is replaced only with `replace`.  `link` creates
    hard links to the files of a folder instead of copies.  Images are not decoded; empty files are
    left out.
    """
    path = path.expanduser()
    if not path.exists():
        raise DataError(f"no such file or folder: {path}")
    source = _library_dataset(name)
    if path.is_file() and path.name in source.files:
        raise DataError(f"{path.name} is one file of {name}; import its folder, {path.parent}")
    with _work_folder(name) as work:
        return _take(source, [path], work, link, progress, replace)


def pull_dataset(name: str, *, replace: bool = False, progress: Progress = silent) -> LocalCopy:
    """Download a dataset and import it; the downloads are kept until the import has succeeded."""
    source = _library_dataset(name)
    _refuse_complete(name, replace)
    if not source.card.sources:
        raise DataError(
            f"{name} cannot be downloaded automatically; get it from its publishers"
            f" ({source.card.publication}), then run `shiftproof data import {name} PATH`"
        )
    downloads = cache_dir() / "downloads" / name
    by_hand = f"download it in a browser, then run `shiftproof data import {name} PATH`"
    archives = []
    for sources in source.card.sources:
        told = _in_megabytes(progress, f"downloading {sources[0].filename}")
        archives.append(fetch_any(sources, downloads, told, by_hand))
    with _work_folder(name) as work:
        try:
            held = _take(source, archives, work, False, progress, replace)
        except DataError:
            # A download without a checksum may be the cause, so the next attempt repeats it.
            for path, sources in zip(archives, source.card.sources, strict=True):
                if not any(s.sha256 or s.md5 for s in sources if s.filename == path.name):
                    path.unlink(missing_ok=True)
            raise
    shutil.rmtree(downloads, ignore_errors=True)
    return held


def _in_megabytes(progress: Progress, what: str) -> ByteProgress:
    return lambda done, total: progress(f"{what}, MB", done // 10**6, (total or 0) // 10**6)


def remove_dataset(name: str) -> None:
    """Delete a dataset and its downloads."""
    _library_dataset(name)
    with _work_folder(name) as work:
        if not folder_of(name).exists():
            raise DataError(f"{name} is not on this machine")
        os.rename(folder_of(name), work / "removed")
    shutil.rmtree(cache_dir() / "downloads" / name, ignore_errors=True)


# --- the import itself ------------------------------------------------------------------------


def _library_dataset(name: str) -> type[LibraryDataset]:
    source = DATASETS.get(name)
    if source.needs:
        raise made_of(name, source)
    if not issubclass(source, LibraryDataset):
        raise DataError(
            f"{name} is part of the package: it needs no download and cannot be removed"
        )
    return source


def _refuse_complete(name: str, replace: bool) -> None:
    if replace or not folder_of(name).exists():
        return
    held = local_copy(name)
    if held is not None and held.complete:
        raise DataError(
            f"{name} is already here and complete ({held.images:,} images); `replace=True`"
            " overwrites it"
        )


@contextmanager
def _work_folder(name: str) -> Iterator[Path]:
    """Yield an empty folder beside the dataset, locked for this process and deleted at the end."""
    target = folder_of(name)
    work = target.with_name(f".{name}")

    def clear() -> None:
        # An interruption between the two renames of `_take`: restore the old dataset.
        if (work / "replaced").exists() and not target.exists():
            os.rename(work / "replaced", target)
        shutil.rmtree(work, ignore_errors=True)

    target.parent.mkdir(parents=True, exist_ok=True)
    busy = DataError(f"another process is changing {name}; wait until it has ended")
    with locked(target.with_name(f".{name}.lock"), busy):
        clear()
        work.mkdir()
        try:
            yield work
        finally:
            clear()


def _take(
    source: type[LibraryDataset],
    paths: Sequence[Path],
    work: Path,
    link: bool,
    progress: Progress,
    replace: bool,
) -> LocalCopy:
    """Copy the images at `paths` into the library, via the work folder."""
    name, target = source.name, folder_of(source.name)
    _refuse_complete(name, replace)
    images = _find(source, paths, work / "unpacked", progress)
    samples = [sample for sample in images.samples if sample.path.stat().st_size]
    notes = list(images.notes)
    if empty := len(images.samples) - len(samples):
        notes.append(f"left out {counted(empty, 'empty file')}")
    held = local_copy(name)
    if not replace and held is not None and held.images > len(samples):
        raise DataError(
            f"{name} is already here with {held.images:,} images, but"
            f" {', '.join(map(str, paths))} has {len(samples):,}; `replace=True` overwrites it"
            " anyway"
        )
    if not link:
        copied = [s.path for s in samples if not s.path.is_relative_to(work)]
        needed = sum(path.stat().st_size for path in copied)
        free = shutil.disk_usage(target.parent).free
        if needed > free:
            raise DataError(
                f"{name} needs {decimal(needed)} in {target.parent}, where {decimal(free)} are"
                " free; free some space, use `link=True`, or set SHIFTPROOF_HOME to a folder on a"
                " larger disk"
            )
    staged = work / "staged"
    for domain, label in sorted({(sample.domain, sample.label) for sample in samples}):
        for part in (domain, label):
            if Path(part).name != part or part == os.pardir:
                raise DataError(f"{quoted(part)} leads out of the folder of {name}")
        (staged / domain / label).mkdir(parents=True)
    for done, sample in enumerate(samples):
        progress(f"importing {name}", done, len(samples))
        copy = staged / sample.domain / sample.label / (sample.name or sample.path.name)
        _copy(sample.path, copy, ours=sample.path.is_relative_to(work), link=link)
    progress(f"importing {name}", len(samples), len(samples))

    counts = count(samples, source.card)
    complete = not shortages(source, counts) and not images.missing
    held = LocalCopy(name, counts, complete, tuple(notes))
    if hasattr(os, "sync"):
        os.sync()  # all images are on the disk before the record
    record = {key: value for key, value in asdict(held).items() if key != "name"}
    write_json(staged / RECORD, record)
    if target.exists():
        os.rename(target, work / "replaced")
    os.rename(staged, target)
    return held


def _find(
    source: type[LibraryDataset], paths: Sequence[Path], unpacked: Path, progress: Progress
) -> Found:
    """Find the images at `paths`; archives in a folder are unpacked if a domain is missing."""

    def wanted(member: PurePath) -> bool:
        return member.suffix.lower() in WANTED or member.name in source.files

    folders = [path for path in paths if path.is_dir()]
    archives = [path for path in paths if not path.is_dir()]
    images = source.collect(folders, progress)
    if len({sample.domain for sample in images.samples}) < len(source.card.counts):
        published = sorted({s.filename for sources in source.card.sources for s in sources})
        files = [folder / name for folder in folders for name in published]
        archives += [
            path
            for path in files
            if path.is_file() and not path.with_name(path.name.partition(".")[0]).is_dir()
        ]
    for number, archive in enumerate(archives):
        told = _in_megabytes(progress, f"unpacking {archive.name}")
        folders.append(unpacked / str(number))
        extract(archive, folders[-1], progress=told, keep=wanted)
    if converted := source.convert(folders, unpacked / "converted"):
        folders.append(unpacked / "converted")
    if archives or converted:
        images = source.collect(folders, progress)
    if not images.samples:
        because = "".join(f"; {note}" for note in images.notes)
        names = {"DOMAIN": tuple(source.card.counts), "CLASS": source.card.classes}
        meant = "".join(
            f", {word} one of {', '.join(known[:10])}{', …' * (len(known) > 10)}"
            for word, known in names.items()
            if word in source.layout
        )
        raise DataError(
            f"{', '.join(map(str, paths))} holds no image of {source.name}{because}; looked for:"
            f" {source.layout}{meant}"
        )
    return images


def _copy(path: Path, target: Path, *, ours: bool, link: bool) -> None:
    """Copy a file into the dataset; hard-link it if it is `ours` (temporary) or `link` is set."""
    if target.exists():
        raise DataError(f"two images are named {target.parent.name}/{target.name}; rename one")
    if ours or link:
        try:
            os.link(path.resolve() if path.is_symlink() else path, target)
            return
        except OSError as error:
            if not ours:
                raise DataError(
                    f"{path} cannot be linked to {target.parent} ({error.strerror}); hard links"
                    " need both on one disk: import without `link`"
                ) from error
    shutil.copyfile(path, target)


def check_data(data: str, progress: Progress = silent) -> ImageCheck:
    """Check all images of a dataset in the library, or of a folder DIR/domain/class.

    The image counts of a dataset are compared with its card.
    """
    source = library_datasets().get(data)
    folder = Path(data).expanduser() if source is None else folder_of(data)
    if source is None:
        if data in DATASETS and DATASETS.get(data).needs:
            raise made_of(data, DATASETS.get(data))
        if data in DATASETS:
            raise DataError(f"{data} is part of the package: there is nothing to check")
        if folder.is_file():
            raise DataError(f"{data} is a file; pass a folder of images or a dataset name")
        if not folder.is_dir():
            raise UnknownName("dataset or folder", data, DATASETS)
    elif local_copy(data) is None:
        raise absent(source)
    samples, notes = find_images(folder)
    records = scan([sample.path for sample in samples], progress)
    images = [
        LabelledImage(record, sample.domain, sample.label)
        for sample, record in zip(samples, records, strict=True)
    ]
    expected = None if source is None else expected_counts(source, count(samples, source.card))
    progress("comparing images", 0, 1)
    return replace(check_images(images, expected), notes=tuple(notes))
