"""Settings: each declared once, as a field of a frozen dataclass.

    @dataclass(frozen=True, kw_only=True)
    class SeedSettings(Settings):
        seed: int = setting(0, whole(0), "Seed of batches and noise.", panel="Training")

The declaration holds the default, the parser, the help and the place of an option.  From it come
the keywords of Python functions (`keywords`), the options of the command line (`cli._options`) and
the reference pages.  A parser takes the setting's name and a value, from Python or as the words
of a command line, and returns the parsed value or raises; so both have the same rules and
messages.  A group of settings inherits the groups that it contains.

In help and messages, settings are in backticks, with their Python names (see `core.errors`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeAlias, TypeVar, overload

from shiftproof.core.errors import InvalidValue, UnknownName, named_extras, nearest

# The key of a field's `Declared` in its metadata.
DECLARED = "declared"
# What a user may give for one or several names, and for a path.
Names: TypeAlias = str | Sequence[str]
StrPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Parser:
    """`parse(name, value)` returns the value of a setting; `metavar` stands for it in help."""

    parse: Callable[[str, Any], Any]
    metavar: str = "TEXT"


@dataclass(frozen=True)
class Declared:
    """Everything declared about a setting besides its name, type and default.

    `panel` groups the options of the help page.  `option` is the name of the option where it
    differs from the setting's, and None if only Python has the setting; `letter` is a short form,
    and an option that `repeats` may be given several times.  Only settings of a command can be
    `required`: in Python, they are positional.
    """

    parser: Parser
    help: str
    panel: str = "Output"
    metavar: str = ""
    option: str | None = ""
    letter: str = ""
    repeats: bool = False
    required: bool = False


def setting(default: Any, parser: Parser, help: str, **facts: Any) -> Any:
    """Declare a field of a `Settings` dataclass; the facts are those of `Declared`."""
    return _field(default, Declared(parser, help, **facts))


def _field(default: Any, declared: Declared) -> Any:
    metadata = types.MappingProxyType({DECLARED: declared})
    return dataclasses.field(default=default, metadata=metadata)


def same(kind: type[Settings], name: str, default: Any = MISSING, **changed: Any) -> Any:
    """Declare a field like that of another group, with another default or other facts."""
    field = kind.__dataclass_fields__[name]
    declared = dataclasses.replace(field.metadata[DECLARED], **changed)
    return _field(field.default if default is MISSING else default, declared)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A group of settings.

    Values are parsed when an instance is made; parsing a parsed value changes nothing.  None
    stands for the default.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None:
                object.__setattr__(self, field.name, field.default)
            elif value is not field.default:
                parsed = declaration(field).parser.parse(field.name, value)
                object.__setattr__(self, field.name, parsed)

    def given(self, group: type[Any] | None = None) -> dict[str, Any]:
        """Return the settings that differ from their defaults: all, or those that `group` has."""
        return {
            field.name: value
            for field in dataclasses.fields(self)
            if group is None or field.name in group.__dataclass_fields__
            if (value := getattr(self, field.name)) is not field.default
            and not _equal(value, field.default)
        }

    def refuse(self, names: Iterable[str], message: str) -> None:
        """Raise if a setting is given that has no meaning here; `{}` in the message names it."""
        given = self.given()
        for name in names:
            if name in given:
                raise InvalidValue(message.format(f"`{name}`"))

    def but(self, **changed: Any) -> Self:
        """Return a copy with other values."""
        return dataclasses.replace(self, **changed)


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def declaration(field: dataclasses.Field[Any]) -> Declared:
    """Return what a field of a `Settings` dataclass declares."""
    declared: Declared = field.metadata[DECLARED]
    return declared


# --- Python functions --------------------------------------------------------------------------
P = ParamSpec("P")
S = TypeVar("S", bound=Settings)
S_co = TypeVar("S_co", bound=Settings, covariant=True)
A = TypeVar("A", contravariant=True)
B = TypeVar("B", contravariant=True)
R = TypeVar("R")


class _Decorator(Protocol[P, S_co]):
    """A decorator for functions `f(data, settings)` or `f(model, data, settings)`."""

    @overload
    def __call__(self, function: Callable[[A, S_co], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B, S_co], R]
    ) -> Callable[Concatenate[A, B, P], R]: ...


def keywords(kind: Callable[P, S]) -> _Decorator[P, S]:
    """Return a decorator that gives a function the keywords of a group of settings.

    `f(data, settings)` becomes `f(data, *, label=None, …)`.  The signature and the docstring of the
    result list the settings.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        *leading, _ = inspect.signature(function).parameters.values()
        whole = inspect.Signature([*leading, *inspect.signature(kind).parameters.values()])

        @functools.wraps(function)
        def called(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in whole.parameters:
                    similar = nearest(name, whole.parameters)
                    raise TypeError(f"{function.__name__}() has no keyword {name!r}; {similar}")
            bound = whole.bind(*arguments, **given).arguments
            positional = [bound.pop(parameter.name) for parameter in leading]
            with named_extras():
                return function(*positional, settings=kind(**bound))  # type: ignore[call-arg]

        called.__signature__ = whole.replace(  # type: ignore[attr-defined]
            return_annotation=inspect.signature(function).return_annotation
        )
        called.__doc__ = _documented(function.__doc__ or "", kind)  # type: ignore[arg-type]
        return called

    return decorate


def _documented(text: str, kind: type[Settings]) -> str:
    """Return a docstring whose last section, `Args:`, lists the settings as well."""
    lines = [text.rstrip()] + (["", "    Args:"] if "\n    Args:" not in text else [])
    for field in dataclasses.fields(kind):
        help = declaration(field).help.replace("[bold]", "`").replace("[/]", "`")
        lines.append(f"        {field.name}: {help}")
    return "\n".join(lines) + "\n    "


# --- parsers -----------------------------------------------------------------------------------
def convert(name: str, value: object, kind: type, words: Sequence[str] = ()) -> Any:
    """Convert a value, perhaps a word of a command line, to bool, int, float or str."""
    allowed = " or ".join([_ARTICLE[kind], *words])
    wrong = InvalidValue(f"`{name}` must be {allowed}, not {value!r}")
    if kind is bool:
        word = str(value).lower()
        if word not in _BOOLEANS:
            raise wrong
        return _BOOLEANS[word]
    if kind is str:
        return str(value)
    try:
        if kind is int and str(value).lstrip("+-").isdecimal():
            return int(str(value))  # a float would keep only 53 bits
        number = float(str(value))
    except ValueError:
        raise wrong from None
    if not math.isfinite(number) or (kind is int and not number.is_integer()):
        raise wrong
    return int(number) if kind is int else number


_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True,
             "false": False, "no": False, "off": False, "0": False}  # fmt: skip
