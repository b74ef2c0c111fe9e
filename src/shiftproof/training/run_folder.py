"""A run is a folder: config.json, records.jsonl, checkpoint.safetensors and, last, done.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.core.errors import RunConflict
from shiftproof.core.files import (
    is_temporary,
    locked_folder,
    read_json,
    read_json_if_any,
    write_json,
)
from shiftproof.training.records import Records

if TYPE_CHECKING:  # torch is slow to import, and reading a run's results does not need it
    from shiftproof.training.config import RunConfig

START_OVER = "delete the run to start over"


class RunFolder:
    """Read and write the files of one run.

    `checkpoint` is written and read by the session (`training.session`), which knows its form.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = Records(path / "records.jsonl")
        self._done = path / "done.json"

    @property
    def checkpoint(self) -> Path:
        """The file with all the state that the next step depends on."""
        return self.path / "checkpoint.safetensors"

    @contextmanager
    def claim(self, config: RunConfig) -> Iterator[None]:
        """Lock the folder for `config`: no other run and no other process may write to it."""
        with locked_folder(self.path, f"another process is writing {self.path}; wait or stop it"):
            self._claim_config(config)
            yield

    def done(self) -> dict[str, Any] | None:
        """Return how the run ended, or None if it has not."""
        required = ("status", "step", "seconds")
        return read_json_if_any(self._done, required, "delete it to resume the run")

    def finish(self, ended: dict[str, Any]) -> None:
        """Write done.json, the last file of a run."""
        write_json(self._done, ended)

    def _claim_config(self, config: RunConfig) -> None:
        path = self.path / "config.json"
        wanted = config.to_json()
        # A sweep writes the last two.
        ours = {"lock", path.name, "job.json", "failed.json"}
        for left in filter(is_temporary, self.path.iterdir()):
            left.unlink()  # left by a killed process, since we hold the lock
        # Version 0.1 left files that end in .new.
        others = [f.name for f in self.path.iterdir() if f.name not in ours and f.suffix != ".new"]
        if not others:  # a new run, or one that failed before its first step
            write_json(path, wanted)
            return
        if not path.exists():
            raise RunConflict(
                f"{self.path} has {min(others)} but no config.json, so it holds no run to resume;"
                " choose another `out`"
            )
        found = read_json(path, remedy=START_OVER)
        if found != wanted:
            raise RunConflict(
                f"{self.path} holds another run ({changes(found, wanted)});"
                " choose another `out` or delete it"
            )


def changes(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """List the first few settings and hyper-parameters that differ."""
    old, new = _flat(found), _flat(wanted)
    keys = sorted(old.keys() | new.keys())
    named = [
        "other data or columns" if k == "fingerprint" else f"{k} {old.get(k)!r} → {new.get(k)!r}"
        for k in keys
        if old.get(k) != new.get(k)
    ]
    return "; ".join(named[:3]) + ("; …" if len(named) > 3 else "")


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings, hyper-parameters and settings of frozen features in one dict."""
    frozen = {f"frozen {name}": value for name, value in config.get("frozen", {}).items()}
    flat = {**config, **config.get("hparams", {}), **frozen}
    return {name: value for name, value in flat.items() if name not in ("hparams", "frozen")}
