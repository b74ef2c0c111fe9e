"""Separate the attempts at a run in one log, and find which of them reached its end.

A job that is restarted appends to the same log, and two processes may write to it in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mode
from typing import Any, NamedTuple

from shiftproof.sweeps.domainbed.log_file import Record


class Identity(NamedTuple):
    """The run that a record belongs to, under DomainBed's names."""

    dataset: str
    algorithm: str
    test_envs: tuple[int, ...]
    hparams_seed: int
    trial_seed: int


@dataclass
class Attempt:
    """Records of one process, with increasing steps; ``line`` is the line of the last record."""

    identity: Identity
    records: list[Record] = field(default_factory=list)
    line: int = 0

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that the process was started with."""
        found: dict[str, Any] = self.records[-1]["args"]
        return found

    @property
    def last_step(self) -> int:
        """The step of the last record."""
        return int(self.records[-1]["step"])

    @property
    def steps(self) -> int | None:
        """The planned number of steps, or None if the log does not say."""
        steps = self.args.get("steps")
        return steps if isinstance(steps, int) and steps > 0 else None

    @property
    def reached_end(self) -> bool | None:
        """Whether the last record is at the run's last step; None if the log does not say.

        This depends on the run's own ``steps``.  If the log lacks them, a last record whose step is
        not a multiple of the checkpoint frequency is the end: DomainBed evaluates only at such
        multiples and at the last step.
        """
        if self.steps is not None:
            return self.last_step >= self.steps - 1
        return True if self.last_step % self._frequency != 0 else None

    @property
    def _frequency(self) -> int:
        given = self.args.get("checkpoint_freq")
        if isinstance(given, int) and given > 0:
            return given
        gaps = [after["step"] - before["step"] for before, after in pairwise(self.records)]
        return mode(gaps) if gaps else 1

    def continued_by(self, identity: Identity, record: Record) -> bool:
        """Whether the record can be the next one of the same process."""
        last = self.records[-1]
        return (
            record["step"] > last["step"]
            and (self.identity is identity or self.identity == identity)
            and _same(record["args"], last["args"])
            and _same(record.get("hparams"), last.get("hparams"))
        )


def separate_attempts(records: Iterable[Record]) -> list[Attempt]:
    """Return the attempts in a log, in the order of their last lines.

    A record continues the attempt with the highest step below its own; ties go to the attempt
    written last.  If there is no such attempt, the record starts a new one.
    """
    attempts: list[Attempt] = []
    for line, (identity, record) in enumerate(_identified(records)):
        open_ones = [each for each in attempts if each.continued_by(identity, record)]
        if open_ones:
            attempt = max(open_ones, key=lambda each: (each.last_step, each.line))
        else:
            attempt = Attempt(identity)
            attempts.append(attempt)
        attempt.records.append(record)
        attempt.line = line
    return sorted(attempts, key=lambda attempt: attempt.line)


def together(records: Iterable[Record]) -> list[Attempt]:
    """Return all records of each run in a log as one attempt, in the order of the file."""
    found: dict[Identity, Attempt] = {}
    for line, (identity, record) in enumerate(_identified(records)):
        attempt = found.setdefault(identity, Attempt(identity))
        attempt.records.append(record)
        attempt.line = line
    return list(found.values())


def _identified(records: Iterable[Record]) -> Iterator[tuple[Identity, Record]]:
    """Yield each record with the run it belongs to; records that share arguments share the run."""
    args: dict[str, Any] = {}
    identity = Identity("", "", (), 0, 0)
    for record in records:
        if record["args"] is not args:
            args = record["args"]
            tests = tuple(sorted(args["test_envs"]))
            seeds = args["hparams_seed"], args["trial_seed"]
            identity = Identity(args["dataset"], args["algorithm"], tests, *seeds)
        yield identity, record


def _same(one: Any, other: Any) -> bool:
    """Whether two settings are equal, also when compared as text: NaN does not equal itself."""
    return one is other or one == other or repr(one) == repr(other)
