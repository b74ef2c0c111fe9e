"""Evaluations in little memory: a sweep has tens of thousands of runs, with dozens each."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, overload

from shiftproof.sweeps.results import Evaluation, OutputShift

# Fields that hold only their default are not stored.
_DEFAULTS = Evaluation(0, (), ())
_SHIFT = Evaluation._fields.index("shift")
# Like `Evaluation._make`, in a third of the time.
_evaluation: Callable[[tuple[Any, ...]], Evaluation] = partial(tuple.__new__, Evaluation)


def _dumps(fields: list[Any]) -> bytes:
    # Later versions look for repeated objects: there are few, and it takes twice the time.
    return marshal.dumps(fields, 2)


class PackedEvaluations(Sequence[Evaluation]):
    """Evaluations as bytes, about 100 each instead of 2,000, unpacked whenever they are read.

    They are stored by field: unpacking builds one tuple per evaluation, and unpacking only the last
    evaluation is faster.  The bytes are written and read by this process or its children, and never
    stored in a file.
    """

    __slots__ = ("_count", "_data", "has_shift")

    def __init__(self, evaluations: Iterable[Evaluation]) -> None:
        self._pack(list(zip(*evaluations, strict=True)))

    @classmethod
    def of_fields(cls, *columns: Sequence[Any]) -> PackedEvaluations:
        """Return evaluations from the columns of their first fields; the rest get defaults."""
        packed = cls.__new__(cls)
        packed._pack(list(columns))
        return packed

    def _pack(self, columns: list[Sequence[Any]]) -> None:
        fields: list[Any] = [None] * len(_DEFAULTS)
        self._count = len(columns[0]) if columns else 0
        for position, values in enumerate(columns):
            if position == _SHIFT:  # a named tuple cannot be marshalled
                values = [None if shift is None else tuple(shift) for shift in values]
            if values.count(_DEFAULTS[position]) != len(values):
                fields[position] = values
        self.has_shift = fields[_SHIFT] is not None
        self._data = _dumps(fields)

    def _fields(self) -> list[Any]:
        fields: list[Any] = marshal.loads(self._data)
        for position, values in enumerate(fields):
            if values is None:
                fields[position] = repeat(_DEFAULTS[position], self._count)
            elif position == _SHIFT:
                fields[position] = [None if s is None else OutputShift(*s) for s in values]
        return fields

    def _unpacked(self) -> tuple[Evaluation, ...]:
        return tuple(map(_evaluation, zip(*self._fields(), strict=False))) if self._count else ()

    def _last(self) -> Evaluation:
        fields = marshal.loads(self._data)
        pairs = zip(fields, _DEFAULTS, strict=True)
        last: list[Any] = [default if values is None else values[-1] for values, default in pairs]
        if last[_SHIFT] is not None:
            last[_SHIFT] = OutputShift(*last[_SHIFT])
        return Evaluation._make(last)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self._unpacked())

    @overload
    def __getitem__(self, at: int) -> Evaluation: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Evaluation, ...]: ...

    def __getitem__(self, at: int | slice) -> Evaluation | tuple[Evaluation, ...]:
        if self._count and at == -1:
            return self._last()
        if self._count and at == slice(-1, None):
            return (self._last(),)
        return self._unpacked()[at]

    def __eq__(self, other: object) -> bool:
        return self._unpacked() == (tuple(other) if isinstance(other, Sequence) else other)

    def __hash__(self) -> int:
        return hash(self._unpacked())

    def __repr__(self) -> str:
        return repr(self._unpacked())


def has_shift(evaluations: Sequence[Evaluation]) -> bool:
    """Whether an evaluation measured the shift of the outputs; fast for packed evaluations."""
    if isinstance(evaluations, PackedEvaluations):
        return evaluations.has_shift
    return any(evaluation.shift is not None for evaluation in evaluations)
