"""CausIRL's random cut of the domains, against the enumeration of all cuts."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from _internals import CausIRLCORAL, resolve
from scipy.stats import chisquare
from torch import Tensor, nn

from shiftproof import ALGORITHMS, Batch, Task

NAMES = ["causirl-coral", "causirl-mmd"]


def build(name: str, domains: int) -> CausIRLCORAL:
    """Return the algorithm with the inputs for features."""
    cls = ALGORITHMS.get(name)
    assert issubclass(cls, CausIRLCORAL)
    hparams = resolve(cls.Hparams, "table", {"penalty_weight": 3.0})
    task = Task((2,), 2, domains, "table")
    generator = torch.Generator().manual_seed(0)
    return cls(task, nn.Identity(), nn.Linear(2, 2), hparams, generator).double()


def draw_batch(domains: int, batch: int) -> Batch:
    generator = torch.Generator().manual_seed(batch)
    x = torch.randn(domains, batch, 2, generator=generator, dtype=torch.float64)
    return Batch(x, torch.randint(2, (domains, batch), generator=generator))


def moment_distance(a: np.ndarray, b: np.ndarray) -> float:
    means = np.mean((a.mean(0) - b.mean(0)) ** 2)
    return float(means + np.mean((np.cov(a, rowvar=False) - np.cov(b, rowvar=False)) ** 2))


def kernel_distance(a: np.ndarray, b: np.ndarray) -> float:
    def kernel(p: np.ndarray, q: np.ndarray) -> float:
        squares = ((p[:, None] - q[None]) ** 2).sum(-1)
        return float(np.mean(sum(np.exp(-(10.0**e) * squares) for e in range(-3, 4))))

    return kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)


DISTANCES = {"causirl-coral": moment_distance, "causirl-mmd": kernel_distance}


def all_cuts(name: str, x: Tensor) -> dict[tuple[int, ...], float]:
    """The penalty of every choice of one cut per domain, 0 … b − 1; 0 if a side has no spread."""
    domains, batch = x.shape[:2]
    penalties = {}
    for places in product(range(batch), repeat=domains):
        first = np.concatenate([x[i, :place].numpy() for i, place in enumerate(places)])
        second = np.concatenate([x[i, place:].numpy() for i, place in enumerate(places)])
        matchable = min(len(first), len(second)) > 1
        penalties[places] = DISTANCES[name](first, second) if matchable else 0.0
    return penalties


@pytest.mark.parametrize(("domains", "batch"), [(2, 4), (3, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_the_penalty_is_that_of_some_cut_and_all_cuts_are_equally_likely(
    name: str, domains: int, batch: int
) -> None:
    algorithm, data = build(name, domains), draw_batch(domains, batch)
    expected = all_cuts(name, data.x)
    values = np.array(list(expected.values()))
    draws = 40 * len(values)
    seen: Counter[float] = Counter()
    for _ in range(draws):
        losses = algorithm.objective(data)
        penalty = losses.parts["penalty"].item()
        nearest = values[np.abs(values - penalty).argmin()]
        assert penalty == pytest.approx(nearest, abs=1e-10)
        assert losses.total.item() == pytest.approx(
            losses.parts["risk"].item() + 3 * penalty, abs=1e-12
        )
        seen[float(nearest)] += 1
    probability = Counter(values.tolist())  # several cuts leave nothing to match
    observed = [seen[value] for value in probability]
    share = [draws * count / len(values) for count in probability.values()]
    assert chisquare(observed, share).pvalue > 1e-3


def test_a_cut_divides_every_domain_in_order_and_loses_nothing() -> None:
    algorithm = build("causirl-coral", 3)
    x = torch.arange(15.0).view(3, 5, 1)
    for _ in range(50):
        first, second = algorithm.cut(x)
        assert sorted([*first.flatten().tolist(), *second.flatten().tolist()]) == list(range(15))
        assert len(second) >= 3  # each domain's last sample at least
        for domain in x.flatten(1):
            before = [v for v in domain.tolist() if v in first]
            assert before == domain.tolist()[: len(before)]


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_a_domain_leaves_only_the_risk(name: str) -> None:
    algorithm, data = build(name, 2), draw_batch(2, 1)
    losses = algorithm.objective(data)
    assert losses.parts["penalty"].item() == 0
    assert losses.total.item() == losses.parts["risk"].item()


def test_cuts_come_from_the_algorithms_own_generator() -> None:
    data = draw_batch(2, 6)
    runs = []
    for _ in range(2):
        algorithm = build("causirl-mmd", 2)
        torch.rand(1)  # the global generator moves; the draws must not
        runs.append([algorithm.objective(data).parts["penalty"].item() for _ in range(10)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 1
