"""Weights from a table to the model: 0 leaves a row out, and balanced classes count alike."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from _internals import (
    DataError,
    Fitting,
    InvalidValue,
    Split,
    Trainer,
    UnknownName,
    balanced_weights,
    configure,
    training_weights,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.class_weight import compute_sample_weight

import shiftproof

N = 150


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 3)).round(3)
    signal = x[:, 0] + 0.5 * rng.normal(size=N)
    return pd.DataFrame(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "c": x[:, 2],
            "site": np.array(["north", "south", "west"])[np.arange(N) % 3],
            "label": np.where(signal > 0.8, "ill", "well"),
            "amount": signal.round(4),
            "w": rng.integers(0, 4, size=N),
        }
    )


def load(table: pd.DataFrame, label: str = "label", weights_column: str | None = "w", **options):
    other = "amount" if label == "label" else "label"
    return shiftproof.load(
        table, label=label, domain="site", drop=[other], weights_column=weights_column, **options
    )


def probabilities(table, out, algorithm="linear", label="label", **options):
    data = load(table, label, **options.pop("loading", {}))
    run = shiftproof.train(data, algorithm, out=out, device="cpu", **options)
    assert run.status == "finished"
    rows = table[["a", "b", "c"]]
    model = run.model
    if label == "amount":
        return model.predict_numbers(model.form.read(rows)).values
    return model.predict_proba(rows)


def test_the_weights_column_is_not_a_feature(table):
    data = load(table)
    assert [column.name for column in data.preparation.columns] == ["a", "b", "c"]
    north = table[table.site == "north"]
    np.testing.assert_array_equal(data.domains[0].weight, north.w)
    assert any("column 'w' weights the rows in training" in note for note in data.notes)
    assert load(table).fingerprint == data.fingerprint
    heavier = table.assign(w=table.w + 1)
    assert load(heavier).fingerprint != data.fingerprint
    assert load(table.drop(columns="w"), weights_column=None).weighted is False


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"w": -1}, "a weight of table is -1 in row 3"),
        ({"w": np.nan}, "a weight of table is missing in row 3"),
        ({"w": np.inf}, "infinite"),
        ({"w": "much"}, "'much' in row 3, not a number"),
    ],
)
def test_a_wrong_weight_gets_one_line(table, change, said):
    table = table.astype({"w": object})
    table.loc[2, "w"] = change["w"]
    with pytest.raises(DataError, match=said) as raised:
        load(table)
    assert "\n" not in str(raised.value)


def test_a_row_without_a_label_needs_no_weight(table):
    table = table.astype({"w": float})
    table.loc[2, ["label", "w"]] = [None, np.nan]
    assert load(table).weighted


def test_weights_of_0_only_get_one_line(table, tmp_path):
    with pytest.raises(DataError, match="is zero in every row"):
        load(table.assign(w=0))
    data = load(table.assign(w=(table.site != "west").astype(int)))
    with pytest.raises(DataError, match="every training sample of domain 'west' has the weight 0"):
        shiftproof.train(data, "linear", out=tmp_path / "run")
    # As a test domain, its weights do not matter.
    run = shiftproof.train(data, "linear", test_domains="west", out=tmp_path / "west")
    assert run.status == "finished"


def test_the_columns_of_roles_are_told_apart(table):
    with pytest.raises(InvalidValue, match="`weights_column` names 'site'"):
        load(table, weights_column="site")
    with pytest.raises(UnknownName, match="'w'"):
        load(table, weights_column="ww")
    with pytest.raises(InvalidValue, match="`weights_column` is for tables"):
        shiftproof.load("colored-mnist", weights_column="w")


@pytest.mark.parametrize(
    ("algorithm", "hparams"),
    [
        ("linear", {}),
        ("boosting", {"trees": 20}),
        ("best", {"budget": 1e-9}),
        (LogisticRegression(), {}),
    ],
    ids=str,
)
def test_weight_0_is_a_row_left_out(table, tmp_path, algorithm, hparams):
    settings = {"holdout": 0.0, "hparams": hparams}
    zeros = table.assign(w=np.where(np.arange(N) % 5 == 0, 0, 2))
    without = zeros[zeros.w > 0].reset_index(drop=True)
    found = probabilities(zeros, tmp_path / "zeros", algorithm, **settings)
    wanted = probabilities(without, tmp_path / "without", algorithm, **settings)
    np.testing.assert_allclose(found[zeros.w > 0], wanted, atol=1e-6)  # rows in another order


def test_no_learner_is_given_a_row_of_weight_0(table):
    """Forests and networks draw rows by their position, so they are told apart by what they get."""
    data = load(table)
    kept = np.unique(table[table.w > 0].a.astype(np.float32))
    forest = Fitting(configure(data, "forest"), data)
    np.testing.assert_array_equal(np.unique(forest.samples.x[:, 0]), kept)
    data = replace(data, preparation=None)  # so that values can be recognised
    settings = {"holdout": 0.0, "evaluate": [], "hparams": {"batch_size": 512}}
    network = Trainer(configure(data, "erm", **settings), data)
    batches = [network.sampler.batch(step) for step in range(2)]
    np.testing.assert_array_equal(np.unique(np.stack([b.x[..., 0] for b in batches])), kept)
    assert all((batch.weight > 0).all() for batch in batches)


@pytest.mark.parametrize("label", ["label", "amount"])
def test_integer_weights_are_repeated_rows(table, tmp_path, label):
    table = table.assign(w=table.w + 1)
    again = table.loc[table.index.repeat(table.w)].reset_index(drop=True)
    found = probabilities(table, tmp_path / "weighted", label=label)
    wanted = probabilities(again.assign(w=1), tmp_path / "again", label=label)
    plain = probabilities(table.assign(w=1), tmp_path / "plain", label=label)
    _, first = np.unique(np.repeat(np.arange(N), table.w), return_index=True)
    np.testing.assert_allclose(found, wanted[first], atol=2e-4)  # float32 outputs
    assert np.abs(plain - found).max() > 1e-3


def test_balanced_classes_are_those_of_scikit_learn():
    y = np.array([0, 0, 0, 1, 2, 2])
    np.testing.assert_allclose(
        balanced_weights(y, np.ones(6)), compute_sample_weight("balanced", y)
    )
    # n / (k n_c), from the definition
    np.testing.assert_allclose(
        balanced_weights(y, np.ones(6)), 6 / (3 * np.array([3, 3, 3, 1, 2, 2]))
    )
    # With own weights, repeated rows again.
    counts = np.array([2, 1, 1, 3, 1, 2])
    again = np.repeat(y, counts)
    _, first = np.unique(np.repeat(np.arange(6), counts), return_index=True)
    np.testing.assert_allclose(
        balanced_weights(y, counts), counts * balanced_weights(again, np.ones(10))[first]
    )


def test_class_weights_do_not_see_the_test_domain(table):
    data = load(table, weights_column=None)
    config = configure(data, "linear", test_domains=["west"], class_weight="balanced")
    trainer = Fitting(config, data)
    np.testing.assert_allclose(
        trainer.samples.weight, compute_sample_weight("balanced", trainer.samples.y)
    )
    assert len(trainer.samples) == 100


def test_balanced_classes_raise_the_probability_of_the_rare_one(table, tmp_path):
    table = table.assign(w=1)
    plain = probabilities(table, tmp_path / "a")
    even = probabilities(table, tmp_path / "b", class_weight="balanced")
    assert even[:, 0].mean() > plain[:, 0].mean() + 0.1  # "ill" is the rare one
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    assert config["class_weight"] == "balanced"
    assert "class_weight" not in json.loads((tmp_path / "a" / "config.json").read_text())


def test_a_batch_carries_weights_of_mean_1_in_each_domain(table):
    data = load(table.assign(w=table.w + 1))
    config = configure(data, "erm", holdout=0.0, evaluate=[], hparams={"batch_size": 0})
    batch = Trainer(config, data).sampler.batch(0)
    torch.testing.assert_close(batch.weight.mean(dim=1), torch.ones(3, dtype=torch.float64))
    own = data.domains[0].weight[torch.from_numpy(config.splits(data)[0].in_)]
    torch.testing.assert_close(batch.weight[0], own / own.mean())


def test_without_weights_there_are_none(table):
    data = load(table, weights_column=None)
    splits = {d.name: Split(np.arange(len(d)), np.arange(0)) for d in data.domains}
    assert training_weights(data, splits, "none") is None


@pytest.mark.parametrize(
    ("algorithm", "settings", "said"),
    [
        ("mixup", {}, "mixup does not support sample weights"),
        (KNeighborsClassifier(), {}, "takes no `sample_weight`"),
        ("linear", {"class_weight": "even"}, "unknown class_weight .even.; known: none, balanced"),
    ],
    ids=["mixup", "neighbours", "rule"],
)
def test_what_cannot_weigh_samples_says_so(table, tmp_path, algorithm, settings, said):
    with pytest.raises((InvalidValue, UnknownName), match=said):
        shiftproof.train(load(table), algorithm, out=tmp_path / "run", steps=2, **settings)


def test_numbers_have_no_classes_to_weigh(table, tmp_path):
    with pytest.raises(InvalidValue, match="`class_weight` is for classes, but"):
        shiftproof.train(load(table, "amount"), "linear", out=tmp_path, class_weight="balanced")


def test_scores_count_rows_alike(table, tmp_path):
    """Only the model depends on the weights, not how its test domain is scored."""
    data = load(table.assign(w=table.w + 1))
    run = shiftproof.train(data, "linear", test_domains="west", out=tmp_path / "run")
    west = table[table.site == "west"]
    likely = run.model.predict_proba(west[["a", "b", "c"]]).argmax(axis=1)
    right = np.array(run.model.classes)[likely] == west.label
    assert run.scores["west"]["accuracy"] == pytest.approx(right.mean())
