"""ARM: contexts domain by domain, the network's task, and what a context is good for."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from _internals import ARM, MLP, resolve
from torch import Tensor, nn

from shiftproof import Batch, Task

TABLE = Task((5,), 3, num_domains=3, regime="table")
IMAGE = Task((2, 6, 6), 3, num_domains=3, regime="small-image")
TASKS = pytest.mark.parametrize("task", [TABLE, IMAGE], ids=["table", "image"])
UPSTREAM = pytest.mark.parametrize("match_upstream", [False, True])


def build(task: Task, seed: int = 0, **given: object) -> ARM:
    torch.manual_seed(seed)
    network = MLP(hidden=16, depth=1, nonlinear_head=True).build(ARM.network_task(task))
    hparams = resolve(ARM.Hparams, task.regime, given)
    generator = torch.Generator().manual_seed(seed)
    return ARM(task, network.featurizer, network.head, hparams, generator).double()


def batch_of(task: Task, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 4, *task.input_shape, dtype=torch.float64, generator=generator)
    return Batch(x, torch.randint(3, (3, 4), generator=generator))


def test_the_network_is_built_for_inputs_with_their_context() -> None:
    for shape, expected in {(3, 28, 28): (4, 28, 28), (5,): (10,), (4, 9): (8, 9)}.items():
        task = Task(shape, 3, num_domains=2, regime="table")
        assert ARM.network_task(task) == Task(expected, 3, num_domains=2, regime="table")


@TASKS
def test_a_context_is_its_domains_mean_and_joins_the_input(task: Task) -> None:
    algorithm = build(task)
    x = batch_of(task, 0).x
    joined = algorithm.with_context(x)
    assert joined.shape == (3, 4, *ARM.network_task(task).input_shape)
    for domain in range(3):
        each = torch.stack([algorithm.context(sample[None])[0] for sample in x[domain]])
        context = each.mean(dim=0)
        for j in range(4):
            torch.testing.assert_close(joined[domain, j], torch.cat([x[domain, j], context]))


@TASKS
@UPSTREAM
def test_a_domains_context_ignores_other_domains(task: Task, match_upstream: bool) -> None:
    algorithm = build(task, match_upstream=match_upstream)
    batch = batch_of(task, 0)
    changed = batch.x.clone()
    changed[1, 2] += 1
    before, after = algorithm.with_context(batch.x), algorithm.with_context(changed)
    own = task.input_shape[0]
    assert (before[1, :, own:] != after[1, :, own:]).any()  # one sample is felt by all beside it
    if match_upstream:  # upstream's batch norm mixes the domains while training
        assert not torch.equal(before[[0, 2]], after[[0, 2]])
    else:
        assert torch.equal(before[[0, 2]], after[[0, 2]])


@TASKS
def test_objective_is_the_risk_given_the_context(task: Task) -> None:
    algorithm = build(task)
    batch = batch_of(task, 0)
    risks = []
    for x, y in zip(batch.x, batch.y, strict=True):
        context = algorithm.context(x).mean(dim=0, keepdim=True).expand(4, *[-1] * (x.dim() - 1))
        logits = algorithm.head(algorithm.featurizer(torch.cat([x, context], dim=1)))
        torch.testing.assert_close(algorithm.predict(x), logits)
        risks.append(F.cross_entropy(logits, y))
    torch.testing.assert_close(algorithm.objective(batch).total, torch.stack(risks).mean())


@TASKS
@UPSTREAM
def test_the_context_network_learns_unless_upstream_is_matched(
    task: Task, match_upstream: bool
) -> None:
    algorithm = build(task, match_upstream=match_upstream)
    before = [weight.detach().clone() for weight in algorithm.context.parameters()]
    algorithm.update(batch_of(task, 0))
    after = list(algorithm.context.parameters())
    unchanged = [torch.equal(*pair) for pair in zip(before, after, strict=True)]
    assert all(unchanged) if match_upstream else not any(unchanged)


@TASKS
def test_a_batch_to_predict_is_one_domain_in_any_order(task: Task) -> None:
    algorithm = build(task).eval()
    x = batch_of(task, 0).x.flatten(0, 1)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    logits = algorithm.predict(x)
    torch.testing.assert_close(algorithm.predict(x[order]), logits[order])
    assert algorithm.predict(x[:1]).shape == (1, 3)
    assert not torch.allclose(algorithm.predict(x[:1]), logits[:1])


def relative_batch(means: Tensor, seed: int) -> Batch:
    """One input x ~ N(μ, 1); the class says whether it exceeds its domain's μ."""
    generator = torch.Generator().manual_seed(seed)
    deviation = torch.randn(len(means), 64, 1, generator=generator, dtype=torch.float64)
    return Batch(deviation + means.view(-1, 1, 1), (deviation > 0).long().squeeze(-1))


def test_the_context_tells_what_no_sample_tells_by_itself() -> None:
    torch.manual_seed(0)
    task = Task((1,), 2, num_domains=3, regime="table")
    hparams = resolve(ARM.Hparams, "table", {"lr": 0.02})
    generator = torch.Generator().manual_seed(0)
    algorithm = ARM(task, nn.Flatten(), nn.Linear(2, 2), hparams, generator).double()
    for step in range(150):
        algorithm.update(relative_batch(torch.tensor([-2.0, 0.0, 2.0]), step))
    unseen = relative_batch(torch.tensor([-1.5, -1.0, 1.0, 1.5]), 1000)
    logits = torch.stack([algorithm.predict(x) for x in unseen.x])
    accuracy = (logits.argmax(dim=2) == unseen.y).double().mean(dim=1)
    # By the sample alone, no threshold is right for more than 57% of both outer domains.
    assert (accuracy > 0.8).all()
