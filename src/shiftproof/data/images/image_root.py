"""Find the folder to which the paths in a list of images are relative."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.data.images.walk import folders_below

# Publishers put images beside the list, or one or two folders below it.
DEEPEST = 2


def image_root(file: Path, paths: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the root folder of `paths`, and a note if it is not the folder of `file`.

    It is the folder of `file`, unless the first path does not exist there but does in exactly one
    folder below.
    """
    own = file.parent
    if not paths or (own / paths[0]).exists():
        return own, []
    found = [folder for folder in folders_below(own, DEEPEST) if (folder / paths[0]).is_file()]
    if len(found) != 1:
        return own, []
    return found[0], [f"the paths in {file.name} start at {found[0].relative_to(own)}"]
