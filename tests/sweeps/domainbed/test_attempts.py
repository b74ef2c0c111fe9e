"""Logs with several attempts, without `done`, damaged, or doubled: what counts and what is said."""

import json
import math
import random
import warnings

import pytest
from _internals import DataError, read_domainbed_runs, sweeps_logs as logs

from shiftproof import report

ARGS = {
    "dataset": "VLCS", "algorithm": "ERM", "test_envs": [0], "hparams_seed": 0, "trial_seed": 0,
    "steps": 5001, "checkpoint_freq": None, "output_dir": "sweep/abc",
}  # fmt: skip
GRID = (*range(0, 5000, 300), 5000)


def record(step, accuracy=0.5, loss=0.5, hparams=None, **args):
    found = {"args": {**ARGS, **args}, "step": step, "loss": loss, "hparams": hparams or {"lr": 1}}
    found |= {f"env{i}_{part}_acc": accuracy for i in range(4) for part in ("in", "out")}
    return found


def write(folder, *records, done=False, tail=""):
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(each) + "\n" for each in records)
    (folder / "results.jsonl").write_text(lines + tail)
    if done:
        (folder / "done").touch()
    return folder / "results.jsonl"


def read_one(path, **options):
    (run,) = read_domainbed_runs([path], **options)
    return run


def marks(run):
    return {mark.text: mark.number for mark in run.marks}


def oracle(folder, **options):
    found = report(folder, selection="oracle", **options)
    return found.results[0].datasets[0].cells["erm", 0].estimate, found


def test_attempts_in_one_log_are_pooled_and_said(tmp_path):
    """DomainBed's oracle reads the last record of the highest step: 96.6, not 62.3."""
    first = [record(step, 0.966) for step in GRID]
    second = [record(step, 0.623) for step in GRID[:3]]
    write(tmp_path / "x", *first, *second, done=True)
    estimate, found = oracle(tmp_path)
    assert round(estimate.mean, 1) == 96.6
    (note,) = found.notes
    assert "several attempts at the run were pooled" in note
    assert f"{len(GRID) + 3} in all" in note
    assert f"  {note}\n" in found.to_text()
    assert "several attempts" in found.to_markdown()
    assert "several attempts" in found.to_latex()
    assert "several attempts" in found.page()


def test_attempts_reach_as_far_as_the_furthest(tmp_path):
    longer = [record(step, 0.1) for step in GRID[:5]]
    shorter = [record(step, 0.2) for step in GRID[:2]]
    run = read_one(write(tmp_path / "a", *longer, *shorter))
    assert (run.status, len(run.evaluations)) == ("running", 7)
    whole = [[record(step, accuracy) for step in GRID] for accuracy in (0.3, 0.4)]
    run = read_one(write(tmp_path / "b", *whole[0], *whole[1]))
    assert (run.status, run.evaluations[-1].inside[0]) == ("finished", 0.4)


def test_two_processes_that_write_in_turn_lose_nothing(tmp_path):
    rng = random.Random(0)
    queues = [list(GRID), list(GRID)]
    written = []
    while any(queues):
        queue = rng.choice([queue for queue in queues if queue])
        written.append(record(queue.pop(0)))
    run = read_one(write(tmp_path / "x", *written))
    assert [e.step - 1 for e in run.evaluations] == sorted([*GRID, *GRID])
    assert marks(run)[logs.POOLED] == 2 * len(GRID)


def test_two_runs_in_one_log_are_two_runs(tmp_path):
    path = write(
        tmp_path / "x", *(record(step, hparams_seed=draw) for step in (0, 300) for draw in (0, 1))
    )
    assert [run.hparams_seed for run in read_domainbed_runs([path])] == [0, 1]


