"""URM: both losses written out, the order of its updates, and what it makes of features."""

from __future__ import annotations

import copy

import pytest
import torch
from _internals import URM
from torch import Tensor, nn

from shiftproof import Batch, Task

WEIGHT = 0.4
SIGMA = torch.sigmoid


def build(**hparams: object) -> URM:
    torch.manual_seed(0)
    task = Task((4,), num_classes=3, num_domains=2, regime="table")
    settings = URM.Hparams(lr=1e-2, adversarial_weight=WEIGHT, **hparams)
    generator = torch.Generator().manual_seed(3)
    return URM(task, nn.Linear(4, 6), nn.Linear(6, 3), settings, generator).double()


def a_batch() -> Batch:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(2, 8, 4, dtype=torch.float64, generator=random)
    return Batch(x, torch.randint(0, 3, (2, 8), generator=random))


def logits(ours: URM, z: Tensor) -> Tensor:
    """The discriminator written out: k → 100 → … → 100 → 1 with leaky ReLUs of slope 0.01."""
    *layers, last = [m for m in ours.discriminator.modules() if isinstance(m, nn.Linear)]
    for layer in [layers[0], *layers[1:]]:
        z = z @ layer.weight.T + layer.bias
        z = torch.where(z > 0, z, 0.01 * z)
    return (z @ last.weight.T + last.bias).squeeze(-1)


@pytest.mark.parametrize("name", ["tanh", "relu", "sigmoid"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_both_losses_equal_those_written_out(name, smoothing) -> None:
    ours = build(feature_activation=name, discriminator_hidden_layers=2, label_smoothing=smoothing)
    batch = a_batch()
    old, noise = copy.deepcopy(ours), copy.deepcopy(ours.generator)
    sizes = [m.out_features for m in old.discriminator.modules() if isinstance(m, nn.Linear)]
    assert sorted(sizes) == [1, 100, 100, 100]
    found = ours.update(batch)

    function = {"tanh": torch.tanh, "relu": lambda a: a * (a > 0), "sigmoid": SIGMA}[name]
    linear = old.featurizer[0]
    z = function(batch.x @ linear.weight.T + linear.bias)
    outputs = (z @ old.head.weight.T + old.head.bias).log_softmax(dim=-1)
    risk = -outputs.gather(-1, batch.y.unsqueeze(-1)).mean()
    adversary = -SIGMA(logits(old, z)).log().mean()
    torch.testing.assert_close(found["loss"], (risk + WEIGHT * adversary).detach())

    u = torch.rand(2, 8, 6, generator=noise).double()
    u = 2 * u - 1 if name == "tanh" else u
    one, zero = torch.ones(2, 8).double(), torch.zeros(2, 8).double()
    if smoothing:
        one = 1 - smoothing * torch.rand(2, 8, 1, generator=noise).double().squeeze(-1)
        zero = smoothing * torch.rand(2, 8, 1, generator=noise).double().squeeze(-1)
    total = torch.zeros((), dtype=torch.float64)
    for share, target, seen in ((1.0, one, u), (WEIGHT, zero, z)):
        p = SIGMA(logits(old, seen))
        total = total - share * (target * p.log() + (1 - target) * (1 - p).log()).mean()
    torch.testing.assert_close(found["discriminator_loss"], total.detach())


def test_each_step_moves_its_own_weights() -> None:
    """The network's step is ERM's Adam on its loss; the discriminator's is on the old features."""
    ours, batch = build(), a_batch()
    twin = copy.deepcopy(ours)
    loss = twin.objective(batch).total
    network = [*twin.featurizer.parameters(), *twin.head.parameters()]
    optimizer = torch.optim.Adam(network, lr=1e-2)
    z = twin.featurizer(batch.x.flatten(0, 1)).view(2, 8, 6).detach()
    loss.backward()
    optimizer.step()
    second = torch.optim.Adam(twin.discriminator.parameters(), lr=1e-3)
    second.zero_grad()
    twin.discriminator_loss(z).backward()
    second.step()
    ours.update(batch)
    torch.testing.assert_close(ours.state_dict(), twin.state_dict(), rtol=0, atol=1e-14)


def test_features_become_uniform() -> None:
    """Without a task, the features of a wide range of inputs approach U(−1, 1): variance 1/3."""
    torch.manual_seed(0)
    task = Task((1,), num_classes=2, num_domains=1, regime="table")
    settings = URM.Hparams(lr=0.02, adversarial_weight=1.0, discriminator_lr=0.01)
    featurizer, head = nn.Linear(1, 1), nn.Linear(1, 2).requires_grad_(False)
    nn.init.constant_(featurizer.weight, 0.1)
    ours = URM(task, featurizer, nn.Sequential(head), settings, torch.Generator().manual_seed(0))
    nn.init.zeros_(head.weight)
    # tanh(w x) is uniform for w = 1, because x = artanh(u) with u ~ U(−1, 1).
    u = torch.linspace(-0.995, 0.995, 128)
    batch = Batch(torch.atanh(u).view(1, -1, 1), torch.zeros(1, 128, dtype=torch.long))
    for _ in range(120):
        ours.update(batch)
    with torch.no_grad():
        z = ours.featurizer(batch.x[0])
    assert abs(z.mean().item()) < 0.05
    assert z.var().item() == pytest.approx(1 / 3, abs=0.04)
