"""Style and content of features against a computation sample by sample in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import EPSILON, content_of, mix_style, style_of, swap_content, uniform_risk
from scipy import special
from torch import Tensor

SHAPES = pytest.mark.parametrize("shape", [(6, 9), (6, 3, 4, 5)])
PARTNER = torch.tensor([3, 0, 1, 5, 4, 2])


def features_of(shape: tuple[int, ...]) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return 1 + 3 * torch.randn(shape, dtype=torch.float64, generator=generator)


def channels(x: Tensor) -> np.ndarray:
    """One row per channel: [n, c, positions], or [n, 1, k] for plain features."""
    return (x.flatten(2) if x.dim() == 4 else x.unsqueeze(1)).numpy()


def parts(row: np.ndarray) -> tuple[np.ndarray, float, float]:
    mean, variance = row.mean(), row.var(ddof=1)
    return (row - mean) / np.sqrt(variance + EPSILON), mean, variance


@SHAPES
def test_mixed_style_sample_by_sample(shape: tuple[int, ...]) -> None:
    x = features_of(shape)
    weight = torch.linspace(0, 1, 6, dtype=torch.float64)
    rows, mixed = channels(x), channels(mix_style(x, PARTNER, weight))
    for i, (j, w) in enumerate(zip(PARTNER.tolist(), weight.tolist(), strict=True)):
        for channel in range(rows.shape[1]):
            content, mean, variance = parts(rows[i, channel])
            _, partner_mean, partner_variance = parts(rows[j, channel])
            expected_mean = w * mean + (1 - w) * partner_mean
            expected_variance = w * variance + (1 - w) * partner_variance
            expected = content * np.sqrt(expected_variance + EPSILON) + expected_mean
            np.testing.assert_allclose(mixed[i, channel], expected, rtol=1e-12, atol=1e-12)


@SHAPES
def test_mixing_style_keeps_content_and_mixes_statistics(shape: tuple[int, ...]) -> None:
    x = features_of(shape)
    weight = torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mixed = mix_style(x, PARTNER, weight)
    # ε makes a relative error of the order ε / σ²; everything else is exact.
    torch.testing.assert_close(content_of(mixed), content_of(x), rtol=0, atol=1e-4)
    for own, result in zip(style_of(x), style_of(mixed), strict=True):
        low, high = torch.minimum(own, own[PARTNER]), torch.maximum(own, own[PARTNER])
        assert ((result >= low - 1e-4) & (result <= high + 1e-4)).all()
    assert not torch.allclose(mixed, x, atol=0.1)


def test_weight_one_and_a_partner_of_oneself_change_nothing() -> None:
    x = features_of((6, 9))
    ones = torch.ones(6, dtype=torch.float64)
    torch.testing.assert_close(mix_style(x, PARTNER, ones), x)
    torch.testing.assert_close(mix_style(x, torch.arange(6), 0.3 * ones), x)
    torch.testing.assert_close(swap_content(x, torch.arange(6)), x)


@SHAPES
def test_swapped_content_sample_by_sample(shape: tuple[int, ...]) -> None:
    x = features_of(shape)
    rows, swapped = channels(x), channels(swap_content(x, PARTNER))
    for i, j in enumerate(PARTNER.tolist()):
        for channel in range(rows.shape[1]):
            _, mean, variance = parts(rows[i, channel])
            content, _, _ = parts(rows[j, channel])
            expected = content * np.sqrt(variance + EPSILON) + mean
            np.testing.assert_allclose(swapped[i, channel], expected, rtol=1e-12, atol=1e-12)


def test_only_style_carries_a_gradient_when_content_is_swapped() -> None:
    x = features_of((6, 9)).requires_grad_()
    slope = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad((slope * swap_content(x, PARTNER)).sum(), x)
    content = content_of(x.detach())[PARTNER]
    mean = x.mean(dim=1, keepdim=True)
    variance = ((x - mean) ** 2).sum(dim=1, keepdim=True) / 8
    stylised = content * (variance + EPSILON).sqrt() + mean
    (expected,) = torch.autograd.grad((slope * stylised).sum(), x)
    torch.testing.assert_close(gradient, expected)


def test_uniform_risk_is_the_mean_risk_over_all_classes() -> None:
    logits = 3 * torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    expected = -special.log_softmax(logits.numpy(), axis=1).mean(axis=1)
    np.testing.assert_allclose(uniform_risk(logits), expected, rtol=1e-12)
    assert (uniform_risk(logits) > np.log(5)).all()  # log 5 is attained by equal logits only
    single = logits[:, :1]
    expected = -(special.log_expit(single.numpy()) + special.log_expit(-single.numpy())) / 2
    np.testing.assert_allclose(uniform_risk(single), expected[:, 0], rtol=1e-12)
