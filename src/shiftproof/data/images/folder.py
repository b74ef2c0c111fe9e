"""A folder of images, `DIR/domain/class/*.jpg`, as a dataset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed, printable, similar_names
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.images.walk import images_below, is_image_name, subfolders, visible

LAYOUT = "DIR/domain/class/*.jpg (or png, webp, …)"


def find_images(folder: Path) -> tuple[list[LabelledPath], list[str]]:
    """Return the images in a folder, in order, and notes on what was left out.

    Images at the wrong depth are an error, because they would get a wrong label.  Hidden files and
    files of other kinds are left out, the latter with a note.
    """
    if not folder.is_dir():
        raise DataError(f"no such folder: {folder}")
    samples: list[LabelledPath] = []
    others: Counter[str] = Counter()
    empty: list[str] = []
    domains = subfolders(folder)
    loose = [path.name for path in visible(folder) if _is_image(path)]
    for domain in domains:
        for label in visible(domain):
            if not label.is_dir():
                if _is_image(label):
                    loose.append(f"{domain.name}/{label.name}")
                else:
                    others[label.suffix.lower()] += 1
                continue
            before = len(samples)
            for path in visible(label):
                if path.is_dir():
                    for image in images_below(path):
                        inner = image.relative_to(folder)
                        raise DataError(
                            f"{folder} holds {inner}, one level too deep; the layout must be"
                            f" {LAYOUT}: try {folder / inner.parts[0]}"
                        )
                elif _is_image(path):
                    names = printable(label.name), printable(domain.name)
                    samples.append(LabelledPath(path, *names))
                else:
                    others[path.suffix.lower()] += 1
            if len(samples) == before:
                empty.append(f"{domain.name}/{label.name}")
    if loose:
        raise DataError(
            f"{folder} holds {counted(len(loose), 'image')} outside of a class folder"
            f" ({listed(loose, most=1)}); the layout must be {LAYOUT}"
        )
    with_images = {sample.domain for sample in samples}
    if not samples:
        raise DataError(f"{folder} holds no images; the layout must be {LAYOUT}")
    notes = []
    if without := [domain.name for domain in domains if domain.name not in with_images]:
        notes.append(f"left out folders without images: {listed(without, most=5)}")
    if empty := [name for name in empty if name.partition("/")[0] in with_images]:
        notes.append(f"class folders without images: {listed(empty, most=5)}")
    if others:
        kinds = ", ".join(
            f"{count} {suffix or 'without suffix'}" for suffix, count in others.most_common(3)
        )
        notes.append(f"left out {counted(others.total(), 'file')} of other kinds ({kinds})")
    notes += similar_names({sample.domain for sample in samples}, "domains")
    notes += similar_names({sample.label for sample in samples}, "classes")
    return samples, notes


def _is_image(path: Path) -> bool:
    return is_image_name(path.name) and not path.is_dir()
