"""Strengths that set themselves: what they do not depend on, and what they see."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import entropy
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import resolve
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.algorithms.auto_strength import (
    ENDS,
    FADES,
    MILD,
    REPRESENTATIONS,
    STRONG,
    LabelShift,
    ShareOfGuess,
    Strength,
    Unit,
)
from shiftproof.matching.moving import MovingMatch
from shiftproof.testing.harness import problem
from shiftproof.training.config import configure
from shiftproof.training.preflight import preflight_notes
from shiftproof.training.trainer import Trainer


def points(seed: int = 0, domains: int = 2, size: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, size, 3, generator=generator, dtype=torch.float64)
    return x + torch.arange(domains).view(-1, 1, 1)


def unit_of(unit: Unit, x: Tensor, risk: float) -> Tensor:
    variance = x.detach().flatten(0, 1).var(dim=0, correction=0).mean()
    return unit(variance, torch.tensor(risk))


# --- the unit ---------------------------------------------------------------------------------


def test_a_unit_is_risk_over_variance():
    x = points()
    unit = unit_of(Unit(0.0, 2, corrected=True), x, 3.0)
    expected = 3.0 / x.flatten(0, 1).numpy().var(axis=0).mean()
    assert unit.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_features_of_another_scale_get_the_same_pull(order):
    def pull(scale: float) -> float:
        x = scale * points()
        unit = unit_of(Unit(0.0, order, corrected=True), x, 1.0)
        return float((unit * MovingMatch(0.0, order)(x)).detach())

    assert pull(1e3) == pytest.approx(pull(1.0), rel=1e-5)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.95])
def test_the_pull_on_a_point_does_not_depend_on_the_memory(gamma, corrected, order):
    match, unit = (
        MovingMatch(gamma, order, corrected=corrected),
        Unit(gamma, order, corrected=corrected),
    )
    x = points().requires_grad_()
    for _ in range(400):  # the same points again and again: the average is what it averages
        penalty, weight = match(x), unit_of(unit, x, 1.0)
    (found,) = torch.autograd.grad(weight * penalty, x)
    (expected,) = torch.autograd.grad(
        unit_of(Unit(0.0, order, corrected=True), x, 1.0) * MovingMatch(0.0, order)(x), x
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-9)


def test_it_fades_with_the_risk():
    unit = Unit(0.0, 2, corrected=True)
    before = unit_of(unit, points(), 1.0)
    for _ in range(400):
        after = unit_of(unit, points(), 0.01)
    assert after.item() == pytest.approx(before.item() / 100, rel=1e-3)


# --- label shift ------------------------------------------------------------------------------


def test_label_shift_by_its_information():
    """0.5 and 0.5 ± d: I(Y;D) crosses a thousandth of a nat between d = 0.02 and d = 0.04."""
    for d, expected in ((0.02, False), (0.04, True)):
        shares = [[0.5 + d, 0.5 - d], [0.5 - d, 0.5 + d]]
        assert bool(math.log(2) - entropy(shares[0]) > 1e-3) is expected
        ones = [round(1e5 * share[1]) for share in shares]
        y = torch.stack([(torch.arange(100_000) < count).long() for count in ones])
        assert bool(LabelShift(2, 2)(y)) is expected


def test_few_labels_are_not_believed():
    assert not LabelShift(2, 2)(torch.tensor([[0, 1, 1, 1], [0, 0, 1, 1]]))
    assert not LabelShift(1, 2)(torch.tensor([[0, 1, 1, 1]]))


# --- in IDM -----------------------------------------------------------------------------------


def build(name: str, **hparams: object) -> nn.Module:
    cls = ALGORITHMS.get(name)
    torch.manual_seed(0)
    return cls(
        Task((3,), 2, 2, "table"),
        nn.Linear(3, 4),
        nn.Linear(4, 2),
        resolve(cls.Hparams, "table", hparams),
        torch.Generator().manual_seed(0),
    )


def batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (2, 64), generator=generator)
    return Batch(points(seed, size=64).float() + y.unsqueeze(-1), y)


def test_idm_adds_what_the_weights_say():
    idm = build("idm-auto", gradient_warmup=0)
    idm.extensions.strength.disagreement.level.fill_(1)
    losses = idm.objective(batch(0))
    parts = losses.parts
    expected = (
        parts["risk"]
        + parts["gradient_weight"] * parts["gradient_penalty"]
        + parts["representation_weight"] * parts["representation_penalty"]
    )
    torch.testing.assert_close(losses.total, expected)
    assert losses.total > parts["risk"]


def test_one_weight_may_be_fixed():
    idm = build("idm", gradient_weight="auto", representation_weight=7, gradient_warmup=0)
    parts = (losses := idm.objective(batch(0))).parts
    expected = parts["risk"] + 7 * parts["representation_penalty"]
    torch.testing.assert_close(losses.total, expected)


def test_where_domains_agree_it_is_erm_to_the_last_bit():
    erm, auto = build("erm"), build("idm-auto", gradient_warmup=2)
    for seed in range(6):
        one, other = erm.update(batch(seed)), auto.update(batch(seed))
        assert torch.equal(one["loss"], other["loss"])
    for mine, theirs in zip(erm.head.parameters(), auto.head.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def strength_of(level: int) -> Strength:
    strength = Strength(Unit(0.0, 2, corrected=True), Unit(0.0, 2, corrected=True))
    strength.disagreement.level.fill_(level)
    return strength


def weights(strength: Strength, scale: float, share: float, calls: int = 1) -> tuple[float, float]:
    """Both weights after so many calls with the same points, at a share of a guess's risk."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(32).expand(2, -1) % 2
    g, r = (torch.randn(2, 32, 4, generator=generator) for _ in range(2))
    risk = torch.tensor(share * math.log(2))
    for _ in range(calls):
        found = strength(scale * g, r, y, risk, 2, generator, warm=False)
    return found[0].item(), found[1].item()


