"""Hyper-parameters as values: draws against recorded ones, rules, regimes, JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from _internals import (
    ALGORITHM_NAMES,
    Distribution,
    InvalidValue,
    UnknownName,
    draw,
    resolve,
    seed_hash,
    specs,
)

from shiftproof import ALGORITHMS, Choice, Float, Int, hparam
from shiftproof.models import MODELS

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/domainbed_protocol.json").read_text())
REGIMES = {
    "ColoredMNIST": "small-image",
    "RotatedMNIST": "small-image",
    "PACS": "large-image",
    "DomainNet": "huge-image",
}
# What DomainBed draws for the network and the loader, and so is no algorithm's.
NETWORK = {
    "data_augmentation", "resnet18", "resnet_dropout", "class_balanced", "nonlinear_classifier"
}  # fmt: skip


@dataclass(frozen=True)
class Example:
    rate: float = hparam(
        0.5,
        Float(0, 1),
        regimes={"large-image": (0.1, Float(-3, -1, base=10)), "table": (0.2, None)},
        within=(0, 10),
        help="a rate",
    )
    count: int = hparam(3, Int(0, 4, base=2), within=(0, 100))
    fast: bool = hparam(False, Choice((False, True)))
    kind: str = hparam("plain", choices=("plain", "fancy"))
    level: int = hparam(2, Choice((1, 2, 4)), choices=(1, 2, 4))


# --- against DomainBed ------------------------------------------------------------------------


def assert_equal_to_recorded(ours: dict, theirs: dict, names: dict[str, str]) -> None:
    """To the last bit; ``names[key]`` fails on a recorded hyper-parameter that we lack."""
    recorded = {names[key]: value for key, value in theirs.items() if key not in NETWORK}
    assert {name: ours[name] for name in recorded} == recorded


@pytest.mark.parametrize("dataset", REGIMES)
@pytest.mark.parametrize("algorithm", ["ERM", "IDM"])
def test_defaults_equal_domainbeds(algorithm: str, dataset: str) -> None:
    name, names = ALGORITHM_NAMES[algorithm]
    hparams = resolve(ALGORITHMS.get(name).Hparams, REGIMES[dataset])
    assert_equal_to_recorded(vars(hparams), GOLDEN["defaults"][f"{algorithm}/{dataset}"], names)


@pytest.mark.parametrize(
    "entry",
    [entry for entry in GOLDEN["random"] if entry["algorithm"] in ("ERM", "IDM")],
    ids=lambda e: f"{e['algorithm']}-{e['dataset']}-{e['hparams_seed']}-{e['trial_seed']}",
)
def test_draws_equal_domainbeds(entry: dict) -> None:
    name, names = ALGORITHM_NAMES[entry["algorithm"]]
    cls = ALGORITHMS.get(name).Hparams
    published = {ours: theirs for theirs, ours in names.items()}
    seed = seed_hash(entry["hparams_seed"], entry["trial_seed"])
    regime = REGIMES[entry["dataset"]]
    drawn = draw(cls, regime, seed, published)
    assert_equal_to_recorded(drawn, entry["hparams"], names)

    defaults = vars(resolve(cls, regime))
    assert drawn.keys() == defaults.keys()
    for own in drawn.keys() - names.values():  # switches that DomainBed does not know
        assert drawn[own] == defaults[own]
    assert vars(resolve(cls, regime, drawn)) == drawn  # every draw is within its rule


def test_the_golden_file_covers_what_it_should() -> None:
    entries = [e for e in GOLDEN["random"] if e["algorithm"] in ("ERM", "IDM")]
    assert len(entries) == 2 * len(REGIMES) * 3
    assert {e["dataset"] for e in entries} == set(REGIMES)


@pytest.mark.parametrize("dataset", REGIMES)
def test_dropout_equals_domainbeds(dataset: str) -> None:
    for entry in GOLDEN["random"]:
        if entry["dataset"] == dataset:
            seed = seed_hash(entry["hparams_seed"], entry["trial_seed"])
            published = {"dropout": "resnet_dropout", "nonlinear_head": "nonlinear_classifier"}
            drawn = draw(MODELS.get("mnist-cnn"), REGIMES[dataset], seed, published)
            assert drawn["dropout"] == entry["hparams"]["resnet_dropout"]
            assert drawn["nonlinear_head"] is entry["hparams"]["nonlinear_classifier"]


# --- draws ------------------------------------------------------------------------------------


def test_each_hyper_parameter_has_a_generator_of_its_own() -> None:
    drawn = draw(Example, "small-image", 11)
    rate = np.random.RandomState(seed_hash(11, "rate")).uniform(0, 1)
    count = int(2 ** np.random.RandomState(seed_hash(11, "count")).uniform(0, 4))
    level = (1, 2, 4)[np.random.RandomState(seed_hash(11, "level")).choice(3)]
    assert (drawn["rate"], drawn["count"], drawn["level"]) == (rate, count, level)
    assert drawn["kind"] == "plain"
    renamed = draw(Example, "small-image", 11, {"rate": "speed"})
    assert renamed["rate"] == np.random.RandomState(seed_hash(11, "speed")).uniform(0, 1)
    assert {**renamed, "rate": rate} == drawn


@pytest.mark.parametrize("front", [True, False])
def test_adding_a_hyper_parameter_never_shifts_another(front: bool) -> None:
    added = [("extra", float, hparam(1.0, Float(0, 1)))]
    if front:
        Grown = make_dataclass("Grown", [*added, *fields_of(Example)], frozen=True)
    else:
        Grown = make_dataclass("Grown", added, bases=(Example,), frozen=True)
    for seed in range(20):
        before, after = draw(Example, "large-image", seed), draw(Grown, "large-image", seed)
        assert after.pop("extra") != 1.0
        assert after == before


def fields_of(cls: type) -> list[tuple[str, type, object]]:
    return [
        (
            name,
            spec.type,
            hparam(
                spec.setting.default,
                spec.setting.distribution,
                regimes={key: tuple(value) for key, value in spec.regimes.items()},
                within=spec.within,
                choices=spec.choices,
            ),
        )
        for name, spec in specs(cls).items()
    ]


def test_a_draw_is_stable_and_depends_on_its_seed() -> None:
    assert draw(Example, "table", 5) == draw(Example, "table", 5)
    counts = {draw(Example, "table", seed)["count"] for seed in range(50)}
    assert counts == set(range(1, 16)) & counts
    assert len(counts) > 5


def test_draws_are_plain_python_and_survive_json() -> None:
    plain = {"rate": float, "count": int, "fast": bool, "kind": str, "level": int}
    seen_fast = set()
    for seed in range(20):
        drawn = draw(Example, "small-image", seed)
        assert {name: type(value) for name, value in drawn.items()} == plain
        assert json.loads(json.dumps(drawn)) == drawn
        seen_fast.add(drawn["fast"])
    assert seen_fast == {True, False}
    for name in ALGORITHMS:
        cls = ALGORITHMS.get(name).Hparams
        for key, value in draw(cls, "large-image", 1).items():
            spec = specs(cls)[key]
            assert type(value) is spec.type or value in spec.words, (name, key)


def test_distributions_stay_within_their_bounds() -> None:
    rng = np.random.RandomState(0)
    cases = [
        (Float(-2, 3), -2, 3),
        (Float(-4.5, -2.5, base=10), 10**-4.5, 10**-2.5),
        (Int(3, 9, base=2), 8, 511),
        (Int(0, 5), 0, 4),
    ]
    for distribution, low, high in cases:
        values = [distribution.sample(rng) for _ in range(2000)]
        assert low <= min(values)
        assert max(values) <= high
        assert all(type(v) is (int if isinstance(distribution, Int) else float) for v in values)
        if isinstance(distribution, Float) and distribution.base:  # uniform in the exponent
            exponents = np.log(values) / np.log(distribution.base)
            middle = (distribution.low + distribution.high) / 2
            assert abs(np.median(exponents) - middle) < 0.2
    assert {Int(0, 5).sample(rng) for _ in range(500)} == {0, 1, 2, 3, 4}
    assert {Choice(("a", "b")).sample(rng) for _ in range(50)} == {"a", "b"}


def test_whole_numbers_round_down_below_zero_too() -> None:
    rng = np.random.RandomState(0)
    assert {Int(-3, 0).sample(rng) for _ in range(500)} == {-3, -2, -1}


# --- JSON -------------------------------------------------------------------------------------


def test_a_whole_number_is_not_the_same_as_a_real_one() -> None:
    assert Int(0, 5) != Float(0, 5)


def test_distributions_read_as_the_protocol_writes_them() -> None:
    assert str(Float(-4.5, -2.5, base=10)) == "10^U(-4.5, -2.5)"
    assert str(Int(0, 5000)) == "⌊U(0, 5000)⌋"
    assert str(Int(3, 9, base=2)) == "⌊2^U(3, 9)⌋"
    assert str(Choice((0.0, 0.5))) == "{0.0, 0.5}"


# --- regimes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("regime", "default", "distribution"),
    [
        ("small-image", 0.5, Float(0, 1)),
        ("large-image", 0.1, Float(-3, -1, base=10)),
        ("huge-image", 0.1, Float(-3, -1, base=10)),
        ("table", 0.2, None),
    ],
)
def test_a_regime_falls_back_to_its_parent_then_to_the_default(
    regime: str, default: float, distribution: Distribution | None
) -> None:
    spec = specs(Example)["rate"]
    assert tuple(spec.at(regime)) == (default, distribution)
    assert resolve(Example, regime).rate == default
    drawn = draw(Example, regime, 3)["rate"]
    if distribution is None:
        assert drawn == default
    else:
        assert drawn == distribution.sample(np.random.RandomState(seed_hash(3, "rate")))
    assert resolve(Example, regime).count == 3


def test_a_regime_of_its_own_comes_before_its_parent() -> None:
    spec = specs(ALGORITHMS.get("erm").Hparams)["batch_size"]
    assert spec.at("huge-image").distribution == Int(3, 5, base=2)
    assert spec.at("large-image").distribution == Int(3, 5.5, base=2)


# --- names and values -------------------------------------------------------------------------


def test_an_unknown_hyper_parameter_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown hyper-parameter 'ratte'; did you mean 'rate'"):
        resolve(Example, "table", {"ratte": 1.0})
    with pytest.raises(UnknownName, match="did you mean 'gradient_weight'"):
        resolve(ALGORITHMS.get("idm").Hparams, "table", {"gradient_wieght": 1.0})
    with pytest.raises(UnknownName, match="known: rate, count, fast, kind, level"):
        resolve(Example, "table", {"zzzzzz": 1.0})


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("rate", 1, 1.0),
        ("rate", "1e-3", 1e-3),
        ("rate", 0, 0.0),
        ("rate", 10, 10.0),
        ("rate", np.float32(0.5), 0.5),
        ("count", "7", 7),
        ("count", 7.0, 7),
        ("count", "1e2", 100),
        ("count", np.int64(7), 7),
        ("fast", True, True),
        ("fast", "yes", True),
        ("fast", "TRUE", True),
        ("fast", 1, True),
        ("fast", "off", False),
        ("fast", "0", False),
        ("fast", False, False),
        ("kind", "fancy", "fancy"),
        ("level", "4", 4),
    ],
)
def test_good_values_take_the_declared_type(name: str, given: object, expected: object) -> None:
    value = getattr(resolve(Example, "small-image", {name: given}), name)
    assert value == expected
    assert type(value) is type(expected)


NUMBER, WHOLE, YES_NO = "must be a finite number", "must be a whole number", "must be true or false"


@pytest.mark.parametrize(
    ("name", "given", "rule"),
    [
        ("rate", "fast", NUMBER),
        ("rate", "", NUMBER),
        ("rate", None, NUMBER),
        ("rate", [1.0], NUMBER),
        ("rate", math.nan, NUMBER),
        ("rate", "nan", NUMBER),
        ("rate", math.inf, NUMBER),
        ("rate", "-inf", NUMBER),
        ("rate", True, NUMBER),
        ("rate", -1e-9, r"must lie in \[0, 10\]"),
        ("rate", 10.001, r"must lie in \[0, 10\]"),
        ("count", 1.5, WHOLE),
        ("count", "three", WHOLE),
        ("count", math.nan, WHOLE),
        ("count", math.inf, WHOLE),
        ("count", False, WHOLE),
        ("count", -1, r"must lie in \[0, 100\]"),
        ("count", 101, r"must lie in \[0, 100\]"),
        ("fast", "maybe", YES_NO),
        ("fast", 2, YES_NO),
        ("fast", None, YES_NO),
        ("kind", "plane", "must be one of plain, fancy"),
        ("kind", 3, "must be one of plain, fancy"),
        ("level", 3, "must be one of 1, 2, 4"),
    ],
)
def test_bad_values_are_refused_with_the_rule_and_the_value(
    name: str, given: object, rule: str
) -> None:
    with pytest.raises(InvalidValue, match=f"^`{name}` {rule}, not ") as raised:
        resolve(Example, "small-image", {name: given})
    message = str(raised.value)
    assert "\n" not in message
    assert message.endswith(f"not {given!r}")


def test_large_whole_numbers_are_exact() -> None:
    Seeded = make_dataclass("Seeded", [("seed", int, hparam(0))], frozen=True)
    assert resolve(Seeded, "table", {"seed": 2**53 + 1}).seed == 2**53 + 1


def test_hyper_parameters_cannot_be_changed_afterwards() -> None:
    resolved = resolve(Example, "table")
    with pytest.raises(AttributeError):
        resolved.rate = 2.0  # type: ignore[misc]


def test_specs_carry_the_declaration() -> None:
    declared = specs(Example)
    assert list(declared) == ["rate", "count", "fast", "kind", "level"]
    spec = declared["rate"]
    assert (spec.name, spec.type, spec.within, spec.help) == ("rate", float, (0, 10), "a rate")
    assert declared["kind"].choices == ("plain", "fancy")
    assert [declared[name].type for name in declared] == [float, int, bool, str, int]


def test_every_published_name_is_a_hyper_parameter_of_ours() -> None:
    for theirs in ("ERM", "IDM"):
        ours, names = ALGORITHM_NAMES[theirs]
        assert set(names.values()) <= set(specs(ALGORITHMS.get(ours).Hparams))
        assert len(set(names.values())) == len(names)


# --- words in the place of numbers ------------------------------------------------------------


@dataclass(frozen=True)
class Worded:
    weight: float | Literal["auto"] = hparam(1.0, Float(0, 1), within=(0, 10))
    steps: int | Literal["all", "none"] = hparam("all")


def test_a_word_may_stand_for_a_number():
    assert resolve(Worded, "table") == Worded(1.0, "all")
    assert resolve(Worded, "table", {"weight": "auto", "steps": "7"}) == Worded("auto", 7)
    assert json.loads(json.dumps(draw(Worded, "table", 0)))["steps"] == "all"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weight": "Auto"}, "`weight` must be a finite number or auto, not 'Auto'"),
        ({"weight": "11"}, r"`weight` must lie in \[0, 10\], not 11.0"),
        ({"steps": "auto"}, "`steps` must be a whole number or all or none, not 'auto'"),
    ],
)
def test_other_words_are_refused(given, message):
    with pytest.raises(InvalidValue, match=message):
        resolve(Worded, "table", given)
