"""Every algorithm that adds a penalty to the risk, or bends it, against an independent computation.

Replays of DomainBed's own steps, its hyper-parameters, and whole training runs against references
written out per domain, pair and sample, for what the replays leave out: other numbers of domains,
odd batches, weight decay, other switching points.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from _internals import (
    ALGORITHM_NAMES,
    draw,
    largest_deviation,
    read_trace,
    resolve,
    seed_hash,
    traces_TOLERANCE as TOLERANCE,
)
from scipy.optimize import brentq
from scipy.stats import norm
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftproof import ALGORITHMS, Algorithm, Batch, Task

GOLDEN = Path(__file__).parents[2] / "golden"
REGIMES = {
    "ColoredMNIST": "small-image",
    "RotatedMNIST": "small-image",
    "PACS": "large-image",
    "DomainNet": "huge-image",
}
TRACED = ["IRM", "VREx", "GroupDRO", "CORAL", "MMD", "IGA", "Fishr", "EQRM", "IB_ERM", "IB_IRM",
          "SD"]  # fmt: skip
PUBLISHED = [*TRACED, "CausIRL_CORAL", "CausIRL_MMD"]
NAMES = [*(ALGORITHM_NAMES[theirs].ours for theirs in PUBLISHED), "iga-fishr"]
SWITCH = 3  # the step at which penalties switch on below

# Strong enough penalties, switched on within a few steps.
SETTINGS: dict[str, dict[str, Any]] = {
    "irm": {"penalty_weight": 7.0, "anneal_steps": SWITCH},
    "vrex": {"penalty_weight": 9.0, "anneal_steps": SWITCH},
    "groupdro": {"eta": 0.7},
    "coral": {"penalty_weight": 2.0},
    "mmd": {"penalty_weight": 0.3},
    "iga": {"penalty_weight": 4.0},
    "fishr": {"penalty_weight": 50.0, "anneal_steps": SWITCH, "ema": 0.8},
    "iga-fishr": {
        "expectation_weight": 4.0,
        "variance_weight": 50.0,
        "variance_anneal_steps": SWITCH,
        "variance_ema": 0.8,
    },
    "eqrm": {"quantile": 0.9, "burn_in_steps": SWITCH, "burnt_in_lr": 3e-3},
    "ib-erm": {"bottleneck_weight": 5.0, "bottleneck_anneal_steps": SWITCH},
    "ib-irm": {
        "penalty_weight": 7.0,
        "anneal_steps": SWITCH,
        "bottleneck_weight": 5.0,
        "bottleneck_anneal_steps": SWITCH + 1,
    },
    "sd": {"penalty_weight": 0.5},
    "causirl-coral": {"penalty_weight": 2.0},
    "causirl-mmd": {"penalty_weight": 0.3},
}


def build(
    name: str, domains: int, head: nn.Module | None = None, seed: int = 0, **given: Any
) -> Algorithm:
    """Return an algorithm on a small network (5 inputs, 4 features, 3 classes), in float64."""
    cls = ALGORITHMS.get(name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        featurizer = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4), nn.Tanh())
        head = nn.Linear(4, 3) if head is None else head
    task = Task((5,), 3, domains, "table")
    hparams = resolve(cls.Hparams, task.regime, {"lr": 0.02, **SETTINGS[name], **given})
    return cls(task, featurizer, head, hparams, torch.Generator().manual_seed(7)).double()


def draw_batches(steps: int, domains: int, batch: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(steps + 10 * domains + 100 * batch)
    x = torch.randn(steps, domains, batch, 5, generator=generator, dtype=torch.float64)
    x += torch.arange(domains).view(domains, 1, 1) / 2  # the domains differ
    y = torch.randint(3, (steps, domains, batch), generator=generator)
    return [Batch(*step) for step in zip(x, y, strict=True)]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", TRACED)
def test_replays_the_recorded_steps(name: str, seed: int) -> None:
    trace = read_trace(GOLDEN / "traces" / f"{name.lower()}_{seed}.npz")
    assert largest_deviation(trace) <= TOLERANCE


def protocol() -> dict[str, Any]:
    contents: dict[str, Any] = json.loads((GOLDEN / "domainbed_protocol.json").read_text())
    return contents


@pytest.mark.parametrize("dataset", REGIMES)
@pytest.mark.parametrize("theirs", PUBLISHED)
def test_defaults_are_those_of_the_protocol(theirs: str, dataset: str) -> None:
    ours, names = ALGORITHM_NAMES[theirs]
    published = protocol()["defaults"][f"{theirs}/{dataset}"]
    defaults = asdict(resolve(ALGORITHMS.get(ours).Hparams, REGIMES[dataset]))
    assert defaults == {name: published[key] for key, name in names.items()}


@pytest.mark.parametrize("dataset", REGIMES)
@pytest.mark.parametrize("theirs", PUBLISHED)
def test_draws_are_those_of_the_protocol_to_the_last_bit(theirs: str, dataset: str) -> None:
    ours, names = ALGORITHM_NAMES[theirs]
    published_names = {name: key for key, name in names.items()}
    recorded = [
        entry
        for entry in protocol()["random"]
        if (entry["algorithm"], entry["dataset"]) == (theirs, dataset)
    ]
    assert len(recorded) == 3
    for entry in recorded:
        expected = {name: entry["hparams"][key] for key, name in names.items()}
        if theirs == "EQRM":  # drawn there as a fraction, which no step count ever equals
            expected["burn_in_steps"] = int(expected["burn_in_steps"])
        seed = seed_hash(entry["hparams_seed"], entry["trial_seed"])
        drawn = draw(ALGORITHMS.get(ours).Hparams, REGIMES[dataset], seed, published_names)
        assert drawn == expected
        assert [type(value) for value in drawn.values()] == [
            type(value) for value in asdict(resolve(ALGORITHMS.get(ours).Hparams, "table")).values()
        ]


class Step(NamedTuple):
    """What a reference may look at: step number, per-domain lists, network, memory."""

    number: int
    features: list[Tensor]
    logits: list[Tensor]
    labels: list[Tensor]
    network: nn.Module
    memory: dict[str, Any]

    @property
    def risks(self) -> list[Tensor]:
        return [cross_entropy(z, y) for z, y in zip(self.logits, self.labels, strict=True)]


def mean(values: list[Tensor]) -> Tensor:
    return sum(values[1:], values[0]) / len(values)


def irm_reference(step: Step) -> Tensor:
    penalties = []
    for z, y in zip(step.logits, step.labels, strict=True):
        scale = torch.ones((), dtype=z.dtype, requires_grad=True)
        even, odd = (cross_entropy(z[half::2] * scale, y[half::2]) for half in (0, 1))
        slopes = [torch.autograd.grad(risk, scale, create_graph=True)[0] for risk in (even, odd)]
        penalties.append(slopes[0] * slopes[1])
    return mean(step.risks) + (7.0 if step.number >= SWITCH else 1.0) * mean(penalties)


def vrex_reference(step: Step) -> Tensor:
    risk = mean(step.risks)
    penalty = mean([(each - risk) ** 2 for each in step.risks])
    return risk + (9.0 if step.number >= SWITCH else 1.0) * penalty


def groupdro_reference(step: Step) -> Tensor:
    q = step.memory.setdefault("q", [1.0] * len(step.risks))
    q[:] = [
        weight * torch.exp(0.7 * risk.detach()) for weight, risk in zip(q, step.risks, strict=True)
    ]
    return sum(weight * risk for weight, risk in zip(q, step.risks, strict=True)) / sum(q)


def coral_reference(step: Step) -> Tensor:
    distances = []
    for x, y in itertools.combinations(step.features, 2):
        cx, cy = ((g - g.mean(0)).T @ (g - g.mean(0)) / (len(g) - 1) for g in (x, y))
        distances.append(((x.mean(0) - y.mean(0)) ** 2).mean() + ((cx - cy) ** 2).mean())
    return mean(step.risks) + 2.0 * mean(distances)


def mmd_reference(step: Step) -> Tensor:
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        squares = ((x[:, None] - y[None]) ** 2).sum(-1)
        return sum(torch.exp(-(10.0**e) * squares) for e in range(-3, 4)).mean()

    pairs = itertools.combinations(step.features, 2)
    return mean(step.risks) + 0.3 * mean(
        [kernel(x, x) + kernel(y, y) - 2 * kernel(x, y) for x, y in pairs]
    )


def domain_gradient_penalty(step: Step) -> Tensor:
    gradients = [
        torch.cat(
            [
                part.flatten()
                for part in torch.autograd.grad(risk, step.network.parameters(), create_graph=True)
            ]
        )
        for risk in step.risks
    ]
    return sum(((each - mean(gradients)) ** 2).sum() for each in gradients)


def iga_reference(step: Step) -> Tensor:
    return mean(step.risks) + 4.0 * domain_gradient_penalty(step)


def gradient_variance_penalty(step: Step) -> Tensor:
    head = step.network[1]
    variances = []
    for r, y in zip(step.features, step.labels, strict=True):
        samples = torch.stack(
            [
                torch.cat(
                    [
                        part.flatten()
                        for part in torch.autograd.grad(
                            cross_entropy(head(r[j : j + 1]), y[j : j + 1]),
                            head.parameters(),
                            create_graph=True,
                        )
                    ]
                )
                for j in range(len(y))
            ]
        )
        variances.append(((samples - samples.mean(0)) ** 2).mean(0))
    averages = step.memory.setdefault("v", [torch.zeros_like(v) for v in variances])
    current = [0.8 * a + 0.2 * v for a, v in zip(averages, variances, strict=True)]
    averages[:] = [v.detach() for v in current]
    current = [v / 0.2 for v in current]
    return mean([((v - mean(current)) ** 2).mean() for v in current])


def fishr_reference(step: Step) -> Tensor:
    penalty = gradient_variance_penalty(step)
    return mean(step.risks) + (50.0 if step.number >= SWITCH else 0.0) * penalty


def iga_fishr_reference(step: Step) -> Tensor:
    return fishr_reference(step) + 4.0 * domain_gradient_penalty(step)


def eqrm_reference(step: Step) -> Tensor:
    risks = torch.stack(step.risks)
    if step.number < SWITCH:
        return risks.mean()
    h = 1.06 * risks.std() * len(risks) ** -0.2
    low, high = risks.min() + norm.ppf(0.9) * h, risks.max() + norm.ppf(0.9) * h
    x, width = risks.detach().numpy(), h.item()
    root = brentq(
        lambda t: norm.cdf((t - x) / width).mean() - 0.9, low.item(), high.item(), xtol=1e-15
    )
    share = (root - low.item()) / (high.item() - low.item())
    return (1 - share) * low + share * high


def ib_erm_reference(step: Step) -> Tensor:
    bottleneck = mean([r.var(dim=0).mean() for r in step.features])
    return mean(step.risks) + (5.0 if step.number >= SWITCH else 0.0) * bottleneck


def ib_irm_reference(step: Step) -> Tensor:
    bottleneck = mean([r.var(dim=0).mean() for r in step.features])
    return irm_reference(step) + (5.0 if step.number >= SWITCH + 1 else 0.0) * bottleneck


def sd_reference(step: Step) -> Tensor:
    return mean(step.risks) + 0.5 * mean([(z**2).mean() for z in step.logits])


class Reference(NamedTuple):
    loss: Callable[[Step], Tensor]
    restarts: dict[int, float] = {}  # noqa: RUF012  step → learning rate of a new Adam


REFERENCES = {
    "irm": Reference(irm_reference, {SWITCH: 0.02}),
    "vrex": Reference(vrex_reference, {SWITCH: 0.02}),
    "groupdro": Reference(groupdro_reference),
    "coral": Reference(coral_reference),
    "mmd": Reference(mmd_reference),
    "iga": Reference(iga_reference),
    "fishr": Reference(fishr_reference, {SWITCH: 0.02}),
    "iga-fishr": Reference(iga_fishr_reference, {SWITCH: 0.02}),
    "eqrm": Reference(eqrm_reference, {SWITCH: 3e-3}),
    "ib-erm": Reference(ib_erm_reference, {SWITCH: 0.02}),
    "ib-irm": Reference(ib_irm_reference, {SWITCH: 0.02, SWITCH + 1: 0.02}),
    "sd": Reference(sd_reference),
}


@pytest.mark.parametrize("domains", [2, 3, 4])
@pytest.mark.parametrize("name", REFERENCES)
def test_trains_like_the_reference_written_out(name: str, domains: int) -> None:
    algorithm = build(name, domains, weight_decay=0.01)
    network = nn.Sequential(copy.deepcopy(algorithm.featurizer), copy.deepcopy(algorithm.head))
    loss, restarts = REFERENCES[name]

    def adam(lr: float) -> torch.optim.Adam:
        return torch.optim.Adam(network.parameters(), lr=lr, weight_decay=0.01)

    optimizer, memory = adam(0.02), {}
    for number, batch in enumerate(draw_batches(6, domains, batch=7)):
        measured = algorithm.update(batch)
        features = [network[0](x) for x in batch.x]
        logits = [network[1](r) for r in features]
        if number in restarts:
            optimizer = adam(restarts[number])
        total = loss(Step(number, features, logits, list(batch.y), network, memory))
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        assert measured["loss"].item() == pytest.approx(total.item(), abs=1e-8)
        for ours, theirs in zip(algorithm.parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_goes_on_bit_for_bit_from_a_saved_state(name: str) -> None:
    batches = draw_batches(2 * SWITCH, domains=3, batch=6)
    for stop in (SWITCH - 1, SWITCH + 1):
        straight, stopped = build(name, 3), build(name, 3)
        for batch in batches[:stop]:
            straight.update(batch)
            stopped.update(batch)
        resumed = build(name, 3, seed=1)
        resumed.load_training_state(copy.deepcopy(stopped.training_state()))
        for batch in batches[stop:]:
            expected, found = straight.update(batch), resumed.update(batch)
            assert {k: v.item() for k, v in found.items()} == {
                k: v.item() for k, v in expected.items()
            }
        for ours, theirs in zip(resumed.parameters(), straight.parameters(), strict=True):
            assert torch.equal(ours, theirs)


HEADS: dict[str, Callable[[], nn.Module]] = {
    "nonlinear": lambda: nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 3)),
    "single logit": lambda: nn.Linear(4, 1),
    "without bias": lambda: nn.Linear(4, 3, bias=False),
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", NAMES)
def test_learns_with_any_head_and_leaves_the_global_generator_alone(name: str, head: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        algorithm = build(name, 2, HEADS[head]())
    before = torch.random.get_rng_state()
    measured = [
        algorithm.update(Batch(x, (x[..., 0] > 0).long()))  # something to learn
        for x in (own.x for own in draw_batches(60, domains=2, batch=16))
    ]
    assert torch.equal(torch.random.get_rng_state(), before)
    for values in measured:
        assert all(v.ndim == 0 and v.isfinite() and not v.requires_grad for v in values.values())
    first, last = (mean([m["risk"] for m in part]) for part in (measured[:10], measured[-10:]))
    assert last < first
