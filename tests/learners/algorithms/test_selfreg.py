"""SelfReg against explicit loops over classes and samples."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from _internals import MLP, InvalidValue, SelfReg, beta_weights, resolve
from torch import Tensor, nn

from shiftproof import Batch, Task

TASK = Task((5,), 3, num_domains=3, regime="table")
NETWORK = MLP(hidden=7, depth=1)
NONLINEAR = MLP(hidden=8, depth=1, nonlinear_head=True)
UPSTREAM = pytest.mark.parametrize("match_upstream", [False, True])


def build(seed: int = 0, *, model: MLP = NETWORK, **given: object) -> SelfReg:
    torch.manual_seed(seed)
    network = model.build(TASK)
    hparams = resolve(SelfReg.Hparams, TASK.regime, given)
    generator = torch.Generator().manual_seed(seed)
    return SelfReg(TASK, network.featurizer, network.head, hparams, generator).double()


def batch_of(seed: int, *, domains: int = 3, classes: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, 8, 5, dtype=torch.float64, generator=generator)
    return Batch(x, torch.randint(classes, (domains, 8), generator=generator))


def shuffle_within_classes(labels: Tensor, draws: torch.Generator) -> list[int]:
    """Go through all samples in a random order; the j-th met of a class partners its j-th."""
    order = torch.randperm(len(labels), generator=draws).tolist()
    partners = [-1] * len(labels)
    for label in set(labels.tolist()):
        members = [i for i, y in enumerate(labels.tolist()) if y == label]
        met = [i for i in order if labels[i] == label]
        for i, j in zip(members, met, strict=True):
            partners[i] = j
    return partners


def explicit_parts(algorithm: SelfReg, batch: Batch) -> tuple[Tensor, Tensor]:
    """Risk and dissimilarity by loops, with the draws the objective is about to make."""
    draws = torch.Generator().set_state(algorithm.generator.get_state())
    x, y = batch.x.flatten(0, 1), batch.y.flatten()
    features = algorithm.featurizer(x)
    projected = algorithm.projection(features)
    logits = algorithm.head(features)
    first, second = (shuffle_within_classes(y, draws) for _ in range(2))
    lam = beta_weights(0.5, 1, draws).item()
    terms = []
    for i, (j, k) in enumerate(zip(first, second, strict=True)):
        for own, others, share in ((logits, logits, 1.0), (features, projected, 0.3)):
            individual = (own[i] - others[j]).square().mean()
            mixture = lam * others[j] + (1 - lam) * others[k]
            heterogeneous = (own[i] - mixture).square().mean()
            terms.append(share * (lam * individual + (1 - lam) * heterogeneous))
    return F.cross_entropy(logits, y), torch.stack(terms).sum() / len(x)


@pytest.mark.parametrize("model", [NETWORK, NONLINEAR])
@pytest.mark.parametrize("sharpness", [1.0, 30.0])
def test_objective_and_gradient_by_loops(model: MLP, sharpness: float) -> None:
    """Sharp wrong predictions push the risk beyond 1, where the scale stops growing."""
    algorithm = build(model=model)
    last = algorithm.head if isinstance(algorithm.head, nn.Linear) else algorithm.head[-1]
    with torch.no_grad():
        last.weight.mul_(sharpness)
        last.bias.copy_(torch.tensor([0.0, 0.5, 1.0]) * sharpness)
    batch = batch_of(0)
    if sharpness == 1.0:
        batch = Batch(batch.x, torch.full_like(batch.y, 2))
    risk, penalty = explicit_parts(algorithm, batch)
    scale = min(risk.item(), 1.0)
    assert (risk < 1) == (sharpness == 1.0)
    parameters = list(algorithm.parameters())
    expected = torch.autograd.grad(risk + scale * penalty, parameters)
    losses = algorithm.objective(batch)
    torch.testing.assert_close(losses.total, risk + scale * penalty)
    torch.testing.assert_close(losses.parts, {"risk": risk, "dissimilarity": penalty})
    torch.testing.assert_close(torch.autograd.grad(losses.total, parameters), expected)


@UPSTREAM
def test_the_projection_learns_unless_upstream_is_matched(match_upstream: bool) -> None:
    algorithm = build(match_upstream=match_upstream)
    before = [weight.detach().clone() for weight in algorithm.projection.parameters()]
    algorithm.update(batch_of(0))
    after = list(algorithm.projection.parameters())
    unchanged = [torch.equal(*pair) for pair in zip(before, after, strict=True)]
    assert all(unchanged) if match_upstream else not all(unchanged)


def test_the_projection_has_the_published_widths() -> None:
    def widths(features: int) -> list[tuple[int, int]]:
        head = nn.Linear(features, 3)
        hparams = SelfReg.Hparams()
        algorithm = SelfReg(TASK, nn.Identity(), head, hparams, torch.Generator())
        linear = [layer for layer in algorithm.projection if isinstance(layer, nn.Linear)]
        return [(layer.in_features, layer.out_features) for layer in linear]

    assert widths(128) == [(128, 256), (256, 256), (256, 128)]
    assert widths(2048) == [(2048, 2048)] * 3


def test_a_head_without_a_linear_layer_is_refused() -> None:
    with pytest.raises(InvalidValue, match="linear layer"):
        SelfReg(TASK, nn.Linear(5, 3), nn.Identity(), SelfReg.Hparams(), torch.Generator())
