"""The drop-in matching is what IDM adds to the risk; groups of unequal sizes too."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
import torch
from _internals import IDM, resolve
from torch import Tensor, nn

from shiftproof import ALGORITHMS, Algorithm, Batch, InterDomainMatching, Task

INPUTS, FEATURES, DOMAINS, SIZE = 5, 4, 3, 6
SHORT = {"gradient_warmup": 0, "gradient_weight": 50.0}
CASES = {
    "short warm-up": {**SHORT, "gradient_warmup": 2},
    "both with memory": {**SHORT, "representation_ema": 0.9, "representation_warmup": 3},
    "none with memory": {**SHORT, "gradient_ema": 0.0, "representation_weight": 7.0},
    "order 1": {**SHORT, "order": 1, "representation_ema": 0.5},
    "trimmed": {**SHORT, "trim": 1},
    "trimmed, no memory": {**SHORT, "trim": 2, "gradient_ema": 0.0},
    "by class": {**SHORT, "match_within": "class"},
}
HEADS = {
    "linear": lambda outputs: nn.Linear(FEATURES, outputs),
    "without bias": lambda outputs: nn.Linear(FEATURES, outputs, bias=False),
    "mlp": lambda outputs: nn.Sequential(nn.Linear(FEATURES, 3), nn.Tanh(), nn.Linear(3, outputs)),
}


def build_idm(head: nn.Module, classes: int, hparams: dict[str, object]) -> Algorithm:
    cls = ALGORITHMS.get("idm")
    torch.manual_seed(1)
    featurizer = nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.Tanh()).double()
    task = Task((INPUTS,), classes, DOMAINS, "table")
    chosen = resolve(cls.Hparams, "table", {"lr": 0.02, **hparams})
    return cls(task, featurizer, head.double(), chosen, torch.Generator().manual_seed(0))


def make_batches(steps: int, classes: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(3)
    shift = torch.arange(DOMAINS)[:, None, None] / 2
    return [
        Batch(
            shift + torch.randn(DOMAINS, SIZE, INPUTS, dtype=torch.float64, generator=generator),
            torch.randint(classes, (DOMAINS, SIZE), generator=generator),
        )
        for _ in range(steps)
    ]


def mixed(batch: Batch, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels and odd domain ids, in no order."""
    ids = torch.tensor([40, -2, 7])[:DOMAINS].repeat_interleave(SIZE)
    order = torch.randperm(DOMAINS * SIZE, generator=torch.Generator().manual_seed(seed))
    return batch.x.flatten(0, 1)[order], batch.y.flatten()[order], ids[order]


def assert_equals_idm(
    idm: Algorithm, matching: InterDomainMatching, classes: int, steps: int = 5
) -> None:
    parameters = [*idm.featurizer.parameters(), *idm.head.parameters()]
    for step, batch in enumerate(make_batches(steps, classes)):
        x, y, domains = mixed(batch, step)
        features = idm.featurizer(x)
        penalty = matching(features, idm.head(features), y, domains)
        losses = idm.objective(batch)
        theirs = losses.total - losses.parts["risk"]
        torch.testing.assert_close(penalty, theirs, rtol=1e-11, atol=1e-13)
        for name, measured in matching.measured.items():
            torch.testing.assert_close(measured, losses.parts[name].detach(), rtol=1e-11, atol=0)
        pairs = zip(
            torch.autograd.grad(penalty, parameters, retain_graph=True, materialize_grads=True),
            torch.autograd.grad(theirs, parameters, retain_graph=True, materialize_grads=True),
            strict=True,
        )
        for ours, their in pairs:
            torch.testing.assert_close(ours, their, rtol=1e-9, atol=1e-11)
        idm.descend(losses.total)
        idm.updates += 1
    assert matching.steps == steps
    assert penalty > 1e-3  # something was compared


@pytest.mark.parametrize("case", CASES)
def test_it_is_what_idm_adds(case: str) -> None:
    torch.manual_seed(2)
    idm = build_idm(nn.Linear(FEATURES, 3), 3, CASES[case])
    assert_equals_idm(idm, InterDomainMatching(**CASES[case]), 3)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_it_is_what_idm_adds_for_any_head(head: str, outputs: int) -> None:
    torch.manual_seed(2)
    idm = build_idm(HEADS[head](outputs), max(outputs, 2), SHORT)
    assert_equals_idm(idm, InterDomainMatching(**SHORT, head=idm.head), max(outputs, 2))


