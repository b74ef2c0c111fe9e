"""IRM's penalty against numerical slopes, a dummy scale, and a scale that is optimal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import InvalidValue, irm_penalty
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax


def scaled_risk(scale, logits, labels):
    """The risk of one domain with its logits scaled, in NumPy."""
    return -log_softmax(scale * logits, axis=1)[np.arange(len(labels)), labels].mean()


@pytest.mark.parametrize(("domains", "batch", "classes"), [(2, 2, 2), (3, 7, 4), (4, 10, 3)])
def test_equals_the_product_of_numerical_slopes_of_the_two_halves(domains, batch, classes):
    rng = np.random.RandomState(batch)
    logits = rng.randn(domains, batch, classes)
    labels = rng.randint(classes, size=(domains, batch))
    step = 1e-5

    def slope(z, y):
        return (scaled_risk(1 + step, z, y) - scaled_risk(1 - step, z, y)) / (2 * step)

    expected = np.mean(
        [
            slope(z[0::2], y[0::2]) * slope(z[1::2], y[1::2])
            for z, y in zip(logits, labels, strict=True)
        ]
    )
    found = irm_penalty(torch.from_numpy(logits), torch.from_numpy(labels))
    assert found.item() == pytest.approx(expected, abs=1e-9)


def test_differentiates_like_a_dummy_scale_differentiated_twice():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(4, (3, 9), generator=generator)
    expected = torch.zeros((), dtype=torch.float64)
    for z, y in zip(logits, labels, strict=True):
        scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        slopes = [
            torch.autograd.grad(
                torch.nn.functional.cross_entropy(z[half::2] * scale, y[half::2]),
                scale,
                create_graph=True,
            )[0]
            for half in (0, 1)
        ]
        expected = expected + slopes[0] * slopes[1] / 3
    (wanted,) = torch.autograd.grad(expected, logits)
    (found,) = torch.autograd.grad(irm_penalty(logits, labels), logits)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)


def test_one_logit_has_the_logistic_slope():
    rng = np.random.RandomState(3)
    z, y = rng.randn(2, 6), rng.randint(2, size=(2, 6))
    slopes = z * (expit(z) - y)
    expected = (slopes[:, 0::2].mean(1) * slopes[:, 1::2].mean(1)).mean()
    found = irm_penalty(torch.from_numpy(z).unsqueeze(-1), torch.from_numpy(y))
    assert found.item() == pytest.approx(expected, abs=1e-14)


def test_vanishes_where_no_scale_lowers_the_risk():
    rng = np.random.RandomState(5)
    logits, labels = rng.randn(40, 3), rng.randint(3, size=40)
    best = minimize_scalar(
        scaled_risk, bracket=(-1, 1), args=(logits, labels), options={"xtol": 1e-12}
    ).x
    # Every sample twice in a row: both halves are the whole.
    z = torch.from_numpy(best * logits).repeat_interleave(2, dim=0).expand(2, -1, -1)
    y = torch.from_numpy(labels).repeat_interleave(2).expand(2, -1)
    assert irm_penalty(z, y).item() == pytest.approx(0, abs=1e-14)
    assert irm_penalty(z * 2, y).item() > 1e-6


def test_one_sample_has_no_halves():
    with pytest.raises(InvalidValue, match="at least 2 samples"):
        irm_penalty(torch.zeros(2, 1, 3), torch.zeros(2, 1, dtype=torch.long))
