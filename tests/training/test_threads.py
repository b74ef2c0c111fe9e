"""The number of threads of a run: one for rows, all for images; kept by the checkpoint."""

from __future__ import annotations

import json

import pytest
import torch
from _internals import (
    CheckpointError,
    InvalidValue,
    configure,
    core_cores,
    load_state,
    problem,
    save_state,
    train,
)

from shiftproof import Domain, DomainDataset


@pytest.fixture
def two_threads(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setenv(core_cores.LIMIT, "2")
    monkeypatch.setattr(core_cores, "cores", lambda: 2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    xs = [torch.randn(60, 4, generator=generator) + index for index in range(3)]
    domains = [Domain(name, x, (x.sum(1) > 0).long()) for name, x in zip("abc", xs, strict=True)]
    return DomainDataset("toy", tuple(domains), ("a", "b"), "table", "mlp", 10)


def config_of(dataset, steps=8):
    return configure(
        dataset, "idm", test_domains=["c"], hparams={"hidden": 8, "batch_size": 16}, steps=steps
    )


def threads_of(folder):
    return json.loads((folder / "done.json").read_text())["environment"]["threads"]


def test_rows_use_one_thread_and_images_all_that_are_allowed(two_threads, dataset, tmp_path):
    """Fixed by the data: no clock, and no load of the machine, decides."""
    train(config_of(dataset), dataset, tmp_path / "rows")
    assert threads_of(tmp_path / "rows") == 1
    images = problem(shape=(2, 28, 28), backbone="mnist-cnn")
    train(configure(images, "erm", steps=1, device="cpu"), images, tmp_path / "images")
    assert threads_of(tmp_path / "images") == 2
    assert torch.get_num_threads() == 2


def test_a_resumed_run_keeps_its_number(two_threads, dataset, tmp_path):
    train(config_of(dataset), dataset, tmp_path, threads=2)
    assert load_state(tmp_path / "checkpoint.safetensors")["threads"] == 2
    assert threads_of(tmp_path) == 2
    (tmp_path / "done.json").unlink()
    train(config_of(dataset), dataset, tmp_path)
    assert threads_of(tmp_path) == 2


def test_results_agree_to_rounding(two_threads, dataset, tmp_path):
    one, two = (
        train(config_of(dataset, 40), dataset, tmp_path / str(count), threads=count).final
        for count in (1, 2)
    )
    assert one["loss"] == pytest.approx(two["loss"], rel=1e-4)
    assert one["risk"] == pytest.approx(two["risk"], rel=1e-4)


@pytest.mark.parametrize("wrong", [0, -1, 10**9])
def test_a_wrong_number_is_refused(dataset, tmp_path, wrong):
    with pytest.raises(InvalidValue, match="`threads` must be "):
        train(config_of(dataset), dataset, tmp_path, threads=wrong)


@pytest.mark.parametrize("wrong", [0, 10**9, "many", True])
def test_a_crafted_checkpoint_cannot_start_threads(dataset, tmp_path, wrong):
    train(config_of(dataset), dataset, tmp_path)
    (tmp_path / "done.json").unlink()
    checkpoint = tmp_path / "checkpoint.safetensors"
    save_state(checkpoint, load_state(checkpoint) | {"threads": wrong})
    with pytest.raises(CheckpointError, match="threads"):
        train(config_of(dataset), dataset, tmp_path)
