"""What every algorithm must do, as checks that also run on an algorithm of yours.

::

    check_algorithm("mine")                            # all of them; the first failure is raised
    check_algorithm("mine", {"anneal_steps": 2})       # with a warm-up short enough to end
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_contract(check):                          # each by itself
        check("mine")

A check takes the registered name and hyper-parameters to use in place of the defaults, runs on
the CPU, and raises AssertionError with the rule that was broken and how.  It trains for
`STEPS` steps; give what switches on later a shorter warm-up, or it is not seen at work.
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
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import UnknownName
from shiftproof.core.space import Regime, draw, resolve, specs
from shiftproof.core.types import Batch
from shiftproof.data import DomainDataset
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.learners.algorithms.base import Family
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.models import MODELS
from shiftproof.testing.harness import (
    BATCH,
    PER_DOMAIN,
    STEPS,
    Hparams,
    batch_of,
    build,
    first_difference,
    global_chance_untouched,
    mean_risk,
    problem,
    require,
    take_steps,
)
from shiftproof.training.checkpoint import load_state, save_state
from shiftproof.training.config import configure
from shiftproof.training.loop import train

LEARNING_STEPS = 60
# A risk that fell by less than this share may have fallen by chance.
LEARNED_SHARE = 0.2
DRAWS = 5
SUMMARY_LENGTH = 100

Check = Callable[..., None]
DEFAULTS: Hparams = MappingProxyType({})

CHECKS: list[Check] = []


def check_algorithm(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Run every check on one registered algorithm; raise what the first to fail says."""
    for check in CHECKS:
        check(name, hparams)


def contract(rule: str) -> Callable[[Callable[[str, Hparams], None]], Check]:
    """Make a function a check: whatever goes wrong in it becomes one AssertionError."""

    def as_check(body: Callable[[str, Hparams], None]) -> Check:
        @functools.wraps(body)
        def check(name: str, hparams: Hparams = DEFAULTS) -> None:
            ALGORITHMS.get(name)  # not to know the name is the caller's mistake
            try:
                with torch.random.fork_rng():
                    body(name, hparams)
            except Exception as error:
                raise AssertionError(f"{name} must {rule}: {_told(error)}") from error

        CHECKS.append(check)
        return check

    return as_check


# --- what it says of itself -------------------------------------------------------------------


@contract("describe itself")
def check_description(name: str, hparams: Hparams = DEFAULTS) -> None:
    """A one-line summary, a known family and a paper of its own."""
    cls = ALGORITHMS.get(name)
    summary = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
    require(summary != "", "the class has no docstring")
    require(summary.endswith("."), f"the docstring's first line lacks its full stop: {summary!r}")
    require(
        len(summary) <= SUMMARY_LENGTH,
        f"the docstring's first line has {len(summary)} characters; {SUMMARY_LENGTH} fit",
    )
    for attribute in ("family", "paper"):
        # What ERM says of itself would be inherited, and wrong.
        declared = any(attribute in vars(c) for c in cls.__mro__ if c is cls or c is not ERM)
        require(declared, f"no class attribute {attribute!r}")
    families = get_args(Family)
    require(cls.family in families, f"family {cls.family!r} is none of {', '.join(families)}")
    require(isinstance(cls.paper, str) and cls.paper.strip() != "", "paper is empty")


@contract("declare its hyper-parameters")
def check_hparams(name: str, hparams: Hparams = DEFAULTS) -> None:
    """A frozen dataclass; each with help, a default within its rule, and a name of its own."""
    declared = ALGORITHMS.get(name).Hparams
    require(issubclass(declared, Algorithm.Hparams), "Hparams does not extend its parent's")
    # Of this class: a parent's decorator does not see the fields of a child.
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


