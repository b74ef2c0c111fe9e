"""A folder of images, ``DIR/domain/class/*.jpg``: the user's own data with nothing to write."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.images.decode import SUFFIXES
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset
from shiftproof.data.similar_names import almost_alike

LAYOUT = "DIR/domain/class/*.jpg (or png, webp, …)"


def load_image_folder(
    folder: Path,
    view: ImageView,
    *,
    name: str | None = None,
    classes: Sequence[str] | None = None,
    progress: Progress = silent,
) -> DomainDataset:
    """Return the images under ``folder`` as a dataset named after it."""
    samples, notes = find_images(folder)
    name = name or folder.absolute().name
    return image_dataset(name, samples, view, classes=classes, notes=notes, progress=progress)


def find_images(folder: Path) -> tuple[list[LabelledPath], list[str]]:
    """Return the images of a folder in order, and notes on what was left out.

    Whatever would put an image under a wrong label is an error: images too deep or not deep
    enough.  Hidden files and files of other kinds are left out; the latter are noted.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    samples: list[LabelledPath] = []
    others: Counter[str] = Counter()
    empty: list[str] = []
    domains = [entry for entry in _visible(folder) if _is_folder(entry)]
    loose = [entry.name for entry in _visible(folder) if _is_image(entry)]
    for domain in domains:
        for label in _visible(Path(domain)):
            if not _is_folder(label):
                if _is_image(label):
                    loose.append(f"{domain.name}/{label.name}")
                else:
                    others[_suffix(label)] += 1
                continue
            before = len(samples)
            for entry in _visible(Path(label)):
                if _is_folder(entry):
                    _refuse_deeper_images(folder, Path(entry))
                elif _is_image(entry):
                    samples.append(LabelledPath(Path(entry), label.name, domain.name))
                else:
                    others[_suffix(entry)] += 1
            if len(samples) == before:
                empty.append(f"{domain.name}/{label.name}")
    if loose:
        raise DataError(
            f"{folder} holds {_files(loose)} that belong to no class; the layout must be {LAYOUT}"
        )
    found = {sample.domain for sample in samples}
    if not samples:
        raise DataError(f"{folder} holds no images; the layout must be {LAYOUT}")
    notes = []
    if without := [domain.name for domain in domains if domain.name not in found]:
        notes.append(f"{_list(without)}: no images there, so no domain")
    if empty := [place for place in empty if place.partition("/")[0] in found]:
        notes.append(f"{_list(empty)}: no images there")
    if others:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(3))
        notes.append(f"{sum(others.values())} files of other kinds were left out ({kinds})")
    notes += almost_alike({sample.domain for sample in samples}, "domains")
    notes += almost_alike({sample.label for sample in samples}, "classes")
    return samples, notes


def _visible(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder by name; hidden files and macOS's own are not."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read ({error.strerror})") from error
    return (entry for entry in ordered if not entry.name.startswith((".", "__MACOSX")))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return os.path.isdir(entry.path)  # entry.is_dir() raises on a link to itself


def _is_image(entry: os.DirEntry[str]) -> bool:
    return not _is_folder(entry) and _suffix(entry) in SUFFIXES


def _suffix(entry: os.DirEntry[str]) -> str:
    return os.path.splitext(entry.name)[1].lower() or "without suffix"


def _refuse_deeper_images(root: Path, folder: Path) -> None:
    for path, _, names in os.walk(folder):
        images = [name for name in names if name.lower().endswith(SUFFIXES)]
        if images:
            place = Path(path).relative_to(root) / min(images)
            raise DataError(
                f"{root} holds {place}, a level too deep: the layout must be {LAYOUT};"
                f" perhaps {root / place.parts[0]} is meant"
            )


def _files(names: Sequence[str]) -> str:
    return (
        f"{len(names)} image{'' if len(names) == 1 else 's'} ({names[0]}{', …' * (len(names) > 1)})"
    )


def _list(names: Sequence[str], shown: int = 5) -> str:
    return ", ".join(map(repr, names[:shown])) + (", …" if len(names) > shown else "")
