"""Find files by name below a folder in a single walk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path


def find_files(folder: Path, names: Collection[str]) -> dict[str, list[Path]]:
    """Return the paths below ``folder`` with each of the given names, each list sorted.

    Links to folders are not followed, and unreadable folders are skipped.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    waiting = [os.fspath(folder)]
    while waiting:
        # Like `os.walk`, in half the time.
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name in found:
                    found[entry.name].append(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    # Sorted like paths, part by part.
    return {
        name: [Path(path) for path in sorted(paths, key=lambda each: each.split(os.sep))]
        for name, paths in found.items()
    }
