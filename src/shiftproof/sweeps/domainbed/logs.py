"""Read DomainBed runs: one folder each, with ``results.jsonl`` and, once ended, ``done``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.sweeps.domainbed.logged_attempts import (
    Log,
    LoggedAttempt,
    read_log,
    read_pooled_log,
)
from shiftproof.sweeps.domainbed.names import ALGORITHM_NAMES, algorithm_title
from shiftproof.sweeps.results import Mark, RunKey, RunOutcome

LEFT_OUT = "another attempt in the same log was left out; `as_domainbed` pools the attempts"
POOLED = "several attempts at the run were pooled, as DomainBed does"
JUDGED = (
    "without a file named done, taken as finished: the last record is at the run's own last step,"
    " or where its checkpoints or the other runs of its algorithm end"
)
NOT_ENDED = (
    "without a file named done, taken as unfinished and not used; `as_domainbed` selects among"
    " them too"
)


def read_domainbed_runs(files: Iterable[Path], *, pooled: bool = False) -> list[RunOutcome]:
    """Read ``results.jsonl`` files; files without a record are skipped.

    If a log has several attempts, the last that finished counts, or else the one that got furthest.
    ``pooled`` pools all records of a run, also from several folders, as DomainBed does.  A run has
    finished if it left ``done``, or if it reached its end (`Attempt.reached_end`).  It has diverged
    if its last loss is not finite.
    """
    logs = [log for path in files for log in (read_pooled_log if pooled else read_log)(path)]
    spelled = {attempt.identity.algorithm for log in logs for attempt in log.attempts}
    if pooled:
        return _pooled([_named(log.attempts[0], spelled) for log in logs])
    longest: defaultdict[tuple[str, str], int] = defaultdict(int)
    for log in logs:
        for attempt in log.attempts:
            if not attempt.has_steps:
                place = attempt.identity[:2]
                longest[place] = max(longest[place], attempt.last_step)
    return [_judged(log, longest[log.attempts[0].identity[:2]], spelled) for log in logs]


def _judged(log: Log, longest: int, spelled: Collection[str]) -> RunOutcome:
    """Return the outcome of the attempt that counts, and mark what was decided or left out.

    It is the last attempt that reached the end; if none did, the one that got furthest, which has
    finished if the log is marked as ended.  If a log does not say, an attempt must have reached
    ``longest``, the last step of any run of its algorithm on its dataset.
    """
    ended = [
        attempt
        for attempt in log.attempts
        if (attempt.last_step >= longest if attempt.reached_end is None else attempt.reached_end)
    ]
    finished = bool(ended) or log.done
    attempt = max(
        ended or log.attempts, key=lambda each: (0 if ended else each.last_step, each.line)
    )
    marks = []
    if len(log.attempts) > 1:
        lost = sum(other.records for other in log.attempts if other is not attempt)
        marks.append(Mark(LEFT_OUT, lost))
    if not log.done:
        marks.append(Mark(JUDGED if finished else NOT_ENDED, 0))
    status = "diverged" if attempt.diverged else "finished" if finished else "running"
    return _named(attempt, spelled, status, marks)


def _pooled(outcomes: Iterable[RunOutcome]) -> list[RunOutcome]:
    """Return one outcome per run; evaluations at equal steps stay in reading order."""
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


def _named(
    attempt: LoggedAttempt,
    spelled: Collection[str],
    status: str = "finished",
    marks: Sequence[Mark] = (),
) -> RunOutcome:
    """Return the outcome under our name of the algorithm, with a mark if the name was changed."""
    if attempt.problem:
        raise DataError(attempt.problem)
    algorithm, own = _algorithm(attempt.identity.algorithm, spelled)
    marks = (*marks, *own, *attempt.outcome.marks)
    return replace(attempt.outcome, algorithm=algorithm, status=status, marks=marks)


def _algorithm(name: str, spelled: Collection[str]) -> tuple[str, list[Mark]]:
    """Return our name and marks; a fork's name that equals ours (erm) is kept apart from ERM."""
    if name in ALGORITHM_NAMES:
        return ALGORITHM_NAMES[name].ours, []
    title = algorithm_title(name)
    if title == name:
        return name, []
    if title in spelled:
        return f"{name} (not {title})", [Mark(f"{name} and {title} both occur: kept separate", 0)]
    return name, [Mark(f"{name} in the log is read as {title}", 0)]
