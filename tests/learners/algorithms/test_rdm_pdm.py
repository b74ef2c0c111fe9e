"""RDM-PDM: no penalty on risks alike in distribution, and the unrolled average otherwise."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch
from _internals import ERM, MLP, RDMPDM, Regime, draw, resolve, seed_hash
from torch import Tensor

from shiftproof import Batch, Task

TASK = Task((5,), 3, num_domains=3, regime="table")
NETWORK = MLP(hidden=7, depth=1)


def build(seed: int = 0, *, model: MLP = NETWORK, **given: object) -> RDMPDM:
    torch.manual_seed(seed)
    network = model.build(TASK)
    hparams = resolve(RDMPDM.Hparams, TASK.regime, given)
    generator = torch.Generator().manual_seed(seed)
    return RDMPDM(TASK, network.featurizer, network.head, hparams, generator).double()


def batch_of(seed: int, *, domains: int = 3, classes: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, 8, 5, dtype=torch.float64, generator=generator)
    return Batch(x, torch.randint(classes, (domains, 8), generator=generator))


def explicit_risks(algorithm: RDMPDM, batch: Batch) -> Tensor:
    logits = algorithm.head(algorithm.featurizer(batch.x.flatten(0, 1)))
    log_p = logits - logits.exp().sum(dim=1, keepdim=True).log()
    return -log_p[torch.arange(len(logits)), batch.y.flatten()].view(batch.y.shape)


def explicit_penalty(averages: Tensor) -> Tensor:
    """(1 / mb) Σᵢⱼ (ℓⁱⱼ − ℓ̄ⱼ)² by loops over [domains, batch] of sorted values."""
    domains, size = averages.shape
    total = torch.zeros((), dtype=averages.dtype)
    for j in range(size):
        centre = sum(averages[i, j] for i in range(domains)) / domains
        for i in range(domains):
            total = total + (averages[i, j] - centre) ** 2
    return total / (domains * size)


def test_no_penalty_where_risks_agree_in_distribution() -> None:
    """Every domain has the same samples in another order; the pairing must not matter."""
    algorithm = build(anneal_steps=0)
    generator = torch.Generator().manual_seed(0)
    for step in range(3):
        one = batch_of(step, domains=1)
        orders = [torch.randperm(8, generator=generator) for _ in range(3)]
        x, y = (torch.stack([part[0, order] for order in orders]) for part in one[:2])
        assert algorithm.update(Batch(x, y))["penalty"] < 1e-28
    assert algorithm.update(batch_of(3))["penalty"] > 1e-3


@pytest.mark.parametrize("model", [NETWORK, MLP(hidden=8, nonlinear_head=True)])
@pytest.mark.parametrize("domains", [2, 4])
def test_penalty_and_gradient_unroll(model: MLP, domains: int) -> None:
    gamma, weight = 0.9, 3.0
    algorithm = build(anneal_steps=2, ema=gamma, penalty_weight=weight, lr=0.05, model=model)
    parameters = list(algorithm.parameters())
    past = torch.zeros(domains, 8, dtype=torch.float64)
    for step in range(5):
        batch = batch_of(step, domains=domains)
        risks = explicit_risks(algorithm, batch)
        average = gamma * past + (1 - gamma) * risks.sort(dim=1).values
        penalty = explicit_penalty(average / (1 - gamma))
        expected = risks.mean() + (weight * penalty if step >= 2 else 0)
        gradients = torch.autograd.grad(expected, parameters)
        measured = algorithm.update(batch)
        torch.testing.assert_close(measured["loss"], expected.detach())
        torch.testing.assert_close(measured["penalty"], penalty.detach())
        torch.testing.assert_close([p.grad for p in parameters], list(gradients))
        past = average.detach()


def test_before_the_penalty_it_is_erm_and_then_adam_starts_afresh() -> None:
    algorithm, plain = build(anneal_steps=3), build()
    erm = ERM(TASK, plain.featurizer, plain.head, plain.hparams, plain.generator).double()
    for step in range(3):
        algorithm.update(batch_of(step))
        erm.update(batch_of(step))
        torch.testing.assert_close(algorithm.head.state_dict(), erm.head.state_dict())
    algorithm.update(batch_of(3))
    steps = {int(s["step"]) for s in algorithm.optimizers["main"].state_dict()["state"].values()}
    assert steps == {1}


def test_one_logit_is_matched_too() -> None:
    torch.manual_seed(0)
    task = Task((5,), 2, num_domains=3, regime="table")
    network = MLP(hidden=7, depth=1, single_logit=True).build(task)
    hparams = resolve(RDMPDM.Hparams, "table", {"ema": 0.0})
    algorithm = RDMPDM(task, network.featurizer, network.head, hparams, torch.Generator()).double()
    batch = batch_of(0, classes=2)
    logits = algorithm.predict(batch.x.flatten(0, 1)).view(3, 8)
    risks = torch.where(batch.y == 1, (1 + (-logits).exp()).log(), (1 + logits.exp()).log())
    penalty = explicit_penalty(risks.sort(dim=1).values)
    torch.testing.assert_close(algorithm.objective(batch).parts["penalty"], penalty)


@pytest.mark.parametrize("regime", ["small-image", "large-image", "huge-image", "table"])
def test_defaults_and_draws(regime: Regime) -> None:
    defaults = asdict(resolve(RDMPDM.Hparams, regime))
    assert (defaults["penalty_weight"], defaults["anneal_steps"], defaults["ema"]) == (1, 500, 0.95)
    for seed in range(5):
        drawn = draw(RDMPDM.Hparams, regime, seed)

        def uniform(name: str, low: float, high: float, seed: int = seed) -> float:
            return np.random.RandomState(seed_hash(seed, name)).uniform(low, high)

        assert drawn["penalty_weight"] == 10 ** uniform("penalty_weight", -1, 3)
        assert drawn["anneal_steps"] == int(10 ** uniform("anneal_steps", 0, 4))
        assert drawn["ema"] == uniform("ema", 0.9, 0.99)
