"""MIRO: the regulariser against torch's normal density, its optimum, and which layers it takes."""

from __future__ import annotations

import copy

import pytest
import torch
from _internals import ERM, MIRO, MnistCNN, layers_of, listening, specs
from torch import nn

from shiftproof import Batch, Choice, Task
from shiftproof.models import MODELS

WEIGHT = 0.3


def build(cls: type[ERM] = MIRO, images: bool = False, **hparams: float) -> ERM:
    torch.manual_seed(0)
    shape = (2, 6, 6) if images else (4,)
    task = Task(shape, num_classes=3, num_domains=2, regime="table")
    if images:
        network = nn.Sequential(nn.Conv2d(2, 5, 3), nn.GroupNorm(1, 5), nn.Flatten())
        featurizer, width = nn.Sequential(network, nn.Dropout(0.5)), 80
    else:
        featurizer, width = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6)), 6
    settings = cls.Hparams(lr=1e-2, **hparams)
    return cls(task, featurizer, nn.Linear(width, 3), settings, torch.Generator()).double()


def a_batch(images: bool = False) -> Batch:
    random = torch.Generator().manual_seed(1)
    shape = (2, 8, 2, 6, 6) if images else (2, 8, 4)
    x = torch.randn(shape, dtype=torch.float64, generator=random)
    return Batch(x, torch.randint(0, 3, (2, 8), generator=random))


def shaken(algorithm: ERM) -> None:
    """Move every trained weight, so that the network and its variances leave their start."""
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for group in algorithm.optimizers["main"].param_groups:
            for weight in group["params"]:
                weight.add_(0.3 * torch.randn(weight.shape, dtype=weight.dtype, generator=random))


@pytest.mark.parametrize("images", [False, True])
def test_the_regulariser_is_the_normal_density_of_the_oracles_features(images) -> None:
    """−log N(z⁰; z, σ²) by torch.distributions, without ½ log 2π; σ² by hand, per channel."""
    ours, batch = build(images=images, penalty_weight=WEIGHT), a_batch(images)
    oracle = copy.deepcopy(ours.featurizer).eval()
    shaken(ours)
    ours.eval()
    x, expected = batch.x.flatten(0, 1), torch.zeros((), dtype=torch.float64)
    z, z0 = x, x
    layers = [*ours.featurizer[0]] if images else [*ours.featurizer]
    frozen = [*oracle[0]] if images else [*oracle]
    raw = iter(ours.variances.parameters())
    for layer, old in zip(layers, frozen, strict=True):
        z, z0 = layer(z), old(z0)
        if not isinstance(layer, nn.Linear | nn.Conv2d | nn.GroupNorm):
            continue
        variance = torch.log1p(next(raw).flatten().exp()) + 1e-5
        assert variance.shape == z.shape[1:2]
        variance = variance.view(-1, 1, 1) if images else variance
        density = torch.distributions.Normal(z, variance.sqrt()).log_prob(z0)
        expected = expected - density.mean() - 0.5 * torch.log(torch.tensor(2 * torch.pi)).double()
    found = ours.objective(batch)
    torch.testing.assert_close(found.parts["penalty"], expected, rtol=1e-6, atol=0)
    risk = ERM.objective(ours, batch).total
    torch.testing.assert_close(found.total, risk + WEIGHT * found.parts["penalty"])


def test_at_the_oracle_the_network_has_the_gradient_of_erm() -> None:
    """There z = z⁰, so the quadratic part has no slope; the variances of 0.1 still have one."""
    ours, erm, batch = build(penalty_weight=1e3), build(ERM), a_batch()
    losses = ours.objective(batch)
    assert losses.parts["penalty"].item() == pytest.approx(torch.tensor(0.1).log().item())  # 2 · ½
    losses.total.backward()
    erm.objective(batch).total.backward()
    for part in ("featurizer", "head"):
        pairs = zip(getattr(ours, part).parameters(), getattr(erm, part).parameters(), strict=True)
        for mine, theirs in pairs:
            assert torch.equal(mine.grad, theirs.grad)
    assert all(raw.grad.abs().min() > 0 for raw in ours.variances.parameters())


def test_the_best_variance_of_fixed_features_is_their_mean_squared_distance() -> None:
    ours, batch = build(), a_batch()
    shaken(ours)
    x = batch.x.flatten(0, 1)
    with torch.no_grad(), listening(ours.featurizer) as z, listening(ours.oracle) as z0:
        ours.featurizer(x), ours.oracle(x)
    best = [(a - b).square().mean(dim=0) for a, b in zip(z, z0, strict=True)]
    with torch.no_grad():
        for raw, variance in zip(ours.variances.parameters(), best, strict=True):
            raw.copy_(torch.expm1(variance - 1e-5).log().expand_as(raw))
    ours.objective(batch).parts["penalty"].backward()
    for raw in ours.variances.parameters():
        torch.testing.assert_close(raw.grad, torch.zeros_like(raw), rtol=0, atol=1e-12)


def test_the_oracle_stays_and_the_variances_learn_ten_times_as_fast() -> None:
    ours = build()
    before = copy.deepcopy(ours.oracle.state_dict())
    raw = [v.detach().clone() for v in ours.variances.parameters()]
    ours.train()
    assert not ours.oracle.training
    ours.update(a_batch())
    torch.testing.assert_close(ours.oracle.state_dict(), before, rtol=0, atol=0)
    moved = ours.variances[0].raw.detach() - raw[0]
    # The first step of Adam has the length of its learning rate.
    torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.1), rtol=1e-4, atol=0)


def test_the_layers_of_our_networks() -> None:
    task = Task((3, 32, 32), 3, 2, "large-image")
    resnet = MODELS.get("resnet18")(weights="random").build(task).featurizer
    kinds = [type(layer).__name__ for layer in layers_of(resnet)]
    assert kinds == ["Conv2d", "BatchNorm2d", *["Sequential"] * 4]
    assert len(layers_of(MnistCNN().build(task).featurizer)) == 8
    assert layers_of(nn.Sequential(nn.Flatten())) == []
    with torch.no_grad(), listening(resnet.eval()) as found:
        resnet(torch.zeros(1, 3, 32, 32))
    assert [features.shape[1] for features in found] == [64, 64, 64, 128, 256, 512]


def test_defaults_are_those_of_the_published_code() -> None:
    """Of khanrc/miro, config.yaml (ld, lr_mult); its README has the selected λ, 0.01 and 0.1."""
    declared = specs(MIRO.Hparams)
    weight = declared["penalty_weight"].at("large-image")
    assert weight.default == 0.1
    assert isinstance(weight.distribution, Choice)
    assert {0.01, 0.1} < set(weight.distribution.values)
    assert declared["variance_lr_factor"].at("large-image").default == 10
