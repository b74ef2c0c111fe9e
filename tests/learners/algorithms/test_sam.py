"""SAM and SAGM: against the step written out for a linear model, and where they become ERM."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from _internals import ERM, SAGM, SAM, specs
from torch import Tensor, nn

from shiftproof import Batch, Choice, Float, Task

TASK = Task((4,), num_classes=3, num_domains=2, regime="table")
LR, DECAY = 1e-2, 0.05


def build(cls: type[ERM], featurizer: nn.Module | None = None, **hparams: float) -> ERM:
    torch.manual_seed(0)
    featurizer = featurizer or nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    width = 4 if isinstance(featurizer, nn.Identity) else 6
    head = nn.Linear(width, 3, bias=False)
    settings = cls.Hparams(lr=LR, weight_decay=DECAY, **hparams)
    return cls(TASK, featurizer, head, settings, torch.Generator()).double()


def batches(steps: int = 4) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(2, 8, 4, dtype=torch.float64, generator=random),
            torch.randint(0, 3, (2, 8), generator=random),
        )
        for _ in range(steps)
    ]


def gradient(theta: Tensor, batch: Batch) -> Tensor:
    """∇L_E of softmax regression without an intercept: (1/n) Σ (p − onehot(y)) xᵀ."""
    x, y = batch.x.flatten(0, 1), batch.y.flatten()
    return ((x @ theta.T).softmax(dim=1) - F.one_hot(y, 3)).T @ x / len(y)


@pytest.mark.parametrize(
    ("cls", "hparams", "share", "alpha"),
    [(SAM, {"rho": 0.3}, 1.0, 0.0), (SAGM, {"rho": 0.3, "alpha": 0.7}, 0.5, 0.7)],
    ids=["SAM", "SAGM"],
)
def test_steps_equal_those_written_out(cls, hparams, share, alpha) -> None:
    """g' = s ∇L(θ + ρ g/‖g‖ − α g) + (1 − s) g, and Adam with weight decay on g' from θ."""
    ours = build(cls, nn.Identity(), **hparams)
    theta = ours.head.weight.detach().clone()
    mean, square = torch.zeros_like(theta), torch.zeros_like(theta)
    for step, batch in enumerate(batches(), start=1):
        plain = gradient(theta, batch)
        away = theta + hparams["rho"] * plain / plain.square().sum().sqrt() - alpha * plain
        used = share * gradient(away, batch) + (1 - share) * plain + DECAY * theta
        mean, square = 0.9 * mean + 0.1 * used, 0.999 * square + 0.001 * used.square()
        denominator = (square / (1 - 0.999**step)).sqrt() + 1e-8
        theta = theta - LR * (mean / (1 - 0.9**step)) / denominator
        ours.update(batch)
        torch.testing.assert_close(ours.head.weight.detach(), theta, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("cls", "hparams"), [(SAM, {"rho": 0.0}), (SAGM, {"rho": 0.0, "alpha": 0.0})]
)
def test_without_a_perturbation_they_are_erm_to_the_bit(cls, hparams) -> None:
    ours, erm = build(cls, **hparams), build(ERM)
    for batch in batches():
        found = ours.update(batch)
        assert torch.equal(found["loss"], erm.update(batch)["loss"])
        assert torch.equal(found["loss"], found["perturbed_risk"])
    for mine, theirs in zip(ours.parameters(), erm.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_the_perturbed_risk_is_the_largest_in_the_ball_to_first_order() -> None:
    """No random direction of length ρ raises the risk more, and the rise is ρ ‖g‖ + O(ρ²)."""
    rho = 1e-4
    ours, (batch,) = build(SAM, nn.Identity(), rho=rho), batches(1)
    theta = ours.head.weight.detach().clone()
    found = ours.update(batch)
    rise = (found["perturbed_risk"] - found["loss"]).item()
    assert rise == pytest.approx(rho * gradient(theta, batch).norm().item(), rel=1e-3)
    random = torch.Generator().manual_seed(2)
    x, y = batch.x.flatten(0, 1), batch.y.flatten()
    for _ in range(50):
        away = torch.randn(theta.shape, dtype=theta.dtype, generator=random)
        risk = F.cross_entropy(x @ (theta + rho * away / away.norm()).T, y)
        assert risk.item() - found["loss"].item() < rise


def test_a_gradient_of_zero_moves_nothing() -> None:
    ours = build(SAM, nn.Identity(), rho=1.0)
    ours.reset_optimizer()
    batch = Batch(torch.zeros(2, 8, 4, dtype=torch.float64), batches(1)[0].y)
    assert ours.update(batch)["perturbed_risk"].isfinite()
    assert ours.head.weight.isfinite().all()


def test_the_perturbation_acts_under_autocast() -> None:
    """Autocast keeps the weights that it has cast; without clearing them SAM would be ERM."""
    (batch,) = batches(1)
    ours = build(SAM, rho=1.0).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ours.update(Batch(batch.x.float(), batch.y))
    assert found["perturbed_risk"] > found["loss"] + 0.1


def test_defaults_and_draws_are_those_of_the_published_code() -> None:
    """Of khanrc/swad and Wang-pengfei/SAGM, hparams_registry.py; SAGM draws α from 0.01 on."""
    for cls in (SAM, SAGM):
        rho = specs(cls.Hparams)["rho"].at("large-image")
        assert rho == (0.05, Choice((0.01, 0.02, 0.05, 0.1)))
    alpha = specs(SAGM.Hparams)["alpha"].at("large-image")
    assert alpha.default == 0.001
    # The authors' commands set 0.001 or 0.0005, which their draws leave out and ours do not.
    assert isinstance(alpha.distribution, Float)
    assert 10**alpha.distribution.low <= 0.0005 < 0.001 <= 10**alpha.distribution.high
