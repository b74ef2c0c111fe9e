import json
import random

import pytest
from _internals import Evaluation, Run, write_domainbed_runs


@pytest.fixture
def sweep(tmp_path):
    """A DomainBed folder: two algorithms on PACS, two draws, two trials, single test domains."""
    rng = random.Random(0)
    domains = ("art_painting", "cartoon", "photo", "sketch")
    runs = [
        Run(
            "pacs", algorithm, domains, (position,), draw, trial, "finished",
            tuple(
                Evaluation(step, *(tuple(rng.random() for _ in domains) for _ in range(2)))
                for step in (1, 301)
            ),
        )
        for algorithm in ("erm", "coral")
        for position in range(4)
        for draw in (0, 1)
        for trial in (0, 1)
    ]  # fmt: skip
    write_domainbed_runs(runs, tmp_path / "sweep")
    return tmp_path / "sweep"


def test_text_by_default_with_every_selector_that_has_its_runs(shiftproof, sweep):
    code, out, err = shiftproof("report", sweep)
    assert (code, err) == (0, "")
    assert out.startswith("Total records: 64\n")
    assert "-------- Dataset: PACS, model selection method: training-domain validation set" in out
    assert "-------- Against ERM, model selection method: test-domain validation set" in out
    assert "leave-one-domain-out" not in out
    code, out, _ = shiftproof("report", sweep, "--selection", "leave-one-domain-out")
    assert code == 0
    assert "missing: ERM, CORAL on PACS, test domains A+C, A+P" in out


@pytest.mark.parametrize(
    ("format_", "sign"),
    [("markdown", "### Dataset: PACS"), ("latex", r"\toprule"), ("csv", "pacs,erm,art_painting")],
)
def test_formats_and_a_file(shiftproof, sweep, tmp_path, format_, sign):
    asked = ("report", sweep, "--format", format_, "--selection", "oracle")
    code, out, _ = shiftproof(*asked)
    assert code == 0
    assert sign in out
    file = tmp_path / "tables"
    code, path, _ = shiftproof(*asked, "--out", file)
    assert (code, path) == (0, f"{file}\n")
    assert file.read_text() == out


def test_baseline(shiftproof, sweep):
    code, out, _ = shiftproof("report", sweep, "--selection", "oracle", "--baseline", "coral")
    assert code == 0
    assert "-------- Against CORAL" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "htlm"], "did you mean 'html'?"),
        (["--format", "markdwon"], "did you mean 'markdown'?"),
        (["--selection", "oracel"], "did you mean 'oracle'?"),
        (["--baseline", "corall"], "unknown baseline of this sweep 'corall'; did you mean 'coral'"),
        (
            ["--format", "ranks"],
            "at least 3 algorithms with results on the same 2 or more test domains; here 2 have",
        ),
        (["--format", "domainbed"], "writes runs: give --out"),
        (["--format", "records"], "writes runs: give --out"),
        (
            ["--format", "records", "--out", "x"],
            "records can only be written from folders of Shiftproof sweeps",
        ),
    ],
)
def test_mistakes_are_one_line(shiftproof, sweep, arguments, message):
    code, out, err = shiftproof("report", sweep, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_folder_without_a_sweep(shiftproof, tmp_path):
    code, _, err = shiftproof("report", tmp_path)
    assert code == 2
    assert "holds no sweep" in err


def test_several_folders_are_put_together(shiftproof, sweep, tmp_path):
    (tmp_path / "more").mkdir()
    moved = next(sweep.iterdir())
    moved.rename(tmp_path / "more" / moved.name)
    code, out, _ = shiftproof("report", sweep, tmp_path / "more", "--selection", "oracle")
    assert code == 0
    assert out.startswith("Total records: 64\n")
    assert "missing" not in out
    code, _, err = shiftproof("report", sweep, sweep)
    assert code == 2
    assert "are the same run" in err


def test_export_to_domainbeds_form(shiftproof, sweep, tmp_path):
    code, out, _ = shiftproof("report", sweep, "--format", "domainbed", "--out", tmp_path / "new")
    assert code == 0
    assert "32 of 32 runs" in out
    assert shiftproof("report", tmp_path / "new")[1] == shiftproof("report", sweep)[1]


def test_runs_that_have_not_ended_are_selected_only_if_asked(shiftproof, sweep):
    """As DomainBed's tool does, which looks at no status."""
    for run in sweep.iterdir():
        lines = (run / "results.jsonl").read_text().splitlines(keepends=True)
        args = json.loads(lines[0])["args"]
        if (args["algorithm"], args["test_envs"]) == ("ERM", [0]):
            (run / "results.jsonl").write_text(lines[0])
            (run / "done").unlink()
    honest = shiftproof("report", sweep, "--selection", "oracle")[1]
    assert "running: ERM on PACS, test domain A, hyper-parameter seeds 0-1, trials 0-1" in honest
    same = shiftproof("report", sweep, "--selection", "oracle", "--as-domainbed")[1]
    assert "running" not in same
    assert "–" in honest
    assert "–" not in same


def test_help_shows_an_example(shiftproof):
    code, out, _ = shiftproof("report", "--help")
    assert code == 0
    assert "Example: shiftproof report" in " ".join(out.split())
