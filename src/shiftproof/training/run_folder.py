"""A run is a folder: config.json, records.jsonl, checkpoint.safetensors, and last done.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from shiftproof.core.errors import RunConflict
from shiftproof.training.checkpoint import State, load_state, save_state, write_atomically
from shiftproof.training.config import RunConfig
from shiftproof.training.records import Record, append_record, read_records, rewind_records


class RunFolder:
    """Reads and writes one run's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = path / "records.jsonl"
        self._checkpoint = path / "checkpoint.safetensors"
        self._done = path / "done.json"

    @contextmanager
    def claim(self, config: RunConfig) -> Iterator[None]:
        """Hold the folder for ``config`` alone: no other run and no other process gets in.

        The lock is the operating system's and goes with the process, however it ends.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunConflict(f"{self.path} is a file; --out takes a folder")
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / "lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise RunConflict(f"another process is writing {self.path}; wait or stop it") from None
        try:
            self._claim_config(config)
            yield
        finally:
            lock.release()

    def done(self) -> dict[str, Any] | None:
        """Return how the run ended, or None if it has not."""
        if not self._done.exists():
            return None
        ended = read_json(self._done)
        if not {"status", "step", "seconds"} <= ended.keys():
            raise RunConflict(f"{self._done} does not say how the run ended; delete it to go on")
        return ended

    def finish(self, ended: dict[str, Any]) -> None:
        """Write done.json; nothing is written after it."""
        write_atomically(self._done, pretty_json(ended))

    def records(self) -> list[Record]:
        """Return the records so far."""
        return read_records(self._records)

    def append(self, record: Record) -> None:
        """Add a record."""
        append_record(self._records, record)

    def rewind(self, step: int) -> list[Record]:
        """Drop the records after ``step`` and return the others."""
        return rewind_records(self._records, step)

    def save(self, state: State) -> None:
        """Replace the checkpoint."""
        save_state(self._checkpoint, state)

    def load(self) -> State | None:
        """Return the checkpoint, or None."""
        return load_state(self._checkpoint)

    def _claim_config(self, config: RunConfig) -> None:
        path = self.path / "config.json"
        wanted = config.to_json()
        # The last two are a sweep's: what the run is to it.
        ours = {"lock", path.name, "job.json", "failed.json"}
        others = [f.name for f in self.path.iterdir() if f.name not in ours and f.suffix != ".new"]
        if not others:  # new, or failed before its first step
            write_atomically(path, pretty_json(wanted))
            return
        if not path.exists():
            raise RunConflict(
                f"{self.path} has {min(others)} but no config.json: not a run to go on with;"
                " choose another --out"
            )
        found = read_json(path)
        if found != wanted:
            raise RunConflict(
                f"{self.path} holds another run ({changes(found, wanted)});"
                " choose another --out or delete it"
            )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file of a run."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RunConflict(f"{path} is damaged; delete the run to start over")
    return value


def changes(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Name the first few settings that differ, the hyper-parameters among them."""
    old, new = _flat(found), _flat(wanted)
    keys = sorted(old.keys() | new.keys())
    named = [f"{k} {old.get(k)!r} → {new.get(k)!r}" for k in keys if old.get(k) != new.get(k)]
    return "; ".join(named[:3]) + ("; …" if len(named) > 3 else "")


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings, the hyper-parameters and those of frozen features among them."""
    frozen = {f"frozen {name}": value for name, value in config.get("frozen", {}).items()}
    flat = {**config, **config.get("hparams", {}), **frozen}
    return {name: value for name, value in flat.items() if name not in ("hparams", "frozen")}


def pretty_json(value: Mapping[str, Any]) -> bytes:
    """Return an object as it is written into the files of a run."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
