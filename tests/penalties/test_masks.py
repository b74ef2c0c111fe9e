"""Masks by agreement: against enumeration of signs, scalar formulas and limits."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
import torch
from _internals import and_mask, masked_mean, sand_mask, sign_agreement

SIZES = (0.3, 2.0, 0.1, 5.0)


def sign_patterns(domains: int, signs: tuple[int, ...] = (-1, 1)) -> torch.Tensor:
    """Return gradients [domains, patterns] with every combination of signs."""
    patterns = torch.tensor(list(itertools.product(signs, repeat=domains)), dtype=torch.float64)
    return (patterns * torch.tensor(SIZES[:domains], dtype=torch.float64)).T


@pytest.mark.parametrize("domains", [2, 3, 4])
def test_agreement_counts_signs(domains: int) -> None:
    gradients = sign_patterns(domains, (-1, 0, 1))
    expected = [
        abs(sum(g > 0 for g in column) - sum(g < 0 for g in column)) / domains
        for column in gradients.T.tolist()
    ]
    assert sign_agreement(gradients).tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("domains", [2, 3, 4])
@pytest.mark.parametrize("tau", [0.0, 0.2, 0.5, 0.7, 1.0])
def test_and_mask_keeps_what_a_share_of_domains_wants(domains: int, tau: float) -> None:
    gradients = sign_patterns(domains)
    expected = [
        float(
            max(sum(g > 0 for g in column), sum(g < 0 for g in column)) / domains >= (1 + tau) / 2
        )
        for column in gradients.T.tolist()
    ]
    assert and_mask(gradients, tau).tolist() == expected
    assert sum(expected) > 0


@pytest.mark.parametrize("domains", [2, 3, 4])
@pytest.mark.parametrize(("tau", "k"), [(0.0, 0.1), (0.4, 3.0), (0.9, 0.5)])
def test_sand_mask_is_its_formula(domains: int, tau: float, k: float) -> None:
    gradients = sign_patterns(domains)
    expected = []
    for column in gradients.T.tolist():
        agreement = abs(statistics.fmean(math.copysign(1, g) for g in column))
        rise = k * (agreement - tau) / statistics.variance(column)
        expected.append(max(0.0, math.tanh(rise)))
    assert sand_mask(gradients, tau, k).tolist() == pytest.approx(expected, rel=1e-12)
    assert any(0 < value < 1 for value in expected)


def test_sand_mask_sharpens_to_the_and_mask() -> None:
    gradients = sign_patterns(3)
    torch.testing.assert_close(sand_mask(gradients, 0.5, 1e9), and_mask(gradients, 0.5).double())


def test_sand_mask_where_its_formula_is_undefined() -> None:
    dead = torch.zeros(3, 1, dtype=torch.float64)
    assert sand_mask(dead, 0.5, 10.0).item() == 0
    assert sand_mask(dead, 0.0, 10.0).item() == 1e-17
    assert sand_mask(torch.ones(3, 1, dtype=torch.float64), 0.5, 10.0).item() == 1
    assert sand_mask(torch.ones(3, 1, dtype=torch.float64), 1.0, 10.0).item() == 1e-17


def test_masked_mean_makes_up_for_the_muted() -> None:
    gradients = torch.tensor([[1.0, 3.0, -2.0, 8.0], [3.0, 1.0, 0.0, 4.0]], dtype=torch.float64)
    result = masked_mean(gradients, torch.tensor([1.0, 0.0, 1.0, 0.0]))
    torch.testing.assert_close(
        result, torch.tensor([4.0, 0.0, -2.0, 0.0], dtype=torch.float64), rtol=1e-6, atol=0
    )
    assert torch.equal(masked_mean(gradients, torch.ones(4)), gradients.mean(dim=0))
    assert torch.equal(masked_mean(gradients, torch.zeros(4)), torch.zeros(4).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_masked_gradients_keep_their_type(dtype: torch.dtype) -> None:
    gradients = torch.tensor([[1.0, -1.0], [2.0, 3.0]], dtype=dtype)
    assert masked_mean(gradients, and_mask(gradients, 1.0)).dtype == dtype
