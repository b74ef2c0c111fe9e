"""DANN: whose turn it is, what each player descends, where weights start, and interruptions."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from _internals import DANN, Discriminator, InvalidValue
from torch import nn

from shiftproof import Batch, Task


def build(head: nn.Module | None = None, seed: int = 0, **hparams: float) -> DANN:
    torch.manual_seed(seed)
    featurizer = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    task = Task((4,), num_classes=2, num_domains=3, regime="table")
    settings = {"lr": 1e-2, "discriminator_lr": 1e-2, "discriminator_width": 8, **hparams}
    generator = torch.Generator().manual_seed(seed)
    hparams = DANN.Hparams(**settings)
    return DANN(task, featurizer, head or nn.Linear(6, 2), hparams, generator).double()


def batches(steps: int) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(3, 8, 4, dtype=torch.float64, generator=random),
            torch.randint(0, 2, (3, 8), generator=random),
        )
        for _ in range(steps)
    ]


@pytest.mark.parametrize(("steps", "turns"), [(1, "ndndndnd"), (2, "dnddnddn"), (3, "ddndddnd")])
def test_the_players_take_turns(steps: int, turns: str) -> None:
    """Counting updates t from 1, the network n moves where t mod (s + 1) = s."""
    ours = build(discriminator_steps=steps)
    for turn, batch in zip(turns, batches(len(turns)), strict=True):
        before = copy.deepcopy(ours.state_dict())
        measured = ours.update(batch)
        after = ours.state_dict()
        moved = {name.split(".")[0] for name in after if not torch.equal(after[name], before[name])}
        assert moved == ({"discriminator"} if turn == "d" else {"featurizer", "head"})
        assert ("risk" in measured) == (turn == "n")
        assert {"loss", "discriminator_loss"} <= set(measured)


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_what_each_player_descends(rho: float) -> None:
    """Against both losses sample by sample; the discriminator's gradient by double backward."""
    weight = 0.4
    ours = build(adversarial_weight=weight, discriminator_gradient_penalty=rho)
    (batch,) = batches(1)
    risks, domain_risks, penalties = [], [], []
    for domain in range(3):
        for x, y in zip(batch.x[domain], batch.y[domain], strict=True):
            z = ours.featurizer(x)
            risks.append(F.cross_entropy(ours.head(z), y))
            domain_risks.append(F.cross_entropy(ours.discriminator(z), torch.tensor(domain)))
            (slope,) = torch.autograd.grad(domain_risks[-1], z, create_graph=True)
            penalties.append(slope @ slope)
    adversary = torch.stack(domain_risks).mean() + rho * torch.stack(penalties).mean()
    expected = torch.stack(risks).mean() - weight * adversary
    network = [*ours.featurizer.parameters(), *ours.head.parameters()]
    discriminator = list(ours.discriminator.parameters())

    total = ours.objective(batch).total
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(
        torch.autograd.grad(total, network),
        torch.autograd.grad(expected, network, retain_graph=True),
    )
    total = ours.discriminator_objective(batch).total
    torch.testing.assert_close(total, adversary)
    torch.testing.assert_close(
        torch.autograd.grad(total, discriminator, materialize_grads=True),
        torch.autograd.grad(adversary, discriminator, materialize_grads=True),
    )


def test_both_adams_have_their_own_settings() -> None:
    ours = build(
        lr=0.1, weight_decay=0.2, discriminator_lr=0.3, discriminator_weight_decay=0.4,
        adam_beta1=0.25,
    )  # fmt: skip
    settings = {
        name: [(g["lr"], g["weight_decay"], g["betas"]) for g in optimizer.param_groups]
        for name, optimizer in ours.optimizers.items()
    }
    assert settings == {
        "main": [(0.1, 0.2, (0.25, 0.9))],
        "discriminator": [(0.3, 0.4, (0.25, 0.9))],
    }


def test_it_has_no_embeddings_of_classes() -> None:
    assert not any("class_embeddings" in name for name in build().state_dict())


@pytest.mark.parametrize(
    "head",
    [nn.Linear(6, 1), nn.Sequential(nn.ReLU(), nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 2))],
    ids=["single logit", "nonlinear"],
)
def test_any_head_with_a_linear_layer_will_do(head: nn.Module) -> None:
    ours = build(head)
    for batch in batches(2):
        assert ours.update(batch)["loss"].isfinite()
    assert ours.discriminator.input.in_features == 6


def test_a_head_without_a_linear_layer_is_refused() -> None:
    with pytest.raises(InvalidValue, match="linear layer"):
        build(nn.Flatten())


def test_a_frozen_featurizer_stays() -> None:
    ours = build(discriminator_gradient_penalty=0.1)
    ours.featurizer.requires_grad_(False)
    before = copy.deepcopy(ours.featurizer.state_dict())
    for batch in batches(2):
        ours.update(batch)
    torch.testing.assert_close(ours.featurizer.state_dict(), before, rtol=0, atol=0)


# --- the discriminator ------------------------------------------------------------------------


def discriminator(seed: int = 0, **settings: float) -> Discriminator:
    generator = torch.Generator().manual_seed(seed)
    settings = {"width": 400, "depth": 3, "dropout": 0.0, **settings}
    return Discriminator(100, 3, generator=generator, **settings)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_depth_counts_linear_layers(depth: int) -> None:
    network = discriminator(depth=depth)
    layers = [m for m in network.modules() if isinstance(m, nn.Linear)]
    assert len(layers) == depth
    x = torch.randn(2, 4, 100, generator=torch.Generator().manual_seed(0))
    expected = x
    for layer in [network.input, *network.hiddens]:
        expected = F.relu(layer(expected))
    torch.testing.assert_close(network(x), network.output(expected))


def test_starting_weights_come_from_the_generator_alone() -> None:
    before = torch.get_rng_state()
    ours = discriminator()
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(ours.state_dict(), discriminator().state_dict(), rtol=0, atol=0)
    assert not torch.equal(ours.input.weight, discriminator(seed=1).input.weight)


def test_starting_weights_are_uniform_in_torchs_bounds() -> None:
    ours = discriminator()
    for layer, inputs in [(ours.input, 100), (ours.hiddens[0], 400), (ours.output, 400)]:
        for parameter in layer.parameters():
            assert parameter.abs().max() <= 1 / math.sqrt(inputs)
        # A uniform variable on [−b, b] has standard deviation b/√3.
        spread = layer.weight.std().item() * math.sqrt(3 * inputs)
        assert spread == pytest.approx(1, abs=0.06)


def test_dropout_acts_in_training_only() -> None:
    ours = discriminator(dropout=0.5)
    x = torch.ones(1, 100)
    torch.manual_seed(0)
    assert not torch.equal(ours(x), ours(x))
    ours.eval()
    assert torch.equal(ours(x), ours(x))
