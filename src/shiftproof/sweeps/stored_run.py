"""A stored run: the files of its folder, or a line of an archive.

The ``job.json`` of a sweep's run holds its place in the protocol.  A run of `train` has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json_if_any
from shiftproof.core.json_values import conform_fields
from shiftproof.core.text import quoted
from shiftproof.sweeps.results import Evaluation, OutputShift, Run, positions
from shiftproof.training.config import RunConfig
from shiftproof.training.records import Record, shown_measure
from shiftproof.training.run_folder import HASHED, RunFolder

# The types of job.json; `VARIANT` may be absent.
_JOB: dict[str, Any] = {
    **dict.fromkeys(("dataset", "algorithm", "variant"), str),
    **dict.fromkeys(("domains", "test_domains"), tuple[str, ...]),
    **dict.fromkeys(("hparams_seed", "trial_seed"), int),
}
_FAILED = dict.fromkeys(("title", "reason", "trace"), str)


def check_run(
    where: object, job: Mapping[str, Any], config: Mapping[str, Any], failed: Mapping[str, Any]
) -> None:
    """Raise `DataError` if the files of a run are invalid; empty ones are absent."""
    try:
        if job:
            conform_fields(job, _JOB, "job", (VARIANT,))
        if failed:
            conform_fields(failed, _FAILED, "failed.json")
        if config:
            RunConfig.from_json(config)
        for names in (job.get("domains", ()), config.get("test_domains", ())):
            _require_names(names)
        _require_names([v[k] for v in (job, config) for k in ("dataset", "algorithm") if k in v])
    except ValueError as error:
        raise DataError(f"{where} holds a damaged run ({error}); remove it") from error


def _require_names(names: Sequence[str]) -> None:
    """Require printable names: others could send control sequences to a terminal."""
    for name in names:
        if not name.isprintable():
            raise ValueError(f"the name {quoted(name)} has characters that cannot be printed")


# The required keys of job.json.
JOB_NAMES = ("dataset", "algorithm", "domains", "test_domains", "hparams_seed", "trial_seed")
# The key of job.json with the run's row name in tables, if it differs from the algorithm's.
VARIANT = "variant"
# The folder of retrained runs in a sweep: separate sweeps, which a report does not mix in.
RETRAINED = "retrained"


def read_stored_run(folder: Path) -> Run:
    """Read the files of a run; without ``done.json``, the run is running or failed.

    A run that no sweep planned has no domains yet (see `standalone_runs`).
    """
    job = read_json_if_any(folder / "job.json", JOB_NAMES) or {}
    required = ("dataset", "algorithm", "test_domains", *(() if job else ("seed",)))
    files = RunFolder(folder)
    ended = files.done()
    hashes = [None if ended is None else ended.sha256.get(name, "") for name in HASHED[:2]]
    config = read_json_if_any(folder / "config.json", required, sha256=hashes[0]) or {}
    failed = read_json_if_any(folder / "failed.json") or {}
    check_run(folder, job, config, failed)
    records = files.records.read(hashes[1]) if config else []
    if ended:
        return run_of(folder, job, config, records, ended.status, ended.seconds, ended.environment)
    if failed:
        return run_of(folder, job, config, records, "failed", failure=failed["reason"])
    return run_of(folder, job, config, records, "running")


def read_planned_run(folder: Path) -> Run:
    """Read the files of a run that a sweep planned."""
    run = read_stored_run(folder)
    if not run.domains:
        raise DataError(f"{folder / 'job.json'} was deleted while the sweep was read; try again")
    return run


def run_of(
    folder: Path,
    job: Mapping[str, Any],
    config: Mapping[str, Any],
    records: Sequence[Record],
    status: str,
    seconds: float | None = None,
    environment: Mapping[str, Any] | None = None,
    failure: str = "",
) -> Run:
    """Return a run under the names in its job, or in its settings if it has no job."""
    named = job or {**config, "domains": (), "hparams_seed": 0, "trial_seed": config.get("seed", 0)}
    domains = tuple(named["domains"])
    test_domains: tuple[int, ...] = ()
    if job:
        test_domains = positions(job["test_domains"], domains, folder)
        trained = positions(config.get("test_domains", job["test_domains"]), domains, folder)
        if (trained, config.get("algorithm", job["algorithm"])) != (test_domains, job["algorithm"]):
            raise DataError(f"job.json and config.json in {folder} are of different runs")
    return Run(
        named.get("dataset", ""),
        row_of(named),
        domains,
        test_domains,
        named["hparams_seed"],
        named["trial_seed"],
        status,
        evaluations_of(records, domains),
        folder,
        config,
        seconds,
        environment or {},
        failure,
        records,
    )


def row_of(job: Mapping[str, Any]) -> str:
    """Return the row name of a job.json: its variant, or else its algorithm."""
    return str(job.get(VARIANT, job["algorithm"]))


def evaluations_of(records: Sequence[Record], domains: Sequence[str]) -> tuple[Evaluation, ...]:
    """Return the evaluations of ``domains`` in our records."""
    inside, outside = ([f"{name}/{part}" for name in domains] for part in ("in", "out"))
    return tuple(_evaluation(record, inside, outside) for record in records)


def _evaluation(record: Record, inside: Sequence[str], outside: Sequence[str]) -> Evaluation:
    _, accuracy = shown_measure(record)
    risk: Mapping[str, float] | None = record.get("risk")
    measured: Mapping[str, Any] = record.get("shift") or {}
    shift = None
    if "concept" in measured:
        concept, entropy = measured["concept"], map(measured["label_entropy"].get, outside)
        amounts = (concept["value"], measured["covariate"]["value"], concept["p_value"])
        shift = OutputShift(measured["classes"], tuple(entropy), *amounts)
    return Evaluation(
        record["step"],
        tuple(map(accuracy.get, inside)),
        tuple(map(accuracy.get, outside)),
        None if risk is None else tuple(map(risk.get, outside)),
        shift,
        measured.get("untested", ""),
        # Parts of a domain have a slash in their name.
        tuple((name, value) for name, value in accuracy.items() if "/" not in name),
        tuple((name, value) for name, value in record.items() if type(value) is float),
    )
