"""The Neumann series against the inverse of matrices, cut off and where it diverges."""

from __future__ import annotations

import numpy as np
import torch
from _internals import neumann_inverse


def matrices(seed: int, lowest: float, highest: float) -> np.ndarray:
    """Return two symmetric 4×4 matrices with eigenvalues between the given ones."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(2):
        basis, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        found.append(basis @ np.diag(np.linspace(lowest, highest, 4)) @ basis.T)
    return np.stack(found)


def apply(h: np.ndarray, v: np.ndarray, terms: int) -> np.ndarray:
    stored = torch.from_numpy(h)
    return neumann_inverse(
        lambda x: torch.einsum("mij,mj->mi", stored, x), torch.from_numpy(v), terms
    ).numpy()


def test_it_tends_to_the_inverse_where_eigenvalues_are_below_two() -> None:
    h, v = matrices(0, 0.1, 1.9), np.random.default_rng(1).normal(size=(2, 4)) / 10
    expected = np.stack([np.linalg.solve(one, b) for one, b in zip(h, v, strict=True)])
    np.testing.assert_allclose(apply(h, v, terms=400), expected, atol=1e-10)


def test_cut_off_it_is_the_sum_of_powers() -> None:
    h, v = matrices(0, 0.1, 1.9), np.random.default_rng(1).normal(size=(2, 4))
    powers = [
        [np.linalg.matrix_power(np.eye(4) - one, k) @ b for k in range(4)]
        for one, b in zip(h, v, strict=True)
    ]
    np.testing.assert_allclose(apply(h, v, terms=3), np.sum(powers, axis=1), atol=1e-12)


def test_a_series_that_diverges_stops_and_leaves_the_others_alone() -> None:
    h = np.stack([np.diag([5.0, 1.0]), np.diag([0.5, 1.0])])
    found = apply(h, np.ones((2, 2)), terms=50)
    # 1 − 4 + 16 = 13 is beyond 10, and no term follows.
    np.testing.assert_allclose(found, [[13, 1], [2, 1]], atol=1e-9)
