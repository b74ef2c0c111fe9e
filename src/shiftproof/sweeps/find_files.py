"""The files of given names below a folder, found in one walk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path


def find_files(folder: Path, names: Collection[str]) -> dict[str, list[Path]]:
    """Return the paths below ``folder`` that have one of these names, each list in order.

    Links to folders are not followed, and folders that cannot be read are left out.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    waiting = [os.fspath(folder)]
    while waiting:
        # As `os.walk`, in half the time.
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name in found:
                    found[entry.name].append(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    # In the order of paths, part by part.
    return {
        name: [Path(path) for path in sorted(paths, key=lambda each: each.split(os.sep))]
        for name, paths in found.items()
    }
