"""Typicality: distances against SciPy's, p-values against counting, and their level."""

from __future__ import annotations

import numpy as np
import torch
from _internals import FAR, Typicality
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import ledoit_wolf


def domains(seed: int, n: int, k: int = 3) -> dict[str, np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(k, k, generator=torch.Generator().manual_seed(99))
    return {
        name: (torch.randn(n, k, generator=generator) @ mix + shift).numpy()
        for name, shift in (("a", 0.0), ("b", 5.0))
    }


def test_the_distance_is_mahalanobis_to_the_nearest_domain() -> None:
    trained_on = domains(0, 200)
    typicality = Typicality.fit(trained_on, domains(1, 50))
    within = np.concatenate([r - r.mean(0) for r in trained_on.values()]).astype(float)
    inverse = np.linalg.inv(ledoit_wolf(within, assume_centered=True)[0])
    points = 4 * np.random.default_rng(2).normal(size=(20, 3))
    expected = [
        min(mahalanobis(x, r.astype(float).mean(0), inverse) for r in trained_on.values())
        for x in points
    ]
    np.testing.assert_allclose(typicality.distance(points), expected, rtol=1e-5)


def test_the_p_value_counts_held_out_samples_at_least_as_far() -> None:
    held_out = domains(1, 50)
    typicality = Typicality.fit(domains(0, 200), held_out)
    off = np.concatenate([typicality.distance(r) for r in held_out.values()])
    points = np.concatenate(
        [4 * np.random.default_rng(3).normal(size=(20, 3)), held_out["a"][:5]]
    )  # ties with themselves count
    equal = 1 - 1e-12  # products of other shapes round otherwise
    apart = typicality.distance(points)
    expected = [(1 + int((off >= equal * d).sum())) / (1 + len(off)) for d in apart]
    np.testing.assert_allclose(typicality.p_value(points), expected)


def test_new_samples_of_the_training_domains_are_seldom_far() -> None:
    """P(p ≤ α) ≤ α on average over calibrations: with 400 of them, 1% within 0.6 points."""
    rates = []
    for seed in range(40):
        typicality = Typicality.fit(domains(seed, 100), domains(seed + 1000, 150))
        fresh = np.concatenate([*domains(seed + 2000, 500).values()])
        rates.append(typicality.is_far(typicality.p_value(fresh)).mean())
    assert abs(np.mean(rates) - FAR) < 0.006


def test_what_lies_elsewhere_is_far_in_whatever_direction() -> None:
    typicality = Typicality.fit(domains(0, 200), domains(1, 100))
    for direction in np.eye(3):
        assert typicality.is_far(typicality.p_value(1000 * direction[None])).all()
    # Between the domains is not far from both.
    assert not typicality.is_far(typicality.p_value(np.zeros((1, 3)))).any()


def test_few_held_out_samples_and_directions_without_variance() -> None:
    flat = {"a": np.random.default_rng(0).normal(size=(30, 2)) * [1, 0]}
    typicality = Typicality.fit(flat, {"a": flat["a"][:9]})
    p = typicality.p_value(np.array([[0.0, 0.0], [0.0, 3.0], [50.0, 0.0]]))
    assert p[1] == p[2] == 0.1  # the lowest that nine can show
    assert typicality.is_far(p).tolist() == [False, True, True]


def test_domains_without_any_variance_give_finite_numbers_in_single_precision() -> None:
    """A table whose columns tell the domain, each with one value there."""
    constant = {name: np.full((30, 1), value) for name, value in (("a", 0.5), ("b", -0.75))}
    typicality = Typicality.fit(constant, constant)
    assert all(np.isfinite(array).all() for array in typicality.arrays().values())
    p = typicality.p_value(np.array([[0.5], [-0.75], [0.51], [0.0]]))
    assert typicality.is_far(p).tolist() == [False, False, True, True]


def test_written_and_read_it_says_the_same() -> None:
    typicality = Typicality.fit(domains(0, 200), domains(1, 50))
    again = Typicality.from_arrays(typicality.arrays(), {})
    points = 3 * np.random.default_rng(3).normal(size=(100, 3))
    assert np.array_equal(again.p_value(points), typicality.p_value(points))
