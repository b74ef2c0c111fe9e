"""Every check on every registered algorithm; and on wrong ones, to see each check go red."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from _internals import (
    CHECKS,
    ERM,
    STEPS,
    UnknownName,
    check_algorithm,
    specs,
    testing_contract as contract,
    testing_description as description,
    testing_harness as harness,
)
from torch import Tensor, nn

from shiftproof import ALGORITHMS, Algorithm, Batch, Float, Losses, hparam

# What is fitted at once has a contract of its own: tests/learners/test_exact.py.
NAMES = [name for name in ALGORITHMS if not ALGORITHMS.get(name).exact]

# What begins after some steps must begin within those of a check, with steps on either side.
WARMUPS = ("anneal_steps", "warmup", "burn_in_steps")
SETTINGS: dict[str, dict[str, object]] = {
    # At its default, the protocol's τ = 1, its mask is zero everywhere: nothing is learned.
    "sandmask": {"tau": 0.5},
    # After the burn-in it only fine-tunes, at a rate of 1e-6.
    "eqrm": {"burnt_in_lr": 0.01},
    # From the start, penalties of the default strength hold the risk up for longer than 60 steps.
    "irm": {"penalty_weight": 1.0},
    "iga": {"penalty_weight": 1.0},
    "ib-erm": {"bottleneck_weight": 1.0},
    "ib-irm": {"penalty_weight": 1.0, "bottleneck_weight": 1.0},
    # Some checks take two steps, and the featurizer must change in them.
    "lp-ft": {"head_warmup": 1},
    "wise-ft": {"head_warmup": 1},
    "erm-plus-plus": {"head_warmup": 1, "average_warmup": 1},
    # After the warm-up it only fine-tunes, at a rate of 1.5e-5.
    "rdm": {"annealed_lr": 0.01, "penalty_weight": 0.5},
    # Fewer steps within an update, and smaller networks, for the time that the checks take.
    "trm": {"predictor_steps": 3, "neumann_terms": 3},
    "transfer": {"adversary_steps": 1},
    "adrmx": {"discriminator_depth": 3, "discriminator_width": 16},
}


def settings(name: str) -> dict[str, object]:
    declared = specs(ALGORITHMS.get(name).Hparams)
    return {k: STEPS // 2 for k in declared if k.endswith(WARMUPS)} | SETTINGS.get(name, {})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(name: str, check: contract.Check) -> None:
    check(name, settings(name))


UPSTREAM = [name for name in NAMES if "match_upstream" in specs(ALGORITHMS.get(name).Hparams)]


@pytest.mark.parametrize("name", UPSTREAM)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract_with_the_defects_of_upstream(name: str, check: contract.Check) -> None:
    check(name, settings(name) | {"match_upstream": True})


def test_no_setting_is_left_behind() -> None:
    assert set(SETTINGS) <= set(NAMES)
    assert len(NAMES) >= 29


def test_every_check_of_the_module_is_run() -> None:
    written = [name for name in vars(contract) if name.startswith("check_")]
    assert {check.__name__ for check in CHECKS} == {n for n in written if n != "check_algorithm"}
    assert len(CHECKS) == len(written) - 1


# --- wrong algorithms -------------------------------------------------------------------------


class Right(ERM):
    """Minimise the mean risk, with a penalty that starts late."""

    family = "representation"
    paper = "Nobody (2024)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        penalty_weight: float = hparam(
            0.1, Float(-2, 0, base=10), within=(0, 1e9), help="how strongly"
        )

    hparams: Hparams

    def penalty(self, representations: Tensor) -> Tensor:
        return representations.mean(dim=1).var(dim=0, correction=0).sum()

    def objective(self, batch: Batch) -> Losses:
        representations = self.features(batch)
        risk = self.sample_loss.risk(self.head(representations), batch.y).mean()
        total = risk + self.hparams.penalty_weight * self.penalty(representations)
        return Losses(total, {"risk": risk})


def penalising(penalty: Callable[[Any, Tensor], Tensor]) -> type[Algorithm]:
    """Return the right one with another penalty."""
    return type("Wrong", (Right,), {"__doc__": Right.__doc__, "penalty": penalty})


def having(**attributes: Any) -> type[Algorithm]:
    return type("Wrong", (Right,), {"__doc__": Right.__doc__, **attributes})


class Silent(Right):
    pass


class Unattributed(ERM):
    """Minimise the mean risk and say nothing of where it comes from."""


class Undecorated(Right):
    """Declare a hyper-parameter that no dataclass sees."""

    class Hparams(Right.Hparams):
        extra: float = hparam(1.0, help="how much")


class Unhelpful(Right):
    """Declare a hyper-parameter without a word."""

    @dataclass(frozen=True)
    class Hparams(Right.Hparams):
        extra: float = hparam(1.0)


class Plain(Right):
    """Declare a hyper-parameter as a plain field."""

    @dataclass(frozen=True)
    class Hparams(Right.Hparams):
        extra: float = 1.0


class OutOfRange(Right):
    """Draw beyond the rule."""

    @dataclass(frozen=True)
    class Hparams(Right.Hparams):
        extra: float = hparam(1.0, Float(0, 9), within=(0, 2), help="how much")


class BadDefault(Right):
    """Default beyond the rule."""

    @dataclass(frozen=True)
    class Hparams(Right.Hparams):
        extra: float = hparam(3.0, within=(0, 2), help="how much")


class Ambiguous(Right):
    """Declare what the backbones declare too."""

    @dataclass(frozen=True)
    class Hparams(Right.Hparams):
        dropout: float = hparam(0.0, help="dropout of something else")


class Counting(Right):
    """Count outside the state."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen = 0

    def objective(self, batch: Batch) -> Losses:
        self.seen += 1
        losses = super().objective(batch)
        return Losses(losses.total * (1 + self.seen), losses.parts)


