"""Settings are declared once; functions, commands and pages have the same ones."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import click
import pytest
from _internals import (
    InvalidValue,
    Settings,
    TrainEachSettings,
    TrainSettings,
    UnknownName,
    app,
    flag,
    joined,
    keywords,
    names as names_parser,
    number,
    one_of,
    pairs,
    path,
    same,
    setting,
    whole,
)

import shiftproof


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bread(Settings):
    """A group of settings."""

    grams: int = setting(500, whole(1, 5000), "How heavy.")
    salt: float = setting(0.02, number("[0, 1)"), "Share of salt.")
    shape: str = setting("loaf", one_of(("loaf", "bun")), "Its shape.")
    seeds: Any = setting((), names_parser, "Seeds on top.", repeats=True)
    out: Any = setting(None, path, "Where to put it.")
    glaze: bool = setting(False, flag, "Whether to glaze.")
    oven: Any = setting(None, pairs, "Options of the oven.", option="set", repeats=True)
    stages: Any = setting(("mix", "bake"), joined, "Stages.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roll(Bread):
    """A group with another default."""

    grams: int = same(Bread, "grams", default=60, help="How light.")
    knots: int = setting(0, whole(0), "How often to knot it.")


@keywords(Bread)
def bake(flour: str, settings: Bread) -> tuple[str, Bread]:
    """Bake.

    Args:
        flour: what to bake.
    """
    return flour, settings


def test_values_are_parsed_and_none_is_the_default() -> None:
    made = Bread(grams="750", salt="0.5", seeds="poppy", out="a/b", glaze="yes", oven=["heat=9"])
    assert (made.grams, made.salt, made.seeds, made.glaze) == (750, 0.5, ("poppy",), True)
    assert (made.out, made.oven) == (Path("a/b"), {"heat": "9"})
    assert Bread(grams=None) == Bread()  # type: ignore[arg-type]
    assert made.but(salt=0.5) == made  # parsing again changes nothing
    assert Bread(stages="mix, rest").stages == ("mix", "rest")
    assert Roll().grams == 60
    assert "light" in Roll.__dataclass_fields__["grams"].metadata["declared"].help


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"grams": 0}, InvalidValue, "`grams` must be at least 1, not 0"),
        ({"grams": 5001}, InvalidValue, "`grams` must be at most 5000, not 5001"),
        ({"grams": 1.5}, InvalidValue, "`grams` must be a whole number, not 1.5"),
        ({"salt": 1}, InvalidValue, r"`salt` must lie in \[0, 1\), not 1"),
        ({"salt": "nan"}, InvalidValue, "`salt` must be a finite number"),
        ({"shape": "lof"}, UnknownName, "unknown shape 'lof'; did you mean 'loaf'"),
        ({"glaze": "maybe"}, InvalidValue, "`glaze` must be true or false"),
        ({"oven": ["heat"]}, InvalidValue, "`oven` takes name=value, not 'heat'"),
        ({"oven": ["a=1", "a=2"]}, InvalidValue, "`oven` gives a twice"),
    ],
)
def test_a_wrong_value_is_one_line(given: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        Bread(**given)
    with pytest.raises(error, match=message):
        bake("rye", **given)


def test_only_what_differs_from_its_default_is_given() -> None:
    assert Bread(grams=500, seeds=()).given() == {}
    assert Roll(grams=500, salt=0.1, knots=2).given(Bread) == {"grams": 500, "salt": 0.1}
    with pytest.raises(InvalidValue, match="no `salt` here"):
        Bread(salt=0.1).refuse(("grams", "salt"), "no {} here")
    Bread().refuse(("grams", "salt"), "no {} here")


def test_a_function_has_the_keywords_of_its_settings() -> None:
    assert bake("rye", grams=900) == ("rye", Bread(grams=900))
    assert bake(flour="rye") == ("rye", Bread())
    assert str(inspect.signature(bake)).startswith("(flour: 'str', *, grams: 'int' = 500, salt:")
    assert "grams: How heavy." in (bake.__doc__ or "")
    with pytest.raises(TypeError, match=r"bake\(\) has no keyword 'gram'; did you mean 'grams'"):
        bake("rye", gram=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="flour"):
        bake()  # type: ignore[call-arg]


def options(command: str) -> dict[str, click.Parameter]:
    return {str(one.name): one for one in app.commands[command].params}


@pytest.mark.parametrize(
    "command", ["study", "train", "expect", "diagnose", "sweep", "features", "predict", "evaluate"]
)
def test_every_command_has_every_setting_of_its_function(command: str) -> None:
    function = inspect.signature(getattr(shiftproof, command)).parameters
    python_only = {"observer", "progress"}
    positional = {"data", "model", "out"}
    missing = set(function) - set(options(command)) - python_only - positional
    assert not missing


def test_training_settings_are_nowhere_missing() -> None:
    """What `train_each` can do, so can `study` and `expect`."""
    common = set(TrainEachSettings.__dataclass_fields__) - {"observer"}
    for command in ("study", "train", "expect"):
        assert common <= set(options(command))
        assert common <= {*inspect.signature(getattr(shiftproof, command)).parameters}
    assert set(TrainSettings.__dataclass_fields__) - common == {"test_domains", "observer"}


def test_the_estimators_have_settings_of_training_with_their_defaults() -> None:
    declared = TrainSettings.__dataclass_fields__
    others = {
        *("random_state", "selection", "steps", "algorithm", "domain", "holdout", "image_size"),
        *("augment", "verbose", "loss"),
    }
    for kind in (shiftproof.ShiftproofClassifier, shiftproof.ShiftproofRegressor):
        for name, parameter in inspect.signature(kind).parameters.items():
            assert name in declared or name in others
            if name not in others:
                assert parameter.default == declared[name].default
