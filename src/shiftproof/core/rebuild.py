"""Rebuild dataclasses that were stored as JSON by `dataclasses.asdict`."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union


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
        _require(isinstance(value, list), kind, value)
        if origin is tuple and Ellipsis not in inner:
            _require(len(value) == len(inner), kind, value)
            return tuple(map(rebuilt, inner, value))
        return tuple(rebuilt(inner[0], item) for item in value)
    if origin is Mapping:
        _require(isinstance(value, dict), kind, value)
        return {rebuilt(inner[0], key): rebuilt(inner[1], item) for key, item in value.items()}
    if origin is Literal:
        _require(value in inner, kind, value)
        return value
    if kind is float:
        _require(isinstance(value, int | float) and not isinstance(value, bool), kind, value)
        return value
    _require(isinstance(value, kind) and not (kind is int and isinstance(value, bool)), kind, value)
    return value


def _dataclass(kind: Any, value: Any) -> Any:
    names = {field.name for field in fields(kind)}
    _require(isinstance(value, dict) and value.keys() == names, kind, value)
    hints = _hints(kind)
    return kind(**{name: rebuilt(hints[name], value[name]) for name in names})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _require(holds: bool, kind: Any, value: Any) -> None:
    if not holds:
        raise ValueError(f"{value!r} is not {kind}")
