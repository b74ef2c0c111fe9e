"""The folder at which the paths of a list of images start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.data.images.walk import folders_below

# Publishers put images beside the list, or one or two folders below it.
DEEPEST = 2


def image_root(file: Path, paths: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the folder, and a note if it is not that of the list itself.

    It is the list's own folder, unless the first path does not exist there and does in exactly one
    folder below.
    """
    own = file.parent
    if not paths or (own / paths[0]).exists():
        return own, []
    found = [folder for folder in folders_below(own, DEEPEST) if (folder / paths[0]).is_file()]
    if len(found) != 1:
        return own, []
    return found[0], [f"the paths in {file.name} start at {found[0].relative_to(own)}"]
