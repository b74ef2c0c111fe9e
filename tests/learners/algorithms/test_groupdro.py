"""GroupDRO's weights on the domains."""

from __future__ import annotations

import pytest
import torch
from _internals import GroupDRO, resolve
from torch import nn

from shiftproof import Batch, Task


def build(eta: float, domains: int = 3) -> GroupDRO:
    """Return the algorithm on a network that is fixed at probability σ(±x) for two classes."""
    head = nn.Linear(1, 1, bias=False)
    nn.init.ones_(head.weight)
    hparams = resolve(GroupDRO.Hparams, "table", {"eta": eta, "lr": 1e-12})
    task = Task((1,), 2, domains, "table")
    return GroupDRO(task, nn.Identity(), head, hparams, torch.Generator()).double()


# One sample per domain, labelled 1, of logit x: its risk is log(1 + exp(−x)).
X = torch.tensor([2.0, 0.0, -1.0], dtype=torch.float64)
BATCH = Batch(X.view(3, 1, 1), torch.ones(3, 1, dtype=torch.long))
RISKS = torch.log1p(torch.exp(-X))


@pytest.mark.parametrize("steps", [1, 4])
def test_weights_are_exponential_in_the_summed_risks(steps: int) -> None:
    algorithm = build(eta=0.3)
    for _ in range(steps):
        measured = algorithm.update(BATCH)
    expected = torch.exp(0.3 * steps * RISKS) / torch.exp(0.3 * steps * RISKS).sum()
    torch.testing.assert_close(algorithm.q, expected, rtol=0, atol=1e-7)
    assert measured["loss"].item() == pytest.approx((expected @ RISKS).item(), abs=1e-7)
    assert measured["worst_risk"].item() == pytest.approx(RISKS.max().item(), abs=1e-7)


def test_all_weight_goes_to_the_worst_domain_whatever_the_size_of_eta() -> None:
    algorithm = build(eta=1e5)
    for _ in range(3):
        measured = algorithm.update(BATCH)
    torch.testing.assert_close(algorithm.q, torch.tensor([0, 0, 1], dtype=torch.float64))
    assert measured["loss"].item() == pytest.approx(RISKS.max().item(), abs=1e-7)


def test_weights_are_part_of_the_state() -> None:
    algorithm = build(eta=0.3)
    algorithm.update(BATCH)
    assert torch.equal(algorithm.training_state()["modules"]["q"], algorithm.q)
    assert not algorithm.q.requires_grad
