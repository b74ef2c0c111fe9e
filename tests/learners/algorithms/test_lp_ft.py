"""LP-FT, WiSE-FT and ERM++: which weights move when, and which weights predict."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from _internals import ERM, LPFT, ERMPlusPlus, FrozenNorms, WiSEFT
from torch import Tensor, nn

from shiftproof import Batch, Task

LR = 1e-2


def build(cls: type[ERM], norms: bool = False, **hparams: object) -> ERM:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.BatchNorm1d(6)] if norms else [nn.Linear(4, 6)]
    featurizer = FrozenNorms(*layers, nn.Tanh())
    task = Task((4,), num_classes=3, num_domains=2, regime="table")
    settings = cls.Hparams(lr=LR, **hparams)
    return cls(task, featurizer, nn.Linear(6, 3), settings, torch.Generator()).double().train()


def batches(steps: int = 5) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(2, 8, 4, dtype=torch.float64, generator=random),
            torch.randint(0, 3, (2, 8), generator=random),
        )
        for _ in range(steps)
    ]


def weights(*modules: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for m in modules for p in m.parameters()]).clone()


def test_lp_ft_trains_the_head_alone_first_and_then_everything() -> None:
    """Against two plain Adams: one on the head for t₁ steps, then a new one on everything."""
    ours = build(LPFT, head_warmup=2, head_lr=0.05, weight_decay=0.1)
    twin = build(ERM)
    probe = torch.optim.Adam(twin.head.parameters(), lr=0.05, weight_decay=0.1)
    everything = [*twin.featurizer.parameters(), *twin.head.parameters()]
    fine_tune = torch.optim.Adam(everything, lr=LR, weight_decay=0.1)
    start = weights(ours.featurizer)
    for step, batch in enumerate(batches()):
        loss = F.cross_entropy(twin.predict(batch.x.flatten(0, 1)), batch.y.flatten())
        for weight in everything:
            weight.grad = None
        loss.backward()
        (probe if step < 2 else fine_tune).step()
        ours.update(batch)
        expected = weights(twin.featurizer, twin.head)
        found = weights(ours.featurizer, ours.head)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
        assert torch.equal(weights(ours.featurizer), start) == (step < 2)


def test_without_a_probe_lp_ft_is_erm_to_the_bit() -> None:
    ours, erm = build(LPFT, head_warmup=0), build(ERM)
    for batch in batches():
        assert torch.equal(ours.update(batch)["loss"], erm.update(batch)["loss"])
    assert torch.equal(weights(ours.featurizer, ours.head), weights(erm.featurizer, erm.head))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_wise_ft_interpolates_between_the_first_and_the_trained_weights(alpha) -> None:
    ours, erm = build(WiSEFT, alpha=alpha, head_warmup=0), build(ERM)
    start = weights(ours.featurizer, ours.head)
    for batch in batches():
        # Training does not depend on α.
        assert torch.equal(ours.update(batch)["loss"], erm.update(batch)["loss"])
    trained = weights(erm.featurizer, erm.head)
    assert torch.equal(weights(ours.trained), trained)
    found = weights(ours.featurizer, ours.head)
    if alpha in (0, 1):
        assert torch.equal(found, trained if alpha else start)
    torch.testing.assert_close(found, (1 - alpha) * start + alpha * trained, rtol=0, atol=1e-15)
    x = batches(1)[0].x.flatten(0, 1)
    expected = ours.head(ours.featurizer(x))
    assert torch.equal(ours.predict(x), expected)


def test_wise_ft_gives_every_alpha_from_one_run() -> None:
    now = {"head_warmup": 0}
    ours, other = build(WiSEFT, alpha=0.5, **now), build(WiSEFT, alpha=0.9, **now)
    for batch in batches():
        ours.update(batch), other.update(batch)
    assert not torch.equal(weights(ours.head), weights(other.head))
    ours.interpolate(0.9)
    for part in ("featurizer", "head"):
        assert torch.equal(weights(getattr(ours, part)), weights(getattr(other, part)))


def test_after_a_probe_wise_ft_starts_from_the_probed_head() -> None:
    ours, probe = build(WiSEFT, alpha=0.0, head_warmup=2), build(LPFT, head_warmup=2)
    for batch in batches(2):
        ours.update(batch), probe.update(batch)
    for batch in batches(3):
        ours.update(batch)
    expected = weights(probe.featurizer, probe.head)
    assert torch.equal(weights(ours.featurizer, ours.head), expected)


def test_erm_plus_plus_predicts_with_the_mean_of_the_later_weights() -> None:
    """θ̄ is the mean of the weights of LP-FT after the steps t₂, t₂ + 1, …, and θ before."""
    warm = {"head_warmup": 1, "head_lr": 0.05}
    ours, twin = build(ERMPlusPlus, average_warmup=3, **warm), build(LPFT, **warm)
    kept = []
    for step, batch in enumerate(batches(6), start=1):
        ours.update(batch), twin.update(batch)
        now = weights(twin.featurizer, twin.head)
        assert torch.equal(weights(ours.trained), now)
        kept = [*kept, now] if step > 3 else [now]
        expected = torch.stack(kept).mean(dim=0)
        found = weights(ours.featurizer, ours.head)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)
    assert len(kept) == 4


def test_batch_norms_learn_their_statistics_unless_they_are_frozen() -> None:
    """One step: θ's statistics are 0.9 old + 0.1 batch, and θ̄'s pass adds its batch to these."""
    (batch,) = batches(1)
    ours = build(ERMPlusPlus, norms=True, average_warmup=1)
    first = copy.deepcopy(ours.trained[0][0])
    ours.update(batch)
    inputs = first(batch.x.flatten(0, 1))
    once = 0.1 * inputs.mean(dim=0)
    torch.testing.assert_close(ours.trained[0][1].running_mean, once.detach())
    # The head alone was trained, so θ̄'s norm saw the same inputs.
    torch.testing.assert_close(ours.featurizer[1].running_mean, (0.9 * once + once).detach())
    assert not ours.featurizer[1].training
    frozen = build(ERMPlusPlus, norms=True, freeze_norms=True)
    frozen.update(batch)
    for network in (frozen.trained[0], frozen.featurizer):
        assert torch.equal(network[1].running_mean, torch.zeros(6, dtype=torch.float64))


@pytest.mark.parametrize("cls", [WiSEFT, ERMPlusPlus])
def test_the_predicting_network_has_no_gradient_and_no_noise(cls) -> None:
    ours = build(cls)
    ours.update(batches(1)[0])
    predicting = [*ours.featurizer.parameters(), *ours.head.parameters()]
    assert all(not p.requires_grad and p.grad is None for p in predicting)
    assert not ours.train().featurizer.training
    assert ours.trained.training
