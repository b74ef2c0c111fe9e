"""``shiftproof report --format html``: from folders of runs to a page."""

import json
from pathlib import Path

import numpy as np
import pytest
from _internals import read_sweep, write_domainbed_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two algorithms on a table of three places, each held out in turn; and a diagnosis."""
    from _internals import app
    from click.testing import CliRunner

    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    rows = [
        f"{place},{row % 2 + rng.normal():.3f},{rng.normal():.3f},{row % 2}"
        for place in ("north", "<b>south</b>", "west")
        for row in range(40)
    ]
    (folder / "toy.csv").write_text("\n".join(["place,a,b,label", *rows]) + "\n")
    data = [str(folder / "toy.csv"), "--label", "label", "--domain", "place", "-q"]

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SHIFTPROOF_HOME", str(folder / "home"))
            done = CliRunner().invoke(app, [*map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done.output

    quick = ("--steps", 12, "--eval-every", 5, "--test-domain", "each")
    for algorithm in ("erm", "coral"):
        run("train", *data, *quick, "--algorithm", algorithm, "--out", folder / "runs" / algorithm)
    assert "Saved to" in run("diagnose", *data, "--out", folder / "runs/diagnosis.json")
    return folder / "runs"


def test_a_page_of_ones_own_table(shiftproof, runs):
    code, out, err = shiftproof("report", runs, "--format", "html")
    assert (code, out, err) == (0, f"{runs / 'report.html'}\n", "")
    page = (runs / "report.html").read_text()
    assert "ERM and CORAL on toy.csv" in page
    assert "At the last step, " in page
    assert "one trial, hence no error bars" in page
    assert "±" not in page
    assert "&lt;b&gt;south&lt;/b&gt;" in page
    assert "<b>south" not in page
    for name in ("accuracy", "domains", "baseline", "curves", "cost", "shift", "provenance"):
        assert f'<section id="{name}"' in page
    assert "How much shifts" in page
    assert "What to do" in page
    assert "6 finished" in page
    assert "lr 0.001" in page
    assert f"report {runs} --format html" in page


def test_the_diagnosis_on_the_page_is_the_one_that_was_kept(shiftproof, runs):
    kept = json.loads((runs / "diagnosis.json").read_text())
    shiftproof("report", runs, "--format", "html")
    page = (runs / "report.html").read_text()
    assert f"{kept['shift']['covariate']['value']:.4f}" in page
    assert kept["advice"]["command"].split()[1] == "train"
    for finding in kept["advice"]["findings"]:
        assert finding["text"][:20].replace("'", "&#39;") in page


def test_one_run_and_several_folders(shiftproof, runs, tmp_path):
    single = runs / "erm/west"
    code, _, _ = shiftproof("report", single, "--format", "html", "--out", tmp_path / "one.html")
    assert code == 0
    page = (tmp_path / "one.html").read_text()
    assert "ERM on toy.csv" in page
    assert "ERM is right on" in page
    assert 'id="shift"' not in page
    both = ("report", runs / "erm", runs / "coral", "--format", "html")
    assert shiftproof(*both, "--out", tmp_path / "two.html")[0] == 0
    assert "ERM and CORAL on toy.csv" in (tmp_path / "two.html").read_text()


def test_the_text_of_runs_by_themselves_has_no_error_bars(shiftproof, runs):
    code, out, _ = shiftproof("report", runs)
    assert code == 0
    assert "model selection method: last step of each run" in out
    assert "model selection method: training-domain validation set" in out
    assert "+/-" not in out
    assert "one run each, hence no error bars" in out
    code, out, _ = shiftproof("report", runs, "--selection", "last-step", "--format", "csv")
    assert code == 0
    assert out.count("last-step") == 6


def test_a_run_that_holds_nothing_out_is_shown_on_its_training_domains(shiftproof, runs, tmp_path):
    folder = tmp_path / "run"
    data = (runs.parent / "toy.csv", "--label", "label", "--domain", "place", "-q")
    train = ("train", *data, "--algorithm", "erm", "--steps", "2", "--out", folder)
    assert shiftproof(*train)[0] == 0
    assert shiftproof("report", folder, "--format", "html")[0] == 0
    page = (folder / "report.html").read_text()
    assert "so no domain is left to test it on" in page
    assert "Accuracy on the training domains" in page


def test_a_page_of_domainbeds_logs(shiftproof, runs, tmp_path):
    write_domainbed_runs(read_sweep(runs), tmp_path / "logs")
    code, out, _ = shiftproof("report", tmp_path / "logs", "--format", "html")
    assert code == 0
    page = Path(out.strip()).read_text()
    assert "Training-domain validation" in page
    assert 'id="cost"' not in page  # the logs that we write have no times


def test_a_page_of_packed_runs_lies_beside_them(shiftproof, tmp_path):
    recorded = Path(__file__).parents[2] / "results/lite-swad.jsonl.gz"
    if not recorded.exists():
        pytest.skip("the recorded runs are not in this tree")
    (tmp_path / "swad.jsonl.gz").write_bytes(recorded.read_bytes())
    code, out, _ = shiftproof("report", tmp_path / "swad.jsonl.gz", "--format", "html")
    assert (code, out) == (0, f"{tmp_path / 'swad.html'}\n")
    assert "ERM and IDM on 4 datasets" in (tmp_path / "swad.html").read_text()


def test_mistakes_are_one_line(shiftproof, runs, tmp_path):
    code, _, err = shiftproof("report", runs, "--format", "html", "--out", tmp_path / "no/x.html")
    assert (code, err) == (2, f"error: there is no folder {tmp_path / 'no'} to write to\n")
    (tmp_path / "run").mkdir()
    for name in ("config.json", "records.jsonl", "done.json"):
        (tmp_path / "run" / name).write_bytes((runs / "erm/west" / name).read_bytes())
    (tmp_path / "run/diagnosis.json").write_text('{"format": 2, "data": 1}')
    code, _, err = shiftproof("report", tmp_path / "run", "--format", "html")
    assert code == 2
    assert "diagnosis.json is missing or damaged" in err
    assert err.count("\n") == 1
    data = (runs.parent / "toy.csv", "--label", "label", "--domain", "place")
    (tmp_path / "file").write_text("")
    code, _, err = shiftproof("diagnose", *data, "--out", tmp_path / "file/d.json")
    assert (code, err.count("\n")) == (2, 1)
    assert str(tmp_path / "file") in err


def test_the_demonstration_ends_with_a_page(shiftproof, monkeypatch, tmp_path):
    from _internals import ColoredMNISTForIRM, sweeps_demo as demo

    monkeypatch.setattr(demo, "STEPS", 12)
    monkeypatch.setattr(
        demo, "load_demo_data", lambda seed: ColoredMNISTForIRM(per_domain=100).load(seed)
    )
    code, out, _ = shiftproof("demo", "--out", tmp_path)
    assert code == 0
    assert f"Page: {tmp_path / 'seed-0/report.html'}" in out
    page = (tmp_path / "seed-0/report.html").read_text()
    assert "ERM learnt the colour" in page
    assert "gray" in page
    assert "ERM · 10%" in page
