"""Folds that hold out whole domains."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import Samples, held_out_folds


def made(sizes: list[int]) -> Samples:
    n = sum(sizes)
    domain = np.repeat(np.arange(len(sizes)) * 7, sizes)
    return Samples(np.zeros((n, 2)), np.zeros(n, dtype=int), domain, 2, np.zeros(2, dtype=bool))


def test_each_domain_is_a_fold_while_they_are_few():
    samples = made([3, 5, 2])
    folds = held_out_folds(samples, most=5, seed=0)
    assert len(np.unique(folds)) == 3
    assert all(len(np.unique(folds[samples.domain == d])) == 1 for d in (0, 7, 14))


def test_many_domains_share_folds_of_similar_size_and_none_is_split():
    samples = made([100, 10, 20, 30, 40, 50, 60, 70])
    folds = held_out_folds(samples, most=4, seed=0)
    sizes = np.bincount(folds)
    assert len(sizes) == 4
    assert sizes.max() - sizes.min() <= 20
    for domain in np.unique(samples.domain):
        assert len(np.unique(folds[samples.domain == domain])) == 1


def test_a_single_domain_is_cut_at_random():
    samples = made([23])
    folds = held_out_folds(samples, most=5, seed=0)
    assert sorted(np.bincount(folds)) == [4, 4, 5, 5, 5]
    assert (folds == held_out_folds(samples, 5, 0)).all()
    assert (folds != held_out_folds(samples, 5, 1)).any()


def test_balanced_weights_give_every_domain_the_same_share():
    samples = made([1, 3, 6])
    weights = samples.balanced()
    assert weights.sum() == pytest.approx(1)
    for domain in np.unique(samples.domain):
        assert weights[samples.domain == domain].sum() == pytest.approx(1 / 3)
