"""Read DomainBed runs: one folder each, with ``results.jsonl`` and, once ended, ``done``.

A log is read, reduced to what a report needs and released, so that only one is in memory at a time.
DomainBed counts steps from 0, while we count updates: its step s is our step s + 1.  A job that is
restarted appends to the same log; all records of a run are used, as DomainBed does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_regular
from shiftproof.core.json_values import is_text, json_lines
from shiftproof.sweeps.domainbed.names import ALGORITHM_NAMES, DATASET_NAMES, algorithm_title
from shiftproof.sweeps.results import Evaluation, Mark, Run, RunKey

Record = dict[str, Any]

ARGUMENTS = ("dataset", "algorithm", "test_envs", "hparams_seed", "trial_seed")
# Accuracies may exceed [0, 1] by this much because of rounding.
ROUNDING = 1e-6
# What a reader of the runs should know.
CUT = "the last line of the log is cut short and was left out"
OUTSIDE = "an accuracy outside [0, 1] counts as not evaluated"
NOT_FINITE = "a loss or another logged value is not finite; the accuracies are used as they are"
POOLED = "several attempts at the run were pooled, as DomainBed does"
JUDGED = (
    "without a file named done, taken as finished: the last record is at the run's own last step,"
    " or where its checkpoints or the other runs of its algorithm end"
)
NOT_ENDED = (
    "without a file named done, taken as unfinished and not used; `as_domainbed` selects among"
    " them too"
)


class Identity(NamedTuple):
    """The run that a record belongs to, under DomainBed's names."""

    dataset: str
    algorithm: str
    test_envs: tuple[int, ...]
    hparams_seed: int
    trial_seed: int


class LoggedRun(NamedTuple):
    """A run in one log.

    ``outcome`` has all its evaluations in the order of their steps, as if it had finished, under
    DomainBed's name of the algorithm.  ``done`` says whether DomainBed marked the run as ended,
    and ``diverged`` whether its last loss is not finite.  ``steps`` is the planned number of
    steps, or None if the log does not say; for ``reached_end``, see `_reached_end`.
    """

    identity: Identity
    outcome: Run
    done: bool
    diverged: bool
    last_step: int
    steps: int | None
    reached_end: bool | None


def read_domainbed_runs(files: Iterable[Path], *, pooled: bool = False) -> list[Run]:
    """Read ``results.jsonl`` files; files without a record are skipped.

    A run has finished if it left ``done``, or if it reached its end (`_reached_end`).  It has
    diverged if its last loss is not finite.  ``pooled`` pools the records of a run from several
    folders and takes every run as finished, as DomainBed does.
    """
    runs = [run for path in files for run in _read_log(path)]
    spelled = {run.identity.algorithm for run in runs}
    if not pooled:
        longest: defaultdict[tuple[str, str], int] = defaultdict(int)
        for run in runs:
            if run.steps is None:
                key = run.identity[:2]
                longest[key] = max(longest[key], run.last_step)
        return [_judged(run, longest[run.identity[:2]], spelled) for run in runs]
    by_key: defaultdict[RunKey, list[Run]] = defaultdict(list)
    for run in runs:
        outcome = _named(run, spelled)
        by_key[outcome.key].append(outcome)
    return [_together(group) for group in by_key.values()]


def _judged(run: LoggedRun, longest: int, spelled: Collection[str]) -> Run:
    """Return the outcome of a run with its status.

    If the log does not say where the run was to end, it must have reached ``longest``, the last
    step of any run of its algorithm on its dataset.
    """
    ended = run.last_step >= longest if run.reached_end is None else run.reached_end
    finished = ended or run.done
    status = "diverged" if run.diverged else "finished" if finished else "running"
    outcome = _named(run, spelled)
    marks = [] if run.done else [Mark(JUDGED if finished else NOT_ENDED)]
    return _together([replace(outcome, status=status, marks=(*marks, *outcome.marks))])


def _together(outcomes: Sequence[Run]) -> Run:
    """Return one run of several logs; evaluations at equal steps stay in reading order."""
    evaluations = sorted((e for o in outcomes for e in o.evaluations), key=lambda e: e.step)
    marks = [mark for outcome in outcomes for mark in outcome.marks]
    if len({evaluation.step for evaluation in evaluations}) < len(evaluations):
        marks.append(Mark(POOLED, len(evaluations)))
    return replace(outcomes[0], evaluations=tuple(evaluations), marks=tuple(marks))


def _named(run: LoggedRun, spelled: Collection[str]) -> Run:
    """Return the outcome under our name of the algorithm, with a mark if the name was changed.

    A fork's name that equals ours (erm) is kept apart from ERM.
    """
    name = run.identity.algorithm
    title = algorithm_title(name)
    if name in ALGORITHM_NAMES:
        return replace(run.outcome, algorithm=ALGORITHM_NAMES[name].ours)
    if title == name:
        return run.outcome
    mark = Mark(f"{name} in the log is read as {title}")
    if title in spelled:
        name, mark = f"{name} (not {title})", Mark(f"{name} and {title} both occur: kept separate")
    return replace(run.outcome, algorithm=name, marks=(mark, *run.outcome.marks))


# --- one log ----------------------------------------------------------------------------------


def _read_log(path: Path) -> list[LoggedRun]:
    """Return the runs in a log; raise if a line is not a record, unless it is the last and cut."""
    by_run: defaultdict[Identity, list[Record]] = defaultdict(list)
    cut = False
    for number, (record, whole) in enumerate(json_lines(read_regular(path)), start=1):
        if record is None and not whole:
            cut = True
            break
        if not _is_record(record):
            raise DataError(
                f"{path}, line {number}, is not a DomainBed record: JSON with step, accuracies and"
                f" args ({', '.join(ARGUMENTS)})"
            )
        args = record["args"]
        if not _are_domains(args.get("domains")):
            raise DataError(
                f"{path}, line {number}: args.domains must be a list of different names, or absent"
            )
        dataset, algorithm, tests, *seeds = (args[name] for name in ARGUMENTS)
        by_run[Identity(dataset, algorithm, tuple(sorted(tests)), *seeds)].append(record)
    return [_logged(path.parent, identity, found, cut) for identity, found in by_run.items()]


