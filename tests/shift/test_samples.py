"""From datasets and runs to arrays: which samples, which features, whose representation."""

import numpy as np
import pytest
import torch
from _internals import (
    DataError,
    InvalidValue,
    RunFolder,
    Trainer,
    UnknownName,
    build_algorithm,
    choose_domains,
    collect,
    configure,
    every_sample,
    from_arrays,
    load_state,
    read_run,
    some_of,
    split_domain,
    stratified,
    table_dataset,
    train,
    unseen_samples,
    view_of_run,
)

from shiftproof import Domain, DomainDataset


def table(rows=30):
    import pandas as pd

    rng = np.random.default_rng(0)
    ward = np.repeat(["a", "b", "c"], rows)
    age = rng.normal(50, 10, 3 * rows)
    age[ward == "b"] = np.nan
    age[0] = 50.0
    blood = rng.choice(["A", "B"], 3 * rows)
    ill = rng.integers(0, 2, 3 * rows)
    height = rng.normal(size=3 * rows)
    frame = pd.DataFrame({"ward": ward, "age": age, "h": height, "blood": blood, "ill": ill})
    return table_dataset(frame, "wards.csv", "ill", "ward")


def test_a_table_is_its_prepared_columns():
    dataset = table()
    samples = collect(dataset, every_sample(dataset, ("a", "c")))
    assert samples.features == ("age", "h", "blood=A", "blood=B")
    assert samples.inputs == "3 columns"
    assert samples.domains == ("a", "c")
    assert samples.classes == ("0", "1")
    assert np.bincount(samples.d).tolist() == [30, 30]
    assert np.isfinite(samples.x).all()
    # Standardised by the samples that are measured, and by no others.
    assert samples.x[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert samples.x[:, 0].std() == pytest.approx(1, abs=1e-6)
    expected = torch.cat([dataset.domains[0].y, dataset.domains[2].y])
    assert samples.y.tolist() == expected.tolist()
    assert samples.notes == ()


def test_a_column_that_some_domains_lack_is_noted():
    dataset = table()
    (note,) = collect(dataset, every_sample(dataset, ("a", "b", "c"))).notes
    assert note.startswith("'age': missing more often in some domains")
    assert "0% in a, 100% in b" in note


def test_images_are_their_pixels():
    x = np.random.default_rng(0).integers(0, 256, (40, 2, 3, 4), dtype=np.uint8)
    dataset = from_arrays(x, np.tile([0, 1], 20), np.repeat(["a", "b"], 20))
    samples = collect(dataset, {"a": np.array([1, 5]), "b": np.array([0])})
    assert samples.inputs == "pixels of 2 × 3 × 4 images"
    place = samples.features.index("row 2, column 1, channel 1")
    assert samples.x[:, place] == pytest.approx(x[[1, 5, 20], 1, 2, 1] / 255)
    assert samples.y.tolist() == [1, 1, 0]
    assert samples.d.tolist() == [0, 0, 1]


def test_photographs_are_averaged_down():
    x = np.random.default_rng(0).random((4, 3, 48, 32), dtype=np.float32)
    dataset = from_arrays(x, [0, 1, 0, 1], ["a", "a", "b", "b"])
    samples = collect(dataset, every_sample(dataset, ("a", "b")), side=16)
    assert samples.inputs == "pixels of 3 × 16 × 16 images"
    patches = x.reshape(4, 3, 16, 3, 16, 2).mean(axis=(3, 5)).reshape(4, -1)
    assert samples.x == pytest.approx(patches, abs=1e-6)
    with pytest.raises(InvalidValue, match="each sample has 4,608 values, and at most"):
        collect(dataset, every_sample(dataset, ("a", "b")))


def test_frozen_features_say_whose_they_are():
    domains = [Domain(n, torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 0])) for n in "ab"]
    dataset = DomainDataset(
        "photos", tuple(domains), ("x", "y"), "features", "mlp", 100,
        frozen={"backbone": "resnet18", "weights": "random", "precision": "fp32"},
    )  # fmt: skip
    samples = collect(dataset, every_sample(dataset, ("a", "b")))
    assert samples.inputs == "3 features of resnet18"
    assert samples.features == ("feature 0", "feature 1", "feature 2")


def test_the_domains_that_are_wanted():
    dataset = table()
    assert choose_domains(dataset) == ("a", "b", "c")
    assert choose_domains(dataset, ("c", "a")) == ("a", "c")
    assert choose_domains(dataset, (), ("a",)) == ("b", "c")
    with pytest.raises(UnknownName, match="known: a, b, c"):
        choose_domains(dataset, ("a", "x"))
    with pytest.raises(UnknownName):
        choose_domains(dataset, (), ("x",))
    with pytest.raises(
        DataError, match=r"at least two domains are needed .* but 1 is selected; wards.csv has"
    ):
        choose_domains(dataset, ("a", "b"), ("a",))


