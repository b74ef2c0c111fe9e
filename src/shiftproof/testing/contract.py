"""Checks that every algorithm must pass; run them on your own algorithm too.

    check_algorithm("mine")                            # all checks; raises the first failure
    check_algorithm("mine", {"anneal_steps": 2})       # with a warm-up that ends within the check
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_contract(check):                          # one test per check
        check("mine")

A check takes the registered name and hyper-parameters that override the defaults, runs on the CPU,
and raises AssertionError with the broken rule and the reason.  It trains for `STEPS` steps, so
shorten warm-ups to fewer steps, or the check does not cover what follows them.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import ShiftproofError
from shiftproof.core.space import SPEC, Regime, draw, resolve, specs
from shiftproof.data import DomainDataset
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Algorithm
from shiftproof.learners.base import Family
from shiftproof.models import MODELS
from shiftproof.models.risk import NUMBER_LOSSES
from shiftproof.testing import harness
from shiftproof.testing.harness import BATCH, PER_DOMAIN, STEPS, Hparams, require
from shiftproof.training.checkpoint import load_state, save_state
from shiftproof.training.configure import configure
from shiftproof.training.loop import train

DRAWS = 5
SUMMARY_LENGTH = 100

Check = Callable[..., None]
DEFAULTS: Hparams = MappingProxyType({})
CHECKS: list[Check] = []


def contract(rule: str) -> Callable[[Callable[[str, Hparams], None]], Check]:
    """Turn a function into a check: any error in it becomes an AssertionError."""

    def as_check(body: Callable[[str, Hparams], None]) -> Check:
        @functools.wraps(body)
        def check(name: str, hparams: Hparams = DEFAULTS) -> None:
            ALGORITHMS.get(name)  # an unknown name is the caller's error
            try:
                with torch.random.fork_rng():
                    body(name, hparams)
            except Exception as error:
                raise AssertionError(f"{name} must {rule}: {message_of(error)}") from error

        CHECKS.append(check)
        return check

    return as_check


def message_of(error: Exception) -> str:
    """Return the message of an error, with its type unless it is an AssertionError."""
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"


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
        require(SPEC in field.metadata, f"{field.name} is not declared by hparam(…)")
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
    data = harness.problem()
    for seed in range(DRAWS):
        for regime in get_args(Regime):
            drawn = draw(declared, regime, seed)
            read = json.loads(json.dumps(drawn, allow_nan=False))
            used = dataclasses.asdict(resolve(declared, regime, read))
            require(used == drawn, f"{drawn} of seed {seed} ({regime}) is read as {used}")
        harness.take_steps(harness.build(name, data, draw(declared, "table", seed)), data, steps=2)


@contract("reject unknown hyper-parameters")
def check_unknown_hparams(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that an error names a misspelt hyper-parameter and suggests the right one."""
    for known in specs(ALGORITHMS.get(name).Hparams):
        misspelt = known + "_"
        given = {**hparams, misspelt: 1}
        error = _rejection(f"{misspelt!r} was", harness.problem(), name, hparams=given)
        named = repr(misspelt) in error and repr(known) in error
        require(named, f"{error} does not suggest {known!r} for {misspelt!r}")


def _rejection(what: str, data: DomainDataset, name: str, **settings: Any) -> str:
    """Return the message that rejects these settings, or raise if they are accepted."""
    try:
        configure(data, name, **settings)
    except ShiftproofError as error:
        return str(error)
    raise AssertionError(f"{what} accepted")


LEARNING_STEPS = 60
# A smaller relative decrease of the risk may be due to chance.
LEARNED_SHARE = 0.2


