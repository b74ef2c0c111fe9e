"""The evaluations of a run in little memory: a sweep has ten thousands of runs with dozens each."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from shiftproof.sweeps.results import Evaluation, OutputShift


class PackedEvaluations(Sequence[Evaluation]):
    """Evaluations as bytes, about 100 for each instead of 2,000, unpacked whenever they are read.

    The bytes are made and read in this process or its children, and never stored in a file.
    """

    __slots__ = ("_count", "_data")

    def __init__(self, evaluations: Iterable[Evaluation]) -> None:
        # Named tuples within the tuples would not be marshalled.
        plain = [
            tuple(e if e.shift is None else e._replace(shift=tuple(e.shift)))  # type: ignore[arg-type]
            for e in evaluations
        ]
        self._count = len(plain)
        self._data = marshal.dumps(plain)

    def _unpacked(self) -> tuple[Evaluation, ...]:
        found = [Evaluation._make(fields) for fields in marshal.loads(self._data)]
        return tuple(
            e if e.shift is None else e._replace(shift=OutputShift(*e.shift)) for e in found
        )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self._unpacked())

    @overload
    def __getitem__(self, at: int) -> Evaluation: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Evaluation, ...]: ...

    def __getitem__(self, at: int | slice) -> Evaluation | tuple[Evaluation, ...]:
        return self._unpacked()[at]

    def __eq__(self, other: object) -> bool:
        return self._unpacked() == (tuple(other) if isinstance(other, Sequence) else other)

    def __hash__(self) -> int:
        return hash(self._unpacked())

    def __repr__(self) -> str:
        return repr(self._unpacked())