def test_a_class_may_be_missing() -> None:
    torch.manual_seed(2)
    idm = build_idm(nn.Linear(FEATURES, 4), 4, SHORT)
    assert_equals_idm(idm, InterDomainMatching(**SHORT), 2)  # of four classes, two occur


def test_defaults_are_those_of_idm() -> None:
    theirs = {field.name: field.default for field in fields(IDM.Hparams)}
    ours = {
        name: parameter.default
        for name, parameter in inspect.signature(InterDomainMatching).parameters.items()
        if name not in ("head", "join_processes", "check")
    }
    assert len(ours) == 9
    assert ours == {name: theirs[name] for name in ours}
    # In the first 1500 steps, only representations are matched; gradients are remembered already.
    torch.manual_seed(2)
    idm = build_idm(nn.Linear(FEATURES, 3), 3, {})
    matching = InterDomainMatching()
    assert_equals_idm(idm, matching, 3)
    assert set(matching.measured) == {"gradient_penalty", "representation_penalty"}
    matching.steps = idm.updates = 1500
    assert_equals_idm_at(idm, matching)


def assert_equals_idm_at(idm: Algorithm, matching: InterDomainMatching) -> None:
    (batch,) = make_batches(1, 3)
    x, y, domains = mixed(batch, 0)
    features = idm.featurizer(x)
    losses = idm.objective(batch)
    ours = matching(features, idm.head(features), y, domains)
    torch.testing.assert_close(ours, losses.total - losses.parts["risk"], rtol=1e-11, atol=0)


# --- groups of unequal sizes ------------------------------------------------------------------


def unequal(sizes: list[int], seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    total = sum(sizes)
    features = torch.randn(total, FEATURES, dtype=torch.float64, generator=generator)
    logits = torch.randn(total, 3, dtype=torch.float64, generator=generator)
    labels = torch.randint(3, (total,), generator=generator)
    domains = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return features, logits, labels, domains


@pytest.mark.parametrize(
    ("gamma", "sizes"), [(0.0, [2, 3, 6]), (0.0, [4, 6]), (0.9, [2, 4, 4]), (0.9, [6, 3, 1])]
)
def test_repeating_the_samples_of_a_domain_changes_nothing(gamma: float, sizes: list[int]) -> None:
    """A group of 2 is the same sample of its distribution as each of its members three times."""
    common = 12
    settings = {**SHORT, "gradient_ema": gamma, "representation_ema": gamma}
    few, many = InterDomainMatching(**settings), InterDomainMatching(**settings)
    for seed in range(3):
        batch = unequal(sizes, seed)
        times = torch.tensor([common // size for size in sizes])[batch[3]]
        repeated = [x.repeat_interleave(times, dim=0) for x in batch]
        torch.testing.assert_close(few(*batch), many(*repeated), rtol=1e-11, atol=0)


def test_sizes_may_change_from_call_to_call() -> None:
    matching = InterDomainMatching(**SHORT, representation_ema=0.9)
    for seed, sizes in enumerate([[5, 3], [1, 7], [4, 4], [2, 9, 3]]):
        batch = unequal(sizes, seed)
        batch[0].requires_grad_()
        penalty = matching(*batch)
        penalty.backward()
        assert penalty > 0
        assert batch[0].grad is not None
        assert batch[0].grad.isfinite().all()
    assert matching.representations.match.sums.shape == (3, FEATURES, 5)


def test_by_class_compares_each_class_with_itself() -> None:
    """By hand: class 0 is {0, 0} and {2}, class 1 the same in both, class 2 in one domain only."""
    features = torch.tensor([[0.0], [0.0], [5.0], [9.0], [2.0], [5.0], [5.0]])
    labels = torch.tensor([0, 0, 1, 2, 0, 1, 1])
    domains = torch.tensor([1, 1, 1, 1, 2, 2, 2])
    matching = InterDomainMatching(0, 1, match_within="class")
    assert matching(features, torch.zeros(7, 3), labels, domains).item() == pytest.approx(0.5)
    nothing_shared = matching(features[:2], torch.zeros(2, 3), torch.tensor([0, 1]), [1, 2])
    assert nothing_shared.item() == 0
