"""The trace checker: right on recorded steps, red on a wrong weight, one line on a bad file."""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _internals import (
    ALGORITHM_NAMES,
    REPLAYS,
    Replay,
    contrast_of_adrmx,
    largest_deviation,
    read_trace,
    supervised_contrast,
    traces_main as main,
    traces_TOLERANCE as TOLERANCE,
)

from shiftproof import ALGORITHMS

TRACES = Path(__file__).parent.parent / "golden" / "traces"
IDM = TRACES / "idm_1.npz"

Arrays = dict[str, np.ndarray]


def arrays_of(path: Path) -> Arrays:
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def written(path: Path, arrays: Arrays, **meta: object) -> Path:
    """Save a trace with some entries of its ``meta`` replaced (None: removed)."""
    values = json.loads(str(arrays["meta"])) | meta
    text = json.dumps({key: value for key, value in values.items() if value is not None})
    np.savez(path, **{**arrays, "meta": np.array(text)})
    return path


def only_error_line(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.npz")), ids=lambda path: path.stem)
def test_recorded_steps_are_reproduced(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = ALGORITHM_NAMES[json.loads(str(arrays_of(path)["meta"]))["algorithm"]].ours
    if name not in ALGORITHMS:
        pytest.skip(f"{name} is not there yet")
    code = main([str(path)])
    printed = capsys.readouterr()
    assert printed.out.startswith("ok")
    assert printed.out.rstrip().endswith(path.name)
    assert (code, printed.err) == (0, "")


def test_all_recorded_files_are_here() -> None:
    """At least two for every algorithm of DomainBed, and for IDM."""
    metas = [json.loads(str(arrays_of(path)["meta"])) for path in TRACES.glob("*.npz")]
    recorded = Counter(meta["algorithm"] for meta in metas)
    assert recorded.keys() == ALGORITHM_NAMES.keys()
    assert min(recorded.values()) == 2
    assert recorded.total() == 71
    assert TOLERANCE == 1e-8


@pytest.mark.parametrize(
    "key", ["step01/feat0.weight", "step03/head.bias", "step06/feat1.bias", "step06/head.weight"]
)
@pytest.mark.parametrize("size", [2e-8, 1e-3, np.nan])
def test_a_perturbed_weight_fails(
    key: str, size: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = arrays_of(IDM)
    arrays[key].flat[-1] += size
    path = written(tmp_path / "wrong.npz", arrays)
    assert main([str(path)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("FAIL")
    assert line.endswith("wrong.npz")
    expected = np.inf if np.isnan(size) else size
    assert largest_deviation(read_trace(path)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("key", ["init/head.weight", "x"])
def test_a_perturbed_start_or_input_fails(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = arrays_of(IDM)
    arrays[key].flat[0] += 1e-3
    assert main([str(written(tmp_path / "wrong.npz", arrays))]) == 1
    assert capsys.readouterr().out.startswith("FAIL")


def test_another_hyper_parameter_fails(tmp_path: Path) -> None:
    arrays = arrays_of(IDM)
    hparams = json.loads(str(arrays["meta"]))["hparams"]
    for changed in ({"grad_lambda": 51.0}, {"ema": 0.91}, {"grad_penalty_anneal_iters": 4}):
        path = written(tmp_path / "wrong.npz", arrays, hparams=hparams | changed)
        assert largest_deviation(read_trace(path)) > 1e-6


def test_one_wrong_file_among_good_ones_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = arrays_of(TRACES / "erm_1.npz")
    arrays["step02/head.bias"] += 1e-4
    wrong = written(tmp_path / "wrong.npz", arrays)
    good = TRACES / "erm_1.npz"
    assert main([str(good), str(wrong), str(TRACES / "erm_2.npz")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "FAIL", "ok"]
    assert [line.split()[-1] for line in lines] == ["erm_1.npz", "wrong.npz", "erm_2.npz"]
    assert [float(line.split()[1]) <= 1e-8 for line in lines] == [True, False, True]


# --- what the original does differently -------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("cad_3", {"differences": Replay().differences}),
        ("ermplusplus_1", {"settings": lambda hparams: {"average_warmup": 4}}),
        ("mldg_1", {"differences": Replay().differences}),
        ("mldg_2", {"differences": Replay().differences}),
        ("trm_1", {"differences": Replay().differences}),
    ],
)
def test_without_its_difference_ours_deviates(
    name: str, ours: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `upstream` replaces is a difference indeed, so a docstring has to say so."""
    trace = read_trace(TRACES / f"{name}.npz")
    monkeypatch.setitem(REPLAYS, trace.algorithm, REPLAYS[trace.algorithm]._replace(**ours))
    assert largest_deviation(trace) > 1e-5


def test_the_contrast_of_adrmx_differs_by_small_numbers_and_by_one_sample() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    labels = torch.arange(12) % 3
    labels[0] = 3  # alone, so left out
    ours = supervised_contrast(features, labels)
    torch.testing.assert_close(contrast_of_adrmx(features, labels, small=0) * 12 / 11, ours)
    assert abs(contrast_of_adrmx(features, labels) * 12 / 11 - ours) > 0.01 * ours


def test_cad_as_it_is_drawn_has_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(REPLAYS, "CAD")
    for name in ("cad_1", "cad_2"):
        assert largest_deviation(read_trace(TRACES / f"{name}.npz")) <= TOLERANCE


# --- draws ------------------------------------------------------------------------------------

DRAWN = TRACES / "mixup_1.npz"


@pytest.mark.parametrize("key", ["draws/ring", "draws/weights"])
def test_other_draws_fail(key: str, tmp_path: Path) -> None:
    arrays = arrays_of(DRAWN)
    arrays[key][2] = np.roll(arrays[key][2], 1) if key == "draws/weights" else arrays[key][2][::-1]
    assert largest_deviation(read_trace(written(tmp_path / "wrong.npz", arrays))) > 1e-5


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("draws/weights", None),
        ("draws/weights", lambda drawn: drawn[:, :2]),
        ("draws/weights", lambda drawn: drawn[:3]),
        ("draws/noise", lambda drawn: np.zeros((6, 2))),
    ],
    ids=["missing", "too few of a step", "too few steps", "of another algorithm"],
)
def test_draws_that_do_not_fit(
    key: str, change: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = arrays_of(DRAWN)
    drawn = arrays.pop(key, None)
    if change is not None:
        arrays[key] = change(drawn)
    assert main([str(written(tmp_path / "trace.npz", arrays))]) == 2
    assert "draws" in only_error_line(capsys)


def test_draws_that_nobody_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = arrays_of(TRACES / "urm_1.npz")
    arrays["draws/ones"] = np.zeros((6, 36))  # this trace is without label smoothing
    assert main([str(written(tmp_path / "trace.npz", arrays))]) == 2
    assert "unused" in only_error_line(capsys)


# --- bad files --------------------------------------------------------------------------------


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere.npz")]) == 2
    assert "nowhere.npz" in only_error_line(capsys)


def test_an_unknown_algorithm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "trace.npz", arrays_of(IDM), algorithm="IDMM")
    assert main([str(path)]) == 2
    line = only_error_line(capsys)
    assert "'IDMM'" in line
    assert "'IDM'" in line


def test_a_hyper_parameter_out_of_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = arrays_of(IDM)
    hparams = json.loads(str(arrays["meta"]))["hparams"] | {"ema": 1.5}
    assert main([str(written(tmp_path / "trace.npz", arrays, hparams=hparams))]) == 2
    assert "1.5" in only_error_line(capsys)


def bad_files() -> dict[str, object]:
    """Each writes its file at the given path."""
    recorded = IDM.read_bytes()

    def without(key: str) -> object:
        def write(path: Path) -> None:
            arrays = arrays_of(IDM)
            np.savez(path, **{k: v for k, v in arrays.items() if not k.startswith(key)})

        return write

    def replaced(**arrays: np.ndarray) -> object:
        return lambda path: np.savez(path, **{**arrays_of(IDM), **arrays})

    def array(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, np.zeros(3))

    def pickled(path: Path) -> None:
        np.savez(path, **{**arrays_of(IDM), "x": np.array([{}, {}], dtype=object)})

    def flipped(path: Path) -> None:
        middle = len(recorded) // 2
        path.write_bytes(recorded[:middle] + b"\xff" * 40 + recorded[middle + 40 :])

    x, y, head = (arrays_of(IDM)[key] for key in ("x", "y", "init/head.weight"))
    return {
        "text": lambda path: path.write_text("not a trace\n"),
        "cut short": lambda path: path.write_bytes(recorded[: len(recorded) // 2]),
        "a folder": lambda path: path.mkdir(),
        "pickled objects": pickled,
        "flipped bytes": flipped,
        "meta is no JSON": replaced(meta=np.array("{algorithm")),
        "no meta": without("meta"),
        "no inputs": without("x"),
        "empty": lambda path: path.write_bytes(b""),
        "a single array": array,
        "no start": without("init/"),
        "no weights of the first layer": without("init/feat0.weight"),
        "no bias at the start": without("init/head.bias"),
        "no algorithm": lambda path: written(path, arrays_of(IDM), algorithm=None),
        "no hyper-parameters": lambda path: written(path, arrays_of(IDM), hparams=None),
        "the algorithm is a number": lambda path: written(path, arrays_of(IDM), algorithm=7),
        "meta is a list": replaced(meta=np.array("[]")),
        "fewer inputs than steps": replaced(x=x[:3], y=y[:3]),
        "inputs of another width": replaced(x=x[..., :5]),
        "weights of another width": replaced(**{"init/head.weight": head[:, :7]}),
        "a weight we do not have": replaced(**{"step01/tail.weight": head}),
        "no steps": without("step"),
        "nothing recorded": lambda path: np.savez(
            path,
            x=x[:0],
            y=y[:0],
            **{k: v for k, v in arrays_of(IDM).items() if k == "meta" or k.startswith("init/")},
        ),
    }


@pytest.mark.parametrize("name", list(bad_files()))
def test_an_unreadable_file_is_one_line_and_code_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.npz"
    bad_files()[name](path)
    assert main([str(path)]) == 2
    only_error_line(capsys)


# --- as a command -----------------------------------------------------------------------------


def test_no_arguments_print_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: ")


def test_the_command_passes_the_exit_code_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[object, str, str]:
        """As python -m does, in this process."""
        monkeypatch.delitem(sys.modules, "shiftproof.testing.traces", raising=False)
        monkeypatch.setattr(sys, "argv", ["traces", *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("shiftproof.testing.traces", run_name="__main__", alter_sys=True)
        return ended.value.code, *capsys.readouterr()

    arrays = arrays_of(IDM)
    arrays["step06/head.bias"][0] += 1e-6
    code, out, _ = run(str(IDM), str(written(tmp_path / "wrong.npz", arrays)))
    assert code == 1
    assert [line[:4] for line in out.splitlines()] == ["ok  ", "FAIL"]
    code, out, err = run(str(tmp_path / "nowhere.npz"))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
