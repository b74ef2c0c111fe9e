"""Self-challenge: percentiles against NumPy to the last bit, masks against sorting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import label_score, percentile, spared_features, spared_samples

THIRD = (1 - 1 / 3) * 100


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 13, 16, 100])
@pytest.mark.parametrize("percent", [0.0, THIRD, 50.0, 12.3, 75.0, 99.9, 100.0])
def test_percentile_is_numpys_to_the_last_bit(size: int, percent: float) -> None:
    x = np.random.RandomState(size).normal(size=(200, size))
    expected = np.percentile(x, percent, axis=1, keepdims=True)
    assert np.array_equal(percentile(torch.from_numpy(x), percent).numpy(), expected)


def test_whether_a_point_lies_below_its_percentile_is_numpys() -> None:
    """2/3 of the way through 10 points is the 7th, give or take the last bit."""
    x = np.random.RandomState(0).normal(size=(2000, 10))
    below = x < np.percentile(x, THIRD, axis=1, keepdims=True)
    assert set(below.sum(axis=1)) == {6, 7}  # so the last bit does decide
    assert np.array_equal(spared_features(torch.from_numpy(x), 1 / 3).numpy(), below)


def test_label_score_of_several_logits_and_of_one() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert label_score(logits, torch.tensor([2, 0])).tolist() == [3, 4]
    assert label_score(torch.tensor([[[0.5], [0.5]]]), torch.tensor([[1, 0]])).tolist() == [
        [0.5, -0.5]
    ]


@pytest.mark.parametrize("drop", [0.0, 0.25, 0.5, 1.0])
def test_the_features_leant_on_most_are_muted(drop: float) -> None:
    gradients = torch.randn(3, 4, 9, generator=torch.Generator().manual_seed(0))
    mask = spared_features(gradients, drop)
    # The point at the percentile itself is muted too: 9 points lie 1/8 apart.
    assert torch.equal(mask.sum(dim=-1), torch.full((3, 4), round(8 * (1 - drop))))
    kept = gradients.masked_fill(~mask, -torch.inf).amax(dim=-1)
    muted = gradients.masked_fill(mask, torch.inf).amin(dim=-1)
    assert (kept < muted).all()


def test_samples_are_compared_across_domains() -> None:
    changes = torch.tensor([[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]])
    assert spared_samples(changes, 0.5).tolist() == [[True] * 3, [False] * 3]
