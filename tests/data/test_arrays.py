import numpy as np
import pandas as pd
import pytest
import torch
from _internals import DataError, from_arrays, table_dataset

X = np.array([[1.0, 2], [3, 5], [5, 9], [8, 1]])
Y = [0, 1, 1, 0]
SITES = ["b", "a", "b", "a"]


def ready_table(dataset, trained_on):
    return dataset.prepared(dataset.fit_preparation(trained_on))


def images(n=4, shape=(1, 8, 8), dtype=np.uint8):
    return np.random.default_rng(0).integers(0, 256, (n, *shape)).astype(dtype)


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.tolist(),
        X.astype(np.int16),
        X.astype(np.uint8),
        X.astype(">f8"),
        np.asfortranarray(X),
        X[::-1][::-1],
        torch.tensor(X, requires_grad=True),
        torch.tensor(X, dtype=torch.int64),
        torch.tensor(X, dtype=torch.bfloat16),
        pd.DataFrame(X, index=[3, 1, 2, 0], columns=["0", "1"]),
    ],
)
@pytest.mark.parametrize(
    ("y", "domain"),
    [
        (Y, SITES),
        (np.array(Y, dtype=np.uint8), np.array(SITES)),
        (torch.tensor(Y), tuple(SITES)),
        ([torch.tensor(y) for y in Y], pd.Categorical(SITES)),
        (pd.Series(Y, index=[9, 6, 8, 7]), pd.Series(SITES)),
        (np.array(Y, dtype=float), pd.Index(SITES)),
    ],
)
def test_any_form_of_the_same_data_is_the_same_dataset(x, y, domain):
    dataset = from_arrays(x, y, domain)
    assert (dataset.classes, dataset.domain_names) == (("0", "1"), ("a", "b"))
    assert [d.x.tolist() for d in dataset.domains] == [[[3, 5], [8, 1]], [[1, 2], [5, 9]]]
    assert [d.y.tolist() for d in dataset.domains] == [[1, 0], [0, 1]]
    assert (dataset.regime, dataset.backbone) == ("table", "mlp")
    assert dataset.fingerprint == from_arrays(X, Y, SITES).fingerprint


def test_read_only_arrays_and_float32_are_taken_as_they_are():
    x = X.astype(np.float32)
    x.flags.writeable = False
    dataset = from_arrays(x, Y, SITES)
    assert dataset.domains[0].x.dtype == torch.float32
    ready = ready_table(dataset, {"a": np.arange(2)})
    assert ready.domains[0].x.tolist() == [[-1, 1], [1, -1]]


def test_missing_numbers_are_imputed_as_in_a_table():
    x = X.copy()
    x[0, 1] = np.nan
    parts = {"a": np.arange(2), "b": np.arange(1)}
    frame = pd.DataFrame(x, columns=["0", "1"]).assign(label=Y, domain=SITES)
    table = ready_table(table_dataset(frame, "t"), parts)
    masked = np.ma.MaskedArray(X, mask=np.isnan(x))
    for given in (x, torch.from_numpy(x), masked):
        ready = ready_table(from_arrays(given, Y, SITES), parts)
        assert all(torch.equal(a.x, b.x) for a, b in zip(ready.domains, table.domains, strict=True))
        # The training samples have 5 and 1: median and mean 3, standard deviation 2.
        assert ready.domains[1].x[:, 1].tolist() == [0, 3]


def test_a_frame_may_hold_categories():
    # Ten rows of each ward: rarer values are pooled.
    frame = pd.DataFrame({"age": [1, 2] * 10 + [3, 4], "ward": ["n", "s"] * 10 + [None, "n"]})
    sites, labels = ["a"] * 20 + ["b"] * 2, [0, 1] * 11
    ready = ready_table(from_arrays(frame, labels, sites), {"a": np.arange(20)})
    assert ready.domains[0].x[:2].tolist() == [[-1, 1, 0], [1, 0, 1]]
    assert ready.domains[1].x.tolist() == [[3, 0, 0], [5, 1, 0]]


def test_labels_may_be_texts_booleans_or_missing():
    assert from_arrays(X, [True, False, False, True], SITES).classes == ("False", "True")
    mixed = from_arrays(X, ["a", 1, 1.0, "a"], [10, 9, 10, 9])
    assert (mixed.classes, mixed.domain_names) == (("1", "a"), ("9", "10"))
    big = from_arrays(X, [2**53, 2**53 + 1, None, 2**53], SITES)
    assert big.classes == (str(2**53), str(2**53 + 1))
    partial = from_arrays(X, [0, 1, None, 0], SITES)
    assert partial.notes[0] == "left out 1 row without a label: 'b' 1"
    assert [d.x.tolist() for d in partial.domains] == [[[3, 5], [8, 1]], [[1, 2]]]


