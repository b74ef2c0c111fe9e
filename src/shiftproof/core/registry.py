"""Registries: objects by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from shiftproof.core.errors import UnknownName

T = TypeVar("T")


class Registry(Generic[T]):
    """A map from names to objects of one kind.

    The first lookup imports all modules of `package`.  So a new file there is enough to add an
    entry, and nothing is imported before it is needed.

    >>> shapes = Registry("shape")
    >>> @shapes.register("circle")
    ... class Circle: ...
    >>> shapes.get("circle") is Circle
    True
    >>> shapes.get("cirle")
    Traceback (most recent call last):
        ...
    shiftproof.core.errors.UnknownName: unknown shape 'cirle'; did you mean 'circle'?
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers its argument as `name`, which must be new."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return add

    def get(self, name: str) -> T:
        """Return the entry called `name`, or raise with the nearest names."""
        self._discover()
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownName(self.kind, name, sorted(self._entries)) from None

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._entries))

    def items(self) -> Iterator[tuple[str, T]]:
        """Iterate over (name, entry), by name."""
        return ((name, self._entries[name]) for name in self)

    def _discover(self) -> None:
        if self._package is None:
            return
        # Cleared before the imports, which may do lookups themselves; restored on failure.
        name, self._package = self._package, None
        try:
            for module in pkgutil.iter_modules(importlib.import_module(name).__path__):
                importlib.import_module(f"{name}.{module.name}")
        except BaseException:
            self._package = name
            raise
