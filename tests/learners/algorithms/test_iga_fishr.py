"""IGA + Fishr: each alone is what remains when the other's weight is zero."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from _internals import resolve
from torch import nn

from shiftproof import ALGORITHMS, Algorithm, Batch, Task

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(6, 3, 7, 4, generator=GENERATOR, dtype=torch.float64)
Y = torch.randint(3, (6, 3, 7), generator=GENERATOR)


def train(name: str, **given: Any) -> tuple[Algorithm, list[float]]:
    cls = ALGORITHMS.get(name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(4, 5), nn.Tanh()), nn.Linear(5, 3)
    hparams = resolve(cls.Hparams, "table", {"lr": 0.02, **given})
    algorithm = cls(Task((4,), 3, 3, "table"), *network, hparams, torch.Generator()).double()
    return algorithm, [
        algorithm.update(Batch(x, y))["loss"].item() for x, y in zip(X, Y, strict=True)
    ]


@pytest.mark.parametrize(
    ("alone", "settings", "both"),
    [
        ("iga", {"penalty_weight": 8.0}, {"expectation_weight": 8.0, "variance_weight": 0.0}),
        (
            "fishr",
            {"penalty_weight": 90.0, "anneal_steps": 2, "ema": 0.9},
            {
                "expectation_weight": 0.0,
                "variance_weight": 90.0,
                "variance_anneal_steps": 2,
                "variance_ema": 0.9,
            },
        ),
        ("erm", {}, {"expectation_weight": 0.0, "variance_weight": 0.0}),
    ],
)
def test_without_one_penalty_the_other_remains(
    alone: str, settings: dict[str, Any], both: dict[str, Any]
) -> None:
    expected, expected_losses = train(alone, **settings)
    found, found_losses = train("iga-fishr", **both)
    assert found_losses == pytest.approx(expected_losses, abs=1e-12)
    for ours, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_both_penalties_act_at_once() -> None:
    settings = {"expectation_weight": 8.0, "variance_weight": 90.0, "variance_anneal_steps": 0}
    losses = [
        train("iga-fishr", **{**settings, **off})[1][0]
        for off in (
            {},
            {"expectation_weight": 0.0},
            {"variance_weight": 0.0},
            {"expectation_weight": 0.0, "variance_weight": 0.0},
        )
    ]
    both, variance, expectation, neither = losses
    assert both - neither == pytest.approx((variance - neither) + (expectation - neither))
    assert variance > neither
    assert expectation > neither
