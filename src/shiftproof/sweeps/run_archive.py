"""Store all runs of a sweep in one file: compressed JSON lines, small enough to publish.

Each line is a run: its place in the protocol, settings, status and all records, but no weights.
The same runs give the same bytes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import gzip_lines, with_format, without_format, write_atomically
from shiftproof.sweeps.results import STATUSES, RunOutcome
from shiftproof.sweeps.run_schema import check_run
from shiftproof.sweeps.stored_run import JOB_NAMES, VARIANT, StoredRun


def write_archive(runs: Iterable[StoredRun], path: Path) -> int:
    """Write the runs of a sweep; return their number."""
    lines = [json.dumps(_line(run), ensure_ascii=False) for run in runs]
    data = "".join(line + "\n" for line in lines).encode()
    write_atomically(path, gzip.compress(data, mtime=0))
    return len(lines)


def read_archive(path: Path) -> list[RunOutcome]:
    """Read the runs of a file that `write_archive` wrote."""
    found: list[RunOutcome] = []
    try:
        for number, line in enumerate(gzip_lines(path), 1):
            found.append(_outcome(json.loads(line), f"{path}, line {number},", path))
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise DataError(f"{path} is not a readable file of runs ({error})") from error
    return found


def _line(run: StoredRun) -> dict[str, Any]:
    described = {
        **{name: run.job[name] for name in (*JOB_NAMES, VARIANT) if name in run.job},
        "status": run.status,
        "seconds": run.seconds,
        "environment": run.environment or None,
        "config": run.config or None,
        "records": run.records,
    }
    return with_format(described)


def _outcome(value: Any, where: str, path: Path) -> RunOutcome:
    if not isinstance(value, dict) or not {*JOB_NAMES, "status", "records"} <= value.keys():
        raise DataError(f"{where} is not a run of a sweep")
    value = without_format(value, where.removesuffix(","))
    if value["status"] not in STATUSES:
        raise DataError(f"{where} has the unknown status {value['status']!r}")
    config, records = value.get("config") or {}, value["records"]
    if not isinstance(config, dict):
        raise DataError(f"{where} has settings that are not an object ({config!r})")
    seconds, environment = value.get("seconds"), value.get("environment") or {}
    try:
        job = {name: value[name] for name in (*JOB_NAMES, VARIANT) if name in value}
        ended = {"seconds": seconds, "environment": environment}
        check_run(where.removesuffix(","), job, config, ended, records)
        run = StoredRun(path, value["status"], value, config, records, seconds, environment)
        return run.outcome()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{where} is a damaged run ({error!r})") from error
