"""A run's folder travels as its files, where driver and worker share no disk.

What has been written is whole after every parcel: records may be ahead of the checkpoint, which a
resumed run forgets, and never behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shiftproof.core.files import write_atomically

Files = Mapping[str, bytes]

CHECKPOINT = "checkpoint.safetensors"
# All that travels, in the order in which it is written: a run is done when nothing is left to do.
TRAVELLING = ("job.json", "config.json", "records.jsonl", CHECKPOINT, "done.json")


def pack(run: Path) -> dict[str, bytes]:
    """Return all files of a run."""
    return {path.name: path.read_bytes() for path in _present(run)}


def unpack(files: Files, run: Path) -> None:
    """Write files into a run's folder, each all or nothing."""
    run.mkdir(parents=True, exist_ok=True)
    for name in TRAVELLING:
        path = run / name
        if name in files and not (path.exists() and path.read_bytes() == files[name]):
            write_atomically(path, files[name])


class News:
    """What the files of a run have become since the last time one asked."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._known = self._stamps()

    def take(self) -> dict[str, bytes]:
        """Return nothing, or all files; without the checkpoint, which is large, if it is known."""
        stamps = self._stamps()
        if stamps == self._known:
            return {}
        # The small ones always together: a checkpoint never arrives without its records, even if
        # the parcel before it did not.
        same = stamps.get(CHECKPOINT) == self._known.get(CHECKPOINT)
        self._known = stamps
        return {
            path.name: path.read_bytes()
            for path in _present(self._run)
            if not (same and path.name == CHECKPOINT)
        }

    def _stamps(self) -> dict[str, tuple[int, int, int]]:
        stats = {path.name: path.stat() for path in _present(self._run)}
        return {name: (s.st_ino, s.st_mtime_ns, s.st_size) for name, s in stats.items()}


def _present(run: Path) -> list[Path]:
    return [run / name for name in TRAVELLING if (run / name).exists()]
