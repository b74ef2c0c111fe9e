"""Transfer the files of a run between driver and worker if they share no disk.

Every transfer leaves a run that can be resumed: records may be ahead of the checkpoint (they are
dropped on resume), but never behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
