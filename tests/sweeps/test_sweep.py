"""Sweeps on this machine: killed at any moment they end with the same bytes."""

import contextlib
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from _internals import (
    PRESETS,
    Cost,
    DataRequest,
    InvalidValue,
    RunConflict,
    RunFolder,
    SweepData,
    SweepFolder,
    SweepObserver,
    Trainer,
    Variant,
    core_cores as resources,
    longest_first,
    make_plan,
    open_executor,
    run_sweep,
    sweep_status,
    sweeps_estimate as estimate,
    sweeps_local as local,
)


def make(table, algorithms=("erm",), n_hparams=2, steps=5, hparams=None, selectors=("oracle",)):
    data = SweepData("toy", DataRequest(str(table), domain="place"))
    variants = [Variant(name, name, (hparams or {}).get(name, {})) for name in algorithms]
    return make_plan(
        [data], variants, PRESETS["lite"], selectors, n_hparams=n_hparams, trials=1, steps=steps,
        device="cpu",
    )  # fmt: skip


def outcome(folder: Path) -> dict[str, tuple[bytes, bytes]]:
    """Return the records and the place in the protocol of every run."""
    return {
        run.name: ((run / "records.jsonl").read_bytes(), (run / "job.json").read_bytes())
        for run in sorted((folder / "runs").iterdir())
    }


def test_a_sweep_runs_everything_once_and_nothing_twice(table, tmp_path):
    plan = make(table, ("erm", "idm"))
    assert len(plan.jobs) == 12
    assert plan.by_selector == {"oracle": 12}
    seen, ends = [], []
    observer = SweepObserver()
    observer.standing = lambda standing: seen.append(standing.to_json())
    observer.ended = ends.append
    result = run_sweep(plan, tmp_path / "sweep", workers=2, observer=observer)
    assert ends == [result]
    assert result.failures == []
    assert result.standing.counts == {"finished": 12}
    assert set(result.standing.best) == {f"toy without {d}" for d in ("north", "south", "west")}
    assert seen
    first = outcome(tmp_path / "sweep")
    assert len(first) == 12
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "sweep/runs").rglob("*.jsonl")}
    again = run_sweep(plan, tmp_path / "sweep", workers=2)
    assert again.standing.counts == {"finished": 12}
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps
    standing, running = sweep_status(tmp_path / "sweep")
    assert standing.counts == {"finished": 12}
    assert not running


@pytest.mark.usefixtures("jobs_here")
def test_failed_runs_are_listed_and_tried_again_when_asked(table, tmp_path):
    plan = make(table, n_hparams=1)
    folder = SweepFolder(tmp_path / "sweep")
    (tmp_path / "elsewhere").mkdir()
    moved = table.rename(tmp_path / "elsewhere" / table.name)
    result = run_sweep(plan, folder.path, workers=1)
    assert result.standing.counts == {"failed": 3}
    assert {f.reason for f in result.failures} == {f"no such file or folder: {table}"}
    assert all("erm on toy without" in f.title for f in result.failures)
    moved.rename(table)
    assert run_sweep(plan, folder.path, workers=1).standing.counts == {"failed": 3}
    again = run_sweep(plan, folder.path, workers=1, retry_failed=True)
    assert again.standing.counts == {"finished": 3}
    assert again.failures == []


@pytest.mark.usefixtures("jobs_here")
def test_a_sweep_whose_runs_all_die_at_their_start_is_given_up(table, tmp_path, shiftproof):
    plan = make(table, ("erm", "irm"), n_hparams=10)
    assert len(plan.jobs) == 60
    table.rename(tmp_path / "moved.csv")
    result = run_sweep(plan, tmp_path / "sweep", workers=1)
    assert (result.gave_up, result.stopped, result.complete) == (True, False, False)
    assert result.standing.counts == {"failed": 3}
    assert {f.title.split()[0] for f in result.failures} == {"erm", "irm"}
    code, _, err = shiftproof("report", tmp_path / "sweep")
    assert (code, err) == (1, f"all 3 runs failed: no such file or folder: {table}\n")
    code, out, _ = shiftproof("sweep", "--status", tmp_path / "sweep")
    assert "Run the command again to resume." in out
    (tmp_path / "moved.csv").rename(table)
    few = replace(plan, jobs=plan.jobs[:1])
    assert run_sweep(few, tmp_path / "sweep", workers=1, retry_failed=True).failures == []
    code, out, _ = shiftproof("sweep", "--status", tmp_path / "sweep")
    assert out.endswith("All runs have ended.\n")
    assert "again" not in out


