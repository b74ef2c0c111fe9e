"""MLDG: exact second-order gradients against an unrolled computation and finite differences."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from _internals import MLDG
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from shiftproof import Batch, Task

CLASSES = 2


def build(domains: int = 3, head: nn.Module | None = None, seed: int = 0, **hparams: float) -> MLDG:
    torch.manual_seed(seed)
    featurizer = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    task = Task((4,), num_classes=CLASSES, num_domains=domains, regime="table")
    generator = torch.Generator().manual_seed(seed)
    settings = MLDG.Hparams(**hparams)
    return MLDG(task, featurizer, head or nn.Linear(5, CLASSES), settings, generator).double()


def batches(steps: int, domains: int = 3) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(domains, 6, 4, dtype=torch.float64, generator=random),
            torch.randint(0, CLASSES, (domains, 6), generator=random),
        )
        for _ in range(steps)
    ]


def gradient(ours: MLDG, batch: Batch) -> Tensor:
    """Return the gradient of the objective for the pairs that the generator deals next."""
    ours.zero_grad()
    ours.objective(batch).total.backward()
    return torch.cat([p.grad.flatten() for p in ours.parameters()])


def next_pairs(ours: MLDG, domains: int) -> list[tuple[int, int]]:
    """Return the pairs the next objective will see, without using them up."""
    state = ours.generator.get_state()
    pairs = list(ours.pairs(domains))
    ours.generator.set_state(state)
    return pairs


# --- the objective ----------------------------------------------------------------------------


@pytest.mark.parametrize("domains", [2, 3, 4])
@pytest.mark.parametrize("meta_test_domains", [1, 2])
def test_inner_step_equals_an_explicit_unrolled_computation(
    domains: int, meta_test_domains: int
) -> None:
    """A linear model, the inner gradient ∂F/∂W = (softmax(W x) − onehot(y))ᵀ x / b written out."""
    lr, beta = 0.5, 0.7
    ours = build(domains, lr=lr, beta=beta, meta_test_domains=meta_test_domains)
    ours.featurizer = nn.Identity()
    ours.head = nn.Linear(4, CLASSES, bias=False).double()
    (batch,) = batches(1, domains)
    pairs = next_pairs(ours, domains)

    weight = ours.head.weight.detach().clone().requires_grad_()
    expected = torch.zeros((), dtype=torch.float64)
    for i, j in pairs:
        residual = (batch.x[i] @ weight.T).softmax(dim=1) - F.one_hot(batch.y[i], CLASSES)
        moved = weight - lr * residual.T @ batch.x[i] / 6
        expected = expected + F.cross_entropy(batch.x[i] @ weight.T, batch.y[i]) / domains
        expected = expected + beta * F.cross_entropy(batch.x[j] @ moved.T, batch.y[j]) / domains
    (unrolled,) = torch.autograd.grad(expected, weight)

    state = ours.generator.get_state()
    torch.testing.assert_close(ours.objective(batch).total, expected)
    ours.generator.set_state(state)
    torch.testing.assert_close(gradient(ours, batch), unrolled.flatten(), rtol=1e-12, atol=1e-14)


def test_gradient_of_a_network_equals_finite_differences() -> None:
    ours = build(lr=0.5, beta=2.0, meta_test_domains=1)
    (batch,) = batches(1)
    state = ours.generator.get_state()
    exact = gradient(ours, batch)
    start = parameters_to_vector(ours.parameters()).detach().clone()

    def objective(theta: Tensor) -> float:
        ours.generator.set_state(state)
        vector_to_parameters(theta, ours.parameters())
        return ours.objective(batch).total.item()

    step = 1e-6
    numeric = [
        (objective(start + step * unit) - objective(start - step * unit)) / (2 * step)
        for unit in torch.eye(len(start), dtype=torch.float64)
    ]
    torch.testing.assert_close(exact, torch.tensor(numeric).double(), rtol=1e-6, atol=1e-8)


def test_the_second_order_part_is_there() -> None:
    """Without it the gradient would be ∇Fᵢ(θ) + β ∇Fⱼ(θ′), evaluated at θ′ but not through it."""
    lr, beta = 0.5, 2.0
    ours = build(2, lr=lr, beta=beta, meta_test_domains=1)
    (batch,) = batches(1, domains=2)
    ((i, j),) = next_pairs(ours, 2)

    def risk_gradient(model: MLDG, domain: int) -> Tensor:
        risk = F.cross_entropy(model.predict(batch.x[domain]), batch.y[domain])
        return parameters_to_vector(torch.autograd.grad(risk, list(model.parameters())))

    first = risk_gradient(ours, i)
    moved = copy.deepcopy(ours)
    theta = parameters_to_vector(ours.parameters()).detach()
    vector_to_parameters(theta - lr * first, moved.parameters())
    first_order = (first + beta * risk_gradient(moved, j)) / 2
    exact = gradient(ours, batch)
    assert (exact - first_order).norm() > 0.02 * exact.norm()


def test_without_beta_it_is_the_risk_of_the_meta_train_domains() -> None:
    ours = build(lr=0.1, beta=0.0, meta_test_domains=2)
    (batch,) = batches(1)
    ((domain, _),) = next_pairs(ours, 3)
    losses = ours.objective(batch)
    risk = F.cross_entropy(ours.predict(batch.x[domain]), batch.y[domain])
    torch.testing.assert_close(losses.total, risk / 3)
    torch.testing.assert_close(losses.parts["meta_train_risk"], risk / 3)


# --- who meets whom ---------------------------------------------------------------------------


@pytest.mark.parametrize("domains", [2, 3, 4, 5])
@pytest.mark.parametrize("asked", [1, 2, 7])
def test_at_least_one_domain_is_left_to_train_on(domains: int, asked: int) -> None:
    ours = build(domains, meta_test_domains=asked)
    held_out = min(asked, domains - 1)
    for _ in range(20):
        pairs = list(ours.pairs(domains))
        train, test = ([pair[side] for pair in pairs] for side in (0, 1))
        assert len(set(train)) == len(train) == domains - held_out
        assert set(train).isdisjoint(test)
        assert len(set(test)) == min(held_out, len(train))
        assert set(train) | set(test) <= set(range(domains))


def test_every_domain_meets_every_other() -> None:
    ours = build()
    met = {pair for _ in range(200) for pair in ours.pairs(3)}
    assert met == {(i, j) for i in range(3) for j in range(3) if i != j}


def test_two_domains_make_updates_by_default() -> None:
    ours = build(domains=2)
    assert ours.hparams.meta_test_domains == 2
    before = ours.head.weight.detach().clone()
    ours.update(batches(1, domains=2)[0])
    assert not torch.equal(ours.head.weight, before)


def test_chance_is_the_generators() -> None:
    ours = build()
    before = torch.get_rng_state()
    own = ours.generator.get_state()
    for batch in batches(2):
        ours.update(batch)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(ours.generator.get_state(), own)


# --- networks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        lambda: nn.Linear(5, 1),
        lambda: nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, CLASSES)),
    ],
    ids=["single logit", "nonlinear"],
)
def test_it_learns_with_any_head(head: Callable[[], nn.Module]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours = build(head=head(), lr=3e-2, meta_test_domains=1)
    (batch,) = batches(1)
    batch = Batch(batch.x, (batch.x[..., 0] > 0).long())
    losses = [ours.update(batch)["loss"].item() for _ in range(150)]
    assert losses[-1] < 0.5 * losses[0]


def test_a_frozen_featurizer_stays() -> None:
    ours = build()
    ours.featurizer.requires_grad_(False)
    before = copy.deepcopy(ours.state_dict())
    ours.update(batches(1)[0])
    torch.testing.assert_close(
        ours.featurizer.state_dict(),
        {name.removeprefix("featurizer."): w for name, w in before.items() if "feat" in name},
        rtol=0,
        atol=0,
    )
    assert not torch.equal(ours.head.weight, before["head.weight"])
