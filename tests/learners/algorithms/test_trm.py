"""TRM: heads and weights in closed form, the inverse Hessian, and the derivative it stands for.

Two classes with one logit: the risk of a head w on features z with labels y is that of a logistic
regression, mean log(1 + exp(−s z̃·w)) with z̃ = (z, 1) and s = ±1, so gradient and Hessian are known.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import TRM
from torch import Tensor, nn

from shiftproof import Batch, Task

DOMAINS, SIZE, K = 3, 12, 2


def build(domains: int = DOMAINS, **given: float) -> TRM:
    torch.manual_seed(0)
    hparams = TRM.Hparams(**{"lr": 0.02, "anneal_steps": 0, **given})  # type: ignore[arg-type]
    task = Task((K,), 2, domains, regime="table")
    return TRM(task, nn.Linear(K, K), nn.Linear(K, 1), hparams, torch.Generator()).double()


def batch_of(seed: int = 0) -> Batch:
    """Return labels that no head predicts without errors, so that the best head is finite."""
    generator = torch.Generator().manual_seed(seed)
    x = 1.3 * torch.randn(DOMAINS, SIZE, K, dtype=torch.float64, generator=generator)
    return Batch(x, (torch.arange(SIZE) % 2).repeat(DOMAINS, 1))


def with_bias(z: np.ndarray) -> np.ndarray:
    return np.concatenate([z, np.ones((*z.shape[:-1], 1))], axis=-1)


def risk(w: np.ndarray, z: np.ndarray, y: np.ndarray) -> float:
    return float(np.logaddexp(0, (1 - 2 * y) * (with_bias(z) @ w)).mean())


def gradient(w: np.ndarray, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-with_bias(z) @ w))
    found: np.ndarray = with_bias(z).T @ (p - y) / len(y)
    return found


def hessian(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-with_bias(z) @ w))
    found: np.ndarray = with_bias(z).T @ (with_bias(z) * (p * (1 - p))[:, None]) / len(z)
    return found


def best_head(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    w = np.zeros(K + 1)
    for _ in range(30):
        w = w - np.linalg.solve(hessian(w, z), gradient(w, z, y))
    return w


def heads_of(ours: TRM) -> np.ndarray:
    rows = [torch.cat([head.weight.flatten(), head.bias]) for head in ours.predictors]  # type: ignore[arg-type,union-attr,list-item]
    found: np.ndarray = torch.stack(rows).detach().numpy().copy()
    return found


def set_heads(ours: TRM, rows: list[np.ndarray]) -> None:
    with torch.no_grad():
        for head, row in zip(ours.predictors, rows, strict=True):
            head.weight.copy_(torch.from_numpy(row[:-1]).unsqueeze(0))  # type: ignore[operator,union-attr]
            head.bias.copy_(torch.from_numpy(row[-1:]))  # type: ignore[operator,union-attr]


def uneven_weights() -> Tensor:
    return torch.tensor([[0.0, 0.3, 0.7], [0.6, 0.0, 0.4], [0.5, 0.5, 0.0]]).double()


def test_each_head_descends_the_risk_of_its_domain() -> None:
    ours = build(predictor_steps=4, predictor_lr=0.3)
    batch = batch_of()
    expected = heads_of(ours)
    z, y = batch.x.numpy(), batch.y.numpy()
    for _ in range(4):
        expected -= 0.3 * np.stack([gradient(expected[i], z[i], y[i]) for i in range(DOMAINS)])
    ours.fit_predictors(batch.x, batch.y)
    np.testing.assert_allclose(heads_of(ours), expected, atol=1e-12)


def test_the_parts_are_those_of_the_exact_hessians_and_the_weights_grow() -> None:
    """Features of this length keep the eigenvalues within (0, 2), where the series converges."""
    ours = build(neumann_terms=200, eta=0.5)
    ours.alpha = uneven_weights()
    z, y = batch_of().x, batch_of().y
    rows = heads_of(ours)
    expected, matching, grown = 0.0, 0.0, np.zeros((DOMAINS, DOMAINS))
    alpha = uneven_weights().numpy()
    for i in range(DOMAINS):
        v = np.zeros(K + 1)
        for j in range(DOMAINS):
            there = risk(rows[i], z[j].numpy(), y[j].numpy())
            expected += alpha[i, j] * there / DOMAINS
            v += alpha[i, j] * gradient(rows[i], z[j].numpy(), y[j].numpy())
            grown[i, j] = alpha[i, j] * np.exp(0.5 * alpha[i, j] * there)
        h = np.linalg.solve(hessian(rows[i], z[i].numpy()), v)
        assert np.abs(h).max() < 10
        matching += h @ gradient(rows[i], z[i].numpy(), y[i].numpy()) / DOMAINS
    found = ours.transfer_risk(z, y)
    assert found[0].item() == pytest.approx(expected, rel=1e-10)
    assert found[1].item() == pytest.approx(matching, rel=1e-8)
    np.testing.assert_allclose(ours.alpha, grown / grown.sum(axis=1, keepdims=True), atol=1e-12)


def test_the_gradient_by_features_knows_that_the_best_heads_move_with_them() -> None:
    """Against differences of the risk elsewhere of heads that are fitted anew at each point."""
    batch = batch_of()
    z, y = batch.x.numpy(), batch.y.numpy()
    alpha = uneven_weights().numpy()

    def transfer(z: np.ndarray) -> float:
        heads = [best_head(z[i], y[i]) for i in range(DOMAINS)]
        return sum(
            alpha[i, j] * risk(heads[i], z[j], y[j]) for i in range(DOMAINS) for j in range(DOMAINS)
        ) / DOMAINS  # fmt: skip

    ours = build(neumann_terms=200)
    ours.alpha = uneven_weights()
    set_heads(ours, [best_head(z[i], y[i]) for i in range(DOMAINS)])
    features = batch.x.clone().requires_grad_()
    elsewhere, matching = ours.transfer_risk(features, batch.y)
    (slope,) = torch.autograd.grad(elsewhere - matching, features)
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = rng.normal(size=z.shape)
        change = (transfer(z + 1e-5 * direction) - transfer(z - 1e-5 * direction)) / 2e-5
        assert (slope.numpy() * direction).sum() == pytest.approx(change, rel=1e-5)


def test_until_it_begins_and_on_one_domain_it_is_erm() -> None:
    batch = batch_of()
    late = build(anneal_steps=1)
    start = heads_of(late)
    assert set(late.update(batch)) == {"loss", "risk"}
    assert np.array_equal(heads_of(late), start)
    measured = late.update(batch)
    transferred = measured["transfer_risk"] - 1e-4 * measured["matching"]
    torch.testing.assert_close(measured["loss"], measured["risk"] + transferred)
    assert not np.array_equal(heads_of(late), start)
    assert set(build(domains=1).update(Batch(batch.x[:1], batch.y[:1]))) == {"loss", "risk"}


def test_the_domains_heads_get_no_gradient_from_the_network() -> None:
    ours = build()
    ours.update(batch_of())
    assert all(w.grad is None for w in ours.predictors.parameters())
    assert all(w.grad is not None for w in ours.featurizer.parameters())