@pytest.mark.parametrize(
    ("shape", "regime", "backbone"),
    [
        ((1, 28, 28), "small-image", "mnist-cnn"),
        ((3, 64, 32), "small-image", "mnist-cnn"),
        ((3, 65, 32), "large-image", "resnet18"),
        ((4, 8, 8), "small-image", "mnist-cnn"),
    ],
)
def test_images(shape, regime, backbone):
    x = images(shape=shape)
    dataset = from_arrays(x, Y, SITES)
    assert (dataset.regime, dataset.backbone, dataset.input_shape) == (regime, backbone, shape)
    assert dataset.preparation is None
    assert dataset.domains[0].x.dtype == torch.uint8
    np.testing.assert_array_equal(dataset.domains[0].x, x[[1, 3]])


def test_images_of_numbers_are_float32_and_expected_in_the_unit_interval():
    x = images() / 255
    dataset = from_arrays(x, Y, SITES)
    assert dataset.notes == ()
    assert torch.equal(dataset.domains[0].x, torch.from_numpy(x[[1, 3]]).float())
    (note,) = from_arrays(images(dtype=np.int64), Y, SITES).notes
    assert note.startswith("images are expected in [0, 1], but these range from 0 to 255; divide")


def spoiled(value, at, x=X):
    x = x.copy()
    x[at] = value
    return x


@pytest.mark.parametrize(
    ("x", "y", "domain", "message"),
    [
        (X[:3], Y, SITES, "`x`, `y` and `domain` have 3, 4 and 4 entries"),
        (X, Y[:2], SITES, "have 4, 2 and 4 entries"),
        (pd.DataFrame(X), Y, SITES[:1], "have 4, 4 and 1 entries"),
        (X, [1, 1, 1, 1], SITES, "one class only, '1', in 4 rows; at least two are needed"),
        (X, Y, ["a"] * 4, "one domain only, 'a', in 4 rows"),
        (X, [None] * 4, SITES, "the label column 'y' of arrays is empty"),
        (
            X,
            np.ones((4, 1)),
            SITES,
            r"`y` must be \[n\], one entry per sample, not of shape \(4, 1",
        ),
        (X, np.eye(4), SITES, r"classes as one-hot rows: pass y.argmax\(axis=1\)"),
        (X, [[0], [1], [1], [0]], SITES, "holds neither numbers nor text"),
        (X, 3, SITES, "`y` must be a list or array, not int"),
        (np.zeros((0, 3)), [], [], r"`x` is empty, of shape \(0, 3\)"),
        (np.zeros((4, 0)), Y, SITES, r"`x` is empty, of shape \(4, 0\)"),
        ([], [], [], "`x` is empty"),
        (pd.DataFrame({"a": []}), [], [], "`x` is empty"),
        (pd.DataFrame(index=range(4)), Y, SITES, "have 0, 4 and 4 entries"),
        (X[:, 0], Y, SITES, r"not of shape \(4,\)$"),
        (images()[:, 0], Y, SITES, r"not of shape \(4, 8, 8\); pass grey images as x\[:, None\]"),
        (images(shape=(8, 8, 3)), Y, SITES, r"channels last; pass x.transpose\(0, 3, 1, 2\)"),
        (X.astype(object), Y, SITES, "`x` must hold numbers, not object; .* DataFrame"),
        (X.astype(str), Y, SITES, "`x` must hold numbers, not <U"),
        (X.astype(complex), Y, SITES, "`x` must hold numbers, not complex128"),
        (torch.tensor(X + 1j), Y, SITES, "`x` must hold numbers, not complex128"),
        ([[1], [1, 2]], [0, 1], [0, 1], "rows have different lengths"),
        (spoiled(np.inf, (2, 1)), Y, SITES, r"`x` has 1 infinite value, the first in x\[2\]"),
        (
            spoiled(np.nan, (slice(1, 3), 0, 0), images() / 255),
            Y,
            SITES,
            "`x` has 16 missing or infinite values, the first in x\\[1\\]",
        ),
    ],
)
def test_mistakes_are_named_in_one_line(x, y, domain, message):
    with pytest.raises(DataError, match=message) as caught:
        from_arrays(x, y, domain)
    assert len(str(caught.value).splitlines()) == 1