@contract("draw hyper-parameters that can be written down and used")
def check_draws(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Every regime's draws survive JSON and their own rules; the table's can be trained with."""
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
    """A misspelt hyper-parameter is named, beside the one that was probably meant."""
    for known in specs(ALGORITHMS.get(name).Hparams):
        misspelt = known + "_"
        try:
            configure(problem(), name, hparams={**hparams, misspelt: 1})
        except UnknownName as error:
            named = repr(misspelt) in str(error) and repr(known) in str(error)
            require(named, f"{error} does not lead from {misspelt!r} to {known!r}")
        else:
            raise AssertionError(f"{misspelt!r} was accepted")


# --- training ---------------------------------------------------------------------------------


@contract("train on images")
def check_images(name: str, hparams: Hparams = DEFAULTS) -> None:
    """A few steps of a convolutional network on 14×14 images of two channels, as bytes."""
    data = problem(shape=(2, 14, 14), backbone="mnist-cnn")
    _check_steps(name, data, hparams, batch_size=4)


@contract("train on tables")
def check_tables(name: str, hparams: Hparams = DEFAULTS) -> None:
    """A few steps of a perceptron on vectors."""
    _check_steps(name, problem(), hparams)


@contract("train in the loop on arrays in memory")
def check_loop(name: str, hparams: Hparams = DEFAULTS) -> None:
    """A whole run in a folder: batches, records, checkpoint, evaluation of an unseen domain."""
    data = problem(domains=3)
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
    """The mean risk, without penalties, of what it trained on falls by a fifth at least."""
    data = problem()
    algorithm = build(name, data, {"lr": 0.01, **hparams})
    before = mean_risk(algorithm, data)
    take_steps(algorithm, data, steps=LEARNING_STEPS)
    after = mean_risk(algorithm, data)
    require(
        after < (1 - LEARNED_SHARE) * before,
        f"the risk went from {before:.4f} to {after:.4f} in {LEARNING_STEPS} steps",
    )


@contract("work with 1 to 6 domains, 2 to 65 classes, linear and MLP heads")
def check_sizes(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Every number of domains with every kind of head, on few and on many classes."""
    for domains in range(1, 7):
        for classes in (2, 3, 65):
            for nonlinear_head in (False, True):
                data = problem(domains=domains, classes=classes)
                try:
                    _check_steps(name, data, hparams, steps=3, nonlinear_head=nonlinear_head)
                except Exception as error:
                    head = "an MLP" if nonlinear_head else "a linear"
                    where = f"on {domains} domains, {classes} classes, {head} head"
                    raise AssertionError(f"{where}, {_told(error)}") from error


# --- state and chance -------------------------------------------------------------------------


@contract("continue bit for bit from a checkpoint")
def check_resuming(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Saved after any step and loaded over other weights, it goes on as if nothing had been."""
    data = problem()
    whole = build(name, data, hparams)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{step}.safetensors") for step in range(STEPS)]
        measured = []
        for step, path in enumerate(paths):
            save_state(path, whole.training_state())
            measured += take_steps(whole, data, steps=1, start=step)
        for step, path in enumerate(paths):
            resumed = build(name, data, hparams, seed=1)
            resumed.load_training_state(load_state(path) or {})
            again = take_steps(resumed, data, steps=STEPS - step, start=step)
            difference = first_difference(
                {"measured": measured[step:], "state": whole.training_state()},
                {"measured": again, "state": resumed.training_state()},
            )
            require(difference is None, f"saved after step {step}, {difference} is not the same")


@contract("give the same weights for the same seed, and use no chance but its generator")
def check_determinism(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Whatever state the global generators are in, they are neither read nor moved."""
    data = problem()
    states = []
    for global_seed in (0, 1):
        algorithm = build(name, data, hparams)
        torch.manual_seed(global_seed)
        with global_chance_untouched("update()"):
            take_steps(algorithm, data)
        states.append(algorithm.training_state())
    difference = first_difference(*states)
    require(difference is None, f"{difference} differs between two equal runs")


@contract("predict without changing anything")
def check_predictions(name: str, hparams: Hparams = DEFAULTS) -> None:
    """In evaluation mode predict() returns [batch, classes], the same each time."""
    data = problem()
    algorithm = build(name, data, hparams, dropout=0.5)
    take_steps(algorithm, data)
    algorithm.eval()
    before = copy.deepcopy(algorithm.training_state())
    x = data.domains[0].inputs(np.arange(PER_DOMAIN))
    with torch.no_grad(), global_chance_untouched("predict()"):
        first, second, one = algorithm.predict(x), algorithm.predict(x), algorithm.predict(x[:1])
    require(torch.equal(first, second), "two predictions of one batch differ")
    expected = (len(x), len(data.classes))
    require(first.shape == expected, f"logits are {tuple(first.shape)}, not {expected}")
    require(len(one) == 1, f"one sample has logits {tuple(one.shape)}")
    difference = first_difference(before, algorithm.training_state())
    require(difference is None, f"{difference} changed")
    alone = torch.allclose(first[:1], one, rtol=1e-4, atol=1e-5)
    require(
        alone or algorithm.predicts_by_batch,
        "a prediction depends on the batch around it, which predicts_by_batch must say",
    )
    other = build(name, data, hparams, seed=1).eval()
    for part in algorithm.predicts_with:
        getattr(other, part).load_state_dict(getattr(algorithm, part).state_dict())
    with torch.no_grad():
        same = torch.equal(other.predict(x), first)
    require(same, f"predict() uses more than predicts_with names, {algorithm.predicts_with}")


@contract("never wait for the device in update()")
def check_no_waiting(name: str, hparams: Hparams = DEFAULTS) -> None:
    """Take the steps on the meta device, whose tensors have shapes but no values to read.

    So `.item()`, `if tensor`, `.tolist()`, `.cpu()`, `nonzero`, a boolean mask as index
    … of anything that depends on weights or data fails, and values drawn from the algorithm's
    own generator, on the CPU, may be read.  It cannot see an operation that waits although its
    result has a known shape (some of `torch.linalg` check for errors), nor an explicit
    `torch.cuda.synchronize()`.  An operation that torch has not defined on meta tensors is
    reported as if it waited; most of those do.
    """
    data = problem()
    algorithm = _on_meta(build(name, data, hparams))
    algorithm.train()
    with mock.patch.object(torch, "autocast", _autocast_on_meta):
        for step in range(STEPS):
            x, y = batch_of(data, step)
            algorithm.update(Batch(x.to("meta"), y.to("meta")))


def _on_meta(algorithm: Algorithm) -> Algorithm:
    # Swapped in place, so that the optimisers go on holding the same parameters.
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return algorithm.to("meta")
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def _autocast_on_meta(device_type: str, *args: Any, **kwargs: Any) -> Any:
    # Autocast does not know the meta device.
    return _AUTOCAST("cpu" if device_type == "meta" else device_type, *args, **kwargs)


_AUTOCAST = torch.autocast


# --- what the checks are made of --------------------------------------------------------------


def _told(error: Exception) -> str:
    """Return what an error says, after its kind unless it is one of ours."""
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"


def _check_steps(
    name: str,
    data: DomainDataset,
    hparams: Hparams,
    *,
    steps: int = STEPS,
    batch_size: int = BATCH,
    **model: Any,
) -> None:
    """Take a few steps, and require that they moved the network and measured a finite loss."""
    algorithm = build(name, data, hparams, **model)
    start = copy.deepcopy(algorithm.state_dict())
    algorithm.train()
    for step in range(1, steps + 1):
        batch = batch_of(data, step, batch_size)
        measured = algorithm.update(Batch(*batch))
        same = first_difference(list(batch), list(batch_of(data, step, batch_size))) is None
        require(same, "update() changes the batch it is given")
        require(algorithm.updates == step, f"{algorithm.updates} updates counted after {step}")
        require("loss" in measured, f"update() measures {sorted(measured)}, and no 'loss'")
        for key, value in measured.items():
            scalar = isinstance(value, Tensor) and value.dim() == 0 and not value.requires_grad
            require(scalar, f"{key!r} is measured as {value!r}, not as a detached 0-dim tensor")
            require(bool(value.isfinite()), f"{key!r} is {value.item()} at step {step}")
    for part, module in (("featurizer", algorithm.featurizer), ("head", algorithm.head)):
        require(_moved(start, part, module), f"the {part} has not moved in {steps} steps")


def _moved(start: dict[str, Tensor], part: str, module: nn.Module) -> bool:
    return any(not torch.equal(start[f"{part}.{k}"], p) for k, p in module.named_parameters())
