"""ARM: contexts domain by domain, the network's task, and what a context is good for."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.algorithms.arm import ARM
from shiftproof.benchmark.domainbed_logs import ALGORITHM_NAMES
from shiftproof.models.mlp import MLP
from shiftproof.seeding import seed_hash
from shiftproof.space import Regime, draw, resolve
from shiftproof.types import Batch, Task

PROTOCOL = json.loads((Path(__file__).parents[1] / "golden/domainbed_protocol.json").read_text())
REGIMES: dict[str, Regime] = {
    "ColoredMNIST": "small-image",
    "RotatedMNIST": "small-image",
    "PACS": "large-image",
    "DomainNet": "huge-image",
}
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
    for shape, expected in {
        (3, 28, 28): (4, 28, 28),
        (5,): (10,),
        (4, 9): (8, 9),
    }.items():
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


@pytest.mark.parametrize("dataset", REGIMES)
def test_hyper_parameters_are_the_protocols(dataset: str) -> None:
    names, regime = ALGORITHM_NAMES["ARM"].hparams, REGIMES[dataset]

    def published(values: dict[str, object]) -> dict[str, object]:
        return {theirs: values[ours] for theirs, ours in names.items()}

    expected = PROTOCOL["defaults"][f"ARM/{dataset}"]
    defaults = asdict(resolve(ARM.Hparams, regime))
    assert published(defaults) == {theirs: expected[theirs] for theirs in names}
    draws = [r for r in PROTOCOL["random"] if (r["algorithm"], r["dataset"]) == ("ARM", dataset)]
    assert len(draws) == 3
    for draw_ in draws:
        seed = seed_hash(draw_["hparams_seed"], draw_["trial_seed"])
        drawn = draw(ARM.Hparams, regime, seed, {ours: name for name, ours in names.items()})
        assert published(drawn) == {theirs: draw_["hparams"][theirs] for theirs in names}


def evolved(algorithm: ARM) -> dict[str, object]:
    state = algorithm.training_state()
    return {**state, "optimizers": {k: o["state"] for k, o in state["optimizers"].items()}}


@TASKS
@UPSTREAM
def test_resumes_bit_for_bit(task: Task, match_upstream: bool) -> None:
    batches = [batch_of(task, step) for step in range(6)]
    straight, interrupted = (build(task, match_upstream=match_upstream) for _ in range(2))
    for batch in batches:
        straight.update(batch)
    for batch in batches[:3]:
        interrupted.update(batch)
    saved = io.BytesIO()
    torch.save(interrupted.training_state(), saved)
    saved.seek(0)
    resumed = build(task, 1, match_upstream=match_upstream)
    resumed.load_training_state(torch.load(saved, weights_only=True))
    for batch in batches[3:]:
        resumed.update(batch)
    torch.testing.assert_close(evolved(resumed), evolved(straight), rtol=0, atol=0)


@TASKS
@UPSTREAM
def test_prediction_is_repeatable_and_changes_nothing(task: Task, match_upstream: bool) -> None:
    algorithm = build(task, match_upstream=match_upstream)
    algorithm.update(batch_of(task, 0))
    algorithm.eval()
    before = copy.deepcopy(evolved(algorithm))
    rng = torch.get_rng_state()
    x = batch_of(task, 1).x[0]
    logits = algorithm.predict(x)
    assert torch.equal(algorithm.predict(x), logits)
    torch.testing.assert_close(evolved(algorithm), before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), rng)
