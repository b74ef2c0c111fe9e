"""The networks of a diagnosis: their gradients, steps and stacks against torch and themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from _internals import HIDDEN, RATE, _Shapes, _Stack, checked, fit_networks, network_DECAY as DECAY

SHAPES = _Shapes(columns=3, domains=3, classes=4)


def batch(networks, rows=20, seed=0):
    """Rows of two domains, sorted; the third has none."""
    rng = np.random.default_rng(seed)
    x = np.ones((networks, rows, SHAPES.columns + 1), np.float32)
    x[..., :-1] = rng.normal(size=(networks, rows, SHAPES.columns))
    d = np.sort(rng.integers(0, 2, (networks, rows)), axis=1) * 2
    y = rng.integers(0, SHAPES.classes, (networks, rows))
    weights = rng.uniform(0.5, 2, (networks, rows)).astype(np.float32)
    drops = (rng.random((networks, 2, rows, HIDDEN)) > 0.3).astype(np.float32) / np.float32(0.7)
    return x, d, y, weights, drops


def stack_of(networks, seed=1):
    rng = np.random.default_rng(seed)
    vectors = np.stack([SHAPES.start(rng) for _ in range(networks)])
    own = SHAPES.split(vectors)[-1]
    own[:] = rng.normal(size=own.shape)
    return _Stack(SHAPES, vectors)


def loss_by_torch(vector, x, d, y, weights, drops):
    first, second, heads, own = (each[0] for each in SHAPES.split(vector[None]))
    low = (x @ first).relu() * drops[0]
    h = torch.cat([((low @ second[:-1] + second[-1]).relu()) * drops[1], x], dim=1)
    domain, label = (h @ heads).split([SHAPES.domains, SHAPES.classes], dim=1)
    known = label.detach() + torch.einsum("nf,nfc->nc", h, own[d])
    tasks = ((domain, d), (label, y), (known, y))
    return sum((F.cross_entropy(z, t, reduction="none") * weights).sum() for z, t in tasks)


def test_gradients_are_those_of_automatic_differentiation(monkeypatch):
    stack, given = stack_of(2), batch(2)
    found = stack.slope(*given)
    monkeypatch.setattr(np, "split", lambda v, ends, axis: v.tensor_split(ends.tolist(), dim=axis))
    for place in range(2):
        vector = torch.from_numpy(stack.state[0][place]).requires_grad_()
        loss_by_torch(vector, *(torch.from_numpy(each[place]) for each in given)).backward()
        assert found[place] == pytest.approx(vector.grad.numpy(), rel=1e-4, abs=1e-4)


def test_steps_are_those_of_adamw():
    stack = stack_of(1)
    vector = torch.from_numpy(stack.state[0][0].copy()).requires_grad_()
    optimizer = torch.optim.AdamW([vector], lr=RATE, weight_decay=DECAY)
    for seed in range(3):
        slope = stack.slope(*batch(1, seed=seed))
        stack.descend(slope)
        vector.grad = torch.from_numpy(slope[0])
        optimizer.step()
    assert stack.state[0][0] == pytest.approx(vector.detach().numpy(), abs=1e-6)


def test_a_network_learns_in_a_stack_what_it_learns_alone():
    together, given = stack_of(3), batch(3)
    alone = _Stack(SHAPES, together.state[0][1:2].copy())
    for _ in range(3):
        together.descend(together.slope(*given))
        alone.descend(alone.slope(*(each[1:2] for each in given)))
    assert together.state[0][1] == pytest.approx(alone.state[0][0], abs=1e-6)
    together.keep([1])
    assert len(together.state[0]) == 1
    x = given[0][1]
    for a, b in zip(together.logits(0, x), alone.logits(0, x), strict=True):
        assert a == pytest.approx(b, abs=1e-5)


def test_networks_learn_a_rule_that_differs_between_domains():
    """y = (x₁ > 0) in one domain and (x₁ ≤ 0) in the other; x does not tell the domain."""
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(600, 2)), np.arange(600) % 2
    y = ((x[:, 0] > 0) ^ (d == 1)).astype(int)
    sample = checked(x, y, d, balanced=True)
    fold = sample.folds(5, 0)
    answers = fit_networks(sample.x, sample, fold, 0)
    rows = np.arange(len(d))
    assert np.exp(answers.known[rows, sample.d, sample.y]).mean() > 0.9
    assert np.exp(answers.known[rows, 1 - sample.d, sample.y]).mean() < 0.1
    assert np.exp(answers.domain[rows, sample.d]).mean() == pytest.approx(0.5, abs=0.02)
    assert np.exp(answers.label[rows, sample.y]).mean() == pytest.approx(0.5, abs=0.02)
    for probabilities in answers:
        assert np.exp(probabilities).sum(axis=-1) == pytest.approx(1)
    again = fit_networks(sample.x, sample, fold, 0)
    assert (again.known == answers.known).all()