def check_algorithm(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Run every check on one registered algorithm, and raise the first failure."""
    for check in CHECKS:
        check(name, hparams)


# --- training ---------------------------------------------------------------------------------


@contract("train on images")
def check_images(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that it trains a convolutional network on 14×14 byte images with two channels."""
    data = harness.problem(shape=(2, 14, 14), backbone="mnist-cnn")
    _check_steps(name, data, hparams, batch_size=4)


@contract("train on tables")
def check_tables(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that it trains a perceptron on vectors."""
    _check_steps(name, harness.problem(), hparams)


@contract("train in the loop on arrays in memory")
def check_loop(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check a whole run: batches, records, checkpoint, evaluation of an unseen domain."""
    data = harness.problem(domains=3)
    config = configure(
        data,
        name,
        test_domains=data.domain_names[-1:],
        hparams={"batch_size": BATCH, "hidden": 32, **hparams},
        steps=STEPS,
        device="cpu",
    )
    with tempfile.TemporaryDirectory() as folder:
        result = train(config, data, Path(folder))
    require(result.status == "finished", f"the run {result.status} at step {result.step}")
    require("loss" in result.final, "the records hold no loss")


@contract("lower its training risk on separable data")
def check_learning(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that the mean training risk, without penalties, falls by at least a fifth."""
    data = harness.problem()
    algorithm = harness.build(name, data, {"lr": 0.01, **hparams})
    before = harness.mean_risk(algorithm, data)
    harness.take_steps(algorithm, data, steps=LEARNING_STEPS)
    _check_risk(algorithm, data, before)


def _check_risk(algorithm: Algorithm, data: DomainDataset, before: float) -> None:
    after = harness.mean_risk(algorithm, data)
    require(
        after < (1 - LEARNED_SHARE) * before,
        f"the risk went from {before:.4f} to {after:.4f} in {LEARNING_STEPS} steps",
    )


@contract("work with 1 to 6 domains, 2 to 65 classes, linear and MLP heads")
def check_sizes(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that it works for every number of domains and both heads, with few and many classes.

    Heads alternate: each occurs with every number of domains, and with every number of classes.
    """
    for domains in range(1, 7):
        for index, classes in enumerate((2, 3, 65)):
            nonlinear_head = (domains + index) % 2 == 0
            data = harness.problem(domains=domains, classes=classes)
            try:
                _check_steps(name, data, hparams, steps=3, nonlinear_head=nonlinear_head)
            except Exception as error:
                head = "an MLP" if nonlinear_head else "a linear"
                where = f"on {domains} domains, {classes} classes, {head} head"
                raise AssertionError(f"{where}, {message_of(error)}") from error


@contract("count the weights of samples, if `weighs_samples` says so")
def check_weights(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that sample weights of 1 change nothing, and other weights change what is learnt.

    An algorithm without `weighs_samples` must reject weights.
    """
    data = harness.problem()
    if not ALGORITHMS.get(name).weighs_samples:
        _rejection("weights were", data, name, hparams=hparams, class_weight="balanced")
        return
    alike = torch.ones(len(data.domains), BATCH)
    uneven = 2 * (torch.arange(BATCH) % 2).expand_as(alike)
    trained = []
    for weight in (None, alike, uneven):
        algorithm = harness.build(name, data, {"lr": 0.01, **hparams})
        algorithm.train()
        for step in range(STEPS):
            algorithm.update(harness.batch_of(data, step)._replace(weight=weight))
        trained.append(algorithm.training_state())
    unweighted, weighted_alike, weighted = trained
    _require_same(unweighted, weighted_alike, "is not the same with weights of 1")
    changed = harness.first_difference(unweighted, weighted) is not None
    require(changed, "the weights change nothing")


@contract("predict numbers, or say in `classes_only` why not")
def check_numbers(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that it trains with every regression loss, lowers the risk, and resumes.

    An algorithm with `classes_only` must reject numbers and give that reason.
    """
    data = harness.number_problem()
    reason = ALGORITHMS.get(name).classes_only
    if reason:
        error = _rejection("numbers were", data, name, hparams=hparams)
        require(reason in error, f"{error} does not give the reason, {reason!r}")
        return
    for loss in NUMBER_LOSSES:
        for nonlinear_head in (False, True):
            _check_steps(name, data, hparams, steps=2, loss=loss, nonlinear_head=nonlinear_head)
    given = {"lr": 0.01, **hparams}
    whole, resumed = (harness.build(name, data, given, seed=seed) for seed in (0, 1))
    before = harness.mean_risk(whole, data)
    harness.take_steps(whole, data, steps=STEPS)
    with tempfile.TemporaryDirectory() as folder:
        save_state(path := Path(folder, "state"), whole.training_state())
        resumed.load_training_state(load_state(path) or {})
    for algorithm in (whole, resumed):
        harness.take_steps(algorithm, data, steps=STEPS, start=STEPS)
    states = whole.training_state(), resumed.training_state()
    _require_same(*states, "is not the same after a checkpoint")
    harness.take_steps(whole, data, steps=LEARNING_STEPS - 2 * STEPS, start=2 * STEPS)
    _check_risk(whole, data, before)
    whole.eval()
    with torch.no_grad():
        outputs = whole.predict(data.domains[0].inputs(np.arange(PER_DOMAIN)))
    require(outputs.shape == (PER_DOMAIN, 1), f"numbers are {tuple(outputs.shape)}, not [n, 1]")


# --- state and randomness ---------------------------------------------------------------------


@contract("continue bit for bit from a checkpoint")
def check_resuming(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that it continues identically if saved after any step and loaded into a new one."""
    data = harness.problem()
    whole = harness.build(name, data, hparams)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{step}.safetensors") for step in range(STEPS)]
        measured = []
        for step, path in enumerate(paths):
            save_state(path, whole.training_state())
            measured += harness.take_steps(whole, data, steps=1, start=step)
        for step, path in enumerate(paths):
            resumed = harness.build(name, data, hparams, seed=1)
            resumed.load_training_state(load_state(path) or {})
            again = harness.take_steps(resumed, data, steps=STEPS - step, start=step)
            _require_same(
                {"measured": measured[step:], "state": whole.training_state()},
                {"measured": again, "state": resumed.training_state()},
                f"is not the same, saved after step {step}",
            )


@contract("give the same weights for the same seed, and draw only from its generator")
def check_determinism(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that it neither uses nor changes the global generators."""
    data = harness.problem()
    states = []
    for global_seed in (0, 1):
        algorithm = harness.build(name, data, hparams)
        torch.manual_seed(global_seed)
        with harness.global_random_state_unchanged("update()"):
            harness.take_steps(algorithm, data)
        states.append(algorithm.training_state())
    _require_same(states[0], states[1], "differs between two equal runs")


def _require_same(first: Any, second: Any, otherwise: str) -> None:
    difference = harness.first_difference(first, second)
    require(difference is None, f"{difference} {otherwise}")


@contract("predict without changing anything")
def check_predictions(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Check that predict() returns [batch, classes] and equal values in evaluation mode."""
    data = harness.problem()
    algorithm = harness.build(name, data, hparams, dropout=0.5)
    harness.take_steps(algorithm, data)
    algorithm.eval()
    before = copy.deepcopy(algorithm.training_state())
    x = data.domains[0].inputs(np.arange(PER_DOMAIN))
    with torch.no_grad(), harness.global_random_state_unchanged("predict()"):
        first, second, one = algorithm.predict(x), algorithm.predict(x), algorithm.predict(x[:1])
    require(torch.equal(first, second), "two predictions of one batch differ")
    expected = (len(x), len(data.classes))
    require(first.shape == expected, f"logits are {tuple(first.shape)}, not {expected}")
    require(len(one) == 1, f"one sample has logits {tuple(one.shape)}")
    _require_same(before, algorithm.training_state(), "changed")
    alone = torch.allclose(first[:1], one, rtol=1e-4, atol=1e-5)
    require(
        alone or algorithm.predicts_by_batch,
        "a prediction depends on the other samples of its batch, but predicts_by_batch is False",
    )
    other = harness.build(name, data, hparams, seed=1).eval()
    for part in algorithm.predicts_with:
        getattr(other, part).load_state_dict(getattr(algorithm, part).state_dict())
    with torch.no_grad():
        same = torch.equal(other.predict(x), first)
    require(
        same, f"predict() uses more than the modules in predicts_with, {algorithm.predicts_with}"
    )


@contract("never wait for the device in update()")
def check_no_waiting(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Take steps on the meta device, whose tensors have shapes but no values.

    There `.item()`, `if tensor`, `.tolist()`, `.cpu()`, `nonzero`, boolean mask indexing and the
    like fail for anything that depends on weights or data.  Values drawn on the CPU from the
    algorithm's own generator can be read.  The check misses operations that wait although the shape
    of their result is known (some of `torch.linalg` check for errors), and explicit calls of
    `torch.cuda.synchronize()`.  Operations that torch does not define for meta tensors are reported
    too; most of them wait.
    """
    harness.take_steps_on_meta(name, harness.problem(), hparams)
    if not ALGORITHMS.get(name).classes_only:
        harness.take_steps_on_meta(name, harness.number_problem(), hparams)


# --- building blocks --------------------------------------------------------------------------


def _check_steps(
    name: str,
    data: DomainDataset,
    hparams: Hparams,
    *,
    steps: int = STEPS,
    batch_size: int = BATCH,
    loss: str | None = None,
    **model: Any,
) -> None:
    """Take a few steps, and require that weights change and the loss is finite."""
    algorithm = harness.build(name, data, hparams, loss=loss, **model)
    start = copy.deepcopy(algorithm.state_dict())
    algorithm.train()
    for step in range(1, steps + 1):
        batch = harness.batch_of(data, step, batch_size)
        given = copy.deepcopy(batch)
        measured = algorithm.update(given)
        same = harness.first_difference(list(given), list(batch)) is None
        require(same, "update() changes its batch")
        require(algorithm.updates == step, f"{algorithm.updates} updates are counted after {step}")
        require("loss" in measured, f"update() returns {sorted(measured)}, without 'loss'")
        for key, value in measured.items():
            scalar = isinstance(value, Tensor) and value.dim() == 0 and not value.requires_grad
            if not scalar:  # not `require`: formatting a tensor takes longer than a step
                raise AssertionError(f"{key!r} is {value!r}, not a detached 0-dimensional tensor")
            require(bool(value.isfinite()), f"{key!r} is {value.item()} at step {step}")
    for part, module in (("featurizer", algorithm.featurizer), ("head", algorithm.head)):
        weights = module.named_parameters()
        moved = any(not torch.equal(start[f"{part}.{key}"], weight) for key, weight in weights)
        require(moved, f"the {part} has not changed in {steps} steps")
