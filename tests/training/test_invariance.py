"""The shift of a model's outputs, as a number and as part of a run's records."""

from __future__ import annotations

import json
import math
import os
import signal

import pytest
import torch
from _internals import (
    ERM,
    InvalidValue,
    Observer,
    Trainer,
    configure,
    label_entropy,
    read,
    seed_hash,
    shift_of_outputs,
    train,
    training_invariance,
    training_invariance as invariance,
)
from torch.nn.functional import one_hot

from shiftproof import Domain, DomainDataset

ASKED = ("train-out", "test-in", "invariance")


def outputs(n=1500, classes=2, turned=0.0, seed=0):
    """Calibrated logits in two domains; ``turned`` makes them too sure in one of them."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, factor in (("a/out", 1 + turned), ("b/out", 1.0)):
        logits = 2 * torch.randn(n, classes, generator=generator)
        labels = logits.softmax(1).multinomial(1, generator=generator)[:, 0]
        found[name] = (factor * logits, labels)
    return found


@pytest.mark.parametrize("classes", [2, 5, 40])
def test_the_same_outputs_mean_the_same_or_they_do_not(classes):
    same = shift_of_outputs(outputs(classes=classes), 0)
    assert same["concept"]["p_value"] > 0.05
    other = shift_of_outputs(outputs(classes=classes, turned=3.0), 0)
    assert other["concept"]["p_value"] <= 0.01
    assert other["concept"]["low"] <= other["concept"]["value"] <= other["concept"]["high"]
    assert json.loads(json.dumps(other, allow_nan=False)) == other
    assert (same["classes"], list(same["label_entropy"])) == (classes, ["a/out", "b/out"])


def test_a_constant_added_to_all_logits_does_not_matter():
    given = outputs(n=200, classes=3)
    moved = {
        name: (logits + torch.randn(len(logits), 1, generator=torch.Generator().manual_seed(1)), y)
        for name, (logits, y) in given.items()
    }
    first, second = (shift_of_outputs(each, 0)["concept"] for each in (given, moved))
    assert second == pytest.approx(first, abs=1e-4)


def test_two_classes_have_one_feature_and_many_have_twelve():
    logits, labels = torch.randn(9, 2), torch.arange(9) % 2
    x, y = read(logits, labels)
    assert x.shape == (9, 1)
    difference = (logits[:, 0] - logits[:, 1]).double().numpy()
    assert abs(x[:, 0]) == pytest.approx(abs(difference) / math.sqrt(2))
    assert y.tolist() == labels.tolist()
    labels = torch.tensor([3, 7, 0])
    x, y = read(5.0 * one_hot(torch.tensor([3, 8, 0]), 30), labels)
    assert (x.shape, y.tolist()) == ((3, 12), [1, 0, 1])
    assert x[0, 0] == pytest.approx(5 - math.log(math.exp(5) + 29))


def test_the_entropy_of_labels():
    assert label_entropy(torch.tensor([0, 0, 0, 5])) == pytest.approx(
        -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    )
    assert label_entropy(torch.tensor([2, 2])) == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda o: {"a/out": o["a/out"]}, "a single training domain"),
        (lambda o: o | {"b/out": tuple(t[:2] for t in o["b/out"])}, "b/out has fewer than 3"),
        (lambda o: {k: (x, torch.ones_like(y)) for k, (x, y) in o.items()}, "a single class"),
        (lambda o: o | {"a/out": (o["a/out"][0] / 0, o["a/out"][1])}, "a/out are not finite"),
    ],
)
def test_what_cannot_be_measured_is_not_made_up(change, why):
    shift = shift_of_outputs(change(outputs(n=30)), 0)
    assert why in shift["untested"]
    assert not {"concept", "covariate"} & shift.keys()
    json.dumps(shift, allow_nan=False)


def test_many_samples_are_an_even_seeded_share(monkeypatch):
    monkeypatch.setattr(training_invariance, "MOST_SAMPLES", 300)
    given = outputs(n=400)
    given["b/out"] = tuple(t[:200] for t in given["b/out"])
    seen = []
    take = invariance._share
    monkeypatch.setattr(
        invariance, "_share", lambda o, seed: seen.append(take(o, seed)) or seen[-1]
    )
    first, again, other = (shift_of_outputs(given, seed) for seed in (1, 1, 2))
    assert [len(labels) for _, labels in seen[0]] == [200, 100]
    assert first == again != other
    whole = {tuple(row) for row in given["a/out"][0].tolist()}
    assert {tuple(row) for row in seen[0][0][0].tolist()} < whole


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    domains = []
    for index, name in enumerate(("north", "east", "south")):
        x = torch.randn(60, 4, generator=generator) + index
        domains.append(Domain(name, x, (x.sum(1) > 4 * index).long()))
    return DomainDataset("toy", tuple(domains), ("a", "b"), "table", "mlp", 10)


def make_config(dataset, **change):
    settings = {
        "test_domains": ["south"],
        "hparams": {"hidden": 8, "batch_size": 6},
        "steps": 20,
        "eval_every": 10,
        "evaluate": ASKED,
        **change,
    }
    return configure(dataset, "erm", **settings)


def test_the_outputs_on_train_out_are_tested_without_another_pass(dataset, tmp_path, monkeypatch):
    predicted = []
    predict = ERM.predict
    monkeypatch.setattr(
        ERM, "predict", lambda self, x: predicted.append(len(x)) or predict(self, x)
    )
    result = train(make_config(dataset, eval_every=0), dataset, tmp_path)
    assert predicted == [12, 12, 48]
    shift = result.final["shift"]
    assert list(shift["label_entropy"]) == ["north/out", "east/out"]
    monkeypatch.undo()
    trainer = Trainer(make_config(dataset, eval_every=0), dataset)
    for _ in range(20):
        trainer.advance()
    trainer.algorithm.eval()
    by_hand = {}
    for name, split in zip(("north", "east"), trainer.splits, strict=False):
        domain = trainer.dataset.domains[trainer.dataset.index_of(name)]
        with torch.no_grad():
            logits = trainer.algorithm.predict(domain.x[split.out])
        by_hand[f"{name}/out"] = (logits, domain.y[split.out])
    expected = shift_of_outputs(by_hand, seed_hash("invariance", 0))
    for name in ("concept", "covariate"):
        assert shift[name] == pytest.approx(expected[name], abs=1e-6)


def test_a_run_that_does_not_ask_is_as_it_was(dataset, tmp_path):
    asked = train(make_config(dataset), dataset, tmp_path / "asked")
    config = make_config(dataset, evaluate=ASKED[:2])
    assert config.evaluate == ("train-out", "test-in")
    plain = train(config, dataset, tmp_path / "plain")
    without = [{k: v for k, v in record.items() if k != "shift"} for record in asked.records]
    assert plain.records == without
    assert all("shift" in record for record in asked.records)


def test_the_word_needs_train_out(dataset):
    with pytest.raises(InvalidValue, match=r"must include both \(now: test-in,invariance\)"):
        make_config(dataset, evaluate=("test-in", "invariance"))


class StopAfter(Observer):
    def __init__(self, step):
        self.at = step

    def step(self, step, measured):
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("average", ["none", "ema"])
def test_a_stopped_run_goes_on_bit_for_bit(dataset, tmp_path, average):
    config = make_config(dataset, average=average)
    train(config, dataset, tmp_path / "straight")
    for stop in (9, 14):
        part = train(config, dataset, tmp_path / "parts", StopAfter(stop))
        assert (part.status, part.step) == ("stopped", stop)
    train(config, dataset, tmp_path / "parts")
    texts = [(tmp_path / name / "records.jsonl").read_bytes() for name in ("straight", "parts")]
    assert texts[0] == texts[1]


def test_what_is_scored_is_what_is_tested(dataset, tmp_path):
    raw, averaged = (
        train(make_config(dataset, average=average), dataset, tmp_path / average).final
        for average in ("none", "ema")
    )
    assert raw["risk"] != averaged["risk"]
    assert raw["shift"]["covariate"] != averaged["shift"]["covariate"]