class ForgettingOptimizer(Right):
    """Load weights, but not Adam's moments."""

    def load_training_state(self, state: dict[str, Any]) -> None:
        kept = {name: o.state_dict() for name, o in self.optimizers.items()}
        super().load_training_state({**state, "optimizers": kept})


class Unsaveable(Right):
    """Keep something in the state that no file can hold."""

    def training_state(self) -> dict[str, Any]:
        return {**super().training_state(), "set": {1, 2}}


def draws_in_predict(self: Algorithm, x: Tensor) -> Tensor:
    noise = torch.randn(len(x), 1, generator=self.generator)
    return self.head(self.featurizer(x)) + 1e-3 * noise


def trains_in_predict(self: Algorithm, x: Tensor) -> Tensor:
    with torch.no_grad():
        next(self.head.parameters()).mul_(0.999)
    return self.head(self.featurizer(x))


def draws_globally_in_predict(self: Algorithm, x: Tensor) -> Tensor:
    torch.rand(1)
    return self.head(self.featurizer(x))


def measures(change: Callable[[dict[str, Any]], dict[str, Any]]) -> type[Algorithm]:
    return having(update=lambda self, batch: change(Right.update(self, batch)))


def with_attached_risk(self: Algorithm, batch: Batch) -> dict[str, Tensor]:
    losses = self.objective(batch)
    self.descend(losses.total)
    self.updates += 1
    return {"loss": losses.total}


def changes_the_batch(self: Algorithm, batch: Batch) -> dict[str, Tensor]:
    batch.x.sub_(batch.x.mean())
    return Right.update(self, batch)


def without_counting(self: Algorithm, batch: Batch) -> dict[str, Tensor]:
    measured = Right.update(self, batch)
    self.updates = 0
    return measured


def for_linear_heads(self: Algorithm, r: Tensor) -> Tensor:
    return self.head.weight.square().sum()


def for_one_to_three_domains(self: Algorithm, r: Tensor) -> Tensor:
    first, *others = r if len(r) < 4 else ()
    return (first - sum(others)).mean().square()


def for_two_domains_or_more(self: Algorithm, r: Tensor) -> Tensor:
    first, second, *_others = r
    return (first - second).mean().square()


def for_few_classes(self: Algorithm, r: Tensor) -> Tensor:
    weights = [0.01] * 64
    return r.mean() * weights[self.task.num_classes - 1]


def for_vectors(self: Algorithm, batch: Batch) -> Losses:
    batch.x.view(*batch.y.shape, 6)
    return Right.objective(self, batch)