def test_pooled_as_domainbed_does(tmp_path):
    """By its rules: the oracle reads the last record of the highest step, in the file's order."""
    first = [record(step, 0.966) for step in GRID]
    second = [record(step, 0.623) for step in GRID[:3]]
    write(tmp_path / "x", *second, *first, *second)
    estimate, found = oracle(tmp_path, as_domainbed=True)
    assert round(estimate.mean, 1) == 96.6
    assert len(found.runs[0].evaluations) == len(GRID) + 6
    assert "pooled" in found.notes[0]
    again = [record(5000, 0.25)]
    write(tmp_path / "y", *again)  # of the same run in another folder
    assert oracle(tmp_path, as_domainbed=True)[0].mean == 25


def test_runs_are_judged_by_their_own_steps_and_checkpoints(tmp_path):
    """No `done`: a long run of one algorithm says nothing of another's."""
    folders = {
        "erm": {"algorithm": "ERM", "steps": None},
        "irm": {"algorithm": "IRM", "steps": None},
        "coral": {"algorithm": "CORAL", "steps": 301},
    }
    write(tmp_path / "erm", *(record(step, **folders["erm"]) for step in GRID))
    long = (*range(0, 10_000, 300), 10_000)
    write(tmp_path / "irm", *(record(step, **folders["irm"]) for step in long))
    write(tmp_path / "irm2", *(record(s, **folders["irm"], trial_seed=1) for s in long[:9]))
    # Shorter than IRM's first, but it ends off the grid of its checkpoints.
    write(tmp_path / "irm3", *(record(s, **folders["irm"], trial_seed=2) for s in GRID))
    write(tmp_path / "coral", *(record(step, **folders["coral"]) for step in (0, 300)))
    write(tmp_path / "mmd", *(record(s, algorithm="MMD", steps=None) for s in (0, 300, 600)))
    paths = sorted(tmp_path.rglob("results.jsonl"))
    found = {run.folder.name: run for run in read_domainbed_runs(paths)}
    statuses = {name: run.status for name, run in found.items()}
    assert statuses.pop("irm2") == "running"
    assert set(statuses.values()) == {"finished"}
    notes = report(tmp_path).notes
    assert [note for note in notes if note.startswith("5 runs: without a file named done")]
    (unfinished,) = [note for note in notes if note.startswith("1 run: without")]
    assert "`as_domainbed`" in unfinished


def test_the_frequency_of_checkpoints_may_be_logged(tmp_path):
    args = {"steps": None, "checkpoint_freq": 100}
    # By the gaps alone, 250 would be a multiple of 250.
    run = read_one(write(tmp_path / "x", *(record(s, **args) for s in (0, 250))))
    assert run.status == "finished"


@pytest.mark.parametrize("domains", [7, [1, 2, 3, 4], ["a", "a"], "abcd", ["\ud800", "b"]])
def test_domains_that_are_no_names_are_one_line(tmp_path, domains):
    path = write(tmp_path / "x", record(0, domains=domains))
    with pytest.raises(DataError, match=r"line 1, is not .* args\.domains") as error:
        read_domainbed_runs([path])
    assert "\n" not in str(error.value)


def test_domains_may_be_null(tmp_path):
    run = read_one(write(tmp_path / "x", record(0, domains=None)))
    assert run.domains == ("Caltech101", "LabelMe", "SUN09", "VOC2007")


def test_accuracies_that_are_none_are_marked(tmp_path):
    odd = {**record(0), "env0_in_acc": 10**400, "env1_in_acc": 97.5, "env2_in_acc": -0.5}
    odd |= {"env3_in_acc": math.nan, "env1000000_in_acc": 0.5, "env0_out_acc": math.inf}
    run = read_one(write(tmp_path / "x", odd))
    assert run.evaluations[0].inside == (None,) * 4
    assert run.evaluations[0].outside == (None, 0.5, 0.5, 0.5)
    assert len(run.domains) == 4
    assert marks(run)[logs.OUTSIDE] == 4


