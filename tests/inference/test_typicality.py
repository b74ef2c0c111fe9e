"""Typicality: distances against SciPy's, p-values against counting, and their level."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import ledoit_wolf

from shiftproof.inference.typicality import FAR, Typicality


def domains(seed: int, n: int, k: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(k, k, generator=torch.Generator().manual_seed(99))
    return {
        name: torch.randn(n, k, generator=generator) @ mix + shift
        for name, shift in (("a", 0.0), ("b", 5.0))
    }


def test_the_distance_is_mahalanobis_to_the_nearest_domain() -> None:
    trained_on = domains(0, 200)
    typicality = Typicality.fit(trained_on, domains(1, 50))
    within = torch.cat([r - r.mean(0) for r in trained_on.values()]).double().numpy()
    inverse = np.linalg.inv(ledoit_wolf(within, assume_centered=True)[0])
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(2)) * 4
    expected = [
        min(mahalanobis(x, r.double().mean(0).numpy(), inverse) for r in trained_on.values())
        for x in points.double().numpy()
    ]
    np.testing.assert_allclose(typicality.distance(points).numpy(), expected, rtol=1e-5)


def test_the_p_value_counts_held_out_samples_at_least_as_far() -> None:
    held_out = domains(1, 50)
    typicality = Typicality.fit(domains(0, 200), held_out)
    off = torch.cat([typicality.distance(r) for r in held_out.values()])
    points = torch.cat([torch.randn(20, 3) * 4, held_out["a"][:5]])  # ties with themselves count
    expected = [(1 + int((off >= d).sum())) / (1 + len(off)) for d in typicality.distance(points)]
    np.testing.assert_allclose(typicality.p_value(points).numpy(), expected)


def test_new_samples_of_the_training_domains_are_seldom_far() -> None:
    """P(p ≤ α) ≤ α on average over calibrations: with 400 of them, 1% within 0.6 points."""
    rates = []
    for seed in range(40):
        typicality = Typicality.fit(domains(seed, 100), domains(seed + 1000, 150))
        fresh = torch.cat([*domains(seed + 2000, 500).values()])
        rates.append(typicality.is_far(typicality.p_value(fresh)).double().mean().item())
    assert abs(np.mean(rates) - FAR) < 0.006


def test_what_lies_elsewhere_is_far_in_whatever_direction() -> None:
    typicality = Typicality.fit(domains(0, 200), domains(1, 100))
    for direction in torch.eye(3):
        assert typicality.is_far(typicality.p_value(1000 * direction[None])).all()
    # Between the domains is not far from both.
    assert not typicality.is_far(typicality.p_value(torch.zeros(1, 3))).any()


def test_few_held_out_samples_and_directions_without_variance() -> None:
    generator = torch.Generator().manual_seed(0)
    flat = {"a": torch.cat([torch.randn(30, 1, generator=generator), torch.zeros(30, 1)], 1)}
    typicality = Typicality.fit(flat, {"a": flat["a"][:9]})
    p = typicality.p_value(torch.tensor([[0.0, 0.0], [0.0, 3.0], [50.0, 0.0]]))
    assert p[1] == p[2] == 0.1  # the lowest that nine can show
    assert typicality.is_far(p).tolist() == [False, True, True]


def test_written_and_read_it_says_the_same() -> None:
    typicality = Typicality.fit(domains(0, 200), domains(1, 50))
    again = Typicality.from_tensors(typicality.tensors())
    points = torch.randn(100, 3, generator=torch.Generator().manual_seed(3)) * 3
    assert torch.equal(again.p_value(points), typicality.p_value(points))
