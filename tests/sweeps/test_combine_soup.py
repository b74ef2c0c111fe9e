"""Soups against the mean of weights, the recipe of the paper, and statistics computed apart."""

import numpy as np
import pytest
import torch
from _internals import InvalidValue, Soup, greedy_soup, refresh_statistics, uniform_soup
from torch import nn

from shiftproof import Batch


def linear(seed, inputs=3, classes=2):
    draw = torch.Generator().manual_seed(seed)
    return {
        "head.weight": torch.randn(classes, inputs, generator=draw),
        "head.bias": torch.randn(classes, generator=draw),
    }


def logits(weights, x):
    """Return logits in float64, with NumPy alone."""
    w, b = (weights[f"head.{name}"].numpy().astype(np.float64) for name in ("weight", "bias"))
    return x @ w.T + b


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_a_soup_of_identical_weights_is_that_model_bit_for_bit(count):
    model = linear(0) | {"norm.running_mean": torch.rand(4), "seen": torch.tensor(5)}
    soup = uniform_soup([model] * count)
    assert soup.norms == frozenset()
    cooked = soup.weights()
    assert cooked.keys() == model.keys()
    for name, value in model.items():
        assert torch.equal(cooked[name], value)
        assert cooked[name].dtype == value.dtype


def test_a_soup_of_linear_models_has_the_mean_of_their_logits():
    """Logits are linear in the weights, so both means are the same function."""
    models = [linear(seed) for seed in range(5)]
    x = np.random.default_rng(0).normal(size=(50, 3))
    mean = np.mean([logits(model, x) for model in models], axis=0)
    np.testing.assert_allclose(logits(uniform_soup(models).weights(), x), mean, atol=1e-6)


def test_networks_of_other_shapes_make_no_soup():
    with pytest.raises(InvalidValue, match=r"head.weight is \(2, 3\) in one and \(2, 4\) in anoth"):
        uniform_soup([linear(0), linear(0, inputs=4)])
    with pytest.raises(InvalidValue, match=r"extra is None in one and \(1,\)"):
        uniform_soup([linear(0), linear(1) | {"extra": torch.zeros(1)}])


@pytest.mark.parametrize("seed", range(8))
def test_the_greedy_soup_is_the_published_recipe(seed):
    """Wortsman et al. (2022), recipe 1, written again in NumPy."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 3))
    y = (x[:, 0] + rng.normal(size=60) > 0).astype(int)
    models = [linear(100 * seed + draw) for draw in range(6)]

    def accuracy(weights):
        return float(np.mean(logits(weights, x).argmax(1) == y))

    own = [accuracy(model) for model in models]
    soup, chosen = greedy_soup(own, models.__getitem__, lambda s: accuracy(s.weights()))
    in_order = sorted(range(6), key=lambda at: -own[at])
    expected = [in_order[0]]
    for at in in_order[1:]:
        tried, before = (
            {name: torch.stack([models[m][name] for m in group]).mean(0) for name in models[0]}
            for group in ([*expected, at], expected)
        )
        if accuracy(tried) >= accuracy(before):
            expected.append(at)
    assert chosen == expected
    assert accuracy(soup.weights()) >= max(own)


def test_some_greedy_soups_take_several_and_leave_some():
    """Else the test above shows little: a draw that hurts stays out, and equal ones come in."""
    good, bad = linear(1), {name: -9 * value for name, value in linear(1).items()}
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = logits(good, x).argmax(1)

    def accuracy(weights):
        return float(np.mean(logits(weights, x).argmax(1) == y))

    models = [bad, good, {name: 2 * value for name, value in good.items()}]
    own = [accuracy(model) for model in models]
    _, chosen = greedy_soup(own, models.__getitem__, lambda s: accuracy(s.weights()))
    assert chosen == [1, 2]


class Normed(nn.Module):
    """One norm that was trained, and one that was frozen."""

    def __init__(self):
        super().__init__()
        self.trained, self.frozen = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
        self.dropout = nn.Dropout(0.5)

    def predict(self, x):
        return self.frozen(self.trained(x)) + self.dropout(x)


def test_statistics_are_measured_again_where_models_differ():
    draw = torch.Generator().manual_seed(0)
    models = []
    for _ in range(2):
        model = Normed()
        model.trained.running_mean.normal_(generator=draw)
        models.append(model.state_dict())
    soup = uniform_soup(models)
    assert soup.norms == {"trained"}
    batches = [Batch(torch.randn(2, 8, 3, generator=draw) + 1, torch.zeros(2, 8)) for _ in range(4)]
    model = Normed().train()
    model.load_state_dict(soup.weights())
    refresh_statistics(model, soup.norms, batches)
    assert model.training
    assert model.trained.momentum == 0.1
    flat = [batch.x.flatten(0, 1).numpy().astype(np.float64) for batch in batches]
    mean = np.mean([x.mean(0) for x in flat], axis=0)
    variance = np.mean([x.var(0, ddof=1) for x in flat], axis=0)
    np.testing.assert_allclose(model.trained.running_mean.numpy(), mean, rtol=1e-5)
    np.testing.assert_allclose(model.trained.running_var.numpy(), variance, rtol=1e-5)
    assert torch.equal(model.frozen.running_mean, torch.zeros(3))
    assert torch.equal(model.frozen.running_var, torch.ones(3))


def test_a_soup_of_nothing_is_an_error():
    with pytest.raises(InvalidValue, match="at least one model"):
        uniform_soup([])
    assert Soup.of(linear(0)).count == 1
