"""Two-stage training against the published rule written out by hand, in float64."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from _internals import PENALTIES, InvalidValue, resolve
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as nll

from shiftproof import ALGORITHMS, Algorithm, Batch, Task

STEPS, SWITCH, WEIGHT, NORM, LR, TRIM = 7, 3, 250.0, 0.01, 0.02, 2
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(STEPS, 3, 9, 4, generator=GENERATOR, dtype=torch.float64)
Y = torch.randint(2, (STEPS, 3, 9), generator=GENERATOR)


def network() -> tuple[nn.Sequential, nn.Linear]:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh()).double(), nn.Linear(5, 1).double()


def built(penalty: str, head: nn.Module | None = None, **given: Any) -> Algorithm:
    cls = ALGORITHMS.get("two-stage")
    settings = {
        "lr": LR, "penalty": penalty, "penalty_weight": WEIGHT, "anneal_steps": SWITCH,
        "norm_weight": NORM, "trim": TRIM,
    }  # fmt: skip
    hparams = resolve(cls.Hparams, "table", {**settings, **given})
    featurizer, linear = network()
    task = Task((4,), 2, 2, "table")
    return cls(task, featurizer, head or linear, hparams, torch.Generator()).double()


def by_hand(penalty: str, domains: int, trim: int) -> tuple[list[float], list[Tensor]]:
    """Follow the script: domain by domain, pair by pair, each sample's gradient by autograd."""
    featurizer, head = network()
    parameters = [*featurizer.parameters(), *head.parameters()]
    adam = torch.optim.Adam(parameters, lr=LR)
    losses = []
    for step in range(STEPS):
        found = [_domain(featurizer, head, X[step, i], Y[step, i].double()) for i in range(domains)]
        loss = sum(risk for risk, _, _ in found) / domains
        loss = loss + NORM * sum(w.norm().pow(2) for w in parameters)
        if penalty != "none":
            weight = WEIGHT if step >= SWITCH else 1.0
            loss = loss + weight * _penalty(penalty, found, trim)
            if weight > 1:
                loss = loss / weight
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses, parameters


def _domain(
    featurizer: nn.Module, head: nn.Linear, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the risk, the squared slope by a scale of the logits, and the gradients [b, P]."""
    features = featurizer(x)
    logits = head(features)[:, 0]
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(nll(logits * scale, y), [scale], create_graph=True)
    rows = []
    for feature, label in zip(features, y, strict=True):
        one = nll(head(feature)[0], label)
        parts = torch.autograd.grad(one, [head.weight, head.bias], create_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    return nll(logits, y), slope**2, torch.stack(rows)


def _penalty(name: str, found: list[tuple[Tensor, Tensor, Tensor]], trim: int) -> Tensor:
    if name == "irm":
        return sum(slope for _, slope, _ in found) / len(found)
    if name == "fishr":
        variances = [((g - g.mean(0)) ** 2).mean(0) for _, _, g in found]
        middle = sum(variances) / len(variances)
        return sum(((v - middle) ** 2).sum() for v in variances)
    total = torch.zeros((), dtype=torch.float64)
    for (risk, _, g), (other_risk, _, other_g) in itertools.combinations(found, 2):
        ranked, other = g.sort(0).values[trim:-trim], other_g.sort(0).values[trim:-trim]
        if name == "vrex":
            total = total + (risk - other_risk) ** 2
        elif name == "iga":
            total = total + ((ranked.mean(0) - other.mean(0)) ** 2).mean()
        else:
            total = total + ((ranked - other) ** 2).mean()
    return total


def train(algorithm: Algorithm, domains: int) -> list[dict[str, float]]:
    batches = [Batch(x[:domains], y[:domains]) for x, y in zip(X, Y, strict=True)]
    return [
        {name: value.item() for name, value in algorithm.update(batch).items()} for batch in batches
    ]


@pytest.mark.parametrize("domains", [2, 3])
@pytest.mark.parametrize(
    ("penalty", "trim"), [*((name, TRIM) for name in ("none", *PENALTIES)), ("iga", 1), ("idm", 1)]
)
def test_every_step_equals_the_rule_written_out(penalty: str, trim: int, domains: int) -> None:
    expected_losses, expected = by_hand(penalty, domains, trim)
    algorithm = built(penalty, trim=trim)
    losses = [measured["loss"] for measured in train(algorithm, domains)]
    assert losses == pytest.approx(expected_losses, rel=1e-9, abs=1e-14)
    for ours, theirs in zip(algorithm.parameters(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_head_that_is_not_a_bare_linear_layer_gives_the_same(penalty: str) -> None:
    wrapped = train(built(penalty, nn.Sequential(network()[1])), 2)
    plain = train(built(penalty), 2)
    assert [m["loss"] for m in wrapped] == pytest.approx([m["loss"] for m in plain], rel=1e-9)


def test_tracking_records_all_penalties_and_changes_nothing() -> None:
    plain, tracked = built("idm"), built("idm", track_penalties=True)
    without, with_all = train(plain, 2), train(tracked, 2)
    assert [m["loss"] for m in without] == [m["loss"] for m in with_all]
    for name in PENALTIES:  # on the first step all start from the same weights
        own = train(built(name), 2)[0]["penalty"]
        assert with_all[0][f"{name}_penalty"] == pytest.approx(own, rel=1e-12)
    assert all(m["idm_penalty"] == m["penalty"] for m in with_all)
    assert all(
        torch.equal(a, b) for a, b in zip(plain.parameters(), tracked.parameters(), strict=True)
    )


@pytest.mark.parametrize("penalty", ["iga", "idm"])
def test_more_cannot_be_trimmed_than_there_is(penalty: str) -> None:
    with pytest.raises(InvalidValue, match="cannot trim 5 values from each end of 9"):
        train(built(penalty, trim=5), 2)
