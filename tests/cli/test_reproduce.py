"""reproduce: from the command to tables and figures, with runs of a few steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from _internals import (
    STUDIES,
    DataError,
    InvalidValue,
    Matching,
    Table1,
    UnknownName,
    app,
    cli_reproduce as command,
    compare_timings,
    paper_running_time,
    preset_named,
    read_planned_runs,
    read_timing,
    time_steps,
    write_archive,
)
from click.testing import CliRunner

LITE = str(Path(__file__).parents[2] / "results" / "lite.jsonl.gz")


@pytest.fixture
def few_steps(monkeypatch):
    """Make the runs so small that they take a second."""
    tiny = replace(preset_named("table1"), steps=12, evaluations=4, options={"per_domain": "60"})
    monkeypatch.setattr(Table1, "preset", lambda self, scale: tiny)
    lite = replace(preset_named("lite"), steps=4, evaluations=0)
    monkeypatch.setattr(Matching, "preset", lambda self, scale: lite)


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_help_and_the_catalogue_name_the_same_studies():
    assert set(command.STUDIES) == {*STUDIES, "running-time"}


@pytest.mark.slow
def test_table_and_figure_share_runs_and_the_command_goes_on(few_steps, tmp_path):
    options = ("--scale", "lite", "--out", tmp_path, "--device", "cpu", "--quiet", "--workers", 1)
    figure = call("figure1", *options)
    assert (tmp_path / "lite" / "figure1.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "lite" / "figure1.pdf").read_bytes()[:5] == b"%PDF-"
    assert "figure1.png" in figure
    (run,) = (tmp_path / "lite" / "table1" / "runs").iterdir()
    before = (run / "records.jsonl").stat().st_mtime_ns
    table = call("table1", "--rows", "IDM,ERM", "--runs", 2, *options)
    assert len(list((tmp_path / "lite" / "table1" / "runs").iterdir())) == 4
    assert (run / "records.jsonl").stat().st_mtime_ns == before
    assert "70.2 ± 1.4" in table
    assert "(2)" in table
    for suffix in ("txt", "md", "tex"):
        assert "Colored MNIST" in (tmp_path / "lite" / f"table1.{suffix}").read_text("utf-8")
    # From the records alone, nothing is run.
    packed = tmp_path / "packed.jsonl.gz"
    write_archive(read_planned_runs(tmp_path / "lite" / "table1"), packed)
    again = call("table1", "--scale", "lite", "--records", packed, "--out", tmp_path / "other")
    assert "(2)" in again
    text = (tmp_path / "other" / "lite" / "table1.txt").read_text("utf-8")
    assert text == (tmp_path / "lite" / "table1.txt").read_text("utf-8")
    call("figure1", "--scale", "lite", "--records", packed, "--out", tmp_path / "other")
    drawn = (tmp_path / "other" / "lite" / "figure1.png").read_bytes()
    assert drawn == (tmp_path / "lite" / "figure1.png").read_bytes()


@pytest.mark.slow
def test_an_ablation_from_plan_to_table(few_steps, tmp_path):
    options = ("--scale", "lite", "--out", tmp_path, "--device", "cpu", "--workers", 1)
    small = ("--rows", "erm,idm", "--n-hparams", 1, "--runs", 1, "--test-domain", "10%")
    planned = call("ablation-pdm", *options, *small, "--dry-run")
    assert "2 runs" in planned
    assert "runs are done" not in planned
    assert not (tmp_path / "lite").exists()
    output = call("ablation-pdm", *options, *small)
    assert "ablation-pdm.tex" in output.replace("\n", "")
    text = (tmp_path / "lite" / "ablation-pdm.txt").read_text("utf-8")
    idm = text.splitlines()[next(i for i, li in enumerate(text.splitlines()) if "IDM" in li) + 1]
    assert idm.split()[:3] == ["ours", "–", "–"]  # the reversed domain alone was held out
    assert "(1)" in idm


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["tabel1"], UnknownName, "did you mean 'table1'"),
        (["table1", "--scale", "ful"], UnknownName, "did you mean 'full'"),
        (["table1", "--runs", "0"], InvalidValue, "`runs` must be at least 1"),
        (["table1", "--rows", "IDN"], UnknownName, "did you mean 'IDM'"),
        (["table1", "--data", "x"], InvalidValue, "`data` takes name=value"),
        (["ablation-gradient", "--scale", "lite"], InvalidValue, '`data={"pacs": "FOLDER"}`'),
        (["running-time", "--datasets", "mnist"], UnknownName, "'mnist'"),
        (["table1", "--records", "nowhere"], DataError, "there is no nowhere"),
        (["running-time", "--dry-run"], InvalidValue, "`dry_run` does not apply to running-time"),
        (
            ["table1", "--test-domain", "90%"],
            InvalidValue,
            "`test_domains` does not apply to table1",
        ),
        (["figure1", "--rows", "IDM"], InvalidValue, "`rows` does not apply to figure1"),
        (
            ["running-time", "--precision", "bf16"],
            InvalidValue,
            "`precision` does not apply to running-t",
        ),
        (
            ["table1", "--records", LITE, "--device", "cpu"],
            InvalidValue,
            "`device` does not apply to --records",
        ),
        (
            ["table1", "--records", LITE, "--dry-run"],
            InvalidValue,
            "`dry_run` does not apply to --records",
        ),
        (
            ["table2", "--scale", "lite", "--records", LITE, "--data", "pacs=pacs-smple"],
            DataError,
            "no run on pacs-smple, only on colored-mnist, ",
        ),
        (
            ["table2", "--scale", "lite", "--runs", "1", "--test-domain", "10%"],
            UnknownName,
            "domain of rotated-mnist '10%'",
        ),
        (
            ["ablation-pdm", "--records", LITE],
            DataError,
            "1,001 steps, not 5,001; is it of another",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, error, says, tmp_path):
    with pytest.raises(error, match=says):
        CliRunner().invoke(
            app, ["reproduce", *arguments, "--out", str(tmp_path)], catch_exceptions=False
        )


@pytest.mark.slow
def test_records_of_something_else_make_no_table(tmp_path, few_steps):
    options = ("--scale", "lite", "--quiet")
    call("figure1", *options, "--out", tmp_path, "--device", "cpu", "--workers", 1)
    table1 = tmp_path / "lite" / "table1"
    with pytest.raises(InvalidValue, match=r"no finished run of ablation-pdm .* IDM on colored"):
        call("ablation-pdm", *options, "--records", table1, "--out", tmp_path)
    with pytest.raises(InvalidValue, match="no finished run of table1"):
        call("table1", *options, "--records", LITE, "--out", tmp_path)
    with pytest.raises(DataError, match="IDM with hidden=128, not 433"):
        call("figure1", "--records", table1, "--out", tmp_path)


@pytest.mark.slow
def test_running_times_are_measured_once_and_beside_the_papers(tmp_path, monkeypatch):
    quick = lambda dataset, device: time_steps(dataset, device, rounds=1)  # noqa: E731
    monkeypatch.setattr(paper_running_time, "time_steps", quick)
    options = ("--out", tmp_path, "--datasets", "colored-mnist", "--device", "cpu")
    output = call("running-time", *options)
    assert "14.6" in output
    path = tmp_path / "running-time" / "colored-mnist-cpu.json"
    first = path.read_bytes()
    call("running-time", *options)
    assert path.read_bytes() == first
    timing = read_timing(path)
    assert timing.bytes["idm"] / timing.bytes["erm"] == pytest.approx(1, abs=0.01)
    table = compare_timings([timing])
    assert table.columns[1:3] == ("Training Time (h): IDM", "Training Time: Overhead (%)")
    cells = {row.name: row.cells for row in table.rows}["ColoredMNIST"]
    hours = timing.seconds["erm"] * 5001 / 3600
    assert cells[0].ours.values[0] == pytest.approx(hours)
    assert cells[2].ours.values[0] == pytest.approx(100 * (timing.ratio - 1))
    path.write_text(json.dumps({"dataset": 1}))
    with pytest.raises(DataError, match="delete it to measure again"):
        read_timing(Path(path))


def test_records_are_printed_and_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = Path(LITE).parent / "table1.jsonl.gz"
    assert "70.2 ± 1.4" in call("table1", "--records", records)
    with pytest.raises(InvalidValue, match="figure1 is a figure: give --out to write it"):
        call("figure1", "--records", records)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("jobs_here")
def test_a_failed_run_is_missing_in_the_table_and_is_told(few_steps, tmp_path):
    options = ("--scale", "lite", "--out", tmp_path, "--device", "cpu", "--workers", 1, "--quiet")
    small = ("--rows", "erm,idm", "--n-hparams", 1, "--runs", 1, "--test-domain", "10%")
    call("ablation-pdm", *options, *small)
    (run,) = (tmp_path / "lite" / "ablations" / "runs").glob("colored-mnist-idm-*")
    for path in run.iterdir():
        if path.name != "job.json":
            path.unlink()
    (run / "failed.json").write_text(
        json.dumps({"format": 2, "title": "idm", "reason": "no luck", "trace": ""})
    )
    result = CliRunner().invoke(app, ["reproduce", "ablation-pdm", *map(str, (*options, *small))])
    assert result.exit_code == 1
    assert "no luck" in result.output
    assert "(1)" in result.output  # ERM's
    assert "written: " in result.output
