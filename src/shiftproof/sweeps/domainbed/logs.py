"""Read DomainBed runs: one folder each, with ``results.jsonl`` and, once ended, ``done``.

A log is read, reduced to what a report needs and released, so that only one is in memory at a time.
DomainBed counts steps from 0, while we count updates: its step s is our step s + 1.  A job that is
restarted appends to the same log; all records of a run are used, as DomainBed does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_regular
from shiftproof.core.json_values import conform, conform_fields, json_lines
from shiftproof.sweeps.domainbed.names import ALGORITHM_NAMES, DATASET_NAMES, algorithm_title
from shiftproof.sweeps.results import Evaluation, Mark, Run, RunKey

Record = dict[str, Any]

ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("dataset", "algorithm"), str),
    "test_envs": tuple[int, ...],
    **dict.fromkeys(("hparams_seed", "trial_seed"), int),
}
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


class LoggedRun(NamedTuple):
    """A run in one log.

    ``run`` has all its evaluations in the order of their steps, as if it had finished, under
    DomainBed's name of the algorithm.  ``done`` says whether DomainBed marked it as ended, and
    ``diverged`` whether its last loss is not finite.  ``says_steps`` says whether the log has the
    planned number of steps; for ``reached_end``, see `_reached_end`.
    """

    run: Run
    done: bool
    diverged: bool
    says_steps: bool
    reached_end: bool | None

    @property
    def last_step(self) -> int:
        """The step of the last record, counted as we do."""
        return self.run.evaluations[-1].step


def read_domainbed_runs(files: Iterable[Path], *, pooled: bool = False) -> list[Run]:
    """Read ``results.jsonl`` files; files without a record are skipped.

    A run has finished if it left ``done``, or if it reached its end (`_reached_end`).  It has
    diverged if its last loss is not finite.  ``pooled`` pools the records of a run from several
    folders and takes every run as finished, as DomainBed does.
    """
    logged = [run for path in files for run in _read_log(path)]
    spelled = {log.run.algorithm for log in logged}
    if not pooled:
        longest: defaultdict[tuple[str, str], int] = defaultdict(int)
        for log in logged:
            if not log.says_steps:
                key = log.run.key[:2]
                longest[key] = max(longest[key], log.last_step)
        return [_judged(log, longest[log.run.key[:2]], spelled) for log in logged]
    by_key: defaultdict[RunKey, list[Run]] = defaultdict(list)
    for log in logged:
        run = _named(log.run, spelled)
        by_key[run.key].append(run)
    return [_together(group) for group in by_key.values()]


def _judged(logged: LoggedRun, longest: int, spelled: Collection[str]) -> Run:
    """Return the run with its status.

    If the log does not say where the run was to end, it must have reached ``longest``, the last
    step of any run of its algorithm on its dataset.
    """
    ended = logged.last_step >= longest if logged.reached_end is None else logged.reached_end
    finished = ended or logged.done
    status = "diverged" if logged.diverged else "finished" if finished else "running"
    run = _named(logged.run, spelled)
    marks = [] if logged.done else [Mark(JUDGED if finished else NOT_ENDED)]
    return _together([replace(run, status=status, marks=(*marks, *run.marks))])


def _together(outcomes: Sequence[Run]) -> Run:
    """Return one run of several logs; evaluations at equal steps stay in reading order."""
    evaluations = sorted((e for o in outcomes for e in o.evaluations), key=lambda e: e.step)
    marks = [mark for outcome in outcomes for mark in outcome.marks]
    if len({evaluation.step for evaluation in evaluations}) < len(evaluations):
        marks.append(Mark(POOLED, len(evaluations)))
    return replace(outcomes[0], evaluations=tuple(evaluations), marks=tuple(marks))


def _named(run: Run, spelled: Collection[str]) -> Run:
    """Return the run under our name of the algorithm, with a mark if the name was changed.

    A fork's name that equals ours (erm) is kept apart from ERM.
    """
    name = run.algorithm
    title = algorithm_title(name)
    if name in ALGORITHM_NAMES:
        return replace(run, algorithm=ALGORITHM_NAMES[name].ours)
    if title == name:
        return run
    mark = Mark(f"{name} in the log is read as {title}")
    if title in spelled:
        name, mark = f"{name} (not {title})", Mark(f"{name} and {title} both occur: kept separate")
    return replace(run, algorithm=name, marks=(mark, *run.marks))


# --- one log ----------------------------------------------------------------------------------


def _read_log(path: Path) -> list[LoggedRun]:
    """Return the runs in a log; raise if a line is not a record, unless it is the last and cut."""
    by_run: defaultdict[RunKey, list[Record]] = defaultdict(list)
    cut = False
    for number, (record, whole) in enumerate(json_lines(read_regular(path)), start=1):
        if record is None and not whole:
            cut = True
            break
        try:
            by_run[_key(record)].append(record)
        except ValueError as error:
            raise DataError(
                f"{path}, line {number}, is not a DomainBed record: JSON with step, accuracies and"
                f" args ({', '.join(ARGUMENTS)}); {error}"
            ) from error
    return [_logged(path.parent, key, records, cut) for key, records in by_run.items()]


def _key(record: Any) -> RunKey:
    """Return the run of a record, under DomainBed's names; raise `ValueError` if it is invalid."""
    conform(record, Mapping[str, Any], "it")
    args = record.get("args")
    conform(args, Mapping[str, Any], "args")
    conform_fields({name: args.get(name) for name in ARGUMENTS}, ARGUMENTS, "args")
    conform(record.get("step"), int, "step")
    conform(record.get("hparams", {}), Mapping[str, Any], "hparams")
    if (domains := args.get("domains")) is not None:
        conform(domains, tuple[str, ...], "args.domains")
        if len(set(domains)) < len(domains):
            raise ValueError("args.domains must be different names")
    dataset, algorithm, tests, *seeds = (args[name] for name in ARGUMENTS)
    return RunKey(dataset, algorithm, tuple(sorted(tests)), *seeds)


