"""Write the files of runs that no test has trained, and change those of runs that have ended."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _internals import Ended, Records, RunFolder, write_json

CONFIG = {
    "dataset": "mine", "fingerprint": "f", "algorithm": "erm", "backbone": "mlp", "hparams": {},
    "test_domains": [], "steps": 11, "eval_every": 10, "evaluate": ["train-out"], "holdout": 0.2,
    "data_seed": 0, "seed": 0, "device": "cpu", "precision": "fp32",
}  # fmt: skip


def write_stored_run(
    folder: Path,
    config: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    job: Mapping[str, Any] | None = None,
    status: Any = "finished",
    seconds: float = 1.0,
    environment: Mapping[str, Any] | None = None,
) -> Path:
    """Write an ended run; `config` names the settings that matter."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", CONFIG | dict(config))
    if job is not None:
        write_json(folder / "job.json", job)
    write_records(folder / "records.jsonl", records)
    ended = Ended(status, 11, seconds, "0", environment or {})
    RunFolder(folder).finish(ended)
    return folder


def write_records(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Replace the records in a file."""
    path.unlink(missing_ok=True)
    for record in records:
        Records(path).append(dict(record))


def change_json(path: Path, **values: Any) -> None:
    """Change values of a JSON file of an ended run, and its hashes."""
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **values}))
    write_hashes(path.parent)


def write_hashes(run: Path) -> None:
    """Write the hashes of a run's files to its done.json."""
    ended = RunFolder(run).done()
    assert ended is not None
    RunFolder(run).finish(dataclasses.replace(ended, sha256={}))
