"""DomainBed's runs, read and written; and the tables of a real sweep of it."""

import json
import random
import runpy
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from _internals import (
    DATASET_NAMES,
    SELECTORS,
    DataError,
    Evaluation,
    Report,
    Run,
    aggregate,
    domain_titles,
    read_domainbed_runs,
    read_sweep,
    report_FORMATS as FORMATS,
    write_domainbed_runs,
)

from shiftproof import DATASETS

REAL = Path(__file__).parents[4] / "shared/golden/sweep"
MADE = Path(__file__).parents[2] / "golden/sweep"
IN_ORDER = ("training-domain", "leave-one-domain-out", "oracle")


def tables(outcomes, format_="text"):
    results = [aggregate(outcomes, SELECTORS.get(name)()) for name in IN_ORDER]
    return Report(tuple(outcomes), tuple(results)).render(format_)


def test_a_sweep_prints_what_the_original_tool_would_print(tmp_path):
    """The expected table is computed from the logs by code of its own, and kept in a file."""
    golden = runpy.run_path(str(MADE / "make.py"))
    expected = (MADE / "expected.txt").read_text("utf-8")
    assert golden["expected_table"]() == expected
    golden["write_runs"](tmp_path / "runs")
    blocks = tables(read_sweep(tmp_path / "runs")).split("\n\n")
    ours = ("-------- Ranking", "-------- Against")  # which the original tool does not print
    lines = "\n\n".join(b for b in blocks if not b.startswith(ours)).splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith("  ")) == expected


@pytest.mark.skipif(not REAL.exists(), reason="shared/golden/sweep, a recorded sweep, is not here")
def test_a_real_sweep_prints_what_the_original_tool_prints(tmp_path):
    with tarfile.open(REAL / "runs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    printed = tables(read_sweep(tmp_path)).splitlines(keepends=True)
    # All of its lines to the byte; ours adds captions, which are indented.
    theirs = [line for line in printed if not line.startswith("  ")]
    assert "".join(theirs) == (REAL / "expected.txt").read_text()
    captions = [line for line in printed if line.startswith("  ")]
    assert len(captions) == 6
    for part in ("test-in", "selector ", "2 trials (seeds 0-1)", "2 hyper-parameter draws"):
        assert all(part in line for line in captions)


def write_log(folder, steps=(0, 300), **changes):
    args = {
        "dataset": "VLCS", "algorithm": "CORAL", "test_envs": [2], "hparams_seed": 4,
        "trial_seed": 1, "steps": 301,
    }  # fmt: skip
    args.update(changes)
    folder.mkdir(parents=True)
    with open(folder / "results.jsonl", "w") as file:
        for step in steps:
            record = {"args": args, "step": step, "loss": 0.5, "env9_uda_acc": 1.0}
            record |= {f"env{i}_in_acc": i / 10 for i in range(4)}
            record |= {f"env{i}_out_acc": i / 10 + step / 10_000 for i in range(4)}
            file.write(json.dumps(record) + "\n")
    return folder / "results.jsonl"


def test_a_run_of_theirs(tmp_path):
    (run,) = read_domainbed_runs([write_log(tmp_path / "x", test_envs=[2, 0])])
    assert run == Run(
        "vlcs", "coral", ("Caltech101", "LabelMe", "SUN09", "VOC2007"), (0, 2), 4, 1, "finished",
        (
            Evaluation(1, (0.0, 0.1, 0.2, 0.3), (0.0, 0.1, 0.2, 0.3)),
            Evaluation(301, (0.0, 0.1, 0.2, 0.3), (0.03, 0.13, 0.23, 0.32999999999999996)),
        ),
        tmp_path / "x",
    )  # fmt: skip


def test_names_that_we_do_not_know_are_kept(tmp_path):
    changes = {"dataset": "Debug28", "algorithm": "CAG"}
    (run,) = read_domainbed_runs([write_log(tmp_path / "x", **changes)])
    assert (run.dataset, run.algorithm, run.domains) == ("Debug28", "CAG", tuple("0123"))


def test_a_run_has_finished_if_it_says_so_or_got_as_far_as_it_was_to(tmp_path):
    def statuses(*folders):
        return [run.status for run in read_domainbed_runs(f / "results.jsonl" for f in folders)]

    a, b, d, e = (tmp_path / name for name in "abde")
    write_log(a)  # 301 steps of 301
    write_log(b, steps=(0,))
    assert statuses(a, b) == ["finished", "running"]
    (b / "done").touch()
    assert statuses(b) == ["finished"]
    for folder, steps in ((d, (0, 300)), (e, (0,))):
        write_log(folder, steps)
        text = (folder / "results.jsonl").read_text().replace('"steps": 301', '"steps": null')
        (folder / "results.jsonl").write_text(text)
    assert statuses(d, e) == ["finished", "running"]
    assert statuses(e) == ["finished"]  # nothing says that it was to go further
    text = (a / "results.jsonl").read_text()
    head, _, tail = text.rpartition('"loss": 0.5')
    (a / "results.jsonl").write_text(head + '"loss": NaN' + tail)
    assert statuses(a) == ["diverged"]


def test_lines_cut_short_jobs_started_over_and_damage(tmp_path):
    path = write_log(tmp_path / "x", steps=(0, 300, 0))
    path.write_text(path.read_text() + '{"args": {"data')
    (run,) = read_domainbed_runs([path])
    assert [e.step for e in run.evaluations] == [1, 1, 301]  # pooled, as DomainBed does
    empty = tmp_path / "results.jsonl"
    empty.touch()
    assert read_domainbed_runs([empty]) == []
    whole = json.loads(write_log(tmp_path / "y").read_text().splitlines()[0])
    without_step = {key: value for key, value in whole.items() if key != "step"}
    odd_tests = {**whole, "args": {**whole["args"], "test_envs": "2"}}
    for damage in ("nonsense", [1], {"args": {"dataset": "VLCS"}}, without_step, odd_tests):
        path.write_text(json.dumps(damage) + "\n")
        with pytest.raises(DataError, match="line 1, is not a DomainBed record") as error:
            read_domainbed_runs([path])
        assert "\n" not in str(error.value)


def test_a_test_domain_that_has_no_accuracy_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"holds out \[7\], but has accuracies of 4 domains"):
        read_domainbed_runs([write_log(tmp_path / "x", test_envs=[7])])


