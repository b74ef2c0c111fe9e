"""Points lost by held-out domains: by construction, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import PARTS, auroc_influence, column_trials, drops_of, labels_of
from sklearn.metrics import roc_auc_score

DOMAINS, CLASSES = ("a", "b", "c"), ("no", "yes")


def measured(x, y, d):
    labels = labels_of(x, y, d, CLASSES)
    labels.fit(0, lambda: None)
    return drops_of(labels, DOMAINS, 0.95)


def domains(kind, n=120, seed=0):
    """Three domains; the last differs in the meaning of the input, in shares, or in place."""
    rng = np.random.default_rng(seed)
    d = np.repeat([0, 1, 2], n)
    last = d == 2
    y = rng.integers(0, 2, 3 * n)
    if kind == "label_shares":
        y = np.where(last, rng.random(3 * n) < 0.95, y).astype(int)
    x = rng.normal(size=(3 * n, 2))
    x[:, 0] += (2.5 if kind != "label_shares" else 1.2) * (y - 0.5)
    if kind == "meaning":
        x[last, 0] *= -1
    if kind == "unseen":
        x[last, 0] *= -1
        x[last, 1] += 8
    return x, y, d


@pytest.mark.parametrize("kind", ["meaning", "label_shares", "unseen"])
def test_the_cause_of_a_drop_is_the_one_that_was_made(kind):
    found = measured(*domains(kind))
    loss = found[2].accuracy
    assert loss.lost.interval[0] > 5
    assert loss.lost.value == pytest.approx(loss.trained_with - loss.held_out)
    assert loss.lost.value == pytest.approx(sum(getattr(loss, part).value for part in PARTS))
    assert max(PARTS, key=lambda part: getattr(loss, part).value) == kind
    assert getattr(loss, kind).interval[0] > 0
    assert (found[2].unseen_share > 0.9) == (kind == "unseen")


def test_alike_domains_lose_nothing():
    for drop in measured(*domains("none")):
        assert drop.accuracy.lost.value == pytest.approx(0, abs=4)
        assert drop.accuracy.lost.interval[0] <= 0
        assert drop.auroc.lost.value == pytest.approx(0, abs=4)


def test_auroc_and_its_influence():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    q = np.round(rng.random(300) + 0.5 * y, 1)  # with ties
    q = np.stack([2 - q, q], axis=1) / 2
    value, influence = auroc_influence(q, y)
    assert value == pytest.approx(roc_auc_score(y, q[:, 1]))
    assert influence.mean() == pytest.approx(0, abs=1e-12)
    redrawn = [rng.integers(0, 300, 300) for _ in range(400)]
    spread = np.std([roc_auc_score(y[rows], q[rows, 1]) for rows in redrawn])
    assert influence.std() / np.sqrt(300) == pytest.approx(spread, rel=0.15)


def test_auroc_of_several_classes_is_the_mean_over_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    q = rng.random((200, 3)) + np.eye(3)[y]
    q /= q.sum(axis=1, keepdims=True)
    expected = roc_auc_score(y, q, multi_class="ovr", average="macro")
    assert auroc_influence(q, y)[0] == pytest.approx(expected)


def test_a_column_that_misleads_is_named_with_its_gain():
    """The shortcut holds in each domain with another sign, and is stronger than the cause."""
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1, 2], 200)
    y = rng.integers(0, 2, 600)
    x = rng.normal(size=(600, 3))
    x[:, 0] += 2 * (y - 0.5)
    x[:, 1] += np.where(d == 2, -4, 4) * (y - 0.5)
    labels = labels_of(x, y, d, CLASSES)
    names = ("cause", "shortcut", "noise")
    trials = column_trials(labels, [1, 2], names, 0.95)
    gains = {(trial.column, trial.change): trial for trial in trials}
    assert gains["shortcut", "drop"].gain.value > 10
    assert not gains["noise", "drop"].helps
    assert gains["noise", "drop"].gain.value == pytest.approx(0, abs=3)
    assert column_trials(labels, [], names, 0.95) == ()


def test_many_domains_are_held_out_in_groups(monkeypatch):
    """25 domains need ten fits, and no fit sees a domain that it predicts."""
    rng = np.random.default_rng(0)
    d = np.repeat(np.arange(25), 8)
    labels = labels_of(rng.normal(size=(200, 3)), np.arange(200) % 2, d, CLASSES)
    held_out = []

    class Spy:
        def alone(self, target, train, where):
            parts = [set(labels.sample.d[rows].tolist()) for rows in (train, where)]
            assert not parts[0] & parts[1]
            held_out.append(frozenset(parts[1]))
            return np.zeros((len(where), 2))

    monkeypatch.setattr(labels, "models", lambda x: [Spy()])
    (first, second) = column_trials(labels, [1], ("cause", "shortcut", "noise"), 0.95)
    assert (first.gain.value, second.gain.value) == (0, 0)
    assert len(held_out) == 3 * 10
    assert sorted(t for domains in set(held_out) for t in domains) == list(range(25))
