"""Temporary folders that are removed even if the process that made them was killed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "shiftproof-"
# A folder is created before it is locked, so a younger one may be about to be locked.
YOUNG_SECONDS = 60.0


@contextlib.contextmanager
def scratch(place: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end.

    Folders of killed processes, whose locks are free, are removed too.
    """
    place = place or Path(tempfile.gettempdir())
    remove_abandoned(place)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with FileLock(folder / "held", blocking=False):
            yield folder


def remove_abandoned(place: Path) -> None:
    """Remove the folders in ``place`` that `scratch` made and no process holds."""
    for lock in place.glob(f"{PREFIX}*/held"):
        # The folder may be another user's, or already gone.
        with contextlib.suppress(OSError, Timeout):
            if time.time() - lock.stat().st_mtime < YOUNG_SECONDS:
                continue
            with FileLock(lock, blocking=False):
                shutil.rmtree(lock.parent, ignore_errors=True)
