"""Automatic strength: when it looks, what it decides, and what a run ends with."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from _internals import (
    ALPHA,
    EVERY,
    FACTOR,
    LOOKS,
    PART,
    SHARE,
    AutoStrength,
    InvalidValue,
    Trainer,
    Verdict,
    calibrated,
    concept_test_HeldOut as HeldOut,
    configure,
    first_difference,
    null_support,
    planned_looks,
    preflight_notes,
    problem,
    resolve,
    welch_p,
)
from torch import Tensor, nn

from shiftproof import ALGORITHMS, Batch, Domain, DomainDataset, Task, pdm


def outputs(
    slopes: tuple[float, float], *, n: int = 4000, seed: int = 0, reads: float = 1.0
) -> HeldOut:
    """Two domains in which a logit z means the log odds slope · z; `reads` 0 tells nothing."""
    rng = np.random.default_rng(seed)
    z, d = rng.normal(0, 2, 2 * n), np.repeat([0, 1], n)
    odds = reads * np.array(slopes)[d] * z
    y = (rng.random(2 * n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return HeldOut(np.stack([-z / 2, z / 2], axis=1), y, d)


SHIFT, SAME, EMPTY = outputs((1.5, 0.5)), outputs((1.0, 1.0)), outputs((1.0, 1.0), reads=0.0)


def shown(held_out: HeldOut) -> Callable[[], HeldOut]:
    """Outputs as an algorithm is shown them, whatever its weights."""
    return lambda: held_out


# --- the decision -----------------------------------------------------------------------------


def test_looks_are_planned_evenly_and_end_with_the_run():
    looks = planned_looks(1500, 5001)
    assert looks[0] == 1500
    assert looks[-1] == 5001
    assert len(looks) == LOOKS + 1
    gaps = np.diff(looks)
    assert gaps.max() - gaps.min() <= 1
    assert planned_looks(0, 5) == (1, 2, 3, 4, 5)
    assert planned_looks(5, 5) == ()


def test_matching_begins_with_a_shift_and_not_before():
    strength = AutoStrength()
    assert strength.look(SAME) is Verdict.NOTHING
    assert not strength.matches
    assert strength.look(SHIFT) is Verdict.BEGIN
    assert strength.kappa == 1


def test_it_doubles_while_the_test_rejects_and_goes_back_when_nothing_is_left():
    strength = AutoStrength()
    for expected in (1, FACTOR, FACTOR**2):
        strength.look(SHIFT)
        assert strength.kappa == expected
    strength.look(SAME)
    assert strength.kappa == FACTOR**2
    assert strength.look(EMPTY) is Verdict.BACK
    assert strength.kappa == FACTOR
    strength.look(SHIFT)
    assert strength.kappa == FACTOR**1.5  # not again to where it ran away
    assert strength.look(EMPTY) is Verdict.BACK
    strength.look(SHIFT)
    assert strength.kappa == pytest.approx(FACTOR**1.25)


def test_once_matching_began_the_usual_level_makes_it_stronger():
    """That of all looks together is for the beginning."""
    strength, doubtful = AutoStrength(), outputs((1.1, 0.9), seed=2)
    assert ALPHA / LOOKS < welch_p(calibrated(doubtful).t, doubtful) < ALPHA
    assert strength.look(doubtful) is Verdict.NOTHING
    strength.look(SHIFT)
    strength.look(doubtful)
    assert strength.kappa == FACTOR


def test_the_best_candidate_means_the_same_everywhere_and_tells_of_the_label():
    strength = AutoStrength()
    found = [strength.is_best(o) for o in (SHIFT, SAME, SHIFT, outputs((0.3, 0.3), seed=1))]
    assert found == [True, True, False, False]


def test_answers_that_are_chance_in_a_domain_are_not_kept():
    """Their outputs may mean the same everywhere: here the threshold is off in both domains."""
    strength = AutoStrength()
    one_answer = SAME._replace(logits=SAME.logits + np.array([9.0, -9.0]))
    assert not strength.is_best(one_answer)
    assert strength.is_best(SAME)


def test_the_support_of_the_null_is_the_least_over_beta_alternatives():
    """Alternatives with the density ξ p^(ξ−1) of p, 0 < ξ ≤ 1; the null has 1."""
    shapes = np.linspace(0.001, 1, 100_000)
    for p in (0.001, 0.05, 0.3, 0.5, 1.0):
        least = (1 / (shapes * p ** (shapes - 1))).min()
        assert null_support(p) == pytest.approx(least, rel=1e-4)


def test_looks_in_a_run_without_shift_call_at_most_at_the_level():
    """Twenty looks at outputs that vary a little from look to look, 60 runs."""
    calls = 0
    for run in range(60):
        first, strength = outputs((1, 1), n=100, seed=run), AutoStrength()
        for look in range(LOOKS):
            noise = np.random.default_rng([run, look]).normal(0, 0.5, first.logits.shape)
            strength.look(first._replace(logits=first.logits + noise))
        calls += strength.matches
    assert calls <= 60 * ALPHA + 3 * (60 * ALPHA) ** 0.5


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
    x = torch.randn(2, 64, 3, generator=generator) + y.unsqueeze(-1)
    return Batch(x + torch.arange(2).view(-1, 1, 1), y)


def test_before_matching_it_is_erm_to_the_last_bit():
    erm, auto = build("erm"), build("idm-auto", gradient_warmup=2)
    for seed in range(6):
        one, other = erm.update(batch(seed)), auto.update(batch(seed))
        assert torch.equal(one["loss"], other["loss"])
        assert "gradient_penalty" not in other
        auto.look(shown(SAME), last=False)
    for mine, theirs in zip(erm.parameters(), auto.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("variant", ["authors", "paper"])
def test_the_first_unit_makes_the_penalty_as_large_as_the_risk(variant, scale):
    """With a memory γ, the pull on the newest points is that of 1 / (1 − γ) batches."""
    auto = build("idm-auto", gradient_warmup=0, variant=variant, gradient_ema=0.8)
    with torch.no_grad():
        auto.featurizer.weight *= scale
        auto.featurizer.bias *= scale
        auto.head.weight /= scale
    auto.look(shown(SHIFT), last=False)
    parts = auto.objective(batch(0)).parts
    inputs = auto.features(batch(0))
    from _internals import gradients_of

    own = pdm(gradients_of(auto.head, inputs, batch(0).y, auto.head(inputs)))
    unit = auto.extensions.strength.units["gradient"]
    assert unit * own.item() == pytest.approx(0.2 * parts["risk"].item(), rel=1e-4)


def test_the_loss_has_the_penalty_with_its_weight():
    auto = build("idm-auto", gradient_warmup=0)
    auto.look(shown(SHIFT), last=False)
    auto.update(batch(0))
    auto.look(shown(SHIFT), last=False)
    losses = auto.objective(batch(1))
    weight = 2 * auto.extensions.strength.units["gradient"]
    expected = losses.parts["risk"] + weight * losses.parts["gradient_penalty"]
    torch.testing.assert_close(losses.total, expected)
    assert losses.parts["strength"] == 2


def test_the_last_look_restores_the_best_weights():
    auto = build("idm-auto", gradient_warmup=0)
    auto.look(shown(SHIFT), last=False)
    auto.update(batch(0))
    auto.look(shown(SAME), last=False)
    best = [weight.clone() for weight in auto.parameters()]
    auto.update(batch(1))
    auto.look(shown(SHIFT), last=True)
    assert all(map(torch.equal, best, auto.parameters()))


def test_weights_between_two_looks_are_candidates_too():
    auto = build("idm-auto", gradient_warmup=0)
    auto.look(shown(SHIFT), last=False)
    start = [weight.detach().clone() for weight in auto.parameters()]
    auto.update(batch(0))
    present = [weight.detach().clone() for weight in auto.parameters()]
    answers = iter((SHIFT, SHIFT, SAME, SHIFT))  # the present weights, then those between
    auto.look(lambda: next(answers), last=False)
    assert all(map(torch.equal, present, auto.parameters()))
    auto.look(shown(SHIFT), last=True)
    for one, other, found in zip(start, present, auto.parameters(), strict=True):
        torch.testing.assert_close(found, (one + other) / 2)


def test_training_looks_ahead_while_it_matches():
    """Every fifth step goes half of the way back to where the last such step ended."""
    auto, plain = (build("idm-auto", gradient_warmup=0) for _ in range(2))
    auto.look(shown(SHIFT), last=False)
    start = [weight.detach().clone() for weight in auto.parameters()]
    plain.look(shown(SHIFT), last=False)
    del plain._kept["slow"]
    for seed in range(EVERY):
        auto.update(batch(seed))
        plain.update(batch(seed))
    ends = zip(start, plain.parameters(), auto.parameters(), strict=True)
    for before, ahead, found in ends:
        torch.testing.assert_close(found, before + PART * (ahead - before))


def test_matching_that_runs_away_goes_back_to_where_it_began():
    auto = build("idm-auto", gradient_warmup=0)
    auto.update(batch(0))
    auto.look(shown(SHIFT), last=False)
    start = [weight.clone() for weight in auto.parameters()]
    auto.update(batch(1))
    auto.look(shown(EMPTY), last=False)
    assert all(map(torch.equal, start, auto.parameters()))
    assert auto.extensions.strength.kappa == 1 / FACTOR
    assert not auto.optimizers["main"].state
    assert auto.terms["gradient"].match.sums is None


def test_the_last_look_is_too_late_to_begin():
    auto = build("idm-auto", gradient_warmup=0)
    before = [weight.clone() for weight in auto.parameters()]
    auto.look(shown(SHIFT), last=True)
    assert not auto.extensions.strength.matches
    assert all(map(torch.equal, before, auto.parameters()))


def test_all_of_it_is_state():
    one, other = (build("idm-auto", gradient_warmup=0) for _ in range(2))
    one.update(batch(2))
    one.look(shown(SHIFT), last=False)
    one.update(batch(0))
    one.look(shown(SAME), last=False)
    other.load_training_state(copy.deepcopy(one.training_state()))
    for algorithm in (one, other):
        for seed in range(EVERY):
            algorithm.update(batch(seed))
        algorithm.look(shown(SHIFT), last=True)
    assert first_difference(one.training_state(), other.training_state()) is None


def test_idm_with_words_is_idm_auto():
    words = {"gradient_weight": "auto", "gradient_ema": 0.8, "match_representations": False}
    one = build("idm", gradient_warmup=0, **words)
    other = build("idm-auto", gradient_warmup=0)
    for seed in range(3):
        assert torch.equal(one.update(batch(seed))["loss"], other.update(batch(seed))["loss"])
        one.look(shown(SHIFT), last=False)
        other.look(shown(SHIFT), last=False)


def test_an_automatic_representation_weight_waits_too():
    idm = build("idm", gradient_weight=0, representation_weight="auto", gradient_warmup=0)
    parts = idm.objective(batch(0)).parts
    assert "representation_penalty" not in parts
    idm.look(shown(SHIFT), last=False)
    losses = idm.objective(batch(0))
    torch.testing.assert_close(losses.total, 2 * losses.parts["risk"])


def test_a_memory_and_classes_do_not_go_together():
    with pytest.raises(InvalidValue, match="set `representation_ema=0`"):
        build("idm", match_within="class", representation_ema=0.5)


# --- in a run ---------------------------------------------------------------------------------


def coloured(n: int = 5000) -> DomainDataset:
    """A feature agrees with the label in 95%, 70% and 5% of the samples; another in 75%."""
    rng = np.random.default_rng(0)
    domains = []
    for name, agreement in (("95%", 0.95), ("70%", 0.7), ("5%", 0.05)):
        y = rng.random(n) < 0.5
        cells = [np.where(rng.random(n) < a, y, ~y) for a in (agreement, 0.75)]
        x = torch.tensor(np.stack(cells, axis=1), dtype=torch.float32)
        domains.append(Domain(name, x, torch.tensor(y).long()))
    return DomainDataset("coloured", tuple(domains), ("0", "1"), "table", "mlp", eval_every=0)


def trained(algorithm: str, data: DomainDataset, **settings: object) -> Trainer:
    late = {} if algorithm == "erm" else {"gradient_warmup": 100}
    config = configure(
        data, algorithm, test_domains=[data.domain_names[-1]], steps=200, device="cpu",
        hparams={"hidden": 8, "lr": 0.01, "batch_size": 512, **late},
        **settings,
    )  # fmt: skip
    trainer = Trainer(config, data)
    for _ in range(200):
        trainer.advance()
    return trainer


def test_a_run_looks_at_held_out_samples_only_and_begins_to_match():
    data = coloured()
    trainer = trained("idm-auto", data)
    assert trainer.algorithm.extensions.strength.matches
    held_out = {
        name: set(split.out) for name, split in zip(data.domain_names, trainer.splits, strict=True)
    }
    assert [subset.domain.name for subset in trainer.looked_at] == ["95%", "70%"]
    assert all(set(s.index) <= held_out[s.domain.name] for s in trainer.looked_at)
    looked = sum(len(subset.index) for subset in trainer.looked_at)
    assert looked <= max(2 * 512, SHARE * 200 * 2 * 512 / len(trainer.looks))


def test_identical_domains_train_as_erm():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((900, 4)), dtype=torch.float32)
    y = (x[:, 0] + torch.randn(900, generator=torch.Generator().manual_seed(0)) > 0).long()
    parts = [Domain(str(i), x[i::3], y[i::3]) for i in range(3)]
    data = DomainDataset("same", tuple(parts), ("0", "1"), "table", "mlp", eval_every=0)
    erm, auto = trained("erm", data), trained("idm-auto", data)
    assert not auto.algorithm.extensions.strength.matches

    def weights(trainer: Trainer) -> list[Tensor]:
        return [*trainer.algorithm.featurizer.parameters(), *trainer.algorithm.head.parameters()]

    assert all(map(torch.equal, weights(erm), weights(auto)))


def test_without_held_out_samples_it_says_what_to_do():
    with pytest.raises(InvalidValue, match="set `holdout` above 0"):
        trained("idm-auto", coloured(60), holdout=0.0, evaluate=["test-in"])


def test_matching_that_never_begins_is_said():
    data = problem()
    config = configure(
        data, "idm-auto", test_domains=["domain 2"], steps=50, device="cpu",
        hparams={"hidden": 8, "batch_size": 4},
    )  # fmt: skip
    trainer = Trainer(config, data)
    notes = list(preflight_notes(config, trainer.dataset, trainer.splits, trainer.algorithm))
    assert any("starts at step 1500, which is never reached in 50 steps" in note for note in notes)
