"""A run is a folder: config.json, records.jsonl, checkpoint.safetensors and, last, done.json.

`done.json` has the SHA-256 of the files that results are read from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shiftproof.core.errors import DataError, RunConflict
from shiftproof.core.files import (
    changed_file,
    file_hash,
    is_temporary,
    locked_folder,
    read_json,
    read_json_if_any,
    require_regular,
    write_json,
)
from shiftproof.core.json_values import from_stored, stored_fields
from shiftproof.training.records import Records

if TYPE_CHECKING:  # torch is slow to import, and reading a run's results does not need it
    from shiftproof.training.config import RunConfig

START_OVER = "delete the run to start over"
RESUME = "delete it to resume the run"
HELD_OUT, MODEL = "held_out.safetensors", "model.safetensors"
# The files whose hashes are in done.json, if the run has them.
HASHED = ("config.json", "records.jsonl", HELD_OUT, MODEL)


@dataclass(frozen=True)
class Ended:
    """How a run ended: the content of done.json.

    A run `finished` or `diverged` (a loss was not finite).  `seconds` is the time spent on training
    and evaluation, summed over all sessions; `timings` holds the time of each member of an
    ensemble, and `environment` the versions of what computed it.  `weights` says which weights were
    evaluated, if not the last ones.  `sha256` holds the hash of each file.
    """

    status: Literal["finished", "diverged"]
    step: int
    seconds: float
    run_id: str
    environment: Mapping[str, str | int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)


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

    def done(self) -> Ended | None:
        """Return how the run ended, or None if it has not."""
        value = read_json_if_any(self._done, remedy=RESUME)
        try:
            return None if value is None else from_stored(Ended, value, "done.json")
        except ValueError as error:
            raise DataError(f"{self._done} is damaged ({error}); {RESUME}") from error

    def finish(self, ended: Ended) -> None:
        """Write done.json, the last file of a run, with the hashes of the others."""
        files = [name for name in HASHED if (self.path / name).is_file()]
        hashes = {name: file_hash(self.path / name) for name in files}
        write_json(self._done, stored_fields(replace(ended, sha256=hashes)))

    def check(self, *names: str) -> None:
        """Raise `DataError` if one of the files, if present, has changed since the run ended."""
        paths = [self.path / name for name in names if name in HASHED]
        present = [path for path in paths if path.exists()]
        ended = self.done() if present else None
        for path in present if ended else ():
            require_regular(path)
            if ended and file_hash(path) != ended.sha256.get(path.name):
                raise changed_file(path)

    def _claim_config(self, config: RunConfig) -> None:
        path = self.path / "config.json"
        wanted = config.to_json()
        # A sweep writes the last two.
        ours = {"lock", path.name, "job.json", "failed.json"}
        for left in filter(is_temporary, self.path.iterdir()):
            left.unlink()  # left by a killed process, since we hold the lock
        others = [file.name for file in self.path.iterdir() if file.name not in ours]
        if not others:  # a new run, or one that failed before its first step
            write_json(path, wanted)
            return
        if not path.exists():
            raise RunConflict(
                f"{self.path} has {min(others)} but no config.json, so it holds no run to resume;"
                " choose another `out`"
            )
        stored = read_json(path, remedy=START_OVER)
        if stored != wanted:
            raise RunConflict(
                f"{self.path} holds another run ({changes(stored, wanted)});"
                " choose another `out` or delete it"
            )


def add_file(folder: Path, name: str) -> None:
    """Add the hash of a file to done.json, for a file that is written after the run has ended."""
    run = RunFolder(folder)
    ended = run.done()
    if ended is not None:
        run.check(*(known for known in ended.sha256 if known != name))
        run.finish(ended)


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
    """Return all settings, hyper-parameters and settings of the feature extractor in one dict."""
    extractor = {f"extractor {name}": value for name, value in config.get("extractor", {}).items()}
    flat = {**config, **config.get("hparams", {}), **extractor}
    return {name: value for name, value in flat.items() if name not in ("hparams", "extractor")}
