"""The registry, alone and on packages made for the occasion."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _internals import Registry, UnknownName

from shiftproof import ShiftproofError


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


def test_a_module_may_look_up_while_it_is_discovered(package: Callable[..., Registry[str]]) -> None:
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
        "things_broken",
        broken="raise ImportError('broken')\nTHINGS.register('b')('B')",
        fine="THINGS.register('a')('A')",
    )
    for _ in range(2):
        assert things.get("a") == "A"
        with pytest.raises(ImportError, match="broken"):
            things.get("b")
        with pytest.raises(ImportError, match="broken"):
            list(things)


# --- plugins: entry points of installed packages ------------------------------------------------


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Registry[str]]:
    """Write installed packages with entry points in one group, and return a registry of it."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    before = set(sys.modules)

    def install(**packages: tuple[str, str]) -> Registry[str]:
        for name, (points, body) in packages.items():
            (site / f"{name}.py").write_text(body)
            info = site / f"{name}-1.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
            (info / "entry_points.txt").write_text(f"[tests.shapes]\n{points}\n")
        registry: Registry[str] = Registry("shape", plugins="tests.shapes")
        registry.register("circle")("the circle")
        return registry

    yield install
    for module in set(sys.modules) - before:
        if module.startswith("plugin_"):
            del sys.modules[module]


FINE = ("square = plugin_fine:SQUARE", "SQUARE = 'the square'")
BROKEN = ("star = plugin_broken:STAR", "import a_module_that_is_not_there")
BROKEN_TEXT = (
    "shape 'star' of the package 'plugin_broken' cannot be imported (ModuleNotFoundError:"
    " No module named 'a_module_that_is_not_there'); update or uninstall that package"
)


def test_an_entry_point_is_enough(plugins: Callable[..., Registry[str]]) -> None:
    shapes = plugins(plugin_fine=FINE)
    assert "square" in shapes
    assert list(shapes) == ["circle", "square"]
    assert shapes.get("square") == "the square"


def test_a_plugin_is_imported_only_when_it_is_asked_for(
    plugins: Callable[..., Registry[str]],
) -> None:
    shapes = plugins(plugin_fine=FINE)
    shapes.get("circle")
    with pytest.raises(UnknownName, match="did you mean 'square'"):
        shapes.get("sqare")
    assert "plugin_fine" not in sys.modules
    assert shapes.get("square") == "the square"
    assert "plugin_fine" in sys.modules


def test_a_plugin_may_register_itself_as_well(
    plugins: Callable[..., Registry[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "import sys\nSQUARE = sys.shapes.register('square')('the square')"
    shapes = plugins(plugin_twice=("square = plugin_twice:SQUARE", body))
    monkeypatch.setattr(sys, "shapes", shapes, raising=False)
    assert shapes.get("square") == "the square"
    assert list(shapes) == ["circle", "square"]


def test_a_broken_plugin_is_an_error_for_who_asks_for_it(
    plugins: Callable[..., Registry[str]],
) -> None:
    shapes = plugins(plugin_broken=BROKEN, plugin_fine=FINE)
    assert "star" in shapes
    assert shapes.get("square") == "the square"  # nobody else is concerned
    for _ in range(2):
        with pytest.raises(ShiftproofError) as raised:
            shapes.get("star")
        assert str(raised.value) == BROKEN_TEXT


def test_a_broken_plugin_is_a_warning_in_a_listing(plugins: Callable[..., Registry[str]]) -> None:
    shapes = plugins(plugin_broken=BROKEN, plugin_fine=FINE)
    with pytest.warns(UserWarning, match=re.escape(BROKEN_TEXT)):
        assert list(shapes) == ["circle", "square"]
    with pytest.warns(UserWarning, match="'star'"):
        assert dict(shapes.items()) == {"circle": "the circle", "square": "the square"}


def test_the_reason_is_one_line(plugins: Callable[..., Registry[str]]) -> None:
    shapes = plugins(plugin_long=("star = plugin_long:STAR", "raise ImportError('one\\ntwo')"))
    with pytest.raises(ShiftproofError, match=r"\(ImportError: one two\)"):
        shapes.get("star")


@pytest.mark.parametrize("name", ["circle", "square"])
def test_a_name_that_is_taken_is_ignored(plugins: Callable[..., Registry[str]], name: str) -> None:
    other = (f"{name} = plugin_other:X", "X = 'another'")
    shapes = plugins(plugin_fine=FINE, plugin_other=other)
    with pytest.warns(UserWarning, match=f"shape '{name}' of the package 'plugin_.*' is ignored"):
        known = set(shapes)
    assert known == {"circle", "square"}
    assert shapes.get("circle") == "the circle"


def test_the_library_finds_its_own_algorithms_and_models() -> None:
    from shiftproof import ALGORITHMS
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
