"""JSON: check that values have their declared types, rebuild dataclasses, and read lines.

Files are untrusted: their values are checked before anything is built from them.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union

from shiftproof.core.text import listed, quoted


def conform(value: Any, kind: Any, where: str) -> None:
    """Raise `ValueError` with the location of the mismatch unless a JSON value has a type.

    ``kind`` is a type such as `tuple[str, ...]` (a list in JSON), `Mapping[str, int]`, a union or
    a `Literal`; a dictionary of names and types stands for an object with exactly these keys, and a
    dataclass for one with its compared fields, of which those with a default may be absent.
    Numbers must be finite, and strings encodable (see `is_text`).
    """
    if kind is Any:
        return
    if isinstance(kind, dict):
        conform_fields(value, kind, where)
        return
    if is_dataclass(kind):
        conform_fields(value, _kinds(kind), where, _with_default(kind))
        return
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if not any(_is(value, each) for each in inner):
            raise ValueError(f"{where} must be {kind}, not {_shown(value)}")
    elif origin is tuple:
        _require(isinstance(value, list), value, "a list", where)
        for position, item in enumerate(value):
            conform(item, inner[0], f"{where}[{position}]")
    elif origin is not None and origin is not Literal:
        _require(isinstance(value, dict), value, "an object", where)
        for name, item in value.items():
            conform(name, inner[0], f"a key of {where}")
            conform(item, inner[1], f"{where}.{name}")
    else:
        wanted = f"one of {listed(inner)}" if origin is Literal else f"a finite {kind.__name__}"
        _require(_is(value, kind), value, wanted, where)


def conform_fields(
    value: Any, fields: Mapping[str, Any], where: str, optional: Collection[str] = ()
) -> None:
    """Raise unless a value is an object with these keys; those in ``optional`` may be absent."""
    _require(isinstance(value, dict), value, "an object", where)
    if unknown := value.keys() - fields.keys():
        raise ValueError(f"{where} has unknown keys: {listed(sorted(unknown))}")
    if absent := fields.keys() - value.keys() - set(optional):
        raise ValueError(f"{where} lacks {listed(sorted(absent))}")
    for name, item in value.items():
        conform(item, fields[name], f"{where}.{name}")


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


def _require(holds: bool, value: Any, wanted: str, where: str) -> None:
    if not holds:
        raise ValueError(f"{where} must be {wanted}, not {_shown(value)}")


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else quoted(str(type(value).__name__))


def rebuilt(kind: Any, value: Any) -> Any:
    """Convert a JSON value to the type `kind`, or raise `ValueError` if it does not fit.

    `kind` is a number, text, tuple, mapping or union type, or a dataclass with fields of such
    types, including nested dataclasses.

    >>> rebuilt(tuple[float, ...] | None, [1, 2.5]), rebuilt(Mapping[str, int], {"a": 1})
    ((1, 2.5), {'a': 1})
    """
    if is_dataclass(kind):
        return _dataclass(kind, value)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        for each in inner:
            try:
                return rebuilt(each, value)
            except ValueError:
                continue
        raise ValueError(f"{value!r} is not {kind}")
    if origin is tuple or origin is Sequence:
        _fits(isinstance(value, list), kind, value)
        if origin is tuple and Ellipsis not in inner:
            _fits(len(value) == len(inner), kind, value)
            return tuple(map(rebuilt, inner, value))
        return tuple(rebuilt(inner[0], item) for item in value)
    if origin is Mapping:
        _fits(isinstance(value, dict), kind, value)
        return {rebuilt(inner[0], key): rebuilt(inner[1], item) for key, item in value.items()}
    if origin is Literal:
        _fits(value in inner, kind, value)
        return value
    _fits(_is(value, kind), kind, value)
    return value


def _dataclass(kind: Any, value: Any) -> Any:
    names = {field.name for field in fields(kind)}
    _fits(isinstance(value, dict) and value.keys() == names, kind, value)
    hints = _hints(kind)
    return kind(**{name: rebuilt(hints[name], value[name]) for name in names})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fits(holds: bool, kind: Any, value: Any) -> None:
    if not holds:
        raise ValueError(f"{value!r:.60} is not {kind}")


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
    conform(value, kind, where)
    items = {name: tuple(x) if isinstance(x, list) else x for name, x in value.items()}
    return kind(**items)


def _kinds(kind: Any) -> dict[str, Any]:
    return {field.name: _hints(kind)[field.name] for field in _stored(kind)}


def _with_default(kind: Any) -> list[str]:
    return [field.name for field in _stored(kind) if _default(field) is not MISSING]


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