def _logged(folder: Path, key: RunKey, records: list[Record], cut: bool) -> LoggedRun:
    records.sort(key=lambda record: record["step"])
    last = records[-1]
    args, loss = last["args"], last.get("loss")
    domains = _domains(key.dataset, args, max(map(_count_domains, records)))
    if any(position not in range(len(domains)) for position in key.test_domains):
        raise DataError(
            f"{folder / 'results.jsonl'} holds out {list(key.test_domains)[:9]}, but has"
            f" accuracies of {len(domains)} domains only"
        )
    config: dict[str, Any] = {"hparams": last.get("hparams") or {}}
    if isinstance(args.get("output_dir"), str):
        config["output_dir"] = args["output_dir"]
    published = DATASET_NAMES.get(key.dataset)
    run = Run(
        dataset=published.ours if published else key.dataset,
        algorithm=key.algorithm,
        domains=domains,
        test_domains=key.test_domains,
        hparams_seed=key.hparams_seed,
        trial_seed=key.trial_seed,
        status="finished",
        evaluations=_evaluations(records, len(domains)),
        folder=folder,
        config=config,
        marks=_marks(records, cut),
    )
    diverged = isinstance(loss, float) and not math.isfinite(loss)
    done = (folder / "done").exists()
    return LoggedRun(run, done, diverged, _steps(args) is not None, _reached_end(records))


def _steps(args: Mapping[str, Any]) -> int | None:
    """Return the planned number of steps, if the log has it."""
    steps = args.get("steps")
    return steps if isinstance(steps, int) and steps > 0 else None


def _reached_end(records: Sequence[Record]) -> bool | None:
    """Return whether the last record is at the run's last step; None if the log does not say.

    This depends on the run's own ``steps``.  If the log lacks them, a last record whose step is not
    a multiple of the checkpoint frequency is the end: DomainBed evaluates only at such multiples
    and at the last step.
    """
    args, last_step = records[-1]["args"], records[-1]["step"]
    if steps := _steps(args):
        return bool(last_step >= steps - 1)
    frequency = args.get("checkpoint_freq")
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


def _marks(records: Sequence[Record], cut: bool) -> tuple[Mark, ...]:
    """Return what a reader should know about the log of a run."""
    accuracies = [
        record.get(f"env{at}_{part}_acc")
        for record in records
        for at in range(_count_domains(record))
        for part in ("in", "out")
    ]
    outside = sum(_is_number(value) and _share(value) is None for value in accuracies)
    counts = {CUT: int(cut), OUTSIDE: outside, NOT_FINITE: sum(map(_has_odd_value, records))}
    return tuple(Mark(text, count) for text, count in counts.items() if count)


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