# Each wrong algorithm, the check that must find it, and a word of what that says.
WRONG_ONES: dict[str, tuple[type[Algorithm], str, str]] = {
    "no docstring": (Silent, "description", "no docstring"),
    "no full stop": (having(__doc__="Minimise"), "description", "full stop"),
    "a long summary": (having(__doc__="x" * 100 + "."), "description", "101 characters"),
    "an unknown family": (having(family="magic"), "description", "'magic' is none of baseline"),
    "an empty paper": (having(paper=" "), "description", "paper is empty"),
    "ERM's paper": (Unattributed, "description", "'family'"),
    "no dataclass": (Undecorated, "hparams", "not a frozen dataclass"),
    "no help": (Unhelpful, "hparams", "extra has no help"),
    "a plain field": (Plain, "hparams", "extra is not declared by hparam"),
    "a default beyond its rule": (BadDefault, "hparams", "`extra` must lie in"),
    "a name of the backbones": (Ambiguous, "hparams", "dropout already means something"),
    "draws beyond their rule": (OutOfRange, "draws", "`extra` must lie in"),
    "vectors only": (having(objective=for_vectors), "images", "RuntimeError"),
    "no loss measured": (measures(lambda m: {"risk": m["risk"]}), "tables", "without 'loss'"),
    "a number measured": (measures(lambda m: {"loss": 1.0}), "tables", "0-dim"),
    "a vector measured": (measures(lambda m: {"loss": torch.ones(2)}), "tables", "0-dim"),
    "a graph measured": (having(update=with_attached_risk), "tables", "detached"),
    "a loss not finite": (penalising(lambda self, r: r.sum() / 0), "tables", "at step 1"),
    "a divergence": (penalising(lambda self, r: r.sum() / 0), "loop", "diverged at step 1"),
    "a changed batch": (having(update=changes_the_batch), "tables", "changes its batch"),
    "no count": (having(update=without_counting), "tables", "0 updates are counted"),
    "a constant loss": (
        having(objective=lambda self, b: Losses(0 * Right.objective(self, b).total, {})),
        "tables",
        "has not changed",
    ),
    "ascent": (
        having(objective=lambda self, b: Losses(-Right.objective(self, b).total, {})),
        "learning",
        "the risk went from",
    ),
    "linear heads only": (penalising(for_linear_heads), "sizes", "an MLP head"),
    "three domains at most": (penalising(for_one_to_three_domains), "sizes", "4 domains"),
    "two domains at least": (penalising(for_two_domains_or_more), "sizes", "on 1 domains"),
    "64 classes at most": (penalising(for_few_classes), "sizes", "65 classes"),
    "a count outside the state": (Counting, "resuming", "saved after step 1"),
    "forgotten moments": (ForgettingOptimizer, "resuming", "saved after step 1"),
    "a state no file can hold": (Unsaveable, "resuming", "cannot hold set"),
    "global chance": (
        penalising(lambda self, r: (r * torch.rand(r.shape)).mean()), "determinism", "of torch",
    ),
    "Python's chance": (
        penalising(lambda self, r: r.mean() * random.random()), "determinism", "of random",
    ),
    "NumPy's chance": (
        penalising(lambda self, r: r.mean() * np.random.rand()), "determinism", "of numpy",
    ),
    "chance from elsewhere": (
        penalising(
            lambda self, r: r.mean() * torch.rand(1, generator=_ELSEWHERE).squeeze()
        ), "determinism", "differs between two equal runs",
    ),
    "noisy predictions": (having(predict=draws_in_predict), "predictions", "differ"),
    "globally drawn predictions": (
        having(predict=draws_globally_in_predict), "predictions", "of torch",
    ),
    "predictions that train": (having(predict=trains_in_predict), "predictions", "differ"),
    "predictions that keep count": (
        having(predict=lambda self, x: (setattr(self, "updates", 9), ERM.predict(self, x))[1]),
        "predictions",
        "updates changed",
    ),
    "predictions by the batch": (
        having(predict=lambda self, x: ERM.predict(self, x - x.mean(0))), "predictions", "batch",
    ),
    "predictions by weights nobody keeps": (
        having(predict=lambda self, x: ERM.predict(self, x) + sum(map(torch.sum, self.parameters()))
               - sum(map(torch.sum, self.head.parameters())), predicts_with=("head",)),
        "predictions", "predicts_with",
    ),
    "flat predictions": (
        having(predict=lambda self, x: ERM.predict(self, x).flatten()), "predictions", "(72,)",
    ),
    "numbers as classes": (
        having(objective=lambda self, batch: Losses(
            torch.nn.functional.cross_entropy(
                self.head(self.features(batch)).flatten(0, 1), batch.y.long().flatten()
            ), {},
        )), "numbers", "",
    ),
    "item": (penalising(lambda self, r: r.mean() * r.max().item()), "no_waiting", "item"),
    "a branch": (
        penalising(lambda self, r: r.mean() if r.mean() > 0 else r.sum()), "no_waiting", "item",
    ),
    "ignored weights": (having(weighs_samples=True), "weights", "the weights change nothing"),
    "a list": (penalising(lambda self, r: r.mean() * r[0, 0].tolist()[0]), "no_waiting", "meta"),
    "a copy to the CPU": (
        penalising(lambda self, r: r.mean() * r.detach().cpu().max()), "no_waiting", "meta",
    ),
    "a boolean mask": (penalising(lambda self, r: r[r > 0].mean()), "no_waiting", "nonzero"),
    "NumPy": (
        penalising(lambda self, r: r.mean() * float(r.detach().numpy().max())), "no_waiting",
        "numpy",
    ),
    "a branch after the warm-up": (
        penalising(lambda self, r: r.mean() * (1 if self.updates < 3 else r.max().item())),
        "no_waiting",
        "item",
    ),
}  # fmt: skip
_ELSEWHERE = torch.Generator().manual_seed(0)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Algorithm]], str]:
    """Put an algorithm into the registry, for this test alone."""
    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS.items()))

    def register(cls: type[Algorithm]) -> str:
        ALGORITHMS.register("mine")(cls)
        return "mine"

    return register


