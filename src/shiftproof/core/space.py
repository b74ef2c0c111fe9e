"""Hyper-parameters: their defaults, distributions and allowed values.

An algorithm or model declares them once, next to the code that uses them:

    @dataclass(frozen=True)
    class Hparams:
        lr: float = hparam(1e-3, Float(-4.5, -2.5, base=10), help="learning rate")

A type such as `float | Literal["auto"]` allows words instead of a number.

As in DomainBed, the bounds of distributions are exponents: `Float(-4.5, -2.5, base=10)` is
10^U(−4.5, −2.5), and `Int` rounds down.  Every draw therefore equals DomainBed's bit for bit.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from shiftproof.core.errors import InvalidValue, UnknownName
from shiftproof.core.seeding import seed_hash
from shiftproof.core.settings import convert
from shiftproof.core.types import Regime as Regime

Scalar = bool | int | float | str

# A regime without its own values inherits those of its parent, or else the default.
PARENT_REGIME: dict[Regime, Regime] = {"huge-image": "large-image", "features": "table"}


@dataclass(frozen=True)
class Float:
    """U(low, high), or base^U(low, high)."""

    low: float
    high: float
    base: float | None = None

    def sample(self, rng: np.random.RandomState) -> float:
        """Draw one value."""
        exponent = rng.uniform(self.low, self.high)
        return float(exponent if self.base is None else self.base**exponent)

    def __str__(self) -> str:
        uniform = f"U({self.low:g}, {self.high:g})"
        return uniform if self.base is None else f"{self.base:g}^{uniform}"


@dataclass(frozen=True)
class Int(Float):
    """⌊U(low, high)⌋, or ⌊base^U(low, high)⌋."""

    def sample(self, rng: np.random.RandomState) -> int:
        """Draw one value."""
        return math.floor(super().sample(rng))

    def __str__(self) -> str:
        return f"⌊{super().__str__()}⌋"


@dataclass(frozen=True)
class Choice:
    """A uniform choice among values."""

    values: tuple[Scalar, ...]

    def sample(self, rng: np.random.RandomState) -> Scalar:
        """Draw one value."""
        return self.values[int(rng.choice(len(self.values)))]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.values)) + "}"


Distribution = Float | Int | Choice


# The key of the specification in the metadata of a field.
SPEC = "hparam"


class Setting(NamedTuple):
    """A default and, if the protocol searches over the hyper-parameter, a distribution."""

    default: Scalar
    distribution: Distribution | None = None


@dataclass(frozen=True)
class HparamSpec:
    """Everything declared about one hyper-parameter; its field gives the name, type and words."""

    setting: Setting
    regimes: Mapping[Regime, Setting]
    within: tuple[float, float] | None
    choices: tuple[Scalar, ...] | Callable[[], tuple[Scalar, ...]] | None
    unit: str
    help: str
    name: str = ""
    type: type = float
    words: tuple[str, ...] = ()

    def at(self, regime: Regime) -> Setting:
        """Return the default and distribution for one regime."""
        current: Regime | None = regime
        while current is not None:
            if current in self.regimes:
                return self.regimes[current]
            current = PARENT_REGIME.get(current)
        return self.setting

    def parse(self, value: object) -> Scalar:
        """Convert `value` to the declared type, or raise if it is not allowed."""
        if value in self.words:
            return str(value)
        parsed: Scalar = convert(self.name, value, self.type, self.words)
        choices = self.choices() if callable(self.choices) else self.choices
        if choices is not None and parsed not in choices:
            allowed = ", ".join(map(str, choices))
            raise InvalidValue(f"`{self.name}` must be one of {allowed}, not {value!r}")
        if self.within is not None and isinstance(parsed, int | float):
            low, high = self.within
            if not low <= parsed <= high:
                raise InvalidValue(f"`{self.name}` must lie in [{low:g}, {high:g}], not {parsed!r}")
        return parsed


T = TypeVar("T", bound=Scalar)


def hparam(
    default: T,
    distribution: Distribution | None = None,
    *,
    regimes: Mapping[Regime, tuple[T, Distribution | None]] | None = None,
    within: tuple[float, float] | None = None,
    choices: tuple[T, ...] | Callable[[], tuple[T, ...]] | None = None,
    unit: str = "",
    help: str = "",
) -> T:
    """Declare a field of an `Hparams` dataclass (see the module docstring).

    `unit="steps"` means that the value counts updates and is scaled in a shorter run.
    """
    by_regime = {regime: Setting(*setting) for regime, setting in (regimes or {}).items()}
    spec = HparamSpec(Setting(default, distribution), by_regime, within, choices, unit, help)
    field: T = dataclasses.field(default=default, metadata=types.MappingProxyType({SPEC: spec}))
    return field


H = TypeVar("H")


def specs(hparams: type) -> dict[str, HparamSpec]:
    """Return the hyper-parameters that an `Hparams` dataclass declares, by name."""
    return dict(_specs(hparams))


@functools.cache
def _specs(hparams: type) -> dict[str, HparamSpec]:
    # A declared type is a basic type, and perhaps the words that are allowed instead.
    hints = typing.get_type_hints(hparams)
    declared: dict[str, HparamSpec] = {}
    for field in dataclasses.fields(hparams):
        hint = hints[field.name]
        alternatives = typing.get_args(hint) or (hint,)
        words = tuple(word for part in alternatives for word in typing.get_args(part))
        (kind,) = (part for part in alternatives if not typing.get_args(part))
        spec: HparamSpec = field.metadata[SPEC]
        declared[field.name] = dataclasses.replace(spec, name=field.name, type=kind, words=words)
    return declared


def resolve(
    hparams: type[H],
    regime: Regime,
    given: Mapping[str, object] | None = None,
    kind: str = "hyper-parameter",
) -> H:
    """Return the regime's defaults, overridden by the `given` values, all validated.

    `kind` is the word for an undeclared name in errors.
    """
    declared = specs(hparams)
    given = dict(given or {})
    for name in given:
        if name not in declared:
            raise UnknownName(kind, name, declared)
    return hparams(
        **{
            name: spec.parse(given.get(name, spec.at(regime).default))
            for name, spec in declared.items()
        }
    )


def draw(
    hparams: type, regime: Regime, seed: int, published_names: Mapping[str, str] | None = None
) -> dict[str, Scalar]:
    """Draw every hyper-parameter from its distribution; those without one keep their default.

    Each hyper-parameter has its own generator, seeded with `seed_hash(seed, name)`, so adding one
    does not change the others.  `published_names` maps our names to those of the protocol where
    they differ.
    """
    published_names = published_names or {}
    drawn: dict[str, Scalar] = {}
    for name, spec in specs(hparams).items():
        default, distribution = spec.at(regime)
        rng = np.random.RandomState(seed_hash(seed, published_names.get(name, name)))
        drawn[name] = default if distribution is None else distribution.sample(rng)
    return drawn
