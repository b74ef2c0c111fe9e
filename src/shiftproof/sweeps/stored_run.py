"""One run as it is stored: the files of its folder, or a line of an archive.

A run of a sweep has its place in the protocol in ``job.json``.  A run of `train` has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json
from shiftproof.sweeps.packed import PackedEvaluations
from shiftproof.sweeps.results import (
    STATUSES,
    Evaluation,
    Origin,
    OutputShift,
    RunOutcome,
    positions as positions_of,
)
from shiftproof.sweeps.run_schema import check_run
from shiftproof.training.records import Record
from shiftproof.training.run_folder import RunFolder

# What job.json says of a run.
JOB_NAMES = ("dataset", "algorithm", "domains", "test_domains", "hparams_seed", "trial_seed")
# In job.json: the name of the run's row in tables, where it is not the algorithm's.
VARIANT = "variant"


@dataclass(frozen=True)
class StoredRun:
    """What the files of a run say; each was read once.

    ``path`` is the folder of the run, or the archive.  ``config`` is empty if the run has not
    begun, ``job`` if no sweep planned it.
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
        """Return what the run measured, under the names that its job gives."""
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
            evaluations=PackedEvaluations(evaluation_of(r, domains) for r in self.records),
            folder=self.path,
            origin=Origin(self.config, self.seconds, self.environment, self.failure),
            standalone=standalone,
        )


def read_run_folder(folder: Path) -> StoredRun:
    """Read the files of a run; without ``done.json`` it is running, or failed."""
    job = _read(folder / "job.json", JOB_NAMES) or {}
    required = ("dataset", "algorithm", "test_domains", *(() if job else ("seed",)))
    config = _read(folder / "config.json", required) or {}
    run = RunFolder(folder)
    ended = run.done() or {}
    failed = _read(folder / "failed.json")
    status = "running" if failed is None else "failed"
    records = run.records.read() if config else []
    check_run(folder, job, config, ended, records)
    return StoredRun(
        folder,
        ended["status"] if ended.get("status") in STATUSES else status,
        job,
        config,
        records,
        ended.get("seconds"),
        ended.get("environment") or {},
        str((failed or {}).get("reason", "")),
    )


def row_of(job: Mapping[str, Any]) -> str:
    """Return the name of the row that a job.json belongs to: its variant's, or the algorithm's."""
    return str(job.get(VARIANT, job["algorithm"]))


def evaluation_of(record: Record, domains: Sequence[str]) -> Evaluation:
    """Return what a record of ours says of the domains."""
    accuracy, risk, shift = record.get("accuracy", {}), record.get("risk"), record.get("shift")
    return Evaluation(
        record["step"],
        tuple(accuracy.get(f"{name}/in") for name in domains),
        tuple(accuracy.get(f"{name}/out") for name in domains),
        None if risk is None else tuple(risk.get(f"{name}/out") for name in domains),
        _shift(shift, domains) if shift and "untested" not in shift else None,
        shift.get("untested", "") if shift else "",
        # A part of a domain has a slash in its name.
        tuple((name, value) for name, value in accuracy.items() if "/" not in name),
        tuple((name, value) for name, value in record.items() if isinstance(value, float)),
    )


def _shift(shift: Mapping[str, Any], domains: Sequence[str]) -> OutputShift:
    return OutputShift(
        shift["classes"],
        tuple(shift["label_entropy"].get(f"{name}/out") for name in domains),
        shift["concept"]["value"],
        shift["covariate"]["value"],
        shift["concept"]["p_value"],
    )


def _read(path: Path, required: Sequence[str] = ()) -> dict[str, Any] | None:
    return read_json(path, required) if path.exists() else None
