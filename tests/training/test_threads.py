"""The number of threads of a run: chosen by the first steps, kept by the checkpoint."""

from __future__ import annotations

import json

import pytest
import torch
from _internals import (
    CheckpointError,
    InvalidValue,
    ThreadChoice,
    configure,
    load_state,
    save_state,
    train,
    training_threads as threads,
)

from shiftproof import Domain, DomainDataset


@pytest.fixture
def two_free_cores(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "free_cores", lambda: 2)
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


def decided(*seconds):
    """Return what is chosen after steps that take so long each, and after how many steps."""
    choice = ThreadChoice()
    for step, each in enumerate(seconds, start=1):
        choice._steps = step
        choice.judge(each)
        if choice.chosen is not None:
            return choice.chosen, step
    return None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((0.5, 0.001), (1, 2)),  # a short step
        ((0.001, 0.2), (2, 2)),  # a long one
        ((0.05, 0.02, 0.001, 0.012), (2, 4)),  # in between, and faster
        ((0.05, 0.02, 0.001, 0.019), (1, 4)),  # in between, and hardly faster
        ((0.05, 0.02, 0.001), None),
    ],
)
def test_the_size_of_the_work_decides(two_free_cores, seconds, expected):
    assert decided(*seconds) == expected


def test_no_more_threads_than_free_cores(two_free_cores, monkeypatch):
    monkeypatch.setattr(threads, "free_cores", lambda: 1)
    assert ThreadChoice().chosen == 1


def test_the_trial_begins_alone_and_then_takes_all(two_free_cores, monkeypatch):
    monkeypatch.setattr(threads, "SHORT", 0.0)
    monkeypatch.setattr(threads, "LONG", float("inf"))
    choice, used = ThreadChoice(), []
    with choice.restored():
        for _ in range(5):
            with choice.step():
                used.append(torch.get_num_threads())
    assert used[:4] == [1, 1, 2, 2]
    assert used[4] == choice.chosen
    assert torch.get_num_threads() == 2


def test_a_resumed_run_keeps_its_number(two_free_cores, dataset, tmp_path, monkeypatch):
    train(config_of(dataset), dataset, tmp_path, threads=2)
    assert load_state(tmp_path / "checkpoint.safetensors")["threads"] == 2
    assert json.loads((tmp_path / "done.json").read_text())["environment"]["threads"] == 2
    (tmp_path / "done.json").unlink()
    monkeypatch.setattr(threads, "free_cores", lambda: 1)
    train(config_of(dataset), dataset, tmp_path)
    assert json.loads((tmp_path / "done.json").read_text())["environment"]["threads"] == 2


def test_results_agree_to_rounding(two_free_cores, dataset, tmp_path):
    one, two = (
        train(config_of(dataset, 40), dataset, tmp_path / str(count), threads=count).final
        for count in (1, 2)
    )
    assert one["loss"] == pytest.approx(two["loss"], rel=1e-4)
    assert one["risk"] == pytest.approx(two["risk"], rel=1e-4)


@pytest.mark.parametrize("wrong", [0, -1, 10**9])
def test_a_wrong_number_is_refused(dataset, tmp_path, wrong):
    with pytest.raises(InvalidValue, match=f"`threads` must be a number from 1 .*, not {wrong}"):
        train(config_of(dataset), dataset, tmp_path, threads=wrong)


@pytest.mark.parametrize("wrong", [0, 10**9, "many", True])
def test_a_crafted_checkpoint_cannot_start_threads(dataset, tmp_path, wrong):
    train(config_of(dataset), dataset, tmp_path)
    (tmp_path / "done.json").unlink()
    checkpoint = tmp_path / "checkpoint.safetensors"
    save_state(checkpoint, load_state(checkpoint) | {"threads": wrong})
    with pytest.raises(CheckpointError, match="threads"):
        train(config_of(dataset), dataset, tmp_path)
