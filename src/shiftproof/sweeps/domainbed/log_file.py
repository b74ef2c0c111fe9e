"""One ``results.jsonl`` of DomainBed: its records, checked, and whether its last line is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.json_types import is_text

Record = dict[str, Any]
ARGUMENTS = ("dataset", "algorithm", "test_envs", "hparams_seed", "trial_seed")


class LogFile(NamedTuple):
    """A file as it was read; ``cut`` says that its last line was not whole and was left out."""

    folder: Path
    records: list[Record]
    cut: bool

    @property
    def done(self) -> bool:
        """Whether DomainBed marked the run as ended."""
        return (self.folder / "done").exists()


def read_log_file(path: Path) -> LogFile:
    """Read a file; a line that is not a record is an error, unless it is the last and cut short."""
    records: list[Record] = []
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines) and not line.endswith(b"\n"):
                return LogFile(path.parent, records, cut=True)
            record = None
        if not _is_record(record):
            raise DataError(
                f"{path}, line {number}, is not a DomainBed record: JSON with step, accuracies and"
                f" args ({', '.join(ARGUMENTS)})"
            )
        if not _are_domains(record["args"].get("domains")):
            raise DataError(
                f"{path}, line {number}: args.domains must be a list of different names, or absent"
            )
        records.append(record)
    return LogFile(path.parent, records, cut=False)


def accuracies(record: Record) -> Iterator[tuple[Any, Any]]:
    """Yield the accuracies on each domain's in and out part; None where there is none.

    DomainBed counts domains up to the first without a key, and so does this.
    """
    for position in count():
        names = f"env{position}_in_acc", f"env{position}_out_acc"
        if not any(name in record for name in names):
            return
        yield record.get(names[0]), record.get(names[1])


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
