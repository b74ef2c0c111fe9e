"""What a run measured, wherever it came from: the input of selection, tables and tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError

STATUSES = ("finished", "diverged", "running", "failed")
# In job.json: the name of the run's row in tables, where it is not the algorithm's.
VARIANT = "variant"
# What job.json says of a run.
RUN_NAMES = ("dataset", "algorithm", "domains", "test_domains", "hparams_seed", "trial_seed")


class OutputShift(NamedTuple):
    """How a model's outputs shift between the out parts of its training domains.

    In nats: I(Y;D|R) and I(R;D) of the outputs R, and by domain the entropy of the labels (None if
    not trained on); ``concept_p`` belongs to "no concept shift".  See
    `training.invariance`.
    """

    classes: int
    label_entropy: tuple[float | None, ...]
    concept: float
    covariate: float
    concept_p: float


class Evaluation(NamedTuple):
    """Accuracies after update ``step``: of each domain's in and out part; None if not evaluated.

    ``risk`` is that of the out parts, None where no risks were logged.  ``shift`` is None if it was
    not measured, and ``untested`` says why it could not be, if so.  ``extras`` are accuracies on
    the dataset's sets that are no domain, ``losses`` the means of losses and penalties over the
    steps since the last evaluation.
    """

    step: int
    inside: tuple[float | None, ...]
    outside: tuple[float | None, ...]
    risk: tuple[float | None, ...] | None = None
    shift: OutputShift | None = None
    untested: str = ""
    extras: tuple[tuple[str, float], ...] = ()
    losses: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Origin:
    """How a run was made, as far as it was kept: settings, time, versions, and why it failed."""

    config: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""


class RunKey(NamedTuple):
    """Which run of a sweep it is.  ``test_domains`` are positions, in order."""

    dataset: str
    algorithm: str
    test_domains: tuple[int, ...]
    hparams_seed: int
    trial_seed: int


@dataclass(frozen=True)
class RunOutcome:
    """One run of a sweep: which one it is, how it ended, and its accuracies by step.

    ``status`` is one of `STATUSES`; ``folder`` says where it was read.  ``alone`` is a run of
    ``shiftproof train``, which no sweep has planned.
    """

    dataset: str
    algorithm: str
    domains: tuple[str, ...]
    test_domains: tuple[int, ...]
    hparams_seed: int
    trial_seed: int
    status: str
    evaluations: tuple[Evaluation, ...]
    folder: Path | None = None
    origin: Origin = field(default_factory=Origin, compare=False)
    alone: bool = False

    @property
    def key(self) -> RunKey:
        """What tells the run from the others of its sweep."""
        return RunKey(
            self.dataset,
            self.algorithm,
            tuple(sorted(self.test_domains)),
            self.hparams_seed,
            self.trial_seed,
        )


def outcome_of_run(
    folder: Path, domains: Sequence[str], hparams_seed: int, trial_seed: int
) -> RunOutcome:
    """Read a run folder of ours.

    A run without ``done.json`` has failed if the sweep left a ``failed.json``, or is running.
    """
    from shiftproof.training.run_folder import RunFolder

    config = read_object(folder / "config.json", ("dataset", "algorithm", "test_domains"))
    run = RunFolder(folder)
    ended = run.done()
    unended = "failed" if (folder / "failed.json").exists() else "running"
    status = ended["status"] if ended else unended
    return RunOutcome(
        dataset=config["dataset"],
        algorithm=config["algorithm"],
        domains=tuple(domains),
        test_domains=positions(config["test_domains"], domains, folder / "config.json"),
        hparams_seed=hparams_seed,
        trial_seed=trial_seed,
        status=status if status in STATUSES else unended,
        evaluations=tuple(evaluation_of(record, domains) for record in run.records()),
        folder=folder,
        origin=Origin(
            config,
            ended["seconds"] if ended else None,
            (ended or {}).get("environment") or {},
            _failure(folder),
        ),
    )


def read_sweep(*folders: Path) -> list[RunOutcome]:
    """Return every run under the folders: sweeps of ours or of DomainBed, or runs by themselves.

    Those of our sweeps have a ``job.json``, DomainBed's a ``results.jsonl``, and those of
    ``shiftproof train`` neither.  A file is taken to be one of packed runs.
    """
    from shiftproof.sweeps.standalone_runs import read_plain_runs

    found: list[RunOutcome] = []
    alone: list[Path] = []
    for folder in folders:
        outcomes, others = _read(folder)
        found += outcomes
        alone += others
    # All at once, for they are named by what tells them apart.
    return checked([*found, *read_plain_runs(alone)])


def _read(folder: Path) -> tuple[Iterable[RunOutcome], list[Path]]:
    """Return the runs of sweeps under a folder or, if there are none, the folders of others."""
    from shiftproof.sweeps.domainbed.logs import read_domainbed_runs
    from shiftproof.sweeps.run_archive import read_packed
    from shiftproof.sweeps.standalone_runs import find_plain_runs

    if folder.is_file():
        return read_packed(folder), []
    if not folder.is_dir():
        raise DataError(f"there is no {folder}; give the folder of a sweep or of a run")
    jobs = sorted(folder.rglob("job.json"))
    logs = sorted(folder.rglob("results.jsonl"))
    if jobs and logs:
        raise DataError(
            f"{folder} mixes runs of Shiftproof ({jobs[0].parent}) and of DomainBed"
            f" ({logs[0].parent}); report on them apart"
        )
    if logs:
        return read_domainbed_runs(logs), []
    if jobs:
        return map(_outcome_of_job, jobs), []
    if alone := find_plain_runs(folder):
        return [], alone
    raise DataError(
        f"{folder} holds no sweep: no job.json or config.json of a run (Shiftproof) and no"
        " results.jsonl (DomainBed) anywhere in it"
    )


def checked(outcomes: Iterable[RunOutcome]) -> list[RunOutcome]:
    """Return the runs in order; two of the same, or two lists of domains, are an error."""
    found: dict[RunKey, RunOutcome] = {}
    first: dict[str, RunOutcome] = {}
    for outcome in outcomes:
        twin = found.setdefault(outcome.key, outcome)
        if twin is not outcome:
            raise DataError(
                f"{twin.folder} and {outcome.folder} are the same run ({outcome.algorithm} on"
                f" {outcome.dataset}, test domains"
                f" {', '.join(outcome.domains[i] for i in outcome.test_domains)}, hyper-parameter"
                f" seed {outcome.hparams_seed}, trial {outcome.trial_seed}); remove one"
            )
        other = first.setdefault(outcome.dataset, outcome)
        if other.domains != outcome.domains:
            raise DataError(
                f"{other.folder} and {outcome.folder} disagree on the domains of"
                f" {outcome.dataset}: {', '.join(other.domains)} and {', '.join(outcome.domains)}"
            )
    return [found[key] for key in sorted(found)]


def row_of(job: Mapping[str, Any]) -> str:
    """Return the name of the row that a job.json belongs to: its variant's, or the algorithm's."""
    return str(job.get(VARIANT, job["algorithm"]))


def positions(names: Sequence[str], domains: Sequence[str], where: Path) -> tuple[int, ...]:
    """Return where each of ``names`` stands among ``domains``, in order."""
    for name in names:
        if name not in domains:
            raise DataError(f"{where} holds out {name!r}, not one of {', '.join(domains)}")
    return tuple(sorted(list(domains).index(name) for name in names))


def _outcome_of_job(path: Path) -> RunOutcome:
    job = read_object(path, RUN_NAMES)
    folder, domains = path.parent, tuple(job["domains"])
    test_domains = positions(job["test_domains"], domains, path)
    seeds = (job["hparams_seed"], job["trial_seed"])
    if not (folder / "config.json").exists():  # planned, and not begun, or failed before
        status = "failed" if (folder / "failed.json").exists() else "running"
        return RunOutcome(
            job["dataset"],
            row_of(job),
            domains,
            test_domains,
            *seeds,
            status,
            (),
            folder,
            Origin(failure=_failure(folder)),
        )
    outcome = outcome_of_run(folder, domains, *seeds)
    if outcome.test_domains != test_domains or outcome.algorithm != job["algorithm"]:
        raise DataError(f"{path} and the config.json beside it are of different runs")
    # A dataset may have another name in its sweep than in itself (features of its images, say),
    # and an algorithm that of its row.
    return replace(outcome, dataset=job["dataset"], algorithm=row_of(job))


def evaluation_of(record: dict[str, Any], domains: Sequence[str]) -> Evaluation:
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


def _failure(folder: Path) -> str:
    """Return why the run failed, if its sweep says so."""
    path = folder / "failed.json"
    return str(read_object(path, ()).get("reason", "")) if path.exists() else ""


def _shift(shift: dict[str, Any], domains: Sequence[str]) -> OutputShift:
    return OutputShift(
        shift["classes"],
        tuple(shift["label_entropy"].get(f"{name}/out") for name in domains),
        shift["concept"]["value"],
        shift["covariate"]["value"],
        shift["concept"]["p_value"],
    )


def read_object(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON object at ``path``, which has all of ``names``."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, FileNotFoundError):
        value = None
    if not isinstance(value, dict) or not set(names) <= value.keys():
        raise DataError(f"{path} is missing or damaged: it must be JSON with {', '.join(names)}")
    return value
