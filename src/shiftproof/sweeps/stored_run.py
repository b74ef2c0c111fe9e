"""A stored run: the files of its folder, or a line of an archive.

The ``job.json`` of a sweep's run holds its place in the protocol.  A run of `train` has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json_if_any
from shiftproof.core.json_values import conform_fields
from shiftproof.core.text import quoted
from shiftproof.sweeps.results import (
    Evaluation,
    Origin,
    OutputShift,
    RunOutcome,
    positions as positions_of,
)
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
    where: object,
    job: Mapping[str, Any],
    config: Mapping[str, Any],
    failed: Mapping[str, Any],
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


@dataclass(frozen=True)
class StoredRun:
    """The content of a run's files, each read once.

    ``path`` is the folder of the run, or the archive.  ``config`` is empty if the run has not
    started, ``job`` if no sweep planned it.
    """

    path: Path
    status: str
    job: Mapping[str, Any]
    config: Mapping[str, Any]
    records: Sequence[Record]
    seconds: float | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""

    def outcome(self, *, standalone: bool = False) -> RunOutcome:
        """Return the run's results under the names in its job."""
        domains = tuple(self.job["domains"])
        held_out = positions_of(self.job["test_domains"], domains, self.path)
        trained = self.config.get("test_domains", self.job["test_domains"])
        algorithm = self.config.get("algorithm", self.job["algorithm"])
        if (positions_of(trained, domains, self.path), algorithm) != (
            held_out,
            self.job["algorithm"],
        ):
            raise DataError(f"job.json and config.json in {self.path} are of different runs")
        return RunOutcome(
            dataset=self.job["dataset"],
            algorithm=row_of(self.job),
            domains=domains,
            test_domains=held_out,
            hparams_seed=int(self.job["hparams_seed"]),
            trial_seed=int(self.job["trial_seed"]),
            status=self.status,
            evaluations=evaluations_of(self.records, domains),
            folder=self.path,
            origin=Origin(self.config, self.seconds, self.environment, self.failure),
            standalone=standalone,
        )


def read_run_folder(folder: Path) -> StoredRun:
    """Read the files of a run; without ``done.json``, the run is running or failed."""
    job = read_json_if_any(folder / "job.json", JOB_NAMES) or {}
    required = ("dataset", "algorithm", "test_domains", *(() if job else ("seed",)))
    run = RunFolder(folder)
    ended = run.done()
    hashes = [None if ended is None else ended.sha256.get(name, "") for name in HASHED[:2]]
    config = read_json_if_any(folder / "config.json", required, sha256=hashes[0]) or {}
    failed = read_json_if_any(folder / "failed.json") or {}
    check_run(folder, job, config, failed)
    return StoredRun(
        folder,
        ended.status if ended else "failed" if failed else "running",
        job,
        config,
        run.records.read(hashes[1]) if config else [],
        ended.seconds if ended else None,
        ended.environment if ended else {},
        failed.get("reason", ""),
    )


def read_outcome(folder: Path) -> RunOutcome:
    """Return the results of a sweep's run."""
    run = read_run_folder(folder)
    if not run.job:
        raise DataError(f"{folder / 'job.json'} was deleted while the sweep was read; try again")
    return run.outcome()


def row_of(job: Mapping[str, Any]) -> str:
    """Return the row name of a job.json: its variant, or else its algorithm."""
    return str(job.get(VARIANT, job["algorithm"]))


def evaluations_of(records: Sequence[Record], domains: Sequence[str]) -> tuple[Evaluation, ...]:
    """Return the evaluations of ``domains`` in our records."""
    inside, outside = ([f"{name}/{part}" for name in domains] for part in ("in", "out"))
    evaluations = []
    for record in records:
        _, accuracy = shown_measure(record)
        risk: Mapping[str, float] | None = record.get("risk")
        shift: Mapping[str, Any] = record.get("shift") or {}
        untested = shift.get("untested", "")
        evaluations.append(
            Evaluation(
                record["step"],
                tuple(map(accuracy.get, inside)),
                tuple(map(accuracy.get, outside)),
                None if risk is None else tuple(map(risk.get, outside)),
                _shift(shift, outside) if shift and "untested" not in shift else None,
                untested,
                _extras(accuracy),
                tuple((name, value) for name, value in record.items() if type(value) is float),
            )
        )
    return tuple(evaluations)


def _extras(accuracy: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    # Parts of a domain have a slash in their name.
    return tuple((name, value) for name, value in accuracy.items() if "/" not in name)


def _shift(shift: Mapping[str, Any], outside: Sequence[str]) -> OutputShift:
    return OutputShift(
        shift["classes"],
        tuple(map(shift["label_entropy"].get, outside)),
        shift["concept"]["value"],
        shift["covariate"]["value"],
        shift["concept"]["p_value"],
    )
