"""What TensorBoard reads is what the run recorded, also after a kill."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from _internals import (
    CompositeObserver,
    InvalidValue,
    Observer,
    TensorBoard,
    configure,
    problem,
    train,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor


class Killed(Exception):
    """What a kill is to the test."""


class Killer(Observer):
    """Ends a run in the middle of a step, without a checkpoint of it."""

    def step(self, step: int, measured: dict[str, Tensor]) -> None:
        if step == 5:
            raise Killed


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_every_number_of_every_record_once(tmp_path: Path) -> None:
    data = problem()
    config = configure(data, "idm", steps=6, eval_every=2, device="cpu", hparams={"hidden": 8})
    with pytest.raises(Killed):  # checkpoints at every step until then
        train(config, data, tmp_path, CompositeObserver([TensorBoard(tmp_path), Killer()]), 0.0)
    result = train(config, data, tmp_path, TensorBoard(tmp_path))
    assert [record["step"] for record in result.records] == [1, 3, 5, 6]
    expected: dict[str, list[tuple[int, float]]] = {}
    for record in result.records:
        for name, value in record.items():
            for tag, number in (
                [(f"{name}/{key}", v) for key, v in value.items()]
                if isinstance(value, dict)
                else [(name, value)]
            ):
                if tag != "step":
                    expected.setdefault(tag, []).append((record["step"], pytest.approx(number)))
    assert curves(tmp_path) == expected


def test_from_the_command_line(tmp_path: Path, shiftproof: Any) -> None:
    out = tmp_path / "run"
    code, _, err = shiftproof(
        "train", "colored-mnist-irm", "--algorithm", "erm", "--steps", 1, "--tensorboard",
        "--evaluate", "extra", "--out", out, "-q",
    )  # fmt: skip
    assert code == 0, err
    assert "accuracy/gray" in curves(out)


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InvalidValue, match=r"pip install 'shiftproof\[tensorboard\]'"):
        TensorBoard(tmp_path)
