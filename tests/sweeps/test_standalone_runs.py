"""Runs of ``shiftproof train`` that no sweep has planned."""

import pytest
from _internals import DataError, LastStep, aggregate, read_sweep, runs_to_compare, write_json
from stored_runs import write_hashes, write_records, write_stored_run

DOMAINS = ("east", "a/b", "west")


def write_run(folder, algorithm="erm", test="a/b", accuracies=(0.25, 0.5), **changes):
    """A run folder as ``shiftproof train`` leaves it; its weights are of no interest."""
    config = {
        "dataset": "wards", "algorithm": algorithm, "hparams": {"lr": 0.001, "batch_size": 64},
        "test_domains": [test] if test else [],
    } | changes  # fmt: skip
    records = []
    for step, accuracy in zip((1, 11), accuracies, strict=False):
        parts = {f"{name}/{'in' if name == test else 'out'}": accuracy for name in DOMAINS}
        records.append({"step": step, "accuracy": {**parts, "gray": 0.125}})
    return write_stored_run(folder, config, records, seconds=1.5, environment={"torch": "2"})


def test_a_run_is_read_with_all_that_it_measured(tmp_path):
    folder = write_run(tmp_path / "run")
    for given in (tmp_path, folder):
        (run,) = read_sweep(given)
        assert run.key == ("wards", "erm", (1,), 0, 0)
        assert (run.domains, run.standalone, run.status) == (DOMAINS, True, "finished")
        assert run.evaluations[0].inside == (None, 0.25, None)
        assert run.evaluations[0].outside == (0.25, None, 0.25)
        assert run.evaluations[0].extras == (("gray", 0.125),)
        assert (run.seconds, run.environment) == (1.5, {"torch": "2"})


def test_the_seed_is_that_of_the_trial_and_equal_settings_share_a_name(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / str(seed), seed=seed, data_seed=seed)
    assert [(run.algorithm, run.trial_seed) for run in read_sweep(tmp_path)] == [
        ("erm", 0),
        ("erm", 1),
    ]


def test_settings_that_differ_are_told_apart_even_in_several_folders(tmp_path):
    one = write_run(tmp_path / "one")
    two = write_run(tmp_path / "two", hparams={"lr": 0.1, "batch_size": 64})
    three = write_run(tmp_path / "three", backbone="cnn")
    write_run(tmp_path / "four", "idm")
    names = [run.algorithm for run in read_sweep(one, two, three, tmp_path / "four")]
    assert names == [
        "erm (backbone=cnn, lr=0.001)",
        "erm (backbone=mlp, lr=0.001)",
        "erm (backbone=mlp, lr=0.1)",
        "idm",
    ]


def test_other_data_under_the_same_name_are_refused(tmp_path):
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", "idm", fingerprint="g")
    with pytest.raises(
        DataError, match=r"different data under the name wards; make a report of each"
    ):
        read_sweep(tmp_path)


def test_domains_are_put_together_from_what_runs_measured(tmp_path):
    """One evaluated its test domain alone."""
    folder = write_run(tmp_path / "one", "idm", test="west")
    record = {"step": 11, "accuracy": {"west/in": 0.5}}
    write_records(folder / "records.jsonl", [record])
    write_hashes(folder)
    assert read_sweep(tmp_path)[0].domains == ("west",)
    write_run(tmp_path / "two")
    assert {run.domains for run in read_sweep(tmp_path)} == {DOMAINS}


def test_the_last_step_is_reported_and_nothing_asked_that_nobody_began(tmp_path):
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", "idm")
    write_run(tmp_path / "three", "idm", test="west")
    outcomes = read_sweep(tmp_path)
    (dataset,) = aggregate(outcomes, LastStep(), runs_to_compare(outcomes)).datasets
    assert dataset.cells["erm", 1].accuracies == {0: 0.5}
    assert dataset.cells["erm", 1].selections[0].step == 11
    assert dataset.standalone
    missing = [run for cell in dataset.cells.values() for run in cell.missing]
    assert [(run.algorithm, run.test_domains) for run in missing] == [("erm", ("west",))]


def test_a_run_on_all_domains_and_one_that_has_just_begun(tmp_path):
    write_run(tmp_path / "all", test="")
    begun = write_run(tmp_path / "begun", "idm")
    (begun / "records.jsonl").unlink()
    (begun / "done.json").unlink()
    (begun / "lock").touch()
    runs = {run.algorithm: run for run in read_sweep(tmp_path)}
    assert runs["erm"].test_domains == ()
    assert (runs["idm"].status, runs["idm"].evaluations) == ("running", ())


def test_a_config_of_something_else_is_no_run(tmp_path):
    write_json(tmp_path / "config.json", {})
    with pytest.raises(DataError, match="holds no sweep"):
        read_sweep(tmp_path)
    (tmp_path / "lock").touch()
    with pytest.raises(DataError, match=r"config\.json is missing or damaged"):
        read_sweep(tmp_path)
