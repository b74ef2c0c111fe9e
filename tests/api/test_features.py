"""Features in a file: training on it is training on the images with `freeze`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from _internals import DataError, InvalidValue, SampleRequest, UnknownName
from PIL import Image

from shiftproof import features, load, load_model, train

ONE, TWO = "test_resnet.r160_in1k", "test_efficientnet.r160_in1k"  # timm's smallest
NETWORK: dict[str, Any] = {"weights": "random", "device": "cpu", "image_size": 32}
RUN: dict[str, Any] = {"test_domains": "south", "steps": 12, "eval_every": 4}


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("images") / "pets", np.random.default_rng(0)
    for domain in ("west", "north", "south"):
        for bright, label in enumerate(("cat", "dog")):
            place = folder / domain / label
            place.mkdir(parents=True)
            for n in range(12):
                pixels = rng.integers(100, size=(32, 32, 3)) + 120 * bright
                Image.fromarray(pixels.astype(np.uint8)).save(place / f"{n}.png")
    return folder


def same_records(one: Any, other: Any) -> None:
    assert len(one.records) == len(other.records) > 1
    for mine, theirs in zip(one.records, other.records, strict=True):
        assert mine["risk"] == pytest.approx(theirs["risk"], rel=1e-5)
        assert mine["accuracy"] == theirs["accuracy"]


@pytest.mark.parametrize("backbone", [ONE, f"{ONE},{TWO}"], ids=["one", "two"])
def test_training_on_the_file_is_training_on_the_images(
    backbone: str, pets: Path, tmp_path: Path
) -> None:
    written = features(pets, tmp_path / "f.parquet", backbone=backbone, **NETWORK)
    frozen = train(
        pets, "erm", backbone=backbone, freeze=True, out=tmp_path / "frozen", **NETWORK, **RUN
    )
    run = train(tmp_path / "f.parquet", "erm", out=tmp_path / "run", **RUN)
    same_records(run, frozen)
    assert (written.regime, written.domain_names) == ("features", ("north", "south", "west"))
    assert written.notes[0].startswith(f"features of {ONE} (random, fp32)")
    # A model of the file takes vectors, one of the images takes images: they agree.
    (rows,) = SampleRequest(str(tmp_path / "f.parquet")).read(run.model.form, 0)
    (images,) = SampleRequest(str(pets), labelled=True).read(frozen.model.form, 0)
    answers = run.model.predict(rows.inputs).probabilities
    reread = load_model(tmp_path / "frozen", "cpu")
    np.testing.assert_allclose(reread.predict(images.inputs).probabilities, answers, atol=1e-5)
    assert answers.std() > 1e-3


def test_several_networks_are_heard_alike(pets: Path, tmp_path: Path) -> None:
    """Each feature has mean 0 and deviation 1 over the training samples, whatever its scale."""
    dataset = features(pets, tmp_path / "f.parquet", backbone=f"{ONE},{TWO}", **NETWORK)
    rows = {name: np.arange(24) for name in ("north", "west")}
    ready = dataset.prepared(dataset.fit_preparation(rows))
    x = torch.cat([domain.x for domain in ready.domains if domain.name != "south"]).double()
    torch.testing.assert_close(x.mean(0), torch.zeros(x.shape[1]).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(0, False), torch.ones(x.shape[1]).double(), atol=1e-4, rtol=0)
    one = load(tmp_path / "f.parquet", drop=[TWO])
    assert one.preparation is None
    assert one.input_shape[0] < dataset.input_shape[0]
    with pytest.raises(DataError, match="`drop` must leave at least one network"):
        load(tmp_path / "f.parquet", drop=[ONE, TWO])


def test_the_best_vector_is_chosen_without_the_test_domain(tmp_path: Path) -> None:
    """`good` tells the label in the training domains, `lure` in the test domain alone."""
    rng = np.random.default_rng(0)
    site, y = np.repeat(["a", "b", "c"], 60), rng.integers(2, size=180)
    signal = (2 * y - 1)[:, None] + 0.3 * rng.normal(size=(180, 3))
    noise = rng.normal(size=(180, 3))
    test = (site == "c")[:, None]
    frame = {
        "good": pa.array(np.where(test, noise, signal).tolist()),
        "lure": pa.array(np.where(test, signal, noise).tolist()),
        "label": y,
        "domain": site,
    }
    pq.write_table(pa.table(frame), tmp_path / "v.parquet")
    best = train(tmp_path / "v.parquet", "erm", pool="best", test_domains="c", steps=2,
                 out=tmp_path / "best")  # fmt: skip
    names = [column.name for column in best.model.form.columns.columns.columns]
    assert names == ["good[0]", "good[1]", "good[2]"]
    with pytest.raises(UnknownName, match="unknown pool 'bets'"):
        train(tmp_path / "v.parquet", "erm", pool="bets")
    with pytest.raises(
        InvalidValue, match="needs at least two backbones or vectors to choose from"
    ):
        train(tmp_path / "v.parquet", "erm", pool="best", drop=["lure"])


def test_a_frozen_network_is_chosen_as_if_it_were_alone(pets: Path, tmp_path: Path) -> None:
    both = train(pets, "erm", backbone=f"{ONE},{TWO}", freeze=True, pool="best",
                 out=tmp_path / "best", **NETWORK, **RUN)  # fmt: skip
    name = both.config.extractor["backbone"]
    alone = train(pets, "erm", backbone=name, freeze=True, out=tmp_path / "alone", **NETWORK, **RUN)
    assert name in (ONE, TWO)
    same_records(both, alone)


def test_features_of_what_is_no_image_or_to_no_parquet(pets: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"`out` must end in .parquet, not 'f.csv'"):
        features(pets, tmp_path / "f.csv")
    table = pd.DataFrame({"label": [0, 1] * 20, "domain": [0, 0, 1, 1] * 10, "x": range(0, 80, 2)})
    with pytest.raises(InvalidValue, match="`data` must be images, and table has none"):
        features(table, tmp_path / "f.parquet", backbone=ONE)
    with pytest.raises(InvalidValue, match="`backbone` must be a pretrained network"):
        features(pets, tmp_path / "f.parquet", backbone="mlp", **NETWORK)
    with pytest.raises(InvalidValue, match="must name each network once"):
        features(pets, tmp_path / "f.parquet", backbone=f"{ONE},{ONE}", **NETWORK)


def test_a_file_that_cannot_be_written_is_refused_before_images_are_read(tmp_path: Path) -> None:
    """The data would be an error too: whatever is wrong with `out` comes first."""
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InvalidValue, match=r"folder.parquet is a folder"):
        features(tmp_path / "nothing", tmp_path / "folder.parquet")
    (tmp_path / "list.parquet").write_bytes(b"a list of images")
    with pytest.raises(InvalidValue, match=r"`out` is the data itself, .*list.parquet"):
        features(tmp_path / "list.parquet", tmp_path / "list.parquet")
    with pytest.raises(InvalidValue, match=r"list.parquet is not a folder"):
        features(tmp_path / "nothing", tmp_path / "list.parquet" / "f.parquet")


def test_a_mistake_leaves_no_folder(pets: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName):
        features(pets, tmp_path / "new" / "f.parquet", backbone="none", **NETWORK)
    assert not (tmp_path / "new").exists()
