"""Walk image folders in name order, skipping hidden files and files that macOS adds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftproof.core.errors import DataError

# A file in an image folder with one of these suffixes is an image.
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".bmp", ".gif"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pnm"),
)


# Publishers put images beside the list, or one or two folders below it.
DEEPEST = 2


def image_root(file: Path, paths: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the root folder of `paths`, and a note if it is not the folder of `file`.

    It is the folder of `file`, unless the first path does not exist there but does in exactly one
    folder below.
    """
    parent = file.parent
    roots = []
    if paths and not (parent / paths[0]).exists():
        roots = [root for root in folders_below(parent, DEEPEST) if (root / paths[0]).is_file()]
    if len(roots) != 1:
        return parent, []
    return roots[0], [f"the paths in {file.name} start at {roots[0].relative_to(parent)}"]


_HIDDEN = (".", "__MACOSX")


def visible(folder: Path) -> list[Path]:
    """Return the visible files and folders in a folder, sorted by name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise DataError(f"cannot read the folder {folder} ({error.strerror})") from error
    return [folder / name for name in names if not name.startswith(_HIDDEN)]


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name."""
    return [path for path in visible(folder) if path.is_dir()]


def folders_below(folder: Path, deepest: int) -> Iterator[Path]:
    """Yield a folder and its subfolders, down to `deepest` levels."""
    yield folder
    if deepest:
        for inner in subfolders(folder):
            yield from folders_below(inner, deepest - 1)


def images_in(folder: Path) -> list[Path]:
    """Return the image files directly in a folder, sorted by name."""
    return [path for path in visible(folder) if is_image_name(path.name) and path.is_file()]


def images_below(folder: Path) -> Iterator[Path]:
    """Yield the image files in a folder and its subfolders, at any depth."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN))
        for name in sorted(files):
            if is_image_name(name) and not name.startswith(_HIDDEN):
                yield Path(root) / name


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    return name.lower().endswith(SUFFIXES)
