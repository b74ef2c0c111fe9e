"""Risks and residuals against scipy.special and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import logit_residual, per_sample_risk, predicted_class
from scipy import special
from torch import Tensor

SHAPES = pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 3, 4)])


def logits_and_labels(
    shape: tuple[int, ...], classes: int, scale: float = 3.0
) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(classes)
    logits = scale * torch.randn(*shape, classes, dtype=torch.float64, generator=generator)
    labels = torch.randint(max(classes, 2), shape, generator=generator)
    return logits, labels


def one_hot(labels: Tensor, classes: int) -> np.ndarray:
    return np.eye(classes)[labels.numpy()]


@SHAPES
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_many_logits_follow_softmax(shape: tuple[int, ...], classes: int) -> None:
    logits, labels = logits_and_labels(shape, classes)
    hot = one_hot(labels, classes)
    risk = -(special.log_softmax(logits.numpy(), axis=-1) * hot).sum(axis=-1)
    residual = special.softmax(logits.numpy(), axis=-1) - hot
    assert per_sample_risk(logits, labels).shape == shape
    np.testing.assert_allclose(per_sample_risk(logits, labels), risk, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(logit_residual(logits, labels), residual, rtol=1e-12, atol=1e-14)


@SHAPES
def test_one_logit_follows_the_logistic_function(shape: tuple[int, ...]) -> None:
    logits, labels = logits_and_labels(shape, 1)
    assert set(labels.flatten().tolist()) == {0, 1}
    z, y = logits.numpy()[..., 0], labels.numpy()
    risk = -np.where(y == 1, special.log_expit(z), special.log_expit(-z))
    residual = (special.expit(z) - y)[..., None]
    assert per_sample_risk(logits, labels).shape == shape
    np.testing.assert_allclose(per_sample_risk(logits, labels), risk, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(logit_residual(logits, labels), residual, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_the_residual_is_the_derivative_of_the_risk(classes: int) -> None:
    logits, labels = logits_and_labels((3, 6), classes)
    logits.requires_grad_()
    (derivative,) = torch.autograd.grad(per_sample_risk(logits, labels).sum(), logits)
    torch.testing.assert_close(logit_residual(logits, labels), derivative, rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(lambda z: logit_residual(z, labels), logits)


@SHAPES
def test_a_single_logit_equals_two_logits_0_and_z(shape: tuple[int, ...]) -> None:
    z, labels = logits_and_labels(shape, 1)
    pair = torch.cat([torch.zeros_like(z), z], dim=-1)
    close = {"rtol": 1e-12, "atol": 1e-14}
    torch.testing.assert_close(per_sample_risk(z, labels), per_sample_risk(pair, labels), **close)
    residual = logit_residual(pair, labels)
    torch.testing.assert_close(logit_residual(z, labels), residual[..., 1:], **close)
    assert torch.equal(predicted_class(z), predicted_class(pair))


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_extreme_logits_stay_finite(classes: int) -> None:
    """±800 overflows exp in float64."""
    logits, labels = logits_and_labels((50,), classes, scale=800.0)
    both = np.concatenate([np.zeros((50, 1)), logits.numpy()], axis=1)
    reference, count = (both, 2) if classes == 1 else (logits.numpy(), classes)
    expected = -(special.log_softmax(reference, axis=-1) * one_hot(labels, count)).sum(axis=-1)
    assert expected.max() > 710
    np.testing.assert_allclose(per_sample_risk(logits, labels), expected, rtol=1e-12, atol=1e-14)
    assert torch.isfinite(logit_residual(logits, labels)).all()


def test_the_predicted_class_is_the_most_likely() -> None:
    logits, _ = logits_and_labels((4, 25), 3)
    likeliest = special.softmax(logits.numpy(), axis=-1).argmax(axis=-1)
    np.testing.assert_array_equal(predicted_class(logits), likeliest)
    z, _ = logits_and_labels((4, 25), 1)
    np.testing.assert_array_equal(predicted_class(z), special.expit(z.numpy()[..., 0]) > 0.5)
    assert predicted_class(logits).dtype == predicted_class(z).dtype == torch.int64


@pytest.mark.parametrize("classes", [1, 3])
def test_a_sample_without_a_batch(classes: int) -> None:
    """[c] and [] → [], as the shapes promise."""
    logits, labels = logits_and_labels((4,), classes)
    expected = per_sample_risk(logits, labels)[2]
    assert per_sample_risk(logits[2], labels[2]).shape == ()
    torch.testing.assert_close(per_sample_risk(logits[2], labels[2]), expected)
