"""JSON: check that values have their declared types, rebuild dataclasses, and read lines.

Files are untrusted: their values are checked before anything is built from them.
"""

from __future__ import annotations

import contextlib
import json
import sys
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union

from shiftproof.core.errors import ShiftproofError
from shiftproof.core.text import listed, quoted

# What `typing.get_origin` returns for `a | b` and for `Union[a, b]`.
_UNIONS = (Union, types.UnionType)


def rebuilt(kind: Any, value: Any, where: str = "the value") -> Any:
    """Convert a JSON value to a type, or raise `ValueError` with the location of the mismatch.

    `kind` is a number, text, tuple (a list in JSON), mapping, union or `Literal` type, or a
    dataclass with fields of such types; a dictionary of names and types stands for an object with
    exactly these keys.  Numbers must be finite, and strings encodable (see `is_text`).  Fields of a
    dataclass that are at their default may be absent, and those that are not compared must be.

    >>> rebuilt(tuple[float, ...] | None, [1, 2.5]), rebuilt(Mapping[str, int], {"a": 1})
    ((1, 2.5), {'a': 1})
    """
    if kind is Any:
        return value
    if isinstance(kind, dict):
        return conform_fields(value, kind, where)
    if isinstance(kind, type) and is_dataclass(kind):
        types_of_fields, optional = _declared(kind)
        attributes = conform_fields(value, types_of_fields, where, optional)
        try:
            return kind(**attributes)
        except ShiftproofError as error:
            raise ValueError(f"{where}: {error}") from error
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in _UNIONS:
        for alternative in inner:
            with contextlib.suppress(ValueError):
                return rebuilt(alternative, value, where)
        raise _mismatch(value, str(kind), where)
    if origin in (tuple, Sequence):
        kinds = inner
        if isinstance(value, list) and (origin is Sequence or Ellipsis in inner):
            kinds = (inner[0],) * len(value)
        if not isinstance(value, list) or len(value) != len(kinds):
            raise _mismatch(value, "a list", where)
        items = enumerate(zip(kinds, value, strict=True))
        return tuple(
            rebuilt(part, item, f"{where}[{position}]") for position, (part, item) in items
        )
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _mismatch(value, "an object", where)
        return {
            rebuilt(inner[0], name, f"a key of {where}"): rebuilt(inner[1], item, f"{where}.{name}")
            for name, item in value.items()
        }
    if not _is(value, kind):
        expected = f"one of {listed(inner)}" if origin is Literal else f"a finite {kind.__name__}"
        raise _mismatch(value, expected, where)
    return value


def conform(value: Any, kind: Any, where: str) -> None:
    """Raise `ValueError` unless `rebuilt` can convert a JSON value to a type."""
    rebuilt(kind, value, where)


def conform_fields(
    value: Any, fields: Mapping[str, Any], where: str, optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return the converted items of an object with these keys; `optional` ones may be absent."""
    if not isinstance(value, dict):
        raise _mismatch(value, "an object", where)
    if unknown := value.keys() - fields.keys():
        raise ValueError(f"{where} has unknown keys: {listed(sorted(unknown))}")
    if absent := fields.keys() - value.keys() - set(optional):
        raise ValueError(f"{where} lacks {listed(sorted(absent))}")
    return {name: rebuilt(fields[name], item, f"{where}.{name}") for name, item in value.items()}


def is_text(value: Any) -> bool:
    """Return whether a value is an encodable string: without lone surrogates, which JSON allows."""
    return isinstance(value, str) and (
        value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    )


def _is(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is Literal:
        return is_text(value) and value in typing.get_args(kind)
    if kind is str:
        return is_text(value)
    if kind in (int, float):
        number = isinstance(value, int | kind) and not isinstance(value, bool)
        return number and -sys.float_info.max <= value <= sys.float_info.max
    return isinstance(value, kind)


def _mismatch(value: Any, expected: str, where: str) -> ValueError:
    text = quoted(value if isinstance(value, str) else type(value).__name__)
    return ValueError(f"{where} must be {expected}, not {text}")


def stored_fields(value: Any) -> dict[str, Any]:
    """Return the compared fields of a dataclass as JSON values, without those at their defaults."""
    stored = {}
    for field in _stored(type(value)):
        item = getattr(value, field.name)
        if item != _default(field):
            stored[field.name] = list(item) if isinstance(item, tuple) else item
    return stored


T = TypeVar("T")


def from_stored(kind: type[T], value: Any, where: str) -> T:
    """Return the dataclass whose `stored_fields` are given; raise `ValueError` if they are not."""
    dataclass: T = rebuilt(kind, value, where)
    return dataclass


@cache
def _declared(kind: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the types of the stored fields of a dataclass, and which have defaults."""
    hints, stored = typing.get_type_hints(kind), _stored(kind)
    optional = [field.name for field in stored if _default(field) is not MISSING]
    return {field.name: hints[field.name] for field in stored}, optional


def _stored(kind: Any) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.compare]


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def json_lines(data: bytes) -> Iterator[tuple[Any, bool]]:
    """Yield the value of each line, None if it is not JSON, and whether the line is complete."""
    for line in data.splitlines(keepends=True):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # RecursionError: nested too deeply
            value = None
        yield value, line.endswith(b"\n")
