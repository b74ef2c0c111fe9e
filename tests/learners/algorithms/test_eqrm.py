"""EQRM's change from the mean of risks to their quantile."""

from __future__ import annotations

import pytest
import torch
from _internals import EQRM, InvalidValue, resolve
from torch import nn

from shiftproof import Batch, Task


def build(**given: float) -> EQRM:
    hparams = resolve(EQRM.Hparams, "table", {"lr": 0.1, "burnt_in_lr": 0.005, **given})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Linear(4, 3), nn.Linear(3, 2)
    return EQRM(Task((4,), 2, 3, "table"), *network, hparams, torch.Generator()).double()


GENERATOR = torch.Generator().manual_seed(0)
BATCH = Batch(
    torch.randn(3, 8, 4, generator=GENERATOR, dtype=torch.float64),
    torch.randint(2, (3, 8), generator=GENERATOR),
)


def test_adam_starts_afresh_at_the_second_rate_when_burnt_in() -> None:
    algorithm = build(burn_in_steps=2)
    rates, ages = [], []
    for _ in range(4):
        algorithm.update(BATCH)
        optimizer = algorithm.optimizers["main"]
        rates.append(optimizer.param_groups[0]["lr"])
        ages.append(int(next(iter(optimizer.state.values()))["step"]))
    assert rates == [0.1, 0.1, 0.005, 0.005]
    assert ages == [1, 2, 1, 2]


def test_the_loss_is_the_mean_risk_first_and_the_quantile_thereafter() -> None:
    algorithm = build(burn_in_steps=1, quantile=0.99, lr=1e-12, burnt_in_lr=1e-12)
    first, second = algorithm.update(BATCH), algorithm.update(BATCH)
    assert first["loss"].item() == first["risk"].item()
    with torch.no_grad():
        logits = algorithm.head(algorithm.features(BATCH)).log_softmax(-1)
    risks = -logits.gather(-1, BATCH.y.unsqueeze(-1)).squeeze(-1).mean(dim=1)
    # The kernel estimate has a tail beyond the worst of three risks.
    assert second["loss"].item() > risks.max().item() > first["loss"].item()
    assert second["risk"].item() == pytest.approx(risks.mean().item(), abs=1e-9)


def test_no_burn_in_starts_with_the_quantile_at_the_second_rate() -> None:
    algorithm = build(burn_in_steps=0)
    measured = algorithm.update(BATCH)
    assert measured["loss"].item() != measured["risk"].item()
    assert algorithm.optimizers["main"].param_groups[0]["lr"] == 0.005


@pytest.mark.parametrize("quantile", [0.0, 1.0])
def test_a_quantile_without_a_finite_value_is_refused(quantile: float) -> None:
    with pytest.raises(InvalidValue, match="`quantile` must lie in"):
        resolve(EQRM.Hparams, "table", {"quantile": quantile})