def _is_record(value: Any) -> bool:
    args = value.get("args") if isinstance(value, dict) else None
    if not isinstance(args, dict) or not set(ARGUMENTS) <= args.keys():
        return False
    if not is_text(args["dataset"]) or not is_text(args["algorithm"]):
        return False
    if not isinstance(value.get("hparams", {}), dict):
        return False
    numbers = [value.get("step"), args["hparams_seed"], args["trial_seed"]]
    tests = args["test_envs"]
    return isinstance(tests, list) and all(isinstance(n, int) for n in [*numbers, *tests])


def _are_domains(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all(map(is_text, value)) and len(set(value)) == len(value)


def _logged(folder: Path, identity: Identity, records: list[Record], cut: bool) -> LoggedRun:
    records.sort(key=lambda record: record["step"])
    last = records[-1]
    args, loss = last["args"], last.get("loss")
    domains = _domains(identity.dataset, args, max(map(_count_domains, records)))
    if any(position not in range(len(domains)) for position in identity.test_envs):
        raise DataError(
            f"{folder / 'results.jsonl'} holds out {list(identity.test_envs)[:9]}, but has"
            f" accuracies of {len(domains)} domains only"
        )
    config: dict[str, Any] = {"hparams": last.get("hparams") or {}}
    if isinstance(args.get("output_dir"), str):
        config["output_dir"] = args["output_dir"]
    published = DATASET_NAMES.get(identity.dataset)
    outcome = Run(
        dataset=published.ours if published else identity.dataset,
        algorithm=identity.algorithm,
        domains=domains,
        test_domains=identity.test_envs,
        hparams_seed=identity.hparams_seed,
        trial_seed=identity.trial_seed,
        status="finished",
        evaluations=_evaluations(records, len(domains)),
        folder=folder,
        config=config,
        marks=tuple(_marks(records, cut)),
    )
    steps = args.get("steps")
    return LoggedRun(
        identity,
        outcome,
        (folder / "done").exists(),
        isinstance(loss, float) and not math.isfinite(loss),
        last["step"],
        steps if isinstance(steps, int) and steps > 0 else None,
        _reached_end(records),
    )


def _reached_end(records: Sequence[Record]) -> bool | None:
    """Return whether the last record is at the run's last step; None if the log does not say.

    This depends on the run's own ``steps``.  If the log lacks them, a last record whose step is not
    a multiple of the checkpoint frequency is the end: DomainBed evaluates only at such multiples
    and at the last step.
    """
    args, last_step = records[-1]["args"], records[-1]["step"]
    steps, frequency = args.get("steps"), args.get("checkpoint_freq")
    if isinstance(steps, int) and steps > 0:
        return bool(last_step >= steps - 1)
    if not isinstance(frequency, int) or frequency <= 0:
        gaps = [after - before for before, after in pairwise(sorted({r["step"] for r in records}))]
        frequency = mode(gaps) if gaps else 1
    return True if last_step % frequency != 0 else None


def _count_domains(record: Record) -> int:
    """Return the number of domains for which a record has accuracies.

    Like DomainBed, it counts up to the first domain without a key.
    """
    position = 0
    while f"env{position}_in_acc" in record or f"env{position}_out_acc" in record:
        position += 1
    return position


def _domains(dataset: str, args: dict[str, Any], count: int) -> tuple[str, ...]:
    if args.get("domains") is not None:
        return tuple(args["domains"])
    published = DATASET_NAMES.get(dataset)
    if published and len(published.domains) == count:
        return tuple(published.domains.values())
    return tuple(map(str, range(count)))


def _evaluations(records: Sequence[Record], domains: int) -> tuple[Evaluation, ...]:
    inside, outside = ([f"env{at}_{part}_acc" for at in range(domains)] for part in ("in", "out"))
    return tuple(
        Evaluation(
            record["step"] + 1,
            tuple(_share(record.get(name)) for name in inside),
            tuple(_share(record.get(name)) for name in outside),
        )
        for record in records
    )


def _marks(records: Sequence[Record], cut: bool) -> Iterator[Mark]:
    if cut:
        yield Mark(CUT, 1)
    if outside := sum(map(_count_outside, records)):
        yield Mark(OUTSIDE, outside)
    if odd := sum(map(_has_odd_value, records)):
        yield Mark(NOT_FINITE, odd)


def _count_outside(record: Record) -> int:
    """Return how many accuracies of a record are numbers outside [0, 1]."""
    domains = range(_count_domains(record))
    values = [record.get(f"env{at}_{part}_acc") for at in domains for part in ("in", "out")]
    return sum(_is_number(value) and _share(value) is None for value in values)


def _share(value: Any) -> float | None:
    """Return an accuracy, or None if it was not evaluated or is not in [0, 1]."""
    if not _is_number(value) or not -ROUNDING <= value <= 1 + ROUNDING:
        return None
    return float(value)


def _is_number(value: Any) -> bool:
    """Whether a value is a number other than NaN, which means "not evaluated"."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _has_odd_value(record: Record) -> bool:
    """Whether a value, other than an accuracy, is not finite."""
    return any(
        isinstance(value, float) and not math.isfinite(value) and not name.endswith("_acc")
        for name, value in record.items()
    )