@pytest.mark.parametrize("case", WRONG_ONES)
def test_a_wrong_algorithm_is_found(case: str, registered: Callable[[Any], str]) -> None:
    cls, check, says = WRONG_ONES[case]
    name = registered(cls)
    with pytest.raises(AssertionError) as failure:
        getattr(contract, f"check_{check}")(name)
    assert str(failure.value).startswith("mine must ")
    assert says in str(failure.value)


def test_all_checks_are_run_up_to_the_last(registered: Callable[[Any], str]) -> None:
    cls, check, _ = WRONG_ONES["item"]
    assert CHECKS[-1].__name__ == f"check_{check}"
    with pytest.raises(AssertionError, match="never wait for the device"):
        check_algorithm(registered(cls))


def test_every_check_finds_something() -> None:
    found = {f"check_{check}" for _, check, _ in WRONG_ONES.values()}
    # To accept unknown hyper-parameters, an algorithm would have to replace configure().
    assert {check.__name__ for check in CHECKS} - found == {"check_unknown_hparams"}


def test_an_accepted_or_unexplained_misspelling_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "configure", lambda *args, **kwargs: None)
    with pytest.raises(AssertionError, match="'lr_' was accepted"):
        contract.check_unknown_hparams("erm")

    def vague(*args: Any, **kwargs: Any) -> None:
        raise UnknownName("hyper-parameter", "lr_", [])

    monkeypatch.setattr(description, "configure", vague)
    with pytest.raises(AssertionError, match="does not suggest 'lr' for 'lr_'"):
        contract.check_unknown_hparams("erm")


def test_a_right_algorithm_passes_and_leaves_the_callers_chance_alone(
    registered: Callable[[Any], str],
) -> None:
    name = registered(Right)
    before = torch.get_rng_state()
    assert check_algorithm(name) is None
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.__future__.get_swap_module_params_on_conversion()


def test_reading_draws_of_its_own_generator_is_no_waiting(registered: Callable[[Any], str]) -> None:
    def penalty(self: Algorithm, r: Tensor) -> Tensor:
        first, second = torch.randperm(len(r), generator=self.generator).tolist()[:2]
        return (r[first] - r[second]).mean().square()

    contract.check_no_waiting(registered(penalising(penalty)))


def test_hyper_parameters_of_the_caller_are_used(registered: Callable[[Any], str]) -> None:
    seen = set()

    class Watching(Right):
        """Look at the hyper-parameters."""

        def objective(self, batch: Batch) -> Losses:
            seen.add(self.hparams.penalty_weight)
            return super().objective(batch)

    name = registered(Watching)
    for check in (contract.check_tables, contract.check_resuming, contract.check_learning):
        check(name, {"penalty_weight": 0.25})
    assert seen == {0.25}
    with pytest.raises(AssertionError, match="did you mean 'penalty_weight'"):
        contract.check_tables(name, {"penalty_wait": 0.25})


def test_an_unknown_name_is_the_callers_mistake() -> None:
    with pytest.raises(UnknownName, match="did you mean 'idm'"):
        check_algorithm("imd")


def test_the_first_difference_is_named() -> None:
    assert harness.first_difference({"a": [1, torch.ones(2)]}, {"a": (1, torch.ones(2))}) is None
    assert harness.first_difference({"a": [1, torch.ones(2)]}, {"a": [1, torch.zeros(2)]}) == "a/1"
    assert harness.first_difference(torch.ones(2), torch.ones(2).double()) == ""
    assert harness.first_difference({"a": 1}, {"b": 1}) == "a/b"
    assert harness.first_difference([1], [1, 2]) == "length"
    assert harness.first_difference(nn.Linear, None) == ""
