"""Reduce a DomainBed log to what a report needs of each attempt at a run.

A log is read, reduced and released, so that only one is in memory at a time.  DomainBed counts
steps from 0, while we count updates: its step s is our step s + 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.sweeps.domainbed.attempts import Attempt, Identity, separate_attempts, together
from shiftproof.sweeps.domainbed.log_file import (
    LogFile,
    Record,
    domains_of,
    part_names,
    read_log_file,
)
from shiftproof.sweeps.domainbed.names import DATASET_NAMES
from shiftproof.sweeps.results import Evaluation, Mark, Origin, RunOutcome

CUT = "the last line of the log is cut short and was left out"
OUTSIDE = "an accuracy outside [0, 1] counts as not evaluated"
NOT_FINITE = "a loss or another logged value is not finite; the accuracies are used as they are"
# Accuracies may exceed [0, 1] by this much because of rounding.
ROUNDING = 1e-6


class LoggedAttempt(NamedTuple):
    """One attempt at a run.

    ``outcome`` has all its evaluations, as if it had finished, under DomainBed's name of the
    algorithm.  ``problem`` says why it cannot be used.  ``line`` is the line of its last record,
    and ``records`` the number of records.  ``reached_end`` is None if the log does not say (see
    `Attempt`).
    """

    identity: Identity
    outcome: RunOutcome
    problem: str
    line: int
    records: int
    last_step: int
    has_steps: bool
    reached_end: bool | None
    diverged: bool


class Log(NamedTuple):
    """The attempts at one run in one file, and whether DomainBed marked the run as ended."""

    attempts: list[LoggedAttempt]
    done: bool


def read_log(path: Path) -> list[Log]:
    """Read a file with its attempts separated; return one entry per run."""
    file = read_log_file(path)
    return _logs(file, separate_attempts(file.records))


def read_pooled_log(path: Path) -> list[Log]:
    """Read a file with all records of a run as one attempt."""
    file = read_log_file(path)
    return _logs(file, together(file.records))


def _logs(file: LogFile, attempts: Sequence[Attempt]) -> list[Log]:
    by_run: defaultdict[Identity, list[LoggedAttempt]] = defaultdict(list)
    for attempt in attempts:
        by_run[attempt.identity].append(_logged(file, attempt))
    return [Log(found, file.done) for found in by_run.values()]


def _logged(file: LogFile, attempt: Attempt) -> LoggedAttempt:
    identity, args, records = attempt.identity, attempt.args, attempt.records
    count = _count_domains(records)
    domains = _domains(identity.dataset, args, count)
    evaluations, outside = _evaluations(records, len(domains), count)
    problem = ""
    if any(position not in range(len(domains)) for position in identity.test_envs):
        problem = (
            f"{file.folder / 'results.jsonl'} holds out {list(identity.test_envs)[:9]}, but has"
            f" accuracies of {len(domains)} domains only"
        )
    config: dict[str, Any] = {"hparams": records[-1].get("hparams") or {}}
    if isinstance(args.get("output_dir"), str):
        config["output_dir"] = args["output_dir"]
    published = DATASET_NAMES.get(identity.dataset)
    outcome = RunOutcome(
        dataset=published.ours if published else identity.dataset,
        algorithm=identity.algorithm,
        domains=domains,
        test_domains=identity.test_envs,
        hparams_seed=identity.hparams_seed,
        trial_seed=identity.trial_seed,
        status="finished",
        evaluations=evaluations,
        folder=file.folder,
        origin=Origin(config),
        marks=tuple(_marks(file, outside, records)),
    )
    loss = records[-1].get("loss")
    return LoggedAttempt(
        identity,
        outcome,
        problem,
        attempt.line,
        len(records),
        attempt.last_step,
        attempt.steps is not None,
        attempt.reached_end,
        isinstance(loss, float) and not math.isfinite(loss),
    )


def _count_domains(records: Sequence[Record]) -> int:
    """Return the number of domains with accuracies; equal for records with equal keys."""
    first = records[0]
    others = [record for record in records if record.keys() != first.keys()]
    return max(map(domains_of, [first, *others]))


def _domains(dataset: str, args: dict[str, Any], count: int) -> tuple[str, ...]:
    if args.get("domains") is not None:
        return tuple(args["domains"])
    published = DATASET_NAMES.get(dataset)
    if published and len(published.domains) == count:
        return tuple(published.domains.values())
    return tuple(map(str, range(count)))


@cache
def _accuracy_names(domains: int) -> list[str]:
    """Return the keys of the accuracies on the in parts, followed by those on the out parts."""
    names = [part_names(position) for position in range(domains)]
    return [pair[part] for part in (0, 1) for pair in names]


def _evaluations(
    records: Sequence[Record], domains: int, count: int
) -> tuple[tuple[Evaluation, ...], int]:
    """Return the evaluations of ``domains`` domains, and how many accuracies are not in [0, 1].

    ``count`` is the number of domains for which the records have accuracies.
    """
    names = _accuracy_names(domains)
    rows: list[tuple[Any, ...]]
    try:
        rows = list(map(itemgetter(*names), records))
    except (KeyError, TypeError):  # not all were logged, or there are none
        rows = [tuple(map(record.get, names)) for record in records]
    outside = 0
    if count > domains or not _are_shares([value for row in rows for value in row]):
        rows = [tuple(map(_share, row)) for row in rows]
        outside = sum(map(_outside, records))
    evaluations = tuple(
        Evaluation(record["step"] + 1, row[:domains], row[domains:])
        for record, row in zip(records, rows, strict=True)
    )
    return evaluations, outside


def _marks(file: LogFile, outside: int, records: Sequence[Record]) -> Iterator[Mark]:
    if file.cut:
        yield Mark(CUT, 1)
    if outside:
        yield Mark(OUTSIDE, outside)
    if odd := _count_odd(records):
        yield Mark(NOT_FINITE, odd)


def _outside(record: Record) -> int:
    """Return how many accuracies of a record are numbers outside [0, 1]."""
    names = [name for at in range(domains_of(record)) for name in part_names(at)]
    values: list[Any] = [record.get(name) for name in names]
    return sum(not _is_share(value) for value in values if _is_number(value))


def _are_shares(values: Sequence[Any]) -> bool:
    """Whether all values are floats in [0, 1]; faster than checking one by one."""
    if set(map(type, values)) != {float} or math.isnan(sum(values)):
        return False
    return bool(min(values) >= 0.0 and max(values) <= 1.0)


def _share(value: Any) -> float | None:
    return float(value) if _is_number(value) and _is_share(value) else None


def _is_number(value: Any) -> bool:
    """Whether a value is a number other than NaN, which means "not evaluated"."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_share(value: float) -> bool:
    return -ROUNDING <= value <= 1 + ROUNDING


def _count_odd(records: Sequence[Record]) -> int:
    """Return how many records have a value, other than an accuracy, that is not finite."""
    # A sum is finite only if all its terms are, so most logs need no closer check.
    if math.isfinite(sum([v for record in records for v in record.values() if type(v) is float])):
        return 0
    return sum(map(_has_odd_value, records))


def _has_odd_value(record: Record) -> bool:
    for name, value in record.items():
        if isinstance(value, float) and not math.isfinite(value) and not name.endswith("_acc"):
            return True
    return False