_ARTICLE: dict[type, str] = {
    bool: "true or false", int: "a whole number", float: "a finite number", str: "a word",
}  # fmt: skip


def whole(least: float = -math.inf, most: float = math.inf) -> Parser:
    """Return the parser of whole numbers from `least` to `most`."""

    def parse(name: str, value: Any) -> int:
        number: int = convert(name, value, int)
        if number < least:
            raise InvalidValue(f"`{name}` must be at least {least}, not {number}")
        if number > most:
            raise InvalidValue(f"`{name}` must be at most {most}, not {number}")
        return number

    return Parser(parse, "INTEGER")


def number(interval: str = "") -> Parser:
    """Return the parser of finite numbers in an interval, such as `[0, 1)`, or `[0, inf)`."""

    def parse(name: str, value: Any) -> float:
        parsed: float = convert(name, value, float)
        if interval:
            low, high = (float(bound) for bound in interval[1:-1].split(","))
            above = parsed >= low if interval[0] == "[" else parsed > low
            below = parsed <= high if interval[-1] == "]" else parsed < high
            if not (above and below):
                rule = f"lie in {interval}" if math.isfinite(high) else f"be at least {low:g}"
                raise InvalidValue(f"`{name}` must {rule}, not {value}")
        return parsed

    return Parser(parse, "NUMBER")


def one_of(words: Collection[str]) -> Parser:
    """Return the parser of one of a few words."""

    def parse(name: str, value: Any) -> str:
        if str(value) not in words:
            raise UnknownName(name, str(value), words)
        return str(value)

    return Parser(parse)


def checked(check: Callable[[Any], Any], metavar: str = "TEXT") -> Parser:
    """Return a parser that calls a function, which raises for wrong values."""
    return Parser(lambda _, value: check(value), metavar)


def _split(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return _names(name, value)


def _names(_: str, value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _pairs(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    pairs: dict[str, Any] = {}
    for item in value:
        key, equals, word = item.partition("=")
        if not (key and equals and word):
            raise InvalidValue(f"`{name}` takes name=value, not {item!r}")
        if key in pairs:
            raise InvalidValue(f"`{name}` gives {key} twice")
        pairs[key] = word
    return pairs


anything = Parser(lambda _, value: value)
text = Parser(lambda _, value: str(value))
path = Parser(lambda _, value: Path(os.fspath(value)), "PATH")
flag = Parser(lambda name, value: convert(name, value, bool), "")
# A name, or several in a list; one that may be separated by commas; `name=value`, or a mapping.
names = Parser(_names)
joined = Parser(_split, "A,B,…")
pairs = Parser(_pairs, "NAME=VALUE")
