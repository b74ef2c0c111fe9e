"""Read and check a ``results.jsonl`` of DomainBed, whose last line may be incomplete."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_regular
from shiftproof.core.json_values import is_text, json_lines

Record = dict[str, Any]
ARGUMENTS = ("dataset", "algorithm", "test_envs", "hparams_seed", "trial_seed")


class LogFile(NamedTuple):
    """A log as read; ``cut`` says whether its last line was incomplete and left out."""

    folder: Path
    records: list[Record]
    cut: bool

    @property
    def done(self) -> bool:
        """Whether DomainBed marked the run as ended."""
        return (self.folder / "done").exists()


def read_log_file(path: Path) -> LogFile:
    """Read a log; raise if a line is not a record, unless it is the last and cut short."""
    records: list[Record] = []
    cut = False
    args = None
    for number, (record, whole) in enumerate(json_lines(read_regular(path)), start=1):
        if record is None and not whole:
            cut = True
            break
        if not _is_record(record, args):
            raise DataError(
                f"{path}, line {number}, is not a DomainBed record: JSON with step, accuracies and"
                f" args ({', '.join(ARGUMENTS)})"
            )
        if record["args"] is not args:
            args = record["args"]
            if not _are_domains(args.get("domains")):
                raise DataError(
                    f"{path}, line {number}: args.domains must be a list of different names, or"
                    " absent"
                )
        records.append(record)
    return LogFile(path.parent, records, cut)


@cache
def part_names(position: int) -> tuple[str, str]:
    """Return the keys of the accuracies on a domain's in and out part."""
    return f"env{position}_in_acc", f"env{position}_out_acc"


def domains_of(record: Record) -> int:
    """Return the number of domains for which a record has accuracies.

    Like DomainBed, it counts up to the first domain without a key.
    """
    position = 0
    while not record.keys().isdisjoint(part_names(position)):
        position += 1
    return position


def _is_record(value: Any, known: Any) -> bool:
    """Whether a value is a record; ``known`` are arguments that were already checked."""
    args = value.get("args") if isinstance(value, dict) else None
    if known is not None and args is known:
        return isinstance(value.get("hparams", {}), dict) and isinstance(value.get("step"), int)
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
