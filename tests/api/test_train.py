"""`train`, `train_each` and `load_model`: the same as the command line, as values."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from _internals import Observer

from shiftproof import ShiftproofError, TrainedModel, load, load_model, train, train_each

COLUMNS = {"label": "ill", "domain": "ward"}
SHORT: dict[str, Any] = {
    "steps": 30, "hparams": {"batch_size": 8, "lr": 0.01}, "eval_every": 10, "device": "cpu",
}  # fmt: skip
SAME = [
    *("--steps", "30", "--hparam", "batch_size=8", "--hparam", "lr=0.01", "--eval-every", "10"),
    *("--device", "cpu", "--label", "ill", "--domain", "ward"),
]
LINEAR: dict[str, Any] = {"algorithm": "linear", "hparams": {}}
FILES = ("config.json", "records.jsonl", "model.safetensors")


class Watch(Observer):
    """Keeps what it is told."""

    def __init__(self, stop_at: int = 0) -> None:
        self.told: list[str] = []
        self.stop_at = stop_at

    def progress(self, what: str, done: int, total: int) -> None:
        self.told.append("progress")

    def loaded(self, dataset: Any) -> None:
        self.told.append("loaded")

    def begin(self, config: Any, step: int) -> None:
        self.told.append(f"begin {step}")

    def step(self, step: int, measured: Any) -> None:
        if step == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    def record(self, record: Any) -> None:
        self.told.append(f"record {record['step']}")

    def note(self, text: str) -> None:
        self.told.append(text)


def test_one_run_is_that_of_the_command_line(
    table: Path, tmp_path: Path, shiftproof: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    code, printed, err = shiftproof(
        "train", table, "-a", "erm", "--test-domain", "a", *SAME,
        "--out", tmp_path / "cli", "--json", "--quiet",
    )  # fmt: skip
    assert code == 0, err
    found = train(table, "erm", test_domains=["a"], out=tmp_path / "api", **SHORT, **COLUMNS)
    assert capfd.readouterr() == ("", "")
    for name in FILES:
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()
    told = json.loads(printed)
    assert found.metrics == told["final"] == found.records[-1]
    assert [record["step"] for record in found.records] == [1, 11, 21, 30]
    assert (found.status, found.step) == ("finished", 30)
    unlike = ("seconds", "folder")
    assert {**found.to_dict(), **{k: told[k] for k in unlike}} == told
    assert found.folder == tmp_path / "api"
    assert found.seconds > 0
    # Called again, it is the same run, and nothing is trained.
    watch = Watch()
    again = train(
        table, "erm", test_domains="a", out=tmp_path / "api", observer=watch, **SHORT, **COLUMNS
    )
    assert again.records == found.records
    assert not any(text.startswith("begin") for text in watch.told)


def test_the_model_is_at_hand(frame: pd.DataFrame, tmp_path: Path) -> None:
    data = load(frame, **COLUMNS)
    found = train(data, "erm", out=str(tmp_path / "run"), **SHORT)
    assert isinstance(found.model, TrainedModel)
    assert found.model is found.model
    assert found.model.columns == COLUMNS
    rows = frame[["age", "marker"]].head(5)
    expected = found.model.predict(found.model.form.read(rows)).probabilities
    for path in (tmp_path / "run", str(tmp_path / "run"), str(tmp_path / "run/model.safetensors")):
        model = load_model(path)
        assert (model.predict(model.form.read(rows)).probabilities == expected).all()
    with pytest.raises(ShiftproofError, match="no such run or model"):
        load_model(str(tmp_path / "nowhere"))


def test_without_out_the_folder_is_named_after_the_run(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = train(frame, "erm", test_domains="b & c", **SHORT, **COLUMNS)
    assert found.folder == Path("runs") / f"table-erm-without-b_c-{found.config.run_id[:8]}"
    assert found.model.classes == ("0", "1")


def test_an_interrupted_run_resumes_and_ends_the_same(frame: pd.DataFrame, tmp_path: Path) -> None:
    settings = {**SHORT, **COLUMNS, "test_domains": "a"}
    watch = Watch(stop_at=12)
    found = train(frame, "erm", out=tmp_path / "a", observer=watch, **settings)
    assert (found.status, found.step) == ("stopped", 12)
    assert watch.told == ["loaded", "begin 0", "record 1", "record 11"]
    with pytest.raises(ShiftproofError, match="has no model: it stopped"):
        found.model  # noqa: B018
    watch = Watch()
    found = train(frame, "erm", out=tmp_path / "a", observer=watch, **settings)
    assert found.status == "finished"
    assert watch.told[:3] == ["loaded", "begin 12", "record 21"]
    assert watch.told[-1] == "progress"  # the model was described
    whole = train(frame, "erm", out=tmp_path / "b", **settings)
    assert found.records == whole.records
    assert (tmp_path / "a/model.safetensors").read_bytes() == (
        tmp_path / "b/model.safetensors"
    ).read_bytes()


def test_a_diverged_run_says_so(frame: pd.DataFrame, tmp_path: Path) -> None:
    hparams = {"batch_size": 8, "lr": 1000, "depth": 9, "gradient_weight": 1e15}
    settings = {**SHORT, **COLUMNS, "hparams": {**hparams, "gradient_warmup": 4}, "steps": 200}
    found = train(frame, "idm", out=tmp_path, **settings)
    assert found.status == "diverged"
    assert found.metrics["event"] == "diverged"


def test_each_domain_is_that_of_the_command_line(
    table: Path, tmp_path: Path, shiftproof: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    code, printed, err = shiftproof(
        "train", table, "-a", "erm", "--test-domain", "each", *SAME,
        "--out", tmp_path / "cli", "--json", "-q",
    )  # fmt: skip
    assert code == 0, err
    watch = Watch()
    found = train_each(table, "erm", out=tmp_path / "api", observer=watch, **SHORT, **COLUMNS)
    assert capfd.readouterr() == ("", "")
    for run in found.runs:
        for name in FILES:
            path = tmp_path / "cli" / run.folder.name / name
            assert (run.folder / name).read_bytes() == path.read_bytes()
    told = json.loads(printed)["runs"]
    assert [run.metrics for run in found.runs] == [run["final"] for run in told]
    assert [run["test_domains"] for run in found.to_dict()["runs"]] == [["<i>d"], ["a"], ["b & c"]]
    assert watch.told.count("begin 0") == 3


def test_the_table_of_held_out_domains(frame: pd.DataFrame, tmp_path: Path) -> None:
    uneven = pd.concat([frame, frame[(frame.ward == "a") & (frame.ill == 1)].head(10)])
    found = train_each(uneven, "erm", out=tmp_path, **SHORT, **COLUMNS)
    table = found.to_frame()
    assert list(table.index) == ["<i>d", "a", "b & c"]
    assert table.samples.tolist() == [40, 50, 40]
    assert table.commonest_class.tolist() == [0.5, 0.6, 0.5]
    for run, (domain, row) in zip(found.runs, table.iterrows(), strict=True):
        accuracy = run.metrics["accuracy"]
        outside = round(0.2 * row.samples)
        right = (row.samples - outside) * accuracy[f"{domain}/in"] + outside * accuracy[
            f"{domain}/out"
        ]
        assert row.accuracy == pytest.approx(right / row.samples)
        others = [value for name, value in accuracy.items() if not name.startswith(domain)]
        assert row.training_domains == pytest.approx(sum(others) / 2)
        assert (row.status, row.folder) == ("finished", run.folder)
    assert found.mean == pytest.approx(table.accuracy.mean())
    assert (found.worst.accuracy, found.worst.domain) == (
        table.accuracy.min(), table.accuracy.idxmin(),
    )  # fmt: skip
    assert found.status == "finished"
    page = found._repr_html_()
    assert "<i>" not in page
    assert "<th>&lt;i&gt;d</th>" in page
    assert f"<td>{table.accuracy['a']:.1%}</td>" in page
    assert f"mean {found.mean:.1%}, worst {table.accuracy.min():.1%} (&lt;i&gt;d)" in page


def test_an_interrupted_table_resumes(frame: pd.DataFrame, tmp_path: Path) -> None:
    settings = {**SHORT, **COLUMNS, "out": tmp_path}
    found = train_each(frame, "erm", observer=Watch(stop_at=5), **settings)
    assert (found.status, len(found.runs)) == ("stopped", 1)
    assert train_each(frame, "erm", **settings).to_frame().status.tolist() == ["finished"] * 3


def test_what_was_not_evaluated_is_not_a_number(frame: pd.DataFrame, tmp_path: Path) -> None:
    found = train_each(frame, "erm", out=tmp_path, evaluate="train-out", **SHORT, **COLUMNS)
    table = found.to_frame()
    assert table.accuracy.isna().all()
    assert table.training_domains.notna().all()
    assert "nan" in found._repr_html_()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"out": ""}, "`out` must name a folder"),
        ({"checkpoint_seconds": -1}, "`checkpoint_seconds` must be at least 0, not -1"),
        ({"seed": -1}, "`seed` must be at least 0, not -1"),
        ({"weights": "random", "hparams": {"weights": "random"}}, "give weights twice"),
        ({"algorithm": "imd"}, "did you mean 'idm'"),
        ({"label": "il"}, "did you mean 'ill'"),
        ({**LINEAR, "compile": True}, "linear has no network: leave out `compile`"),
        ({**LINEAR, "average": "ema"}, "linear has no network: leave out `average`"),
        ({**LINEAR, "precision": "bf16"}, "linear has no network: leave out `precision`"),
    ],
)
@pytest.mark.parametrize("verb", [train, train_each])
def test_a_mistake_is_told_before_anything_is_written(
    frame: pd.DataFrame, tmp_path: Path, verb: Any, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ShiftproofError, match=words):
        verb(frame, **{"out": tmp_path / "run", **SHORT, **COLUMNS, **settings})
    assert not (tmp_path / "run").exists()
