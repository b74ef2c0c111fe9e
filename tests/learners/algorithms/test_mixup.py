"""Mixup against an explicit loop over pairs of domains."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from _internals import MLP, Mixup, beta_weights, resolve
from torch import nn

from shiftproof import Batch, Task

TASK = Task((5,), 3, num_domains=3, regime="table")
NETWORK = MLP(hidden=7, depth=1)


def build(seed: int = 0, *, model: MLP = NETWORK, **given: object) -> Mixup:
    torch.manual_seed(seed)
    network = model.build(TASK)
    hparams = resolve(Mixup.Hparams, TASK.regime, given)
    generator = torch.Generator().manual_seed(seed)
    return Mixup(TASK, network.featurizer, network.head, hparams, generator).double()


def batch_of(seed: int, *, domains: int = 3, classes: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, 8, 5, dtype=torch.float64, generator=generator)
    return Batch(x, torch.randint(classes, (domains, 8), generator=generator))


def twin(generator: torch.Generator) -> torch.Generator:
    return torch.Generator().set_state(generator.get_state())


@pytest.mark.parametrize("domains", [2, 3, 5])
@pytest.mark.parametrize("nonlinear_head", [False, True])
def test_objective_is_the_mean_over_a_ring_of_pairs(domains: int, nonlinear_head: bool) -> None:
    algorithm = build(alpha=0.7, model=MLP(hidden=8, nonlinear_head=nonlinear_head))
    batch = batch_of(1, domains=domains)
    draws = twin(algorithm.generator)
    ring = torch.randperm(domains, generator=draws).tolist()
    weights = beta_weights(0.7, domains, draws).tolist()
    network = nn.Sequential(algorithm.featurizer, algorithm.head)
    expected = 0.0
    for i, w in enumerate(weights):
        (xi, yi), (xj, yj) = ((batch.x[d], batch.y[d]) for d in (ring[i], ring[(i + 1) % domains]))
        logits = network(w * xi + (1 - w) * xj)
        expected += w * F.cross_entropy(logits, yi) + (1 - w) * F.cross_entropy(logits, yj)
    loss = algorithm.objective(batch).total
    torch.testing.assert_close(loss, expected / domains)
    assert torch.equal(algorithm.generator.get_state(), draws.get_state())


def test_one_logit_agrees_with_two() -> None:
    """A logit z under the logistic function is the pair (0, z) under softmax."""
    single, pair = build(), build()
    batch = batch_of(2, classes=2)
    single.head = nn.Linear(7, 1, dtype=torch.float64)
    pair.head = nn.Linear(7, 2, dtype=torch.float64)
    pair.featurizer.load_state_dict(single.featurizer.state_dict())
    with torch.no_grad():
        pair.head.weight.copy_(torch.cat([torch.zeros(1, 7), single.head.weight]))
        pair.head.bias.copy_(torch.cat([torch.zeros(1), single.head.bias]))
    torch.testing.assert_close(single.objective(batch).total, pair.objective(batch).total)