def test_a_domain_without_its_predecessors_gives_a_short_message(tmp_path):
    odd = record(0, test_envs=[1_000_000])
    odd["env1000000_in_acc"] = 0.5
    with pytest.raises(DataError, match="has accuracies of 4 domains only") as error:
        read_domainbed_runs([write(tmp_path / "x", odd)])
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "line",
    [
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        json.dumps({**record(0), "hparams": [1]}),
        json.dumps(record(0, algorithm="\ud800")),
        json.dumps({**record(0), "step": "9"}),
        "1" * 100_000,
    ],
    ids=["objects", "lists", "hparams", "surrogate", "step", "digits"],
)
def test_damaged_lines_are_one_line_of_error(tmp_path, line):
    path = write(tmp_path / "x", tail=line + "\n")
    with pytest.raises(DataError, match="line 1, is not a DomainBed record") as error:
        read_domainbed_runs([path])
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_cut_lines_and_odd_losses_are_marked(tmp_path):
    early = {**record(0, loss=0.1), "penalty": math.inf}
    run = read_one(write(tmp_path / "x", early, record(5000), tail='{"args": {"alg'))
    assert run.status == "finished"
    assert marks(run)[logs.CUT] == 1
    assert marks(run)[logs.NOT_FINITE] == 1


def test_a_forks_erm_stands_beside_erm(tmp_path):
    write(tmp_path / "a", record(5000, 0.25), done=True)
    write(tmp_path / "b", record(5000, 0.75, algorithm="erm"), done=True)
    found = report(tmp_path, selection="oracle")
    cells = found.results[0].datasets[0].cells
    assert cells["erm", 0].estimate.mean == 25
    assert cells["erm (not ERM)", 0].estimate.mean == 75
    assert any("erm and ERM both occur: kept separate" in note for note in found.notes)
    (alone,) = report(tmp_path / "b").runs
    assert (alone.algorithm, [*marks(alone)]) == ("erm", ["erm in the log is read as ERM"])


def test_hyper_parameters_go_through_chosen_and_export(tmp_path):
    hparams = {"lr": 5e-5, "batch_size": 32, "resnet18": False}
    write(tmp_path / "in/x", record(5000, hparams=hparams), done=True)
    found = report(tmp_path / "in", selection="oracle")
    (row,) = found.selected_runs().to_dict("records")
    assert json.loads(row["hparams"]) == hparams
    assert found.write_domainbed(tmp_path / "out") == 1
    (path,) = (tmp_path / "out").rglob("results.jsonl")
    written = json.loads(path.read_text().splitlines()[0])
    # What DomainBed's list_top_hparams reads.
    assert written["hparams"] == hparams
    assert written["args"]["output_dir"] == "sweep/abc"
    again = report(tmp_path / "out", selection="oracle").selected_to_csv()
    assert again.rpartition(",")[0] == found.selected_to_csv().rpartition(",")[0]


def test_export_warns_where_domainbed_would_select_by_nan(tmp_path):
    whole = record(5000)
    write(tmp_path / "whole/x", whole, done=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report(tmp_path / "whole").write_domainbed(tmp_path / "out")
    for key, selection in (("env1_out_acc", "training-domain"), ("env0_out_acc", "oracle")):
        folder = tmp_path / selection
        write(folder / "x", {**whole, key: math.nan}, done=True)
        with pytest.warns(UserWarning, match=f"1 exported run .* do not use .* {selection}"):
            report(folder).write_domainbed(tmp_path / f"out-{selection}")


def test_all_duplicates_are_listed_with_a_way_on(tmp_path):
    for name, lr in (("a", 1), ("b", 1), ("c", 2)):
        write(tmp_path / name, record(5000, hparams={"lr": lr}), done=True)
    for name in "de":
        write(tmp_path / name, record(5000, trial_seed=1), done=True)
    with pytest.raises(DataError, match="are the same run") as error:
        report(tmp_path)
    message = str(error.value)
    assert all(str(tmp_path / name) in message for name in "abcde")
    assert "trial 0) with different hyper-parameters" in message
    assert "trial 1) with equal hyper-parameters" in message
    assert message.endswith("(`as_domainbed`)")
    assert "\n" not in message
    assert len(report(tmp_path, as_domainbed=True).runs) == 2
