"""RDM's penalties against loops over the losses in NumPy, and where they vanish."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import InvalidValue, worst_against_all


def mean_kernel(a: np.ndarray, b: np.ndarray) -> float:
    return float(
        np.mean(
            [sum(np.exp(-(10.0**e) * (x - y) ** 2) for e in range(-4, 4)) for x in a for y in b]
        )
    )


def test_equals_a_double_loop_over_losses() -> None:
    losses = np.random.default_rng(0).gamma(2.0, size=(3, 5))
    losses[1] += 2  # the worst domain
    worst, every = losses[1], losses.ravel()
    found = worst_against_all(torch.from_numpy(losses))
    expected = mean_kernel(worst, worst) + mean_kernel(every, every) - 2 * mean_kernel(worst, every)
    assert found.matching.item() == pytest.approx(expected, rel=1e-10)
    expected = worst.var(ddof=1) + every.var(ddof=1)
    assert found.variance.item() == pytest.approx(expected, rel=1e-12)


def test_domains_of_equal_losses_match_in_any_order() -> None:
    """Up to a rounding error, which decides who is worst."""
    one = torch.rand(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shuffled = torch.stack([one, one.flip(0), one.roll(2)])
    assert abs(worst_against_all(shuffled).matching.item()) < 1e-12
    assert worst_against_all(torch.ones(3, 4)).variance.item() == 0


def test_a_single_sample_has_no_variance() -> None:
    with pytest.raises(InvalidValue, match="at least 2 samples"):
        worst_against_all(torch.ones(3, 1))
