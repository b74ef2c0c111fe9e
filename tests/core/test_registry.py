"""The registry, alone and on packages made for the occasion."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftproof.core.errors import ShiftproofError, UnknownName
from shiftproof.core.registry import Registry


def shapes() -> Registry[object]:
    registry: Registry[object] = Registry("shape")
    for name in ("triangle", "circle", "rectangle"):
        registry.register(name)(f"the {name}")
    return registry


def test_a_name_finds_its_entry() -> None:
    assert shapes().get("circle") == "the circle"


def test_register_returns_what_it_decorates() -> None:
    class Square: ...

    assert Registry("shape").register("square")(Square) is Square


def test_listing_is_by_name() -> None:
    assert list(shapes()) == ["circle", "rectangle", "triangle"]
    assert list(shapes().items()) == [
        ("circle", "the circle"),
        ("rectangle", "the rectangle"),
        ("triangle", "the triangle"),
    ]
    assert "circle" in shapes()
    assert "square" not in shapes()


def test_a_second_entry_of_one_name_is_an_error_and_changes_nothing() -> None:
    registry = shapes()
    with pytest.raises(ValueError, match="shape 'circle' is registered twice"):
        registry.register("circle")("another")
    assert registry.get("circle") == "the circle"


@pytest.mark.parametrize("typed", ["cirle", "CIRLE", "circel"])
def test_an_unknown_name_names_the_nearest(typed: str) -> None:
    with pytest.raises(UnknownName) as raised:
        shapes().get(typed)
    assert str(raised.value).startswith(f"unknown shape {typed!r}; did you mean 'circle'")
    assert isinstance(raised.value, ShiftproofError)
    assert raised.value.__suppress_context__
    assert raised.value.__cause__ is None


def test_a_name_near_to_two_names_both() -> None:
    with pytest.raises(UnknownName, match=r"did you mean '(tri|rect)angle' or '(tri|rect)angle'"):
        shapes().get("angle")


def test_a_name_near_to_nothing_lists_all() -> None:
    with pytest.raises(UnknownName, match=r"'xyzzy'; known: circle, rectangle, triangle$"):
        shapes().get("xyzzy")
    with pytest.raises(UnknownName, match="known: none"):
        Registry("shape").get("circle")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Registry[str]]:
    """Write a package with a registry in its ``base`` module, and return that registry."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, **modules: str) -> Registry[str]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        base = "from shiftproof.core.registry import Registry\n"
        (folder / "base.py").write_text(f"{base}THINGS = Registry('thing', package='{name}')\n")
        for module, body in modules.items():
            text = f"from {name}.base import THINGS\n{body}\n"
            (folder / f"{module}.py").write_text(text)
        return __import__(f"{name}.base", fromlist=["THINGS"]).THINGS

    yield write
    for module in set(sys.modules) - before:
        if module.partition(".")[0].startswith("things_"):
            del sys.modules[module]


def test_a_new_file_is_enough(package: Callable[..., Registry[str]]) -> None:
    things = package("things_ab", one="THINGS.register('a')('A')", two="THINGS.register('b')('B')")
    assert things.get("b") == "B"
    assert list(things) == ["a", "b"]


def test_nothing_is_imported_before_the_first_look_up(
    package: Callable[..., Registry[str]],
) -> None:
    things = package("things_lazy", one="THINGS.register('a')('A')")
    assert "things_lazy.one" not in sys.modules
    assert list(things) == ["a"]
    assert "things_lazy.one" in sys.modules


def test_a_module_may_look_up_while_it_is_discovered(
    package: Callable[..., Registry[str]],
) -> None:
    things = package(
        "things_nested",
        one="THINGS.register('a')('A')",
        two="THINGS.register('b')(THINGS.get('a') + '+')",
    )
    assert things.get("b") == "A+"


def test_a_broken_module_is_reported_at_every_look_up(
    package: Callable[..., Registry[str]],
) -> None:
    things = package(
        "things_broken", broken="raise ImportError('broken')", fine="THINGS.register('a')('A')"
    )
    for _ in range(2):
        with pytest.raises(ImportError, match="broken"):
            things.get("a")


def test_the_library_finds_its_own_algorithms_and_models() -> None:
    from shiftproof.learners.algorithms import ALGORITHMS
    from shiftproof.models import MODELS

    assert ALGORITHMS.get("erm").__name__ == "ERM"
    assert ALGORITHMS.get("idm").__name__ == "IDM"
    assert {"mlp", "mnist-cnn"} <= set(MODELS)
    with pytest.raises(UnknownName, match="unknown algorithm 'IDM'; did you mean 'idm'"):
        ALGORITHMS.get("IDM")


def test_an_unknown_name_survives_the_way_home_from_another_process() -> None:
    error = UnknownName("shape", "tringle", ["triangle", "circle"])
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (UnknownName, str(error))
