"""One run in two processes is the run of one process, to rounding, for every kind of algorithm."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _internals import InvalidValue

import shiftproof
from shiftproof import train

sys.path.insert(0, str(Path(__file__).parent))
from train_in_processes import SOME, every_name, images, main, table

SCRIPT = Path(__file__).parent / "train_in_processes.py"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def by_one_and_by_two(root: Path, names: list[str]) -> tuple[Path, Path]:
    """Make the same runs by this process and by two others, as torchrun starts them."""
    pictures = images(root / "pictures")
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    group |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(shiftproof.__file__).parents[1])}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(root / "two"), str(pictures), ",".join(names)],
            env={**os.environ, **group, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    threads = torch.get_num_threads()
    try:
        main(root / "one", pictures, names)
        errors = [process.communicate(timeout=600)[1] for process in started]
    finally:
        torch.set_num_threads(threads)
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], errors
    return root / "one", root / "two"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return by_one_and_by_two(tmp_path_factory.mktemp("processes"), SOME)


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_every_algorithm_gives_the_same_result(tmp_path: Path) -> None:
    pair = by_one_and_by_two(tmp_path, every_name())
    for name in every_name():
        test_two_processes_give_the_result_of_one(name, pair)


@pytest.mark.parametrize("name", [*SOME, "images"])
def test_two_processes_give_the_result_of_one(name: str, runs: tuple[Path, Path]) -> None:
    one, two = (records(folder / name) for folder in runs)
    assert [record["step"] for record in one] == [record["step"] for record in two] == [1, 4, 7]
    for mine, theirs in zip(one, two, strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=2e-5)
        assert theirs["risk"] == pytest.approx(mine["risk"], rel=2e-5)
    alone, together = (
        shiftproof.load_model(folder / name, "cpu").network.weights() for folder in runs
    )
    for key, weights in alone.items():
        torch.testing.assert_close(together[key], weights, rtol=1e-4, atol=1e-5)


def test_a_compiled_network_gives_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network is compiled, and its weights keep their names."""
    compiled = []

    def traced(graph: Any, _: Any) -> Any:  # a C++ compiler would take a minute
        compiled.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=traced))
    settings: dict[str, Any] = {"test_domains": "c", "steps": 3, "eval_every": 0, "device": "cpu"}
    one = train(table(), "erm", out=tmp_path / "one", compile=True, **settings)
    other = train(table(), "erm", out=tmp_path / "other", **settings)
    assert compiled
    assert one.metrics["risk"] == pytest.approx(other.metrics["risk"], rel=1e-5)
    x = table()[0][:5]
    np.testing.assert_allclose(one.model.predict_proba(x), other.model.predict_proba(x), atol=1e-6)


def test_a_compiler_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(*_: Any) -> Any:
        raise RuntimeError("no working C++ compiler")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=no_compiler))
    with pytest.raises(InvalidValue, match=r"torch cannot compile the network .*`compile`"):
        train(table(), "erm", out=tmp_path / "run", compile=True, steps=1, device="cpu")