def test_the_table_of_datasets_agrees_with_their_cards():
    for theirs, (ours, domains) in DATASET_NAMES.items():
        if ours != theirs:
            assert tuple(DATASETS.get(ours).card.counts) == tuple(domains.values())
    assert domain_titles("vlcs", ("Caltech101", "LabelMe", "SUN09", "VOC2007")) == tuple("CLSV")
    assert domain_titles("vlcs", ("mine", "own")) == ("mine", "own")
    assert domain_titles("own", ("mine",)) == ("mine",)


def sweep_of_ours(rng):
    """Two datasets with a hole, a diverged run, an unfinished one, and things not evaluated."""
    runs = []
    domains = {
        "rotated-mnist": tuple(DATASETS.get("rotated-mnist").card.counts),
        "mine": ("u", "v", "w"),
    }
    for dataset, names in domains.items():
        positions = range(len(names))
        tests = [(i,) for i in positions] + [(i, j) for i in positions for j in positions if i < j]
        for algorithm in ("erm", "rdm-pdm"):
            for held_out in tests:
                for draw in (0, 1):
                    evaluations = tuple(
                        Evaluation(
                            step,
                            tuple(rng.random() if i in held_out else None for i in positions),
                            tuple(rng.random() for _ in positions),
                        )
                        for step in (1, 11, 20)
                    )
                    runs.append(
                        Run(dataset, algorithm, names, held_out, draw, 0, "finished", evaluations)
                    )
    del runs[3]
    runs[5] = replace(runs[5], status="running", evaluations=runs[5].evaluations[:1])
    runs[7] = replace(runs[7], status="diverged")
    return runs


def test_our_runs_go_to_their_form_and_back(tmp_path):
    runs = sweep_of_ours(random.Random(0))
    (tmp_path / "precious").mkdir()
    (tmp_path / "out.new").symlink_to(tmp_path / "precious")  # a name that was used once
    finished = [run for run in runs if run.status == "finished"]
    assert write_domainbed_runs(runs, tmp_path / "out") == len(finished) == len(runs) - 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.new", "precious"]
    assert list((tmp_path / "precious").iterdir()) == []
    # Where they were read is not of their making.
    back = [replace(run, folder=None) for run in read_sweep(tmp_path / "out")]
    assert {run.key: run for run in back} == {run.key: run for run in finished}
    for format_ in set(FORMATS) - {"html", "ranks"}:  # ranks need three algorithms
        assert tables(back, format_) == tables(finished, format_)
    assert "one trial each, hence no error bars" in tables(back)
    assert "+/-" not in tables(back)  # of one trial


def test_what_is_written_is_what_the_original_tool_reads(tmp_path):
    runs = sweep_of_ours(random.Random(1))
    out = tmp_path / "out"
    out.mkdir()
    write_domainbed_runs([runs[0]], out)
    (folder,) = out.iterdir()
    assert (folder / "done").exists()
    records = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [0, 10, 19]
    args = records[0]["args"]
    assert (args["dataset"], args["algorithm"], args["test_envs"]) == ("RotatedMNIST", "ERM", [0])
    assert (args["hparams_seed"], args["trial_seed"]) == (0, 0)
    assert records[0]["env0_in_acc"] == runs[0].evaluations[0].inside[0]
    assert records[0]["env5_out_acc"] == runs[0].evaluations[0].outside[5]
    assert records[0]["env1_in_acc"] != records[0]["env1_in_acc"]  # NaN: it counts the keys
    with pytest.raises(DataError, match="is not empty"):
        write_domainbed_runs([runs[0]], out)


def test_text_needs_no_algorithm_that_we_know(tmp_path):
    write_log(tmp_path / "x", algorithm="Novel", dataset="Novel")
    runs = read_sweep(tmp_path)
    results = (aggregate(runs, SELECTORS.get("oracle")()),)
    assert "Novel" in Report(tuple(runs), results).to_text()
