"""MTL: the embeddings' recursion, what the head sees, and what it is good for."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from _internals import MLP, MTL, InvalidValue, resolve
from torch import Tensor, nn

from shiftproof import Batch, Task

TASK = Task((5,), 3, num_domains=3, regime="table")
NETWORK = MLP(hidden=7, depth=1)
NONLINEAR = MLP(hidden=8, depth=1, nonlinear_head=True)


def build(seed: int = 0, *, model: MLP = NETWORK, **given: object) -> MTL:
    torch.manual_seed(seed)
    network = model.build(TASK)
    hparams = resolve(MTL.Hparams, TASK.regime, given)
    generator = torch.Generator().manual_seed(seed)
    return MTL(TASK, network.featurizer, network.head, hparams, generator).double()


def batch_of(seed: int, *, domains: int = 3, classes: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, 8, 5, dtype=torch.float64, generator=generator)
    return Batch(x, torch.randint(classes, (domains, 8), generator=generator))


def explicit_loss(algorithm: MTL, batch: Batch, embeddings: list[Tensor]) -> Tensor:
    loss = torch.zeros((), dtype=torch.float64)
    for x, y, embedding in zip(batch.x, batch.y, embeddings, strict=True):
        features = algorithm.featurizer(x)
        joined = torch.cat([features, embedding.repeat(len(x), 1)], dim=1)
        loss = loss + F.cross_entropy(algorithm.head(joined), y)
    return loss


@pytest.mark.parametrize("ema", [0.5, 0.99, 1.0])
@pytest.mark.parametrize("model", [NETWORK, NONLINEAR])
def test_embeddings_follow_their_recursion_and_the_loss_unrolls(ema: float, model: MLP) -> None:
    algorithm = build(ema=ema, model=model, lr=0.01)
    past = torch.zeros(3, model.hidden, dtype=torch.float64)
    parameters = list(algorithm.parameters())
    for step in range(4):
        batch = batch_of(step)
        means = [algorithm.featurizer(x).mean(dim=0) for x in batch.x]
        newest = [ema * mean + (1 - ema) * e for mean, e in zip(means, past, strict=True)]
        expected = explicit_loss(algorithm, batch, newest)
        expected_gradients = torch.autograd.grad(expected, parameters)
        loss = copy.deepcopy(algorithm).objective(batch).total
        torch.testing.assert_close(loss, expected)
        algorithm.update(batch)
        gradients = [parameter.grad for parameter in parameters]
        torch.testing.assert_close(gradients, list(expected_gradients))
        past = torch.stack(newest).detach()
        if ema < 1:  # without memory there is nothing to keep
            torch.testing.assert_close(algorithm.embeddings.average, past)


def test_a_domain_is_embedded_by_its_own_samples_only() -> None:
    algorithm = build()
    batch = batch_of(0)
    changed = Batch(batch.x.clone(), batch.y)
    changed.x[1] += 1
    for each in (batch, changed):
        algorithm.objective(each)
    fresh = build()
    fresh.objective(batch)
    fresh.objective(batch)
    ours, theirs = algorithm.embeddings.average, fresh.embeddings.average
    assert torch.equal(ours[[0, 2]], theirs[[0, 2]])
    assert not torch.allclose(ours[1], theirs[1])


def test_a_batch_to_predict_is_embedded_by_its_mean() -> None:
    algorithm = build().eval()
    algorithm.update(batch_of(0))
    x = batch_of(1).x[0]
    features = algorithm.featurizer(x)
    joined = torch.cat([features, features.mean(dim=0).repeat(8, 1)], dim=1)
    torch.testing.assert_close(algorithm.predict(x), algorithm.head(joined))
    company = torch.cat([x[:1], x[1:] + 1])
    assert not torch.allclose(algorithm.predict(company)[0], algorithm.predict(x)[0])


@pytest.mark.parametrize("model", [NETWORK, NONLINEAR])
def test_match_upstream_puts_noise_in_the_embeddings_place(model: MLP) -> None:
    algorithm = build(match_upstream=True, model=model)
    batch = batch_of(0)
    draws = torch.Generator().set_state(algorithm.generator.get_state())
    noise = torch.randn(3, 8, model.hidden, generator=draws, dtype=torch.float64)
    features = algorithm.features(batch)
    logits = algorithm.head(torch.cat([features, noise], dim=2))
    expected = sum(F.cross_entropy(*domain) for domain in zip(logits, batch.y, strict=True))
    torch.testing.assert_close(algorithm.objective(batch).total, expected)
    assert torch.equal(algorithm.generator.get_state(), draws.get_state())


def relative_batch(means: tuple[float, ...], seed: int) -> Batch:
    """One input x ~ N(μ, 1); the class says whether it exceeds its domain's μ."""
    generator = torch.Generator().manual_seed(seed)
    deviation = torch.randn(len(means), 64, 1, generator=generator, dtype=torch.float64)
    centres = torch.tensor(means, dtype=torch.float64).view(-1, 1, 1)
    return Batch(deviation + centres, (deviation > 0).long().squeeze(-1))


@pytest.mark.parametrize("match_upstream", [False, True])
def test_the_embedding_tells_what_no_sample_tells_by_itself(match_upstream: bool) -> None:
    torch.manual_seed(0)
    task = Task((1,), 2, num_domains=3, regime="table")
    hparams = resolve(MTL.Hparams, "table", {"lr": 0.05, "match_upstream": match_upstream})
    generator = torch.Generator().manual_seed(0)
    algorithm = MTL(task, nn.Flatten(), nn.Linear(1, 2), hparams, generator).double()
    for step in range(200):
        algorithm.update(relative_batch((-2.0, 0.0, 2.0), step))
    unseen = relative_batch((-4.0, 4.0), 1000)
    logits = torch.stack([algorithm.predict(x) for x in unseen.x])
    accuracy = (logits.argmax(dim=2) == unseen.y).double().mean(dim=1)
    # By the sample alone, nearly all of one domain is on the wrong side of any threshold.
    assert (accuracy > 0.8).all() != match_upstream


def test_a_head_without_a_first_linear_layer_is_refused() -> None:
    network = NETWORK.build(TASK)
    for head in (nn.Identity(), nn.Sequential(nn.ReLU(), nn.Linear(7, 3)), nn.Sequential()):
        with pytest.raises(InvalidValue, match="first layer is linear"):
            MTL(TASK, network.featurizer, head, MTL.Hparams(), torch.Generator())
