"""Runs in DomainBed's form: a folder each, with ``results.jsonl`` and, once ended, ``done``.

DomainBed counts steps from 0, we count updates: its step s is our step s + 1.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.sweeps.domainbed.names import (
    ALGORITHM_NAMES,
    DATASET_NAMES,
    algorithm_title,
    dataset_title,
    published_dataset,
)
from shiftproof.sweeps.results import Evaluation, RunOutcome

_ACCURACY = re.compile(r"env(\d+)_(in|out)_acc")
_ARGUMENTS = ("dataset", "algorithm", "test_envs", "hparams_seed", "trial_seed")


class _Log(NamedTuple):
    """One file as it was read, of its last attempt if the job was started over."""

    folder: Path
    args: dict[str, Any]
    records: list[dict[str, Any]]

    @property
    def last_step(self) -> int:
        return int(self.records[-1]["step"])


def read_domainbed_runs(files: Iterable[Path]) -> list[RunOutcome]:
    """Read ``results.jsonl`` files; one without a record is skipped.

    A run has finished if it left ``done``, or if it reached its last step: ``steps`` or, where the
    log does not say, that of the longest run on its dataset.  It diverged if its last loss is not
    finite.
    """
    logs = [log for file in files if (log := _read_log(file))]
    longest: dict[str, int] = {}
    for log in logs:
        dataset = log.args["dataset"]
        longest[dataset] = max(longest.get(dataset, 0), log.last_step)
    return [_outcome(log, longest[log.args["dataset"]]) for log in logs]


def write_domainbed_runs(outcomes: Iterable[RunOutcome], folder: Path) -> int:
    """Write the finished runs in DomainBed's form to a new folder and return how many.

    The others are left out: DomainBed's tool ignores the status and would select from them.  An
    accuracy that was not evaluated is NaN, because that tool counts domains by their keys.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is not empty; choose another folder for the exported runs")
    finished = [outcome for outcome in outcomes if outcome.status == "finished"]
    aside = folder.with_name(folder.name + ".new")
    if aside.exists():  # left by an export that was cut short
        shutil.rmtree(aside)
    for outcome in finished:
        name = hashlib.sha256(repr(outcome.key).encode()).hexdigest()[:32]
        run = aside / name
        run.mkdir(parents=True)
        lines = [json.dumps(record) + "\n" for record in _records(outcome)]
        (run / "results.jsonl").write_text("".join(lines))
        (run / "done").write_text("done")
    if finished:
        if folder.exists():
            folder.rmdir()
        aside.rename(folder)
    return len(finished)


def _records(outcome: RunOutcome) -> Iterator[dict[str, Any]]:
    known = published_dataset(outcome.dataset, outcome.domains) is not None
    args = {
        "algorithm": algorithm_title(outcome.algorithm),
        "dataset": dataset_title(outcome.dataset) if known else outcome.dataset,
        "domains": list(outcome.domains),  # ours: DomainBed knows them by position alone
        "hparams": None,
        "hparams_seed": outcome.hparams_seed,
        "steps": outcome.evaluations[-1].step if outcome.evaluations else None,
        "test_envs": list(outcome.test_domains),
        "trial_seed": outcome.trial_seed,
    }
    for evaluation in outcome.evaluations:
        parts = (("in", evaluation.inside), ("out", evaluation.outside))
        accuracies = {
            f"env{position}_{part}_acc": math.nan if value is None else value
            for part, values in parts
            for position, value in enumerate(values)
        }
        yield {"args": args, **accuracies, "hparams": {}, "step": evaluation.step - 1}


def _read_log(path: Path) -> _Log | None:
    records: list[dict[str, Any]] = []
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:
            if number == len(lines) and not line.endswith(b"\n"):
                break  # cut short by a crash
            record = None
        if not _is_record(record):
            raise DataError(
                f"{path}, line {number}, is not a DomainBed record: JSON with step, accuracies and"
                f" args ({', '.join(_ARGUMENTS)})"
            )
        if records and record["step"] <= records[-1]["step"]:
            records = []  # the job was started over
        records.append(record)
    return _Log(path.parent, records[-1]["args"], records) if records else None


def _is_record(value: Any) -> bool:
    args = value.get("args") if isinstance(value, dict) else None
    if not isinstance(args, dict) or not set(_ARGUMENTS) <= args.keys():
        return False
    if not isinstance(args["dataset"], str) or not isinstance(args["algorithm"], str):
        return False
    numbers = [value.get("step"), args["hparams_seed"], args["trial_seed"]]
    tests = args["test_envs"]
    return isinstance(tests, list) and all(isinstance(n, int) for n in [*numbers, *tests])


def _outcome(log: _Log, longest: int) -> RunOutcome:
    args, records = log.args, log.records
    domains = _domains(log)
    steps = args.get("steps")
    wanted = steps - 1 if isinstance(steps, int) else longest
    ended = (log.folder / "done").exists() or log.last_step >= wanted
    loss = records[-1].get("loss")
    diverged = isinstance(loss, float) and not math.isfinite(loss)
    if any(position not in range(len(domains)) for position in args["test_envs"]):
        raise DataError(
            f"{log.folder / 'results.jsonl'} holds out {args['test_envs']}, but has accuracies of"
            f" {len(domains)} domains only"
        )
    published = DATASET_NAMES.get(args["dataset"])
    algorithm = args["algorithm"]
    return RunOutcome(
        dataset=published.ours if published else args["dataset"],
        algorithm=ALGORITHM_NAMES[algorithm].ours if algorithm in ALGORITHM_NAMES else algorithm,
        domains=domains,
        test_domains=tuple(sorted(args["test_envs"])),
        hparams_seed=args["hparams_seed"],
        trial_seed=args["trial_seed"],
        status="diverged" if diverged else "finished" if ended else "running",
        evaluations=tuple(
            Evaluation(
                record["step"] + 1,
                _accuracies(record, "in", len(domains)),
                _accuracies(record, "out", len(domains)),
            )
            for record in records
        ),
        folder=log.folder,
    )


def _domains(log: _Log) -> tuple[str, ...]:
    if "domains" in log.args:
        return tuple(log.args["domains"])
    matches = (_ACCURACY.fullmatch(name) for record in log.records for name in record)
    count = 1 + max((int(match[1]) for match in matches if match), default=-1)
    published = DATASET_NAMES.get(log.args["dataset"])
    if published and len(published.domains) == count:
        return tuple(published.domains.values())
    return tuple(map(str, range(count)))


def _accuracies(record: dict[str, Any], part: str, count: int) -> tuple[float | None, ...]:
    values = (record.get(f"env{position}_{part}_acc") for position in range(count))
    return tuple(v if isinstance(v, int | float) and math.isfinite(v) else None for v in values)
