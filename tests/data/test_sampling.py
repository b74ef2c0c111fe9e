import numpy as np
import pytest
import torch
from _internals import BatchSampler, DataError
from scipy.stats import chisquare

from shiftproof import Domain


def domain(name, size, offset=0):
    values = torch.arange(offset, offset + size)
    return Domain(name, values.float().unsqueeze(1), values)


DOMAINS = [domain("a", 10), domain("b", 30, offset=100)]
PARTS = [np.arange(0, 10, 2), np.arange(30)]


def test_a_batch_has_equal_shares_of_each_domains_part():
    batch = BatchSampler(DOMAINS, PARTS, 16, seed=0).batch(0)
    assert batch.x.shape == (2, 16, 1)
    assert torch.equal(batch.x[..., 0].long(), batch.y)
    assert set(batch.y[0].tolist()) <= set(range(0, 10, 2))
    assert all(100 <= label < 130 for label in batch.y[1].tolist())


def test_a_step_determines_its_batch_whatever_came_before():
    sampler, other = (BatchSampler(DOMAINS, PARTS, 16, seed=5) for _ in range(2))
    history = [sampler.batch(step) for step in range(20)]
    assert torch.equal(other.batch(13).y, history[13].y)
    assert not torch.equal(history[13].y, history[14].y)
    assert not torch.equal(history[13].y, BatchSampler(DOMAINS, PARTS, 16, seed=6).batch(13).y)


def test_draws_are_uniform_with_replacement():
    sampler = BatchSampler(DOMAINS, PARTS, 50, seed=1)
    labels = torch.cat([sampler.batch(step).y[1] for step in range(200)]) - 100
    assert chisquare(labels.bincount(minlength=30).numpy()).pvalue > 1e-3


def test_full_batches_hold_every_sample_once():
    twins = [domain("a", 8), domain("b", 8, offset=50)]
    sampler = BatchSampler(twins, [np.arange(8), np.arange(8)[::-1].copy()], 0, seed=0)
    assert sampler.batch(0).y.sort(dim=1).values.tolist() == [list(range(8)), list(range(50, 58))]
    assert sampler.batch(7).x is sampler.batch(0).x


def test_full_batches_of_unequal_domains_are_refused():
    with pytest.raises(DataError, match=r"equal size.*\[5, 30\].*batch_size"):
        BatchSampler(DOMAINS, PARTS, 0, seed=0)


def test_a_domain_without_samples_is_named():
    with pytest.raises(DataError, match="'a' has no samples"):
        BatchSampler(DOMAINS, [np.arange(0), np.arange(30)], 4, seed=0)