def test_the_level_sets_both_weights():
    found = [weights(strength_of(level), 1.0, 0.5) for level in (0, 1)]
    unit, other = found[1][0] / MILD, found[1][1] / REPRESENTATIONS
    assert found[0] == (0, 0)
    assert unit > 0
    assert other > 0
    strong = strength_of(2)
    strong.strong_unit.fill_(unit)
    assert weights(strong, 1.0, 0.5) == pytest.approx((STRONG * unit, REPRESENTATIONS * other))


def test_a_strong_weight_keeps_its_unit_and_leaves_the_classifier_its_share():
    strength = strength_of(1)
    mild = weights(strength, 1.0, 0.5, 400)[0]
    strong = mild * STRONG / MILD
    strength.disagreement.level.fill_(2)
    assert weights(strength, 1.0, 0.5, 400)[0] == pytest.approx(strong, rel=1e-4)
    assert weights(strength, 0.1, 0.5, 400)[0] == pytest.approx(strong, rel=1e-4)
    halfway = (FADES + ENDS) / 2
    assert weights(strength, 1.0, halfway, 400)[0] == pytest.approx(strong / 2, rel=1e-3)
    assert weights(strength, 1.0, 0.99, 400)[0] == 0
    strength.disagreement.level.fill_(1)
    assert weights(strength, 0.1, 0.5, 400)[0] == pytest.approx(100 * mild, rel=1e-3)


def test_the_share_of_a_guess():
    share = ShareOfGuess()
    y = torch.tensor([[0, 0, 0, 1], [2, 0, 0, 1]])
    for _ in range(2):
        found = share(torch.tensor(0.3), y, 4)
    assert found.item() == pytest.approx(0.3 / entropy([5, 2, 1]), rel=1e-5)


def test_idm_with_words_is_idm_auto():
    words = dict.fromkeys(("gradient_weight", "representation_weight", "match_within"), "auto")
    one, other = build("idm", **words), build("idm-auto")
    for seed in range(3):
        assert torch.equal(one.update(batch(seed))["loss"], other.update(batch(seed))["loss"])


def test_within_classes_only_where_shares_differ():
    """The same points under other labels: matched as one, or class by class."""
    alike, apart = batch(0), batch(0)
    alike = alike._replace(y=torch.arange(64).expand(2, -1) % 2)
    apart = apart._replace(y=(torch.arange(64) < torch.tensor([[8], [56]])).long())
    settings = {"gradient_weight": 0, "representation_weight": 1}
    for given, chosen in ((alike, "all"), (apart, "class")):
        auto, same = (
            build("idm", match_within=within, **settings).objective(given).parts
            for within in ("auto", chosen)
        )
        torch.testing.assert_close(auto["representation_penalty"], same["representation_penalty"])


def test_a_memory_and_classes_do_not_go_together():
    with pytest.raises(InvalidValue, match="set `representation_ema=0`"):
        build("idm", match_within="class", representation_ema=0.5)


def test_matching_that_never_begins_is_said():
    data = problem()
    config = configure(
        data, "idm-auto", test_domains=["domain 2"], steps=50, device="cpu",
        hparams={"hidden": 8, "batch_size": 4},
    )  # fmt: skip
    trainer = Trainer(config, data)
    notes = list(preflight_notes(config, trainer.dataset, trainer.splits, trainer.algorithm))
    assert any("waits for step 1500 and never acts in 50 steps" in note for note in notes)
