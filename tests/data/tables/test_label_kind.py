"""Which task a label column calls for, and numbers as labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from _internals import Cells, DataError, InvalidValue, as_table, cells_of, label_kind, table_dataset

import shiftproof
from shiftproof import Domain, ShiftproofError

RNG = np.random.default_rng(0)
ROWS = 400


def column(values: object) -> Cells:
    return cells_of(as_table(pd.DataFrame({"y": values}), "t"), "y")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b"] * 200, "classification"),
        ([True, False] * 200, "classification"),
        (np.arange(ROWS) % 20, "classification"),
        ([0.5, 1.5] * 200, "classification"),
        (pd.Categorical(np.arange(ROWS) % 50), "classification"),
        (RNG.normal(size=ROWS), "regression"),
        (np.round(RNG.normal(size=ROWS), 1), "regression"),
        (RNG.permutation(ROWS), "regression"),
        (np.arange(ROWS) % 150 * 10, "regression"),
    ],
    ids=["text", "flags", "few", "two", "categories", "fractions", "tenths", "distinct", "tens"],
)
def test_the_column_decides(values, kind):
    found, notes = label_kind(column(values), "t")
    assert found == kind
    assert len(notes) == (kind == "regression")
    assert all("regression: the label 'y' has" in note for note in notes)


@pytest.mark.parametrize(
    "values", [np.arange(ROWS) % 65, np.arange(ROWS) % 73 + 18, np.arange(ROWS) % 10 / 2]
)
def test_where_both_are_plausible_the_user_is_asked(values):
    with pytest.raises(DataError, match="may be classes or amounts: set `task=") as caught:
        label_kind(column(values), "t")
    assert "\n" not in str(caught.value)
    for task in ("classification", "regression"):
        assert label_kind(column(values), "t", task) == (task, ())


def prices(**changes: object) -> pd.DataFrame:
    n = 60
    frame = pd.DataFrame({"area": np.linspace(20, 200, n), "rooms": np.arange(n) % 5})
    frame["price"] = 3 * frame.area + 10 * frame.rooms + np.sin(np.arange(n))
    frame["district"] = ["east", "north", "south"] * 20
    return frame.assign(**changes)


def test_a_table_of_numbers():
    frame = prices()
    frame.loc[3, "price"] = np.nan
    dataset = table_dataset(frame, "t", "price", "district")
    assert (dataset.kind, dataset.target, dataset.classes) == ("regression", "price", ())
    assert [len(domain) for domain in dataset.domains] == [19, 20, 20]
    north = frame.price[frame.district == "north"]
    assert dataset.domains[1].y.dtype == torch.float64
    assert dataset.domains[1].y.tolist() == north.tolist()
    assert "left out 1 row without a label: 'east' 1" in dataset.notes
    assert any(note.startswith("regression: the label 'price'") for note in dataset.notes)


def test_a_copy_of_the_label_is_named_and_a_distinct_column_is_not():
    frame = prices()
    dataset = table_dataset(frame.assign(cents=100 * frame.price - 3), "t", "price", "district")
    (copy,) = [note for note in dataset.notes if "determines the label exactly" in note]
    assert "'cents'" in copy


def test_arrays_and_what_cannot_be():
    frame = prices()
    arrays = (frame[["area", "rooms"]].to_numpy(), frame.price.to_numpy(), frame.district)
    dataset = shiftproof.load(arrays)
    assert dataset.kind == "regression"
    assert shiftproof.load(dataset, task="regression") is dataset
    with pytest.raises(InvalidValue, match="loaded already, for regression"):
        shiftproof.load(dataset, task="classification")
    with pytest.raises(ShiftproofError, match="holds 'east' in row 1, not a number"):
        table_dataset(frame, "t", "district", "rooms", task="regression")
    with pytest.raises(DataError, match="one value only, 1, in 60 rows"):
        table_dataset(frame.assign(price=1.0), "t", "price", "district", task="regression")
    with pytest.raises(
        InvalidValue, match="`task='regression'` is for tables, manifests and arrays"
    ):
        shiftproof.load("rotated-mnist", task="regression")


def test_labels_must_be_what_the_dataset_says():
    with pytest.raises(DataError, match="must be classes"):
        Domain("a", torch.zeros(2, 1), torch.zeros(2, dtype=torch.float64)).require(
            "classification"
        )
    dataset = table_dataset(prices(), "t", "price", "district")
    with pytest.raises(DataError, match="labels of domain 'east' must be numbers"):
        dataset.with_domains(lambda domain: Domain(domain.name, domain.x, domain.y.long()))
