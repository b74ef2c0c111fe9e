"""SagNet against its three steps written out with an optimiser for each network."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from _internals import MLP, SagNet, resolve
from torch import Tensor, nn

from shiftproof import Batch, Task

TASK = Task((5,), 3, num_domains=3, regime="table")
NETWORK = MLP(hidden=7, depth=1)
NONLINEAR = MLP(hidden=8, depth=1, nonlinear_head=True)


def build(seed: int = 0, *, model: MLP = NETWORK, **given: object) -> SagNet:
    torch.manual_seed(seed)
    network = model.build(TASK)
    hparams = resolve(SagNet.Hparams, TASK.regime, given)
    generator = torch.Generator().manual_seed(seed)
    return SagNet(TASK, network.featurizer, network.head, hparams, generator).double()


def batch_of(seed: int, *, domains: int = 3, classes: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, 8, 5, dtype=torch.float64, generator=generator)
    return Batch(x, torch.randint(classes, (domains, 8), generator=generator))


def randomised(features: Tensor, what: str, draws: torch.Generator) -> Tensor:
    """The published recipe on features [n, k]; a style is drawn with its weights first."""
    n = len(features)
    mean = features.mean(dim=1, keepdim=True)
    variance = features.var(dim=1, keepdim=True)
    content = (features - mean) / (variance + 1e-5).sqrt()
    if what == "style":
        alpha = torch.rand(n, generator=draws).double().unsqueeze(1)
        swap = torch.randperm(n, generator=draws)
        mean = alpha * mean + (1 - alpha) * mean[swap]
        variance = alpha * variance + (1 - alpha) * variance[swap]
    else:
        content = content[torch.randperm(n, generator=draws)].detach()
    return content * (variance + 1e-5).sqrt() + mean


@pytest.mark.parametrize("model", [NETWORK, NONLINEAR])
def test_update_is_the_three_published_steps(model: MLP) -> None:
    algorithm = build(model=model, adversarial_weight=2.0, lr=0.01, weight_decay=1e-3)
    ours = (algorithm.featurizer, algorithm.head, algorithm.style_head)
    feature, content, style = (copy.deepcopy(network) for network in ours)
    draws = torch.Generator().set_state(algorithm.generator.get_state())
    adam = {
        network: torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=1e-3)
        for network in (feature, content, style)
    }

    def descend(loss: Tensor, *networks: nn.Module) -> None:
        for network in (feature, content, style):
            adam[network].zero_grad()
        loss.backward()
        for network in networks:
            adam[network].step()

    for step in range(4):
        batch = batch_of(step)
        x, y = batch.x.flatten(0, 1), batch.y.flatten()
        risk = F.cross_entropy(content(randomised(feature(x), "style", draws)), y)
        descend(risk, feature, content)
        style_risk = F.cross_entropy(style(randomised(feature(x), "content", draws)), y)
        descend(style_risk, style)
        logits = style(randomised(feature(x), "content", draws))
        adversarial_risk = -F.log_softmax(logits, dim=1).mean(dim=1).mean()
        descend(2.0 * adversarial_risk, feature)

        measured = algorithm.update(batch)
        expected = {"loss": risk, "style_risk": style_risk, "adversarial_risk": adversarial_risk}
        torch.testing.assert_close(measured, {k: v.detach() for k, v in expected.items()})
        for network, reference in zip(ours, (feature, content, style), strict=True):
            torch.testing.assert_close(network.state_dict(), reference.state_dict())


def test_the_adversary_moves_the_featurizer_alone() -> None:
    weak, strong = build(adversarial_weight=0.0), build(adversarial_weight=100.0)
    for algorithm in (weak, strong):
        algorithm.update(batch_of(0))
    for part in ("head", "style_head"):
        ours, theirs = (getattr(a, part).state_dict() for a in (weak, strong))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    pairs = zip(weak.featurizer.parameters(), strong.featurizer.parameters(), strict=True)
    assert all(not torch.equal(ours, theirs) for ours, theirs in pairs)


def test_the_style_head_starts_from_weights_of_its_own() -> None:
    algorithm = build(model=NONLINEAR)
    for ours, theirs in zip(
        algorithm.head.parameters(), algorithm.style_head.parameters(), strict=True
    ):
        assert ours.shape == theirs.shape
        assert not torch.equal(ours, theirs)


def test_features_without_weights_are_left_to_the_heads() -> None:
    """A frozen featurizer: the adversary has nothing to move, and the step still works."""
    network = MLP(hidden=5, depth=1).build(TASK)
    hparams = resolve(SagNet.Hparams, "table", {})
    generator = torch.Generator().manual_seed(0)
    algorithm = SagNet(TASK, nn.Identity(), network.head, hparams, generator).double()
    before = copy.deepcopy(algorithm.state_dict())
    algorithm.update(batch_of(0))
    assert all(
        not torch.equal(before[name], value) for name, value in algorithm.state_dict().items()
    )


def test_one_logit_trains_too() -> None:
    torch.manual_seed(0)
    task = Task((5,), 2, num_domains=3, regime="table")
    network = MLP(hidden=7, depth=1, single_logit=True).build(task)
    generator = torch.Generator().manual_seed(0)
    hparams = resolve(SagNet.Hparams, "table", {})
    algorithm = SagNet(task, network.featurizer, network.head, hparams, generator).double()
    measured = algorithm.update(batch_of(0, classes=2))
    assert measured["adversarial_risk"] >= torch.tensor(2.0).log()
