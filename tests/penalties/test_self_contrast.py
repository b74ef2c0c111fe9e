"""Partners within classes by enumeration, and SelfReg's dissimilarities by explicit loops."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from _internals import dissimilarity, same_class_partners


@pytest.mark.parametrize("labels", [(0, 1, 0, 1, 0), (2, 2, 2, 2), (5, 3, 3, 7, 7)])
def test_every_shuffle_within_classes_is_equally_likely(labels: tuple[int, ...]) -> None:
    size = len(labels)
    counts = Counter(
        tuple(same_class_partners(torch.tensor(labels), torch.tensor(order)).tolist())
        for order in itertools.permutations(range(size))
    )
    allowed = {
        partners
        for partners in itertools.permutations(range(size))
        if all(labels[i] == labels[j] for i, j in enumerate(partners))
    }
    assert set(counts) == allowed
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_dissimilarity_by_loops(weight: float) -> None:
    generator = torch.Generator().manual_seed(0)
    n, c, k = 7, 3, 4
    z, r, p = (torch.randn(n, size, dtype=torch.float64, generator=generator) for size in (c, k, k))
    first, second = (torch.randperm(n, generator=generator) for _ in range(2))
    total = 0.0
    for i in range(n):
        i1, i2 = first[i], second[i]
        for d in range(c):
            individual = (z[i, d] - z[i1, d]) ** 2
            mixture = weight * z[i1, d] + (1 - weight) * z[i2, d]
            total += (weight * individual + (1 - weight) * (z[i, d] - mixture) ** 2) / (n * c)
        for d in range(k):
            individual = (r[i, d] - p[i1, d]) ** 2
            mixture = weight * p[i1, d] + (1 - weight) * p[i2, d]
            together = weight * individual + (1 - weight) * (r[i, d] - mixture) ** 2
            total += 0.3 * together / (n * k)
    lam = torch.tensor(weight, dtype=torch.float64)
    torch.testing.assert_close(dissimilarity(z, r, p, (first, second), lam), total)


def test_identical_samples_of_a_class_are_not_dissimilar() -> None:
    labels = torch.tensor([0, 1, 1, 0, 2])
    rows = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.0, 5.0]], dtype=torch.float64)[labels]
    partners = tuple(
        same_class_partners(labels, torch.randperm(5, generator=torch.Generator().manual_seed(s)))
        for s in (0, 1)
    )
    lam = torch.tensor(0.4, dtype=torch.float64)
    assert dissimilarity(rows, rows, rows, (partners[0], partners[1]), lam) == 0
    others = torch.tensor([1, 0, 3, 2, 4])
    assert dissimilarity(rows, rows, rows, (others, partners[1]), lam) > 0
