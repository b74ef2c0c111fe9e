import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from _internals import (
    FEWEST_ROWS,
    Cells,
    Column,
    Columns,
    DataError,
    FittedColumns,
    arrow_array,
    table_dataset,
    text_of,
)
from scipy import stats

NUMBERS = Columns((Column("a", "number"), Column("b", "number")))


def cells(*rows):
    return np.array(rows, dtype=np.float64)


def hospitals(seed=0, n=120):
    """A table with numbers, categories and missing values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n),
            "dose": rng.integers(0, 5, n) * 1e6,
            "ward": rng.choice(["north", "south", "east"], n),
            "smoker": rng.choice([True, False], n),
            "site": rng.choice(["a", "b", "c"], n),
            "ill": rng.integers(0, 2, n),
        }
    )
    frame.loc[rng.random(n) < 0.3, "age"] = np.nan
    frame.loc[rng.random(n) < 0.2, "ward"] = None
    return frame


def test_numbers_are_imputed_and_standardised_by_the_training_samples():
    frame = hospitals()
    dataset = table_dataset(frame, "toy", "ill", "site")
    train = frame[frame.site != "c"]
    rows = {name: np.arange((frame.site == name).sum()) for name in "ab"}
    ready = dataset.prepared(dataset.fit_preparation(rows))
    for position, name in enumerate(["age", "dose"]):
        seen = train[name].dropna()
        expected = (frame[name].fillna(seen.median()) - seen.mean()) / seen.std(ddof=0)
        for domain in ready.domains:
            wanted = expected[frame.site == domain.name].to_numpy()
            np.testing.assert_allclose(domain.x[:, position], wanted, rtol=2e-6, atol=1e-6)


def test_a_complete_column_has_the_z_scores_of_scipy():
    x = np.random.default_rng(1).gamma(2.0, 3.0, (50, 2))
    ready = NUMBERS.fit(x).apply(x)
    np.testing.assert_allclose(ready, stats.zscore(x), rtol=1e-6, atol=1e-7)
    assert ready.dtype == np.float32


def test_categories_are_one_hot_over_those_trained_on():
    frame = pd.DataFrame({"ward": ["n", "s", None, "e", "?", "n"]})
    columns = Columns((Column("ward", "category", ("e", "n", "s")),))
    x = columns.encode(frame)
    np.testing.assert_array_equal(x[:, 0], [1, 2, np.nan, 0, np.nan, 1])
    fitted = columns.fit(np.tile(x[:3], (FEWEST_ROWS, 1)))  # "e" is not among them
    assert fitted.feature_names == ("ward=n", "ward=s")
    assert fitted.apply(x).tolist() == [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0], [1, 0]]


def test_values_that_few_training_samples_share_are_pooled():
    """Ten rows are enough, nine are not; a rare value is then as unknown as any other."""
    columns = Columns(
        (Column("ward", "category", ("e", "n", "s", "w")), Column("age", "number"),
         Column("bed", "category", ("a", "b")), Column("dose", "number"))
    )  # fmt: skip
    ward = np.repeat([0.0, 1, 2, np.nan], [10, 9, 12, 4])
    dose = np.where(np.arange(35) < 9, np.arange(35), np.nan)
    x = np.stack([ward, np.arange(35.0), np.arange(35) % 2 * (np.arange(35) < 18), dose], axis=1)
    x[x[:, 2] == 0, 2] = np.nan  # nine of bed "b", all others missing: one value
    x[0, 2] = 0.0  # and one of bed "a"
    fitted = columns.fit(x)
    assert fitted.feature_names == ("ward=e", "ward=s", "age")
    assert [column.values for column in fitted.columns.columns] == [
        ("e", "", "s", ""), (), ("", ""), (),
    ]  # fmt: skip
    assert fitted.notes == (
        "left out, with fewer than 10 values among the training samples: 'dose'",
        "left out, with no value in 10 or more rows among the training samples: 'bed'",
        "pooled values with fewer than 10 training samples each (number per column): 'ward' 1",
    )
    rows = cells([0, 5, 1, 3], [1, 6, 0, 4], [3, 7, np.nan, np.nan], [np.nan, 8, -1, 5])
    assert fitted.apply(rows)[:, :2].tolist() == [[1, 0], [0, 0], [0, 0], [0, 0]]
    # For a model that takes raw rows: unknown is -1, and missing stays missing.
    np.testing.assert_array_equal(
        fitted.pooled(rows),
        [[0, 5, -1, np.nan], [-1, 6, -1, np.nan], [-1, 7, np.nan, np.nan], [np.nan, 8, -1, np.nan]],
    )


def test_a_new_table_may_have_unknown_categories_and_other_columns_but_lack_none():
    columns = Columns((Column("ward", "category", ("1", "x")), Column("age", "number")))
    # Read from another file, the column that held 1 and x may hold numbers alone.
    new = pd.DataFrame({"age": ["7", "none"], "more": [0, 0], "ward": [1.0, 2.0]})
    x = columns.encode(new)
    np.testing.assert_array_equal(x, [[0, 7], [-1, np.nan]])
    fitted = Columns(columns.columns, missing_indicators=True).fit(
        np.tile(cells([0, 1], [1, 2], [np.nan, 3]), (FEWEST_ROWS, 1))
    )
    # Unknown is not missing.
    assert fitted.apply(x)[:, :3].tolist() == [[1, 0, 0], [0, 0, 0]]
    with pytest.raises(DataError, match=r"is missing columns that the model needs: 'ward'; add"):
        columns.encode(new.drop(columns="ward"))
    with pytest.raises(DataError, match=r"column 'age' of new.csv holds 'old' in row 2"):
        columns.encode(new.assign(age=[1, "old"]), "new.csv")


def test_an_infinite_value_is_an_error_with_its_place():
    frame = pd.DataFrame({"a": [1.0, np.inf, -np.inf], "b": [0, 0, 0]})
    with pytest.raises(DataError, match=r"column 'a' of the table has 2 infinite values.* row 2"):
        NUMBERS.encode(frame)
    with pytest.raises(DataError, match="infinite"):
        NUMBERS.fit(cells([1, np.inf], [2, 0]))


def test_missing_indicators_are_made_only_when_asked_and_only_where_values_are_missing():
    x = cells([1, 5], [2, np.nan], [np.nan, np.nan], [4, 5])
    assert NUMBERS.fit(x).feature_names == ("a",)
    asked = Columns(NUMBERS.columns, missing_indicators=True).fit(x)
    # The one value that b has tells nothing; that it is missing may.
    assert asked.feature_names == ("a", "a is missing", "b is missing")
    assert asked.apply(x)[:, 1:].tolist() == [[0, 0], [0, 1], [1, 1], [0, 0]]
    # What is missing always, or never, is not marked.
    always = Columns(NUMBERS.columns, missing_indicators=True).fit(cells([1, np.nan], [3, np.nan]))
    assert always.feature_names == ("a",)


def test_columns_that_tell_nothing_are_left_out_with_a_note():
    columns = Columns((*NUMBERS.columns, Column("c", "number"), Column("d", "category", ("x",))))
    fitted = columns.fit(cells([0.1, np.nan, 1, 0], [0.1, np.nan, 2, 0], [0.1, np.nan, 4, np.nan]))
    assert fitted.feature_names == ("c",)
    assert fitted.notes == (
        "left out, with no value among the training samples: 'b'",
        "left out, with only one value among the training samples: 'a', 'd'",
    )
    with pytest.raises(DataError, match="none of the 2 columns has two distinct values among the"):
        NUMBERS.fit(cells([1, np.nan], [1, 3]))


@pytest.mark.parametrize("size", [1e308, 1.7e308, 1e200, 1e-200, 1e-308, 5e-324])
def test_no_size_of_number_overflows(size):
    x = cells([size, 1], [-size, 2], [size, 3], [np.nan, 4])
    fitted = NUMBERS.fit(x)
    ready = fitted.apply(x)
    assert np.isfinite(ready).all()
    if size > 1e-308:
        # As (1, −1, 1) whatever their scale: mean 1/3, standard deviation √(8/9), median 1.
        np.testing.assert_allclose(ready[:, 0], [0.5**0.5, -(2**0.5), 0.5**0.5, 0.5**0.5], 1e-6)
    far = fitted.apply(cells([1.7e308, -1.7e308], [-1.7e308, 5e-324], [np.inf, np.nan]))
    assert np.isfinite(far).all()
    assert np.abs(far).max() == 1e6


def test_numbers_that_differ_by_little_are_told_apart():
    x = cells([1e9, 0], [1e9 + 1, 1], [1e9 + 2, 2])
    ready = NUMBERS.fit(x).apply(x)
    np.testing.assert_allclose(ready[:, 0], ready[:, 1], rtol=1e-6)


@pytest.mark.parametrize("missing_indicators", [False, True])
def test_json_rebuilds_the_same_to_the_last_bit(missing_indicators):
    dataset = table_dataset(
        hospitals(), "toy", "ill", "site", missing_indicators=missing_indicators
    )
    x = np.concatenate([domain.rows() for domain in dataset.domains])
    fitted = dataset.preparation.fit(x[:60])
    again = FittedColumns.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again == fitted
    assert np.array_equal(again.apply(x), fitted.apply(x))
    assert len(again.feature_names) == fitted.apply(x).shape[1]
    assert ("ward is missing" in again.feature_names) == missing_indicators


def test_the_digest_is_that_of_all_that_decides():
    column = Column("a", "category", ("x", "y"))
    others = [
        Column("b", "category", ("x", "y")),
        Column("a", "category", ("x", "z")),
        Column("a", "number"),
    ]
    digests = {Columns((c,)).digest() for c in [column, *others]}
    digests.add(Columns((column,), missing_indicators=True).digest())
    assert len(digests) == 5


def test_nothing_of_held_out_samples_leaks():
    """Any value of a held-out sample may change, and the training samples stay to the bit."""
    frame = hospitals()
    rng = np.random.default_rng(3)
    position = frame.groupby("site").cumcount().to_numpy()
    held_out = (frame.site == "c").to_numpy() | (position % 5 == 0)
    parts = {
        name: np.flatnonzero(position[frame.site == name] % 5 != 0).astype(np.int64)
        for name in "ab"
    }

    def trained_on(table):
        dataset = table_dataset(table, "toy", "ill", "site")
        ready = dataset.prepared(dataset.fit_preparation(parts))
        return [d.inputs(parts[d.name]) for d in ready.domains if d.name in parts]

    before = trained_on(frame)
    for column, values in {
        "age": [np.nan, 1e12, -3.0],
        "dose": [np.nan, 1e300],
        "ward": [None, "aaa", "zzz", "outside"],
    }.items():
        changed = frame.copy()
        changed[column] = changed[column].astype(object)
        changed.loc[held_out, column] = rng.choice(np.array(values, object), held_out.sum())
        after = trained_on(changed)
        assert all(map(torch.equal, before, after)), column
    # The test can fail: a value that is trained on does change the others.
    changed = frame.copy()
    changed.loc[np.flatnonzero(~held_out)[0], "age"] = 1e5
    assert not all(map(torch.equal, before, trained_on(changed)))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "number"),
        ([1.5, None], "number"),
        ([True, None], "number"),
        (["true", "False", "?"], "number"),
        (["a", None], "category"),
        (["1", "2"], "category"),
        (["a", 1, 2.5], "category"),
        (pd.Categorical([3, 6, 7]), "category"),
        (pd.to_datetime(["2020-01-01", None]), "date"),
        (["2020-01-01", "1999-12-31 10:00"], "date"),
        (["31.12.1999", "1.2.2003"], "date"),
        (pd.to_timedelta([1, 2], unit="s"), "date"),
        ([None, None], "empty"),
        (["?", " NA "], "empty"),
        ([[1], [2]], "other"),
        ([b"a", b"b"], "other"),
        ([1j, 2], "other"),
    ],
)
def test_kinds(values, kind):
    assert Cells("a", pa.chunked_array([arrow_array(pd.Series(values))])).holds == kind


def test_texts():
    spelled = [1, 1.0, np.float32(0.1), "1e3", "-0", "00", 2**60 + 1, 1e300, "a\n b", "N/A", "None"]
    texts = ["1", "1", "0.1", "1000", "0", "00", str(2**60 + 1), "1e+300", "a b", None, "None"]
    assert [text_of(value) for value in spelled] == texts
    assert text_of("9" * 5000) == "9" * 5000
    assert text_of("1e999") == "1e999"
