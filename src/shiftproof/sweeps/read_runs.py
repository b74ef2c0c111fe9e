"""Read runs from folders and files: our and DomainBed's sweeps, standalone runs, archives.

An archive holds all runs of a sweep in one file: compressed JSON lines, small enough to publish.
Each line is a run: its place in the protocol, settings, status and all records, but no weights.
The same runs give the same bytes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.files import gzip_lines, write_atomically
from shiftproof.core.json_values import conform, conform_fields
from shiftproof.core.migrations import current, with_format
from shiftproof.sweeps.domainbed.logs import read_domainbed_runs
from shiftproof.sweeps.results import Run, Status, checked
from shiftproof.sweeps.standalone_runs import find_standalone_runs, standalone_runs
from shiftproof.sweeps.stored_run import (
    RETRAINED,
    VARIANT,
    check_run,
    read_planned_run,
    read_stored_run,
    run_of,
)
from shiftproof.training.records import check_record


def write_archive(runs: Iterable[Run], path: Path) -> int:
    """Write the runs of a sweep; return their number."""
    lines = [json.dumps(_line(run), ensure_ascii=False) for run in runs]
    data = "".join(line + "\n" for line in lines).encode()
    write_atomically(path, gzip.compress(data, mtime=0))
    return len(lines)


def read_archive(path: Path) -> list[Run]:
    """Read the runs of a file that `write_archive` wrote."""
    try:
        return [
            _run(json.loads(line), f"{path}, line {number}", path)
            for number, line in enumerate(gzip_lines(path), 1)
        ]
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise DataError(f"{path} is not a readable file of runs ({error})") from error


# The types of a line of an archive besides those of job.json.
_LINE: dict[str, Any] = {
    "status": Status,
    "seconds": float | None,
    "environment": Mapping[str, str | int],
    "config": Mapping[str, Any],
    "records": tuple[Any, ...],
}


def _line(run: Run) -> dict[str, Any]:
    algorithm = run.config.get("algorithm", run.algorithm)
    variant = {} if run.algorithm == algorithm else {VARIANT: run.algorithm}
    return with_format(
        {
            "dataset": run.dataset,
            "algorithm": algorithm,
            "domains": run.domains,
            "test_domains": [run.domains[position] for position in run.test_domains],
            "hparams_seed": run.hparams_seed,
            "trial_seed": run.trial_seed,
            **variant,
            **{name: getattr(run, name) for name in _LINE},
        }
    )


def _run(value: Any, where: str, path: Path) -> Run:
    try:
        conform(value, Mapping[str, Any], "a line")
        value = current(value, "archive", where)
        job = {name: item for name, item in value.items() if name not in _LINE}
        conform_fields({name: value.get(name) for name in _LINE}, _LINE, "a line")
        if not job:
            raise ValueError("it has no place in a sweep")
        check_run(where, job, value["config"], {})
        for record in value["records"]:
            check_record(record)
        return run_of(path, job, **{name: value[name] for name in _LINE})
    except ValueError as error:
        raise DataError(f"{where} is not a run of a sweep ({error})") from error


POOL = "pool the records of each run as DomainBed does (`as_domainbed`)"


def read_sweep(*paths: Path, pooled: bool = False) -> list[Run]:
    """Return all runs in the folders and archives; each file is read once.

    Runs of our sweeps have a ``job.json``, DomainBed's a ``results.jsonl``, and those of `train`
    neither.  ``pooled`` pools the records of DomainBed's logs as its tool does.
    """
    runs: list[Run] = []
    foreign: list[Path] = []
    standalone: list[Path] = []
    for path in paths:
        if path.is_file():
            runs += read_archive(path)
            continue
        if not path.is_dir():
            raise DataError(f"there is no {path}; give the folder of a sweep or of a run")
        jobs = job_files(path)
        logs = [log for log in sorted(path.rglob("results.jsonl")) if log.is_file()]
        if jobs and logs:
            raise DataError(
                f"{path} mixes runs of Shiftproof ({jobs[0].parent}) and of DomainBed"
                f" ({logs[0].parent}); make a report of each"
            )
        folders = find_standalone_runs(path) if not jobs and not logs else []
        if not (jobs or logs or folders):
            raise DataError(
                f"{path} holds no sweep: no job.json or config.json of a run (Shiftproof) and no"
                " results.jsonl (DomainBed) anywhere in it"
            )
        runs += [read_planned_run(job.parent) for job in jobs]
        foreign += logs
        standalone += folders
    # Read all at once: how these runs are judged or named depends on the others.
    runs += read_domainbed_runs(foreign, pooled=pooled)
    runs += standalone_runs([read_stored_run(path) for path in standalone])
    return checked(runs, POOL if foreign else "")


def job_files(folder: Path) -> list[Path]:
    """Return the ``job.json`` of every run below a folder, except retrained runs in a sweep."""
    return [
        path
        for path in sorted(folder.rglob("job.json"))
        if not any(
            parent.name == RETRAINED and (folder / parent.parent / "sweep.json").exists()
            for parent in path.relative_to(folder).parents
        )
    ]


def read_planned_runs(*paths: Path) -> list[Run]:
    """Return the runs of our sweeps, in order."""
    folders = [job.parent for path in paths for job in job_files(path)]
    if not folders:
        raise InvalidValue("records can only be written from folders of Shiftproof sweeps")
    return checked(map(read_planned_run, folders))
