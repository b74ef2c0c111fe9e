"""All runs of a sweep in one file: compressed JSON lines, small enough to publish.

Each line is a run: its place in the protocol, settings, how it ended, and every record.  Weights
stay behind.  The same runs make the same bytes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.files import read_json, write_atomically
from shiftproof.sweeps.results import (
    RUN_NAMES,
    STATUSES,
    VARIANT,
    Origin,
    RunOutcome,
    evaluation_of,
    positions,
    read_object,
    row_of,
)
from shiftproof.training.run_folder import RunFolder


def pack_runs(outcomes: Iterable[RunOutcome], path: Path) -> int:
    """Write the runs that were read from folders of ours; return how many."""
    lines = [json.dumps(_packed(outcome), ensure_ascii=False) for outcome in outcomes]
    data = "".join(line + "\n" for line in lines).encode()
    write_atomically(path, gzip.compress(data, mtime=0))
    return len(lines)


def read_packed(path: Path) -> list[RunOutcome]:
    """Return the runs of a file that `pack_runs` wrote."""
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        values = [json.loads(line) for line in lines]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{path} is not a readable file of runs ({error})") from error
    return [_checked(value, number, path) for number, value in enumerate(values, 1)]


def _checked(value: Any, number: int, path: Path) -> RunOutcome:
    try:
        return _unpacked(value, number, path)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{path}, line {number}, is a damaged run ({error!r})") from error


def _packed(outcome: RunOutcome) -> dict[str, Any]:
    folder = outcome.folder
    if folder is None or not (folder / "job.json").exists():
        raise InvalidValue("--format records is for sweeps of Shiftproof, read from their folders")
    job = read_object(folder / "job.json", RUN_NAMES)
    run = RunFolder(folder)
    config = folder / "config.json"
    ended = run.done() or {}
    return {
        **{name: job[name] for name in (*RUN_NAMES, VARIANT) if name in job},
        "status": outcome.status,
        "seconds": ended.get("seconds"),
        "environment": ended.get("environment"),
        "config": read_json(config) if config.exists() else None,
        "records": run.records(),
    }


def _unpacked(value: Any, number: int, path: Path) -> RunOutcome:
    if not isinstance(value, dict) or not {*RUN_NAMES, "status", "records"} <= value.keys():
        raise DataError(f"{path}, line {number}, is not a run of a sweep")
    if value["status"] not in STATUSES:
        raise DataError(f"{path}, line {number}, has the unknown status {value['status']!r}")
    config, records = value.get("config") or {}, value["records"]
    if not isinstance(config, dict):
        raise DataError(f"{path}, line {number}, has settings that are none ({config!r})")
    shares = [share for record in records for share in record.get("accuracy", {}).values()]
    if not all(isinstance(share, int | float) for share in shares):
        raise DataError(f"{path}, line {number}, has an accuracy that is not a number")
    domains = tuple(value["domains"])
    return RunOutcome(
        dataset=value["dataset"],
        algorithm=row_of(value),
        domains=domains,
        test_domains=positions(value["test_domains"], domains, path),
        hparams_seed=int(value["hparams_seed"]),
        trial_seed=int(value["trial_seed"]),
        status=value["status"],
        evaluations=tuple(evaluation_of(record, domains) for record in records),
        folder=path,
        origin=Origin(config, value.get("seconds"), value.get("environment") or {}),
    )
