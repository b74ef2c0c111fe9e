"""The files of given names below a folder, found in one walk."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path


def find_files(folder: Path, names: Collection[str]) -> dict[str, list[Path]]:
    """Return the paths below ``folder`` that have one of these names, each list in order.

    Links to folders are not followed, and folders that cannot be read are left out.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for place, folders, files in os.walk(folder):
        for name, paths in found.items():
            if name in files or name in folders:
                paths.append(os.path.join(place, name))
    # In the order of paths, part by part.
    return {
        name: [Path(path) for path in sorted(paths, key=lambda each: each.split(os.sep))]
        for name, paths in found.items()
    }
