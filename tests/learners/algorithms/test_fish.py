"""Fish: against Adam written out, its two ends, and an interruption."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from _internals import Fish
from torch import nn

from shiftproof import Batch, Task


def build(head: nn.Module | None = None, seed: int = 0, **hparams: float) -> Fish:
    torch.manual_seed(seed)
    featurizer = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    task = Task((4,), num_classes=2, num_domains=3, regime="table")
    settings = Fish.Hparams(**{"lr": 1e-2, **hparams})
    generator = torch.Generator().manual_seed(seed)
    return Fish(task, featurizer, head or nn.Linear(6, 2), settings, generator).double()


def batches(steps: int) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(3, 8, 4, dtype=torch.float64, generator=random),
            torch.randint(0, 2, (3, 8), generator=random),
        )
        for _ in range(steps)
    ]


def test_it_is_adam_through_the_domains_with_memory() -> None:
    """A linear model, with the gradient of the cross-entropy and Adam both written out."""
    epsilon, lr, decay = 0.3, 1e-2, 0.05
    ours = build(meta_lr=epsilon, lr=lr, weight_decay=decay)
    ours.featurizer = nn.Identity()
    ours.head = nn.Linear(4, 2, bias=False).double()
    ours.reset_optimizer()
    theta = ours.head.weight.detach().clone()
    mean, square, steps = torch.zeros_like(theta), torch.zeros_like(theta), 0
    for batch in batches(3):
        inner = theta.clone()
        for x, y in zip(batch.x, batch.y, strict=True):
            residual = (x @ inner.T).softmax(dim=1) - F.one_hot(y, 2)
            gradient = residual.T @ x / len(y) + decay * inner
            steps += 1
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient.square()
            denominator = (square / (1 - 0.999**steps)).sqrt() + 1e-8
            inner = inner - lr * (mean / (1 - 0.9**steps)) / denominator
        theta = theta + epsilon * (inner - theta)
        ours.update(batch)
        torch.testing.assert_close(ours.head.weight.detach(), theta, rtol=0, atol=1e-12)
    assert ours.updates == 3


def test_going_all_the_way_is_training_on_one_domain_after_another() -> None:
    ours, twin = build(meta_lr=1.0), build()
    optimizer = torch.optim.Adam([*twin.featurizer.parameters(), *twin.head.parameters()], lr=1e-2)
    for batch in batches(3):
        risks = []
        for x, y in zip(batch.x, batch.y, strict=True):
            risk = F.cross_entropy(twin.predict(x), y)
            optimizer.zero_grad()
            risk.backward()
            optimizer.step()
            risks.append(risk.item())
        assert ours.update(batch)["loss"].item() == pytest.approx(sum(risks) / 3)
    torch.testing.assert_close(ours.state_dict(), twin.state_dict(), rtol=0, atol=1e-14)


def test_going_no_way_stays_but_remembers() -> None:
    ours = build(meta_lr=0.0)
    before = copy.deepcopy(ours.state_dict())
    ours.update(batches(1)[0])
    torch.testing.assert_close(ours.state_dict(), before, rtol=0, atol=0)
    moments = ours.training_state()["optimizers"]["main"]["state"]
    assert all(state["step"] == 3 and state["exp_avg_sq"].sum() > 0 for state in moments.values())


@pytest.mark.parametrize(
    "head",
    [lambda: nn.Linear(6, 1), lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 2))],
    ids=["single logit", "nonlinear"],
)
def test_it_learns_with_any_head(head: Callable[[], nn.Module]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours = build(head(), lr=5e-2)
    (batch,) = batches(1)
    batch = Batch(batch.x, (batch.x[..., 0] > 0).long())
    losses = [ours.update(batch)["loss"].item() for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_each_inner_step_uses_the_weights_of_the_last_under_autocast() -> None:
    (batch,) = batches(1)
    batch = Batch(batch.x.float(), batch.y)
    losses = []
    for keeps in (True, False):
        ours = build(lr=1.0).float()
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=keeps):
            losses.append(ours.update(batch)["loss"])
    assert losses[0] == losses[1]
