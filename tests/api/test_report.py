"""`report` in a program: typed results, the same text as the command line, each file read once."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from _internals import (
    DataError,
    InvalidValue,
    Records,
    UnknownName,
    write_json,
    write_records as write_archive,
)
from stored_runs import change_json, write_hashes, write_records, write_stored_run

from shiftproof import report

DOMAINS = ["dark", "bright", "noisy"]
opened: Counter[str] | None = None


def note_open(event, arguments):
    if event == "open" and opened is not None and isinstance(arguments[0], str | Path):
        opened[str(arguments[0])] += 1


sys.addaudithook(note_open)  # cannot be removed, so it counts only when asked to


@pytest.fixture
def opens():
    """Count how often each file is opened."""
    global opened
    opened = Counter()
    yield opened
    opened = None


def write_run(folder, config, accuracy, job=None):
    """A finished run of two evaluations."""
    test = config["test_domains"][0]
    records = [
        {"step": step, "accuracy": {f"{d}/out": accuracy - off for d in DOMAINS if d != test}
         | {f"{test}/in": accuracy - off, f"{test}/out": accuracy}}
        for step, off in ((1, 0.25), (11, 0.0))
    ]  # fmt: skip
    write_stored_run(folder, config, records, job)


@pytest.fixture
def sweep(tmp_path):
    """Two algorithms on three domains, one draw and trial, with the settings of the sweep."""
    folder = tmp_path / "sweep"
    for name, accuracy in (("erm", 0.5), ("idm", 0.75)):
        for test in DOMAINS:
            config = {"dataset": "mine", "algorithm": name, "test_domains": [test]}
            job = config | {"domains": DOMAINS, "hparams_seed": 0, "trial_seed": 0}
            write_run(folder / f"runs/{name}-{test}", config, accuracy, job)
    write_json(folder / "sweep.json", {"preset": "lite"})
    return folder


@pytest.fixture
def standalone(tmp_path):
    for name, accuracy in (("erm", 0.5), ("idm", 0.75)):
        for test in DOMAINS:
            config = {"dataset": "mine", "algorithm": name, "test_domains": [test], "seed": 0}
            write_run(tmp_path / f"runs/{name}-{test}", config, accuracy)
    return tmp_path / "runs"


def test_a_program_gets_what_the_command_line_prints(sweep, shiftproof):
    found = report(sweep)
    assert [results.selector.name for results in found.results] == ["training-domain", "oracle"]
    for format_, text in (
        ("text", found.to_text()),
        ("markdown", found.to_markdown()),
        ("latex", found.to_latex()),
        ("csv", found.to_csv()),
        ("chosen", found.selected_to_csv()),
    ):
        assert shiftproof("report", sweep, "--format", format_) == (0, text, "")
        assert found.render(format_) == text


def test_frames_have_numbers_and_tables_have_cells(sweep):
    found = report(sweep, selection="oracle")
    frame = found.to_frame()
    means = frame.set_index(["algorithm", "test_domain"])["mean"]
    assert means["idm", "noisy"] == 75
    assert set(frame.columns) >= {"dataset", "selector", "error", "trials", "missing"}
    runs = found.selected_runs()
    assert list(runs["step"].unique()) == [11]
    assert set(runs["run"]) == {str(path) for path in (sweep / "runs").iterdir()}
    titles = [table.title.split(",")[0] for table in found.tables]
    assert titles == ["Dataset: mine", "Averages", "Ranking", "Against ERM"]
    first = found.tables[0]
    assert [column.title for column in first.columns] == [*DOMAINS, "Avg"]
    assert {row.label: row.cells[0].text for row in first.rows} == {"ERM": "50.0", "IDM": "75.0"}
    assert found.tables is found.tables  # computed once


def test_a_notebook_shows_the_tables(sweep):
    html = report(sweep, selection="oracle")._repr_html_()
    assert html.count("<table") == html.count("</table>") == 4
    assert "<b>75.0</b>" in html
    assert "<script" not in html


def test_a_report_is_saved_by_its_ending(sweep, tmp_path):
    found = report(sweep)
    for ending, text in ((".txt", found.to_text()), (".md", found.to_markdown()),
                         (".tex", found.to_latex()), (".csv", found.to_csv())):  # fmt: skip
        path = found.save(tmp_path / f"tables{ending}")
        assert path.read_text() == text
    assert found.save().read_text() == found.page()
    assert found.save() == sweep / "report.html"
    assert "preset lite" in found.page()
    assert "my-script.py" in found.page("my-script.py")
    with pytest.raises(InvalidValue, match=r"must end in \.html, \.txt"):
        found.save(tmp_path / "tables.doc")
    with pytest.raises(DataError, match="there is no folder"):
        found.save(tmp_path / "no/tables.txt")


def test_mistakes(sweep):
    with pytest.raises(UnknownName, match="did you mean 'oracle'"):
        report(sweep, selection="oracel")
    with pytest.raises(UnknownName, match="unknown baseline of this sweep 'irm'"):
        report(sweep, baseline="irm")
    with pytest.raises(UnknownName, match="unknown format 'docx'"):
        report(sweep).render("docx")
    with pytest.raises(InvalidValue, match="`folders` must name at least one"):
        report()


@pytest.mark.parametrize("format_", ["text", "csv", "html"])
def test_every_file_of_a_sweep_is_read_once(sweep, opens, format_):
    report(sweep).render(format_)
    read = {path: count for path, count in opens.items() if path.startswith(str(sweep))}
    assert {Path(path).name for path in read} >= {"job.json", "config.json", "records.jsonl"}
    assert set(read.values()) == {1}


def test_every_file_of_standalone_runs_is_read_once(standalone, opens):
    report(standalone).page()
    read = {path: count for path, count in opens.items() if path.startswith(str(standalone))}
    assert sum(path.endswith("records.jsonl") for path in read) == 6
    assert set(read.values()) == {1}


def test_every_file_is_read_once_into_a_file_of_records(sweep, opens, tmp_path):
    assert write_archive([sweep], tmp_path / "runs.jsonl.gz") == 6
    read = {path: count for path, count in opens.items() if path.startswith(str(sweep))}
    assert sum(path.endswith("records.jsonl") for path in read) == 6
    assert set(read.values()) == {1}
    assert report(tmp_path / "runs.jsonl.gz").to_csv() == report(sweep).to_csv()


def test_standalone_runs_are_reported_at_the_last_step(standalone):
    found = report(standalone)
    assert [results.selector.name for results in found.results] == ["last-step", "training-domain"]
    assert "+/-" not in found.to_text()
    assert "runs of seed 0; one run each, hence no error bars" in found.to_text()


def test_runs_that_end_with_other_weights_are_not_said_to_show_the_last_step(standalone):
    for path in standalone.rglob("config.json"):
        change_json(path, average="best")
    found = report(standalone, selection="last-step")
    assert found.results[0].selector.name == "run-end"
    assert "selection method: weights that each run ends with" in found.to_text()
    for shown in (found.to_text(), found.page()):
        assert "last step" not in shown.lower()
        assert "Nothing was selected" not in shown


def test_the_selection_that_sees_the_test_domain_is_the_last_resort(sweep):
    """Runs that evaluated the in parts alone allow no other; beside others it is not shown."""
    for records in sweep.rglob("records.jsonl"):
        lines = Records(records).read()
        for line in lines:
            line["accuracy"] |= {f"{domain}/in": 0.5 for domain in DOMAINS}
        write_records(records, lines)
        write_hashes(records.parent)
    names = [found.selector.name for found in report(sweep).results]
    assert names == ["training-domain", "oracle"]
    for records in sweep.rglob("records.jsonl"):
        lines = Records(records).read()
        for line in lines:
            line["accuracy"] = {k: v for k, v in line["accuracy"].items() if k.endswith("/in")}
        write_records(records, lines)
        write_hashes(records.parent)
    assert [found.selector.name for found in report(sweep).results] == ["best-minimum"]
