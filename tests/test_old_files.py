"""Files of version 0.1: models, runs and sweeps are read, and unfinished runs resume."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from _internals import (
    Observer,
    Records,
    load_state,
    read_run,
    save_state,
    stored_header,
    tempered,
    train,
    trained_model,
)

from shiftproof import ShiftproofError, load

ALGORITHMS = ["erm", "idm"]
ON_PATIENTS = ["--label", "ill", "--domain", "site"]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the files, because commands may write into the folder of a run."""
    return Path(shutil.copytree(Path(__file__).parent / "golden" / "v0.1", tmp_path / "old"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_model_gives_the_recorded_predictions(
    old: Path, tmp_path: Path, shiftproof: Any, algorithm: str
) -> None:
    out = tmp_path / "found.csv"
    code, _, err = shiftproof(
        "predict",
        old / f"table-{algorithm}",
        old / "patients.csv",
        "--domain",
        "site",
        "--out",
        out,
    )
    assert code == 0, err
    recorded = pd.read_csv(old / f"predictions-{algorithm}.csv")
    pd.testing.assert_frame_equal(pd.read_csv(out), recorded, rtol=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_model_can_be_made_again_from_a_finished_run(
    old: Path, shiftproof: Any, algorithm: str
) -> None:
    """Its checkpoint does not hold the preparation of the table, which is fitted again.

    The model of that version had no temperature, so its probabilities get that of the new one.
    """
    folder = old / f"table-{algorithm}"
    before = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    code, _, err = shiftproof(*train_command(folder, old / "patients.csv"))
    if code == 2:
        assert_refused(err)
        return
    assert code == 0, err
    out = [old / "a.csv", old / "b.csv"]
    shiftproof("predict", folder, old / "patients.csv", "--out", out[0])
    temperature = float(stored_header(folder).get("temperature", 1))
    (folder / "model.safetensors").write_bytes(before)
    shiftproof("predict", folder, old / "patients.csv", "--out", out[1])
    found, expected = map(pd.read_csv, out)
    shown = ["p(no)", "p(yes)"]
    expected[shown] = tempered(expected[shown].to_numpy(), temperature)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("folder", "rows"),
    [
        ("each", [r"ERM\s+50\.0\s+47\.9\s+50\.0\s+49\.3"]),
        ("sweep", [r"ERM\s+50\.0 .*64\.6 .*68\.8 .*61\.1", r"IDM\s+56\.2 .*66\.7 .*64\.6 .*62\.5"]),
    ],
)
def test_report_reads_finished_runs(
    old: Path, shiftproof: Any, folder: str, rows: list[str]
) -> None:
    code, out, err = shiftproof("report", old / folder)
    assert code == 0, err
    assert all(re.search(row, out) for row in rows)


class StopAfter(Observer):
    """Interrupt a run after a few steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self, step: int, measured: Any) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_unfinished_run_resumes_or_is_refused_in_one_line(old: Path, algorithm: str) -> None:
    """It was killed after its last record, and its checkpoint is older: the records come again."""
    folder = old / f"unfinished-{algorithm}"
    before = Records(folder / "records.jsonl").read()
    dataset = load(old / "patients.csv", label="ill", domain="site")
    try:
        result = train(read_run(folder), dataset, folder, StopAfter(200))
    except ShiftproofError as error:
        assert_refused(f"error: {error}\n")
        return
    assert result.status == "stopped"
    assert result.step > 200
    found, expected = (pd.json_normalize(records) for records in (result.records, before))
    assert len(found) > len(expected)
    found = found.head(len(expected))
    pd.testing.assert_frame_equal(found, expected, rtol=1e-4, check_like=True)


def test_an_unfinished_run_of_erm_resumes_with_the_same_command(old: Path, shiftproof: Any) -> None:
    folder = old / "unfinished-erm"
    begun = Records(folder / "records.jsonl").read()
    code, _, err = shiftproof(*train_command(folder, old / "patients.csv"))
    assert code == 0, err
    records = Records(folder / "records.jsonl").read()
    assert [record["step"] for record in records[: len(begun)]] == [r["step"] for r in begun]
    assert records[-1]["step"] == json.loads((folder / "config.json").read_bytes())["steps"]
    assert (folder / "model.safetensors").exists()


def test_a_run_with_settings_of_another_version_is_refused(old: Path, shiftproof: Any) -> None:
    folder = old / "unfinished-erm"
    command = train_command(folder, old / "patients.csv")
    config = json.loads((folder / "config.json").read_bytes())
    config["hparams"]["forgotten"] = 1
    (folder / "config.json").write_text(json.dumps(config))
    code, _, err = shiftproof(*command)
    assert code == 2
    assert_refused(err)
    assert "forgotten" in err


@pytest.mark.parametrize("folder", ["unfinished-erm", "table-erm"])
def test_a_checkpoint_that_does_not_fit_is_refused(old: Path, shiftproof: Any, folder: str) -> None:
    """As if the network had changed: torch's own message about it has several lines."""
    run = old / folder
    (run / "model.safetensors").unlink(missing_ok=True)
    state = load_state(run / "checkpoint.safetensors")
    assert state is not None
    state["algorithm"]["modules"].popitem()
    save_state(run / "checkpoint.safetensors", state)
    code, _, err = shiftproof(*train_command(run, old / "patients.csv"))
    assert code == 2
    assert_refused(err)
    assert "does not fit this version" in err
    dataset = load(old / "patients.csv", label="ill", domain="site")
    with pytest.raises(ShiftproofError) as caught:
        trained_model(read_run(run), dataset, run)
    assert "\n" not in str(caught.value)


def train_command(folder: Path, table: Path) -> list[Any]:
    """Return the command that makes the run in a folder."""
    config = json.loads((folder / "config.json").read_bytes())
    hparams = [
        word
        for name, value in config["hparams"].items()
        for word in ("--hparam", f"{name}={value}")
    ]
    return [
        *("train", table, *ON_PATIENTS, "--algorithm", config["algorithm"], "--out", folder),
        *("--test-domain", *config["test_domains"], "--steps", config["steps"], *hparams),
        *("--eval-every", config["eval_every"], "--seed", config["seed"], "--quiet"),
        *("--device", config["device"], "--evaluate", ",".join(config["evaluate"])),
    ]


def assert_refused(err: str) -> None:
    """One line that says what to do, and no traceback."""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