def test_two_sweeps_do_not_share_a_folder_and_settings_do_not_mix(table, tmp_path):
    folder = SweepFolder(tmp_path / "sweep")
    plan = make(table, n_hparams=1)
    with folder.claim(plan.settings), pytest.raises(RunConflict, match="another sweep is running"):
        run_sweep(plan, folder.path)
    with pytest.raises(RunConflict, match=r"another steps \(5, not 6\)"):
        run_sweep(make(table, n_hparams=1, steps=6), folder.path)
    with pytest.raises(RunConflict, match=r"another evaluate .*choose another"):
        run_sweep(make(table, n_hparams=1, selectors=("training-domain",)), folder.path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(
        RunConflict, match=r"has thesis.txt but no sweep.json, so it is not a sweep"
    ):
        run_sweep(plan, other)


@pytest.mark.usefixtures("jobs_here")
def test_a_sweep_grows(table, tmp_path):
    run_sweep(make(table, n_hparams=1), tmp_path / "sweep", workers=1)
    more = run_sweep(make(table, ("erm", "coral"), n_hparams=1), tmp_path / "sweep", workers=1)
    assert more.standing.counts == {"finished": 6}


def test_long_runs_go_first_dataset_by_dataset(table):
    plan = make(table, ("erm", "idm"), n_hparams=1)
    other = [replace(job, data=replace(job.data, name="other")) for job in plan.jobs]
    costs = {
        (name, algorithm): Cost(seconds, 0.0, 0)
        for name, slow in (("toy", "idm"), ("other", "erm"))
        for algorithm in ("erm", "idm")
        for seconds in [2.0 if algorithm == slow else 1.0]
    }
    plan = replace(plan, jobs=(*plan.jobs, *other), costs=costs)
    order = [(job.data.name, job.config.algorithm) for job in longest_first(plan.jobs, plan)]
    assert order == [
        pair
        for pair in [("toy", "idm"), ("toy", "erm"), ("other", "erm"), ("other", "idm")]
        for _ in range(3)
    ]
    toy = replace(plan, jobs=plan.jobs[:4])  # three of a kind and one of the other
    costs = [toy.expected_seconds(job) for job in toy.jobs]
    assert toy.seconds(1) == pytest.approx(sum(costs))
    assert toy.seconds(2) == pytest.approx(sum(costs) / 2)
    assert toy.seconds(9) == max(costs)  # a run is not divided among processes


@pytest.mark.parametrize(
    ("said", "threads"), [(None, 4), ("", 4), ("1", 1), ("3", 3), ("16", 4), ("0", 4), ("all", 4)]
)
def test_processes_share_the_cores_and_take_fewer_threads_if_told(said, threads, monkeypatch):
    monkeypatch.setattr(resources, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert resources.threads_of_each(2) == threads


def test_a_process_that_hangs_is_ended_and_its_job_named(table, tmp_path):
    job = make(table, n_hparams=1).jobs[0]
    pool = local._Processes(SweepFolder(tmp_path), 1, 1, stall_seconds=0.2)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    # It waits for a message that nobody sends.
    hanging = context.Process(target=multiprocessing.connection.wait, args=([theirs],), daemon=True)
    hanging.start()
    theirs.close()
    pool._workers.append(local._Worker(hanging, ours, job, heard=time.monotonic()))
    events = []
    while not events:
        events = pool.poll()
    (event,) = events
    assert (event.status, event.job) == ("died", job)
    assert event.reason == "it made no progress for 0.2 seconds (`stall_seconds`)"
    assert not pool.busy()


@pytest.mark.parametrize(("name", "seconds"), [("local", 0), ("ray", 1.0), ("local", math.nan)])
def test_seconds_of_a_stall_are_checked(name, seconds):
    with pytest.raises(InvalidValue, match="`stall_seconds` must be positive, and is for"):
        open_executor(name, stall_seconds=seconds).__enter__()


def test_nonsense_is_refused(table):
    with pytest.raises(InvalidValue, match="at least one draw"):
        make(table, n_hparams=0)
    data = SweepData("toy", DataRequest(str(table), domain="place"))
    with pytest.raises(InvalidValue, match="two datasets have the same name"):
        make_plan(
            [data, data], [Variant.plain("erm")], PRESETS["lite"], ["oracle"], n_hparams=1, trials=1
        )


@pytest.mark.parametrize("selector", ["oracle", "training-domain", "invariance"])
def test_parts_that_nobody_holds_out_are_not_selected_by(selector):
    """Refused at once: the data is not even looked for."""
    nowhere = SweepData("toy", DataRequest("nowhere.csv"))
    erm = [Variant.plain("erm")]
    with pytest.raises(
        InvalidValue,
        match=rf"`selection=\['{selector}'\]` needs held-out samples, .* table1 holds none out",
    ):
        make_plan(
            [nowhere], erm, PRESETS["table1"], ["best-minimum", selector], n_hparams=1, trials=1
        )


def test_a_folder_has_a_run_as_one_row_only(table, tmp_path):
    """The first draw is the defaults, so fixing one makes a run that may be there already."""
    data = SweepData("toy", DataRequest(str(table), domain="place"))

    def planned(variant):
        return make_plan(
            [data], [variant], PRESETS["lite"], ["oracle"], n_hparams=1, trials=1, steps=2,
            device="cpu", test_domains=["west"],
        )  # fmt: skip

    plain, fixed = planned(Variant.plain("erm")), planned(Variant("erm[lr]", "erm", {"lr": 0.001}))
    folder = SweepFolder(tmp_path / "sweep")
    with folder.claim(plain.settings):
        folder.prepare(plain.jobs[0])
    with pytest.raises(RunConflict, match=r"has this run as erm, not erm\[lr\]; choose another"):
        run_sweep(fixed, folder.path)


def test_a_folder_has_one_run_in_a_place(table, tmp_path):
    """Features of other weights make another run of the same row, draw and trial."""
    planned = make(table, n_hparams=1)
    job = planned.jobs[0]

    def of_weights(weights):
        frozen = {"backbone": "resnet18", "weights": weights}
        return replace(planned, jobs=(replace(job, config=replace(job.config, extractor=frozen)),))

    first, second = of_weights("random"), of_weights("0123abcd")
    folder = SweepFolder(tmp_path / "sweep")
    with folder.claim(planned.settings):
        run = folder.prepare(first.jobs[0])
    with pytest.raises(
        RunConflict, match=r"erm on .* planned with other settings and not started; delete it"
    ):
        run_sweep(second, folder.path)
    with RunFolder(run).claim(first.jobs[0].config):
        pass
    with pytest.raises(
        RunConflict, match=r"run with other settings \(extractor weights 'random' → '0123abcd'\)"
    ):
        run_sweep(second, folder.path)
    assert len(list(folder.path.glob("runs/*"))) == 1


# --- kill −9 ----------------------------------------------------------------------------------

SWEEP = [
    "--algorithms", "erm,idm", "--preset", "lite", "--n-hparams", "4", "--trials", "1",
    "--domain", "place", "--steps", "120", "--device", "cpu", "--quiet", "--workers", "2",
]  # fmt: skip


def command(table: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "shiftproof", "sweep", str(table), *SWEEP, "--out", str(out)]


def kill_repeatedly(table: Path, out: Path, kills: int, seed: int) -> None:
    """Start the sweep and kill it, driver or workers or all, at random moments; then finish it."""
    chance = random.Random(seed)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for kill in range(kills):
        driver = subprocess.Popen(
            command(table, out), env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 90
        begun = len(list(out.glob("runs/*"))) if out.exists() else 0
        while driver.poll() is None and time.monotonic() < deadline:
            if len(list(out.glob("runs/*"))) > begun or (kill == 0 and chance.random() < 0.002):
                break  # workers are at work
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 1.5))
        victims = [driver.pid] if kill % 3 == 0 else workers_of(driver.pid)
        if kill % 3 == 2:
            victims = [driver.pid, *victims]
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        if driver.pid in victims:
            driver.wait(timeout=60)
            continue
        try:  # its workers were killed: it replaces them; then it is killed too
            driver.wait(timeout=chance.uniform(0, 3))
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(timeout=60)
    done = subprocess.run(command(table, out), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def workers_of(driver: int) -> list[int]:
    children = Path(f"/proc/{driver}/task/{driver}/children")
    return [int(pid) for pid in children.read_text().split()] if children.exists() else []


def check_kills(table: Path, tmp_path: Path, kills: int, seed: int) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    straight = command(table, tmp_path / "straight")
    subprocess.run(straight, env=environment, check=True, capture_output=True)
    kill_repeatedly(table, tmp_path / "killed", kills, seed)
    expected, found = outcome(tmp_path / "straight"), outcome(tmp_path / "killed")
    assert len(expected) == 24
    assert found == expected
    for run in (tmp_path / "killed" / "runs").iterdir():
        assert json.loads((run / "done.json").read_text())["status"] == "finished"
    tables = [report(tmp_path / name) for name in ("straight", "killed")]
    assert tables[0] == tables[1]
    assert "erm" in tables[0].lower()


def report(folder: Path) -> str:
    selection = ["--selection", "training-domain,oracle"]
    done = subprocess.run(
        [sys.executable, "-m", "shiftproof", "report", ".", *selection],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_twice_it_ends_the_same(table, tmp_path):
    check_kills(table, tmp_path, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_ten_times_it_ends_the_same(table, tmp_path):
    check_kills(table, tmp_path, kills=10, seed=2)


def test_ctrl_c_stops_with_checkpoints_and_says_how_to_go_on(table, tmp_path, shiftproof):
    """Without its own stop, a run would write its first checkpoint after five seconds."""
    few = ["--algorithms", "erm", "--n-hparams", "1", "--workers", "1", "--steps", "100000"]
    arguments = [*command(table, tmp_path / "sweep"), *few]
    driver = subprocess.Popen(
        arguments, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "sweep").glob("runs/*/records.jsonl")):
            assert time.monotonic() < deadline
            assert driver.poll() is None
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGINT)
        _, err = driver.communicate(timeout=60)
    finally:
        driver.kill()
    assert driver.returncode == 130
    assert "Interrupted. Run the same command again to resume." in err
    assert "Traceback" not in err
    assert list((tmp_path / "sweep").glob("runs/*/checkpoint.safetensors"))
    code, out, _ = shiftproof("sweep", "--status", tmp_path / "sweep")
    assert code == 0
    assert "0 of 3 runs" in out
    assert "No process is running. Run the command again to resume." in out


@pytest.mark.usefixtures("interruptible", "jobs_here")
def test_a_stop_after_the_last_run_reaches_what_follows_the_sweep(table, tmp_path):
    class Late(local.LocalExecutor):
        def run(self, *arguments):
            super().run(*arguments)
            signal.raise_signal(signal.SIGINT)

    plan = make(table, n_hparams=1)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, tmp_path / "sweep", executor=Late(1))
    assert sweep_status(tmp_path / "sweep")[0].counts == {"finished": 3}


def planned(table, selectors=("training-domain",), **asked):
    data = SweepData("toy", DataRequest(str(table), domain="place"))
    return make_plan(
        [data], [Variant.plain("erm")], PRESETS["lite"], selectors, trials=1, steps=50,
        device="cpu", **asked,
    )  # fmt: skip


def test_some_draws_of_a_search_are_the_runs_that_the_whole_search_has(table):
    every = {job.id: job.hparams_seed for job in planned(table, n_hparams=4).jobs}
    some = {job.id: job.hparams_seed for job in planned(table, n_hparams=4, draws=[3, 1, 3]).jobs}
    assert sorted(some.values()) == [1, 1, 1, 3, 3, 3]
    assert some.items() <= every.items()
    for wrong in (4, -1):
        with pytest.raises(InvalidValue, match=f"`draws` has {wrong}, .* draws 0 to 3"):
            planned(table, n_hparams=4, draws=[0, wrong])


@pytest.mark.usefixtures("jobs_here")
def test_runs_are_evaluated_at_the_interval_that_is_asked_for(table, tmp_path):
    plain = planned(table, n_hparams=1)
    assert {job.config.eval_every for job in plain.jobs} == {5}
    plan = planned(table, n_hparams=1, eval_every=20)
    assert {job.config.eval_every for job in plan.jobs} == {20}
    assert plan.settings == {**plain.settings, "eval_every": 20}
    run_sweep(replace(plan, jobs=plan.jobs[:1]), tmp_path / "sweep", workers=1)
    records = (SweepFolder(tmp_path / "sweep").run(plan.jobs[0]) / "records.jsonl").read_text()
    assert [json.loads(line)["step"] for line in records.splitlines()] == [1, 21, 41, 50]
    with pytest.raises(RunConflict, match=r"another eval_every \(20, not None\)"):
        run_sweep(plain, tmp_path / "sweep")
    with pytest.raises(InvalidValue, match="`eval_every` must be at least 1, not 0"):
        planned(table, n_hparams=1, eval_every=0)
    with pytest.raises(InvalidValue, match="`eval_every=20` has no effect: oracle reads"):
        planned(table, ("oracle",), n_hparams=1, eval_every=20)


@pytest.mark.parametrize(("steps", "every"), [(50, 5), (51, 5), (1, 5), (5, 100), (7, 0)])
def test_a_plan_counts_the_evaluations_of_the_run(table, steps, every):
    job = planned(table, n_hparams=1).jobs[0]
    config = replace(job.config, steps=steps, eval_every=every)
    counted = sum(config.evaluates_after(step) for step in range(1, steps + 1))
    assert Cost(0.0, 1.0, 0).seconds(replace(job, config=config)) == counted


def test_the_time_of_a_draw_follows_its_batch_size(table, monkeypatch):
    """Steps that take 1 s and 0.01 s a sample: the plan finds both from the measured extremes."""
    seen = []

    def measured(job, dataset, threads, *, evaluate=True):
        seen.append((estimate.batch_size(job), evaluate))
        return Cost(1 + 0.01 * estimate.batch_size(job), 7.0, 0)

    monkeypatch.setattr(estimate, "measure_job", measured)
    plan = planned(table, n_hparams=8)
    sizes = [estimate.batch_size(job) for job in plan.jobs]
    assert len(set(sizes)) > 2
    assert seen == [(max(sizes), True), (min(sizes), False)]
    for job, size in zip(plan.jobs, sizes, strict=True):
        # 50 steps, and evaluations after 1, 6, ..., 46 and 50.
        assert plan.expected_seconds(job) == pytest.approx(50 * (1 + 0.01 * size) + 11 * 7)
    seen.clear()
    assert planned(table, n_hparams=1).costs["toy", "erm"].sample == 0
    assert len(seen) == 1


def test_steps_are_measured_on_the_threads_that_a_run_will_have(table, monkeypatch):
    seen = []
    advance = Trainer.advance

    def watched(trainer):
        advance(trainer)
        seen.append(torch.get_num_threads())

    monkeypatch.setattr(Trainer, "advance", watched)
    monkeypatch.setattr(local, "cores", lambda: 6)
    monkeypatch.setattr(resources, "cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    for workers, threads in ((None, 1), (2, 3), (1, 6)):
        with open_executor("local", workers) as executor:
            assert executor.threads == threads
            planned(table, n_hparams=1, threads=executor.threads)
        assert set(seen) == {threads}
        assert torch.get_num_threads() == before
        seen.clear()


def test_what_is_fitted_at_once_is_swept_beside_networks(table, tmp_path):
    plan = make(table, ("linear", "erm"), n_hparams=1)
    result = run_sweep(plan, tmp_path / "sweep", workers=1)
    assert result.standing.counts == {"finished": 6}
    assert plan.costs["toy", "linear"].seconds(plan.jobs[0]) > 0
    # Its only step is not resumed.
    assert plan.costs["toy", "linear"].checkpoint < plan.costs["toy", "erm"].checkpoint / 100
