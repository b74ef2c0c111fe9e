"""Runs in DomainBed's form, read: a folder each, with ``results.jsonl`` and, once ended, ``done``.

DomainBed counts steps from 0, we count updates: its step s is our step s + 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.sweeps.domainbed.attempts import (
    Attempt,
    Identity,
    best_attempt,
    separate_attempts,
    together,
)
from shiftproof.sweeps.domainbed.log_file import LogFile, Record, accuracies, read_log_file
from shiftproof.sweeps.domainbed.names import ALGORITHM_NAMES, DATASET_NAMES, algorithm_title
from shiftproof.sweeps.packed import PackedEvaluations
from shiftproof.sweeps.results import Evaluation, Mark, Origin, RunKey, RunOutcome

LEFT_OUT = "another attempt in the same log was left out; `as_domainbed` pools the attempts"
POOLED = "several attempts at the run were pooled, as DomainBed does"
CUT = "the last line of the log is cut short and was left out"
OUTSIDE = "an accuracy outside [0, 1] counts as not evaluated"
NOT_FINITE = "a loss or another logged value is not finite; the accuracies are used as they are"
JUDGED = (
    "without a file named done, taken as finished: the last record is at the run's own last step,"
    " or where its checkpoints or the other runs of its algorithm end"
)
NOT_ENDED = (
    "without a file named done, taken as unfinished and not used; `as_domainbed` selects among"
    " them too"
)
# Shares of floating-point numbers may exceed 1 by this.
ROUNDING = 1e-6


@dataclass
class _Log:
    """The attempts of one file at one run."""

    file: LogFile
    attempts: list[Attempt]


def read_domainbed_runs(files: Iterable[Path], *, pooled: bool = False) -> list[RunOutcome]:
    """Read ``results.jsonl`` files; one without a record is skipped.

    Of several attempts in a log, the last that finished counts, or the one that got furthest;
    ``pooled`` puts together all records of a run, also from several folders, as DomainBed does.
    A run has finished if it left ``done``, or if it reached its end (`Attempt.reached_end`).  It
    diverged if its last loss is not finite.
    """
    logs: list[_Log] = []
    for path in files:
        file = read_log_file(path)
        by_run: defaultdict[Identity, list[Attempt]] = defaultdict(list)
        for attempt in (together if pooled else separate_attempts)(file.records):
            by_run[attempt.identity].append(attempt)
        logs += [_Log(file, attempts) for attempts in by_run.values()]
    spelled = {attempt.identity.algorithm for log in logs for attempt in log.attempts}
    if pooled:
        return _pooled([_outcome(log.file, log.attempts, spelled) for log in logs])
    longest: defaultdict[tuple[str, str], int] = defaultdict(int)
    for log in logs:
        for attempt in log.attempts:
            if attempt.steps is None:
                place = attempt.identity[:2]
                longest[place] = max(longest[place], attempt.last_step)
    return [_judged(log, longest[log.attempts[0].identity[:2]], spelled) for log in logs]


def _judged(log: _Log, longest: int, spelled: Collection[str]) -> RunOutcome:
    """Return the outcome of the attempt that counts, and mark what was decided or left out."""
    attempt, finished, said = best_attempt(log.attempts, log.file.done, longest)
    outcome = _outcome(log.file, [attempt], spelled)
    marks = []
    if len(log.attempts) > 1:
        lost = sum(len(other.records) for other in log.attempts if other is not attempt)
        marks.append(Mark(LEFT_OUT, lost))
    if not said:
        marks.append(Mark(JUDGED if finished else NOT_ENDED, 0))
    loss = attempt.records[-1].get("loss")
    diverged = isinstance(loss, float) and not math.isfinite(loss)
    status = "diverged" if diverged else "finished" if finished else "running"
    return replace(outcome, status=status, marks=(*marks, *outcome.marks))


def _pooled(outcomes: Iterable[RunOutcome]) -> list[RunOutcome]:
    """Return one outcome a run; of equal steps, the last that was read comes last."""
    by_key: defaultdict[RunKey, list[RunOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_key[outcome.key].append(outcome)
    found = []
    for group in by_key.values():
        evaluations = sorted((e for o in group for e in o.evaluations), key=lambda e: e.step)
        marks = [mark for outcome in group for mark in outcome.marks]
        if len({e.step for e in evaluations}) < len(evaluations):
            marks.append(Mark(POOLED, len(evaluations)))
        found.append(replace(group[0], evaluations=tuple(evaluations), marks=tuple(marks)))
    return found


def _outcome(file: LogFile, attempts: Sequence[Attempt], spelled: Collection[str]) -> RunOutcome:
    """Return a finished outcome with all records of the attempts."""
    identity, args = attempts[-1].identity, attempts[-1].args
    records = [record for attempt in attempts for record in attempt.records]
    domains = _domains(identity.dataset, args, records)
    if any(position not in range(len(domains)) for position in identity.test_envs):
        raise DataError(
            f"{file.folder / 'results.jsonl'} holds out {list(identity.test_envs)[:9]}, but has"
            f" accuracies of {len(domains)} domains only"
        )
    algorithm, marks = _algorithm(identity.algorithm, spelled)
    if file.cut:
        marks.append(Mark(CUT, 1))
    published = DATASET_NAMES.get(identity.dataset)
    values = [value for record in records for pair in accuracies(record) for value in pair]
    if outside := sum(not _is_share(value) for value in values if _is_number(value)):
        marks.append(Mark(OUTSIDE, outside))
    if odd := sum(_has_odd_value(record) for record in records):
        marks.append(Mark(NOT_FINITE, odd))
    config: dict[str, Any] = {"hparams": records[-1].get("hparams") or {}}
    if isinstance(args.get("output_dir"), str):
        config["output_dir"] = args["output_dir"]
    return RunOutcome(
        dataset=published.ours if published else identity.dataset,
        algorithm=algorithm,
        domains=domains,
        test_domains=identity.test_envs,
        hparams_seed=identity.hparams_seed,
        trial_seed=identity.trial_seed,
        status="finished",
        evaluations=PackedEvaluations(_evaluation(record, len(domains)) for record in records),
        folder=file.folder,
        origin=Origin(config),
        marks=tuple(marks),
    )


def _algorithm(name: str, spelled: Collection[str]) -> tuple[str, list[Mark]]:
    """Return our name; a fork's name that is only ours, such as erm, is kept apart from ERM."""
    if name in ALGORITHM_NAMES:
        return ALGORITHM_NAMES[name].ours, []
    title = algorithm_title(name)
    if title == name:
        return name, []
    if title in spelled:
        return f"{name} (not {title})", [Mark(f"{name} stands beside {title}: kept apart", 0)]
    return name, [Mark(f"{name} in the log is read as {title}", 0)]


def _domains(dataset: str, args: dict[str, Any], records: Iterable[Record]) -> tuple[str, ...]:
    if args.get("domains") is not None:
        return tuple(args["domains"])
    count = max(sum(1 for _ in accuracies(record)) for record in records)
    published = DATASET_NAMES.get(dataset)
    if published and len(published.domains) == count:
        return tuple(published.domains.values())
    return tuple(map(str, range(count)))


def _evaluation(record: Record, domains: int) -> Evaluation:
    inside, outside = (
        tuple(_share(record.get(f"env{at}_{part}_acc")) for at in range(domains))
        for part in ("in", "out")
    )
    return Evaluation(record["step"] + 1, inside, outside)


def _share(value: Any) -> float | None:
    return float(value) if _is_number(value) and _is_share(value) else None


def _is_number(value: Any) -> bool:
    """Whether it is a number, other than NaN, which means "not evaluated"."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_share(value: float) -> bool:
    return -ROUNDING <= value <= 1 + ROUNDING


def _has_odd_value(record: Record) -> bool:
    return any(
        isinstance(value, float) and not math.isfinite(value) and not name.endswith("_acc")
        for name, value in record.items()
    )
