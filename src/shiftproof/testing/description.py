"""Checks of an algorithm's description and hyper-parameters."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import get_args

from shiftproof.core.errors import UnknownName
from shiftproof.core.space import Regime, draw, resolve, specs
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.learners.base import Family
from shiftproof.models import MODELS
from shiftproof.testing.check import DEFAULTS, contract
from shiftproof.testing.harness import Hparams, build, problem, require, take_steps
from shiftproof.training.configure import configure

DRAWS = 5
SUMMARY_LENGTH = 100


@contract("describe itself")
def check_description(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that it has a one-line summary, a known family and its own paper."""
    cls = ALGORITHMS.get(name)
    summary = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
    require(summary != "", "the class has no docstring")
    require(
        summary.endswith("."),
        f"the docstring's first line does not end with a full stop: {summary!r}",
    )
    require(
        len(summary) <= SUMMARY_LENGTH,
        f"the docstring's first line has {len(summary)} characters, more than {SUMMARY_LENGTH}",
    )
    for attribute in ("family", "paper"):
        # ERM's own attributes do not count: inherited, they would be wrong.
        declared = any(attribute in vars(c) for c in cls.__mro__ if c is cls or c is not ERM)
        require(declared, f"no class attribute {attribute!r}")
    families = get_args(Family)
    require(cls.family in families, f"family {cls.family!r} is none of {', '.join(families)}")
    require(isinstance(cls.paper, str) and cls.paper.strip() != "", "paper is empty")


@contract("declare its hyper-parameters")
def check_hparams(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check the frozen dataclass: help texts, allowed defaults and unique names."""
    declared = ALGORITHMS.get(name).Hparams
    require(issubclass(declared, Algorithm.Hparams), "Hparams does not subclass Algorithm.Hparams")
    # Check only this class: a parent's decorator does not process the fields of a subclass.
    frozen = getattr(vars(declared).get("__dataclass_params__"), "frozen", False)
    require(frozen, "Hparams is not a frozen dataclass")
    for field in dataclasses.fields(declared):
        require("setting" in field.metadata, f"{field.name} is not declared by hparam(…)")
    for spec in specs(declared).values():
        require(spec.help.strip() != "", f"{spec.name} has no help text")
    for regime in get_args(Regime):
        resolve(declared, regime, hparams)
    for backbone, model in MODELS.items():
        shared = sorted(specs(declared).keys() & specs(model).keys())
        require(not shared, f"{', '.join(shared)} already means something on {backbone}")


@contract("draw hyper-parameters that JSON can hold and training can use")
def check_draws(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that draws of every regime survive JSON and are allowed; train those for tables."""
    declared = ALGORITHMS.get(name).Hparams
    data = problem()
    for seed in range(DRAWS):
        for regime in get_args(Regime):
            drawn = draw(declared, regime, seed)
            read = json.loads(json.dumps(drawn, allow_nan=False))
            used = dataclasses.asdict(resolve(declared, regime, read))
            require(used == drawn, f"{drawn} of seed {seed} ({regime}) is read as {used}")
        take_steps(build(name, data, draw(declared, "table", seed)), data, steps=2)


@contract("reject unknown hyper-parameters")
def check_unknown_hparams(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that an error names a misspelt hyper-parameter and suggests the right one."""
    for known in specs(ALGORITHMS.get(name).Hparams):
        misspelt = known + "_"
        try:
            configure(problem(), name, hparams={**hparams, misspelt: 1})
        except UnknownName as error:
            named = repr(misspelt) in str(error) and repr(known) in str(error)
            require(named, f"{error} does not suggest {known!r} for {misspelt!r}")
        else:
            raise AssertionError(f"{misspelt!r} was accepted")
