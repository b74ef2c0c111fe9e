"""Transfer the files of a run between driver and worker if they share no disk.

The mailbox runs in its own process, which starts fast and stays small: nothing here imports torch.

Every transfer leaves a run that can be resumed: records may be ahead of the checkpoint (they are
dropped on resume), but never behind it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from shiftproof.core.files import write_atomically

Files = Mapping[str, bytes]

CHECKPOINT = "checkpoint.safetensors"
# The files to send, in the order in which they are written: done.json comes last.
RUN_FILES = ("job.json", "config.json", "records.jsonl", CHECKPOINT, "done.json")


def pack(run: Path) -> dict[str, bytes]:
    """Return all files of a run."""
    return {path.name: path.read_bytes() for path in _present(run)}


def unpack(files: Files, run: Path) -> None:
    """Write files into a run's folder, each atomically."""
    run.mkdir(parents=True, exist_ok=True)
    for name in RUN_FILES:
        path = run / name
        if name in files and not (path.exists() and path.read_bytes() == files[name]):
            write_atomically(path, files[name])


class ChangedFiles:
    """The files of a run that have changed since the last call."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._sent = self._stamps()

    def take(self) -> dict[str, bytes]:
        """Return all files if any changed, without the (large) checkpoint if it did not change."""
        stamps = self._stamps()
        if stamps == self._sent:
            return {}
        # Always send the small files together: a checkpoint never arrives without its records, even
        # if the previous transfer was lost.
        same = stamps.get(CHECKPOINT) == self._sent.get(CHECKPOINT)
        self._sent = stamps
        return {
            path.name: path.read_bytes()
            for path in _present(self._run)
            if not (same and path.name == CHECKPOINT)
        }

    def _stamps(self) -> dict[str, tuple[int, int, int]]:
        stats = {path.name: path.stat() for path in _present(self._run)}
        return {name: (s.st_ino, s.st_mtime_ns, s.st_size) for name, s in stats.items()}


def _present(run: Path) -> list[Path]:
    return [run / name for name in RUN_FILES if (run / name).exists()]


class Mailbox:
    """Keeps the newest files of every attempt until the driver collects them; a Ray actor."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[int, Files]] = {}
        self._stopping = False

    def deliver(self, attempt: int, step: int, files: Files) -> bool:
        """Store files of an attempt at ``step``; return whether the attempt should stop."""
        _, older = self._files.get(attempt, (0, {}))
        self._files[attempt] = (step, {**older, **files})
        return self._stopping

    def collect(self, stopping: bool) -> dict[int, tuple[int, Files]]:
        """Return, by attempt, the step and the files delivered since the last call."""
        self._stopping = stopping
        collected, self._files = self._files, {}
        return collected


PREFIX = "shiftproof-"
# A folder is created before it is locked, so a younger one may be about to be locked.
YOUNG_SECONDS = 60.0


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end.

    Folders of killed processes, whose locks are free, are removed too.
    """
    parent = parent or Path(tempfile.gettempdir())
    remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with FileLock(folder / "held", blocking=False):
            yield folder


def remove_abandoned(parent: Path) -> None:
    """Remove the folders in ``parent`` that `scratch` made and no process holds."""
    for lock in parent.glob(f"{PREFIX}*/held"):
        # The folder may be another user's, or already gone.
        with contextlib.suppress(OSError, Timeout):
            if time.time() - lock.stat().st_mtime < YOUNG_SECONDS:
                continue
            with FileLock(lock, blocking=False):
                shutil.rmtree(lock.parent, ignore_errors=True)
