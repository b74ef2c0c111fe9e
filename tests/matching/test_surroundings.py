"""What a loop may be surrounded by: autocast, compilation, accumulation, processes, checkpoints."""

from __future__ import annotations

import copy
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof import InterDomainMatching

SETTINGS = {"gradient_weight": 20.0, "gradient_warmup": 0, "representation_ema": 0.9}
SIZES = ([5, 3, 4], [6, 2, 7], [5, 5, 5])


class Network(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(5, 8), nn.ReLU()).to(dtype)
        self.head = nn.Linear(8, 3).to(dtype)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return features, self.head(features)


def batch_of(step: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    sizes = torch.tensor(SIZES[step])
    domains = torch.arange(3).repeat_interleave(sizes)
    x = torch.randn(len(domains), 5, generator=generator).to(dtype) + domains[:, None]
    return x, torch.randint(3, (len(domains),), generator=generator), domains


def call(network: nn.Module, matching: InterDomainMatching, step: int, dtype: Any) -> Tensor:
    x, labels, domains = batch_of(step, dtype)
    penalty: Tensor = matching(*network(x), labels, domains)
    return penalty


# --- autocast ---------------------------------------------------------------------------------


def test_under_autocast_it_is_computed_in_full_precision() -> None:
    network = Network()
    inside, outside, full = (InterDomainMatching(**SETTINGS) for _ in range(3))
    for step in range(3):
        x, labels, domains = batch_of(step)
        expected = full(*network(x), labels, domains)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            features, logits = network(x)
            assert features.dtype == logits.dtype == torch.bfloat16
            penalty = inside(features, logits, labels, domains)
        assert penalty.dtype == torch.float32
        # The same half-precision points, matched where no autocast is.
        assert torch.equal(penalty, outside(features.float(), logits.float(), labels, domains))
        torch.testing.assert_close(penalty, expected, rtol=0.03, atol=0)
    penalty.backward()
    assert network.body[0].weight.grad.isfinite().all()


# --- torch.compile ----------------------------------------------------------------------------


# Dynamo hides this warning of its own making, unless warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_inside_a_compiled_step_it_equals_eager() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        graphs.append(graph)
        return graph.forward

    def step_of(network: nn.Module, matching: InterDomainMatching) -> Any:
        def step(x: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
            features, logits = network(x)
            penalty = matching(features, logits, labels, domains)
            return F.cross_entropy(logits, labels) + 2 * penalty

        return step

    torch.compiler.reset()
    networks = Network(), Network()
    eager = step_of(networks[0], InterDomainMatching(**SETTINGS))
    compiled = torch.compile(
        step_of(networks[1], InterDomainMatching(**SETTINGS)), backend=backend, dynamic=True
    )
    for step in range(3):
        losses = [each(*batch_of(step)) for each in (eager, compiled)]
        torch.testing.assert_close(losses[0], losses[1])
        for loss, network in zip(losses, networks, strict=True):
            network.zero_grad()
            loss.backward()
        for ours, theirs in zip(*(network.parameters() for network in networks), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
    assert any("linear" in graph.code for graph in graphs)  # the network is in a graph
    # And sizes of groups that change do not compile it anew each time.
    assert len(graphs) <= 4
    torch.compiler.reset()


# --- gradient accumulation --------------------------------------------------------------------


def test_two_passes_accumulate_the_gradient_of_the_whole_batch() -> None:
    """Matching is of the whole batch; its gradient by features and logits goes to the pieces."""
    whole, pieces = Network(torch.float64), Network(torch.float64)
    matchings = [InterDomainMatching(**SETTINGS) for _ in range(2)]
    for step in range(3):
        x, labels, domains = batch_of(step, torch.float64)
        whole.zero_grad()
        expected = matchings[0](*whole(x), labels, domains)
        expected.backward()

        pieces.zero_grad()
        parts = x.split(4)
        with torch.no_grad():
            outputs = [pieces(part) for part in parts]
        features, logits = (torch.cat(each).requires_grad_() for each in zip(*outputs, strict=True))
        penalty = matchings[1](features, logits, labels, domains)
        penalty.backward()
        gradients = zip(features.grad.split(4), logits.grad.split(4), strict=True)
        for part, gradient in zip(parts, gradients, strict=True):
            torch.autograd.backward(pieces(part), gradient)

        torch.testing.assert_close(penalty, expected, rtol=1e-12, atol=0)
        for ours, theirs in zip(pieces.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)
    assert matchings[1].steps == 3


# --- DistributedDataParallel ------------------------------------------------------------------


def test_two_processes_match_the_joined_batch(tmp_path: Path) -> None:
    script = Path(__file__).with_name("two_processes.py")
    other = subprocess.Popen(
        [sys.executable, "-W", "error", str(script), "1", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    spec = importlib.util.spec_from_file_location("two_processes", script)
    worker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worker)
    alone = InterDomainMatching(**worker.SETTINGS)
    expected = worker.train(
        worker.Network(), alone, [slice(None)] * worker.STEPS, [1.0] * worker.STEPS
    )
    try:
        worker.main(0, tmp_path)
        _, errors = other.communicate(timeout=120)
        assert other.returncode == 0, errors
    finally:
        other.kill()
        other.communicate()
    for rank in (0, 1):
        saved = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for record, of_one in zip(saved["records"], expected, strict=True):
            for name, value in of_one.items():
                torch.testing.assert_close(record[name], value, rtol=1e-9, atol=1e-12, msg=name)
        torch.testing.assert_close(saved["state"], dict(alone.state_dict()), rtol=1e-9, atol=1e-12)
    assert expected[-1]["penalty"] > 0.01


# --- state ------------------------------------------------------------------------------------


def test_a_saved_state_goes_on_to_the_bit(tmp_path: Path) -> None:
    network = Network()
    settings = SETTINGS | {"gradient_warmup": 2}
    matching = InterDomainMatching(**settings)
    for step in range(2):
        call(network, matching, step, torch.float32)
    torch.save(matching.state_dict(), tmp_path / "state.pt")
    copied = copy.deepcopy(matching)
    loaded = InterDomainMatching(**settings)
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    fresh = InterDomainMatching(**settings)
    # The first domain is absent, so each must know which memory is whose.
    x, labels, domains = (each[SIZES[2][0] :] for each in batch_of(2))
    results = [each(*network(x), labels, domains) for each in (matching, copied, loaded, fresh)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    assert not torch.isclose(results[0], results[3], rtol=0.1)
    assert matching.steps == copied.steps == loaded.steps == 3


def test_an_empty_state_makes_it_forget() -> None:
    matching = InterDomainMatching(**SETTINGS)
    empty = copy.deepcopy(matching.state_dict())
    first = call(Network(), matching, 0, torch.float32)
    assert not torch.equal(call(Network(), matching, 0, torch.float32), first)
    matching.load_state_dict(empty)
    assert torch.equal(call(Network(), matching, 0, torch.float32), first)


def test_it_moves_with_the_model_and_has_no_parameters() -> None:
    model = Network()
    model.matching = InterDomainMatching(**SETTINGS, head=model.head)
    names = list(Network().state_dict())
    call(model, model.matching, 0, torch.float32)
    assert [name for name in model.state_dict() if "matching" not in name] == names
    assert not list(model.matching.parameters())
    assert "matching.gradients.match.sums" in model.state_dict()
    twin = copy.deepcopy(model)
    assert twin.matching._head[0] is twin.head  # a copy of the model matches its own head
    twin.double()
    expected = call(model, model.matching, 1, torch.float32)
    torch.testing.assert_close(
        call(twin, twin.matching, 1, torch.float64), expected.double(), rtol=1e-4, atol=0
    )
    assert model.to("meta").matching.gradients.match.sums.is_meta


def test_domains_may_be_a_list_or_an_array() -> None:
    x, labels, domains = batch_of(0)
    features, logits = Network()(x)
    first, *others = (
        InterDomainMatching(**SETTINGS)(features, logits, labels, each)
        for each in (domains, domains.tolist(), domains.numpy(), domains.to(torch.int16))
    )
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("weight", ["gradient_weight", "representation_weight"])
def test_a_weight_of_0_leaves_it_out(weight: str) -> None:
    matching = InterDomainMatching(**(SETTINGS | {weight: 0}))
    call(Network(), matching, 0, torch.float32)
    assert len(matching.measured) == 1
    assert weight.replace("weight", "penalty") not in matching.measured