@pytest.mark.parametrize(
    ("sizes", "most", "kept"),
    [
        ((5, 50, 500), 1000, (5, 50, 500)),
        ((5, 50, 500), 555, (5, 50, 500)),
        ((500, 5, 50), 85, (40, 5, 40)),
        ((500, 5, 50), 200, (145, 5, 50)),
        ((400, 400, 400), 1000, (333, 333, 333)),
    ],
)
def test_small_domains_are_kept_whole(sizes, most, kept):
    d = np.repeat([0, 1, 2], sizes)
    rows = stratified(d, most, seed=0)
    assert tuple(np.bincount(d[rows])) == kept
    assert len(np.unique(rows)) == len(rows)
    assert (np.diff(rows) > 0).all()
    other = stratified(d, most, seed=1)
    assert (sum(kept) == sum(sizes)) == np.array_equal(rows, other)


def test_some_positions_are_those_of_the_stratified_choice():
    positions = {"a": np.arange(0, 20, 2), "b": np.arange(100, 400)}
    some = some_of(positions, 50, seed=3)
    assert some["a"].tolist() == positions["a"].tolist()
    assert len(some["b"]) == 40
    assert set(some["b"]) < set(positions["b"])


# --- runs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run on the table without ward c, its weights averaged."""
    dataset = table()
    config = configure(
        dataset, "erm", test_domains=["c"], steps=12, eval_every=4, average="ema", holdout=0.4,
        hparams={"batch_size": 8}, device="cpu",
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("runs") / "one"
    return dataset, config, folder, train(config, dataset, folder)


def test_only_unseen_samples_are_taken(trained):
    dataset, config, _, _ = trained
    found = unseen_samples(dataset, ("a", "c"), config)
    assert list(found) == ["a", "c"]
    split = split_domain(30, 0.4, config.data_seed, 0)
    assert set(found["a"]) == set(split.out)
    assert len(found["c"]) == 30


def test_a_run_is_seen_with_the_weights_that_it_scored(trained):
    dataset, config, folder, result = trained
    assert read_run(folder) == config
    positions = unseen_samples(dataset, ("a", "b", "c"), config)
    view = view_of_run(folder, read_run(folder), dataset, positions)
    record = result.final
    sizes = [len(rows) for rows in positions.values()]
    a, b, _ = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    for name, rows in (("a/out", a), ("b/out", b)):
        assert view.risks[rows].mean() == pytest.approx(record["risk"][name], rel=1e-5)
        assert view.right[rows].mean() == pytest.approx(record["accuracy"][name])
    # The representation is what the head makes these risks of.
    trainer = Trainer(config, dataset)
    trainer.load(load_state(RunFolder(folder).checkpoint))
    with trainer.average.in_place(), torch.no_grad():
        logits = trainer.algorithm.head(torch.from_numpy(view.representations).float())
    labels = torch.cat([d.y[torch.from_numpy(positions[d.name])] for d in dataset.domains])
    risks = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    assert view.risks == pytest.approx(risks.numpy(), rel=1e-4, abs=1e-6)


def test_starting_weights_are_not_needed_again(tmp_path):
    """A run from a file of weights is measured where the file is gone, and nothing is fetched."""
    rng = np.random.default_rng(0)
    x = rng.random((24, 3, 32, 32), dtype=np.float32)
    dataset = from_arrays(x, np.tile([0, 1], 12), np.repeat(["a", "b"], 12))
    first = configure(dataset, "erm", backbone="test_resnet", hparams={"weights": "random"})
    weights = tmp_path / "start.safetensors"
    from safetensors.torch import save_file

    network = first.model(dataset.regime).network(3)
    save_file({k: v.contiguous() for k, v in network.state_dict().items()}, weights)
    config = configure(
        dataset, "erm", backbone="test_resnet", steps=1, holdout=0.5, device="cpu",
        hparams={"weights": str(weights), "batch_size": 4},
    )  # fmt: skip
    train(config, dataset, tmp_path / "run")
    weights.unlink()
    run = read_run(tmp_path / "run")
    view = view_of_run(tmp_path / "run", run, dataset, unseen_samples(dataset, ("a", "b"), run))
    assert len(view.risks) == 12
    assert view.representations.shape[1] == build_algorithm(first, first.task(dataset)).num_features


def test_what_is_wrong_with_a_run_is_told(trained, tmp_path):
    dataset, config, folder, _ = trained
    with pytest.raises(DataError, match="holds no run"):
        read_run(tmp_path)
    (tmp_path / "config.json").write_text('{"dataset": "x"}')
    with pytest.raises(DataError, match="was written by Shiftproof"):
        read_run(tmp_path)
    with pytest.raises(DataError, match="no checkpoint yet"):
        view_of_run(tmp_path, config, dataset, every_sample(dataset, ("a", "b")))
    other = table(20)
    with pytest.raises(DataError, match="was trained on other data"):
        view_of_run(folder, config, other, every_sample(other, ("a", "b")))
    everything = configure(dataset, "erm", holdout=0.0, evaluate=["train-in"], test_domains=["c"])
    with pytest.raises(DataError, match="trained on every sample of domain 'a'"):
        unseen_samples(dataset, ("a", "c"), everything)
