"""Benchmarks: how figures are measured, and how they are shown."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _internals import (
    allocated_peak,
    batch_for,
    built,
    bytes_of,
    matching_gradients as gradients,
    medians,
    ratio_of,
    seconds_in_turn,
)

from benchmarks import matching
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.figure import Figure, can_measure_memory, peak_bytes
from benchmarks.report import measured_part
from shiftproof import Task


def test_sides_take_turns_and_the_warm_up_does_not_count() -> None:
    order: list[str] = []

    def side(name: str) -> None:
        order.append(name)
        time.sleep(0.02 if name == "slow" else 0.005)

    taken = seconds_in_turn(
        {"slow": lambda: side("slow"), "quick": lambda: side("quick")}, rounds=4, warmup=1
    )
    assert order == ["quick", "slow", "slow", "quick"] * 2 + ["quick", "slow"]
    assert all(len(values) == 4 for values in taken.values())
    assert 1.5 < ratio_of(taken, "slow", "quick") < 6
    assert medians(taken)["slow"] > 0.02


@pytest.mark.skipif(not can_measure_memory(), reason="this system does not tell peaks of memory")
def test_a_peak_is_what_was_held_at_once_and_not_what_was_there_before() -> None:
    size = 64 << 20
    before = torch.ones(size // 4)

    def hold(times: int) -> None:
        kept = [torch.ones(size // 4) for _ in range(times)]
        del kept

    assert peak_bytes(lambda: hold(1)) == pytest.approx(size, rel=0.1)
    assert peak_bytes(lambda: hold(3)) == pytest.approx(3 * size, rel=0.1)
    assert peak_bytes(lambda: None) < size / 10
    assert len(before)


def test_counted_allocations_are_exact_and_of_what_is_held_at_once() -> None:
    before = torch.ones(1000, dtype=torch.float64)

    def work() -> None:
        first = torch.ones(2000, dtype=torch.float64)  # 16,000 bytes, given back
        del first
        kept = [torch.ones(500, dtype=torch.float64) for _ in range(3)]  # 12,000
        kept.append(kept[0] + before[:500])  # and 4,000 more
        kept.append(torch.ones(125, dtype=torch.float64))  # and 1,000
        del kept

    assert allocated_peak(work) == pytest.approx(17_000, abs=900)  # lists and frames are Python's
    assert allocated_peak(work) == pytest.approx(allocated_peak(work), abs=300)
    arrays = allocated_peak(lambda: np.ones(10_000).sum())
    assert arrays == pytest.approx(80_000, abs=2000)


def test_a_step_of_idm_takes_no_more_memory_than_one_of_erm() -> None:
    """The same at each call, unlike resident pages; the moving average is IDM's own."""
    task = Task((2, 28, 28), 2, 2, "small-image")
    batch = batch_for(task, 8)
    sides = {
        "idm": built("idm", task, "mnist-cnn", hparams={"gradient_warmup": 0}),
        "erm": built("erm", task, "mnist-cnn"),
    }
    peaks = {}
    for name, side in sides.items():
        side.update(batch)
        side.update(batch)
        work = partial(side.update, batch)
        peaks[name] = [allocated_peak(work) for _ in range(2)]
        assert peaks[name][0] == pytest.approx(peaks[name][1], rel=1e-3)
    held = {name: bytes_of(side.training_state()) for name, side in sides.items()}
    # Two domains of 8 in single precision, their masses and their ids.
    assert held["idm"] - held["erm"] == 2 * 8 * (2 * 128 + 2) * 4 + 2 * 4 + 2 * 8
    assert peaks["idm"][0] + held["idm"] <= 1.03 * (peaks["erm"][0] + held["erm"])


def test_no_user_of_the_matcher_holds_the_gradients_of_a_linear_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is held and what a step allocates at most, against IDM's."""
    monkeypatch.setattr(gradients, "BLOCK", 1 << 14)
    for name, size in {"DOMAINS": 3, "BATCH": 32, "FEATURES": 256, "CLASSES": 60}.items():
        monkeypatch.setattr(matching, name, size)
    task, batch = matching.matcher_problem()

    def memory(name: str, **hparams: object) -> int:
        side = matching.matcher_side(name, task, **hparams)
        work = partial(side.update, batch)
        work()
        return bytes_of(side.training_state()) + allocated_peak(work)

    whole = memory("idm")
    assert memory("idm-auto") < 1.05 * whole
    assert memory(matching.OWN_LOOP) < 1.05 * whole


def test_figures_know_whether_they_reach_their_targets() -> None:
    def figure(value: float, bound: Any) -> Figure:
        return Figure("f", "a / b", value, bound, 2.0, {"seconds": {"a": 0.51234}, "runs": 3})

    assert [figure(v, "≤").reached for v in (1.9, 2.0, 2.1)] == [True, True, False]
    assert [figure(v, "≥").reached for v in (1.9, 2.0, 2.1)] == [False, True, True]
    page = measured_part([figure(2.5, "≤")], {"threads": 2})
    assert "| f | a / b | 2.5 | ≤ 2 | not reached |" in page
    assert "- **f**: seconds: a 0.512; runs: 3" in page
    assert "threads: 2." in page


def test_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, small in {"DOMAINS": 2, "BATCH": 8, "FEATURES": 16, "CLASSES": 5}.items():
        monkeypatch.setattr(matching, name, small)
    page = tmp_path / "new" / "performance.md"
    assert main(["penalty", "matcher", "--json", "--out", str(page)]) == 0
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)["figures"]}
    assert figures["penalty-apart"]["reached"]
    assert figures["penalty-apart"]["details"]["in float32, with all classes"] < 1e-5
    assert {"idm-auto", "InterDomainMatching"} < figures.keys()
    written = page.read_text("utf-8")
    assert "| penalty |" in written
    page.write_text(written + "\nBy hand.\n", "utf-8")
    assert main(["matcher", "--out", str(page)]) == 0
    assert page.read_text("utf-8").endswith("\nBy hand.\n")
    assert "| penalty |" not in page.read_text("utf-8")
    capsys.readouterr()
    page.write_text("By hand.\n", "utf-8")
    assert main(["penalty", "--out", str(page)]) == 2
    assert "no part <!-- measured -->" in capsys.readouterr().err
    assert main(["penalty"]) == 0
    assert "penalty-apart" in capsys.readouterr().out


def test_every_benchmark_is_named_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in BENCHMARKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["penalti"], "did you mean 'penalty'?"), (["step", "--out", "x.txt"], "must end in .md")],
    ids=["name", "out"],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
