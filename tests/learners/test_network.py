"""Networks that are trained together must be those that would have been trained apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import (
    LogLoss,
    NetworkCandidate,
    Samples,
    _activations,
    _AdamW,
    _gradients,
    logits_of,
    networks_together_DECAY as DECAY,
    trained_networks,
)

SIZES = (3, 8, 8, 2)


def data(n: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    return torch.randn(n, 3, generator=generator) + y[:, None], y


def test_networks_of_two_problems_are_those_of_each_alone():
    x, y = data()
    weights = torch.stack([torch.arange(60) < 40, torch.arange(60) >= 20]).float()
    (together,) = trained_networks(x, y, weights, SIZES, 2, [30], seed=0)
    for problem in range(2):
        (alone,) = trained_networks(x, y, weights[problem : problem + 1], SIZES, 2, [30], seed=0)
        both = logits_of(together, x)[2 * problem : 2 * problem + 2]
        assert both.numpy() == pytest.approx(logits_of(alone, x).numpy(), abs=1e-4)


def test_rows_of_weight_zero_change_nothing():
    x, y = data()
    weights = (torch.arange(60) < 40).float()[None]
    (before,) = trained_networks(x, y, weights, SIZES, 1, [20], seed=0)
    x[40:], y[40:] = 100.0, 1
    (after,) = trained_networks(x, y, weights, SIZES, 1, [20], seed=0)
    assert all((a[0] == b[0]).all() for a, b in zip(before, after, strict=True))


def test_an_earlier_stop_is_the_same_run_cut_short():
    x, y = data()
    weights = torch.ones(1, 60)
    early, _ = trained_networks(x, y, weights, SIZES, 1, [10, 30], seed=0)
    (alone,) = trained_networks(x, y, weights, SIZES, 1, [10], seed=0)
    assert all((a[0] == b[0]).all() for a, b in zip(early, alone, strict=True))


def test_seeds_differ_and_problems_of_equal_weights_do_not():
    x, y = data()
    (layers,) = trained_networks(x, y, torch.ones(2, 60), SIZES, 2, [5], seed=0)
    logits = logits_of(layers, x).numpy()
    assert np.abs(logits[0] - logits[1]).max() > 1e-3
    assert logits[:2] == pytest.approx(logits[2:], abs=1e-6)


def test_steps_are_those_of_adamw():
    ours = [torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).double()]
    theirs = [ours[0].clone().requires_grad_()]
    adam = _AdamW(ours)
    reference = torch.optim.AdamW(theirs, lr=0.01, weight_decay=DECAY)
    for step in range(5):
        gradient = torch.full((4, 3), step - 1.5, dtype=torch.float64)
        adam.step([gradient], 0.01)
        theirs[0].grad = gradient
        reference.step()
    assert ours[0].numpy() == pytest.approx(theirs[0].detach().numpy(), abs=1e-12)


@pytest.mark.parametrize("matched", [False, True])
def test_gradients_are_those_of_automatic_differentiation(matched: bool):
    generator = torch.Generator().manual_seed(0)
    layers = [
        (torch.randn(3, *size, generator=generator), torch.randn(3, 1, size[1]))
        for size in ((4, 5), (5, 6), (6, 2))
    ]
    x = torch.randn(7, 4, generator=generator)

    def loss(hidden: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        return logits.logsumexp(2).sum() + (hidden**3).sum() * matched

    inputs, logits = _activations(layers, x)
    leaves = [each.clone().requires_grad_() for each in (logits, inputs[-1])]
    slopes = torch.autograd.grad(loss(leaves[1], leaves[0]), leaves)
    found = _gradients(layers, inputs, *(slopes if matched else slopes[:1]))

    parameters = [each.requires_grad_() for layer in layers for each in layer]
    hidden = x.expand(3, -1, -1)
    for weight, bias in layers[:-1]:
        hidden = (hidden @ weight + bias).relu()
    expected = torch.autograd.grad(loss(hidden, hidden @ layers[-1][0] + layers[-1][1]), parameters)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-4, abs=1e-4)


def test_they_learn():
    x, y = data(200)
    (layers,) = trained_networks(x, y, torch.ones(1, 200), SIZES, 1, [200], seed=0)
    assert (
        logits_of(layers, x)[0].argmax(dim=1) == y
    ).float().mean() > 0.75  # the best possible is 0.81


def test_training_ends_where_more_steps_do_worse(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    y, domain = np.arange(90) % 2, np.arange(90) % 3
    samples = Samples(rng.normal(size=(90, 2)) + y[:, None], y, domain, 2, np.zeros(2, dtype=bool))
    candidate = NetworkCandidate(variants=(5, 10, 20, 40), width=4, seeds=1)
    whole = candidate.held_out(samples, domain, seed=0)
    risks = iter([0.6, 0.5, 0.55])  # a fourth is not asked for
    monkeypatch.setattr(LogLoss, "calibrated_risk", lambda *_: next(risks))
    found = candidate.held_out(samples, domain, seed=0)
    assert (found[:3] == whole[:3]).all()
    assert (found[3] == found[2]).all()
