"""Registries of objects by name."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from shiftproof.core.errors import ShiftproofError, UnknownName

T = TypeVar("T")


# Matches the registration of a name; if the group is empty, the name is computed.
_REGISTERED = re.compile(r"""^\s*@?[A-Z]+\.register\((?:["']([^"']+)["']\))?""", re.MULTILINE)


class Registry(Generic[T]):
    """A map from names to objects of one kind.

    Entries come from three places: calls of `register`; the modules of `package` and its
    subpackages, where adding a file is enough; and the entry points in the group `plugins` of
    installed packages.  The first lookup finds which module registers which name.  A module is
    imported when one of its names is looked up or the entries are listed; a module that computes
    its names is imported at the first lookup.  Entries that do not need torch are therefore found
    without importing it.  Plugins are imported in the same way.  If importing a plugin fails, a
    lookup raises and a listing warns.

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

    def __init__(self, kind: str, package: str | None = None, plugins: str | None = None) -> None:
        self.kind = kind
        self._sources = (package, plugins)
        self._entries: dict[str, T] = {}
        self._modules: dict[str, str] = {}  # the modules of the package, by registered name
        self._plugins: dict[str, EntryPoint] = {}  # plugins not imported yet

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers its argument as `name`, which must be new."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return add

    def get(self, name: str) -> T:
        """Return the entry called `name`, or raise with similar names."""
        self._discover()
        if name not in self._entries and name in self._modules:
            importlib.import_module(self._modules[name])
        if name in self._plugins:
            self._import(name)
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownName(self.kind, name, self.names()) from None

    def names(self) -> list[str]:
        """Return all names, sorted, without importing their entries."""
        self._discover()
        return sorted({*self._entries, *self._modules, *self._plugins})

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        self._discover()
        for module in sorted(set(self._modules.values())):
            importlib.import_module(module)
        for name in list(self._plugins):
            try:
                self._import(name)
            except ShiftproofError as error:
                warnings.warn(str(error), stacklevel=2)
        return iter(sorted(self._entries))

    def items(self) -> Iterator[tuple[str, T]]:
        """Iterate over (name, entry), sorted by name."""
        return ((name, self._entries[name]) for name in self)

    def _discover(self) -> None:
        if self._sources == (None, None):
            return
        # Cleared before the imports, which may look up names themselves; restored on failure.
        (package, plugins), self._sources = self._sources, (None, None)
        try:
            if package is not None:
                self._read(package)
        except BaseException:
            self._sources = (package, plugins)
            raise
        for plugin in entry_points(group=plugins) if plugins else ():
            if plugin.name in self:
                text = f"{self._described(plugin)} is ignored: the name is taken"
                warnings.warn(text, stacklevel=3)
            else:
                self._plugins[plugin.name] = plugin

    def _read(self, package: str) -> None:
        """Find which module of a package registers which name."""
        for folder in map(Path, importlib.import_module(package).__path__):
            for path in sorted(folder.rglob("*.py")):
                names = set(_REGISTERED.findall(path.read_text("utf-8")))
                parts = path.relative_to(folder).with_suffix("").parts
                module = ".".join([package, *(part for part in parts if part != "__init__")])
                if "" in names:
                    importlib.import_module(module)
                self._modules |= dict.fromkeys(names - {""}, module)

    def _import(self, name: str) -> None:
        plugin = self._plugins[name]
        try:
            entry = plugin.load()
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ShiftproofError(
                f"{self._described(plugin)} cannot be imported ({reason});"
                " update or uninstall that package"
            ) from error
        self._entries.setdefault(name, entry)  # its module may already have registered it
        del self._plugins[name]

    def _described(self, plugin: EntryPoint) -> str:
        package = plugin.dist.name if plugin.dist else plugin.value
        return f"{self.kind} {plugin.name!r} of the package {package!r}"
