"""Sweeps on Ray: the same bytes as on this machine, whoever dies in between."""

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from _internals import (
    MOST_DEATHS,
    PRESETS,
    DataRequest,
    Event,
    InvalidValue,
    Mailbox,
    Observer,
    SweepData,
    SweepFolder,
    SweepObserver,
    UnknownName,
    Variant,
    WorkerPool,
    load_state,
    make_plan,
    open_executor,
    run_jobs,
    run_sweep,
    save_state,
    sweeps_run_files as run_files,
    sweeps_scratch as scratch,
    train,
)
from PIL import Image

from shiftproof import Domain, DomainDataset

ray = pytest.importorskip("ray")

from _internals import (  # noqa: E402
    Attempt,
    RayExecutor,
    Share,
    SharedDatasets,
    connected,
    receive,
    share_dataset,
    sweeps_ray as ray_executor,
    with_absolute_path,
)
from ray.cluster_utils import Cluster  # noqa: E402

# Ray leaves sockets and log files of its own open.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def own_home(tmp_path_factory):
    """Ray keeps a file in the user's home, and the killed leave some behind; not from here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "TMPDIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        yield


@pytest.fixture(scope="module")
def cluster(own_home):
    """Ray on this machine, for all tests that need no more."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "2")  # for the workers, which must not follow it
        patch.setattr(ray_executor, "cores", lambda: 1)  # every worker loads torch first
        with connected():
            yield
    assert signal.getsignal(signal.SIGTERM) == before
    assert descendants(os.getpid(), "raylet") == []
    gc.collect()  # Ray forgets its processes without a look: here, where that is allowed


def make(table, algorithms=("erm",), n_hparams=1, steps=5):
    data = SweepData("toy", DataRequest(str(table), domain="place"))
    return make_plan(
        [data], [*map(Variant.plain, algorithms)], PRESETS["lite"], ["training-domain", "oracle"],
        n_hparams=n_hparams, trials=1, steps=steps, device="cpu",
    )  # fmt: skip


@pytest.fixture
def plan(table):
    return make(table)


def outcome(folder: Path) -> dict[str, tuple[bytes, ...]]:
    """Return all that must not depend on where a run was made, of every run."""
    names = ("records.jsonl", "job.json", "config.json")
    return {
        run.name: (*((run / name).read_bytes() for name in names), weights(run))
        for run in sorted((folder / "runs").iterdir())
    }


def weights(run: Path) -> bytes:
    """Return the last checkpoint without its header, which tells the time."""
    data = (run / "checkpoint.safetensors").read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def descendants(pid: int, kind: str) -> list[int]:
    """Return the processes started by ``pid``, or by those, whose command line has ``kind``."""
    found = []
    children = Path(f"/proc/{pid}/task").glob("*/children")
    with contextlib.suppress(OSError):
        for child in (int(c) for path in children for c in path.read_text().split()):
            with contextlib.suppress(OSError):
                if kind in Path(f"/proc/{child}/cmdline").read_text():
                    found.append(child)
            found += descendants(child, kind)
    return found


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- without a cluster ------------------------------------------------------------------------


class Looking(SweepObserver):
    """Calls a function with how the sweep stands."""

    def __init__(self, look):
        self.standing = look


class StubPool(WorkerPool):
    """Does one job at a time, and says what it was told to say about it."""

    def __init__(self, says):
        self.says, self.job, self.given, self.stopped = list(says), None, 0, False

    def busy(self):
        return self.job is not None

    def has_room(self):
        return self.job is None

    def submit(self, job):
        self.job, self.given = job, self.given + 1

    def poll(self):
        kind, status = self.says.pop(0) if self.says else ("ended", "finished")
        job, self.job = self.job, None
        return [Event(kind, job, status=status)]

    def stop(self):
        self.stopped = True

    def close(self):
        self.job = None


@pytest.mark.parametrize(
    ("says", "given", "told"),
    [
        ([("failed", "died")] * (MOST_DEATHS - 1), MOST_DEATHS, ("ended", "finished")),
        ([("failed", "died")] * MOST_DEATHS, MOST_DEATHS, ("failed", "died")),
        ([("failed", "lost")] * 20, 21, ("ended", "finished")),
        ([("ended", "stopped")], 2, ("ended", "finished")),
        ([("failed", "")], 1, ("failed", "")),
    ],
    ids=["died twice", "died thrice", "machines lost", "stopped by another", "failed"],
)
def test_what_a_job_is_tried_again_for(plan, says, given, told):
    heard = []

    def listen(event):
        heard.extend([] if event is None else [event])
        return False

    pool = StubPool(says)
    run_jobs(pool, plan.jobs[:1], listen)
    assert pool.given == given
    assert [(event.kind, event.status) for event in heard] == [told]


def test_late_messages_of_an_attempt_that_was_given_up_are_not_heard(plan, tmp_path):
    folder, job = SweepFolder(tmp_path / "sweep"), plan.jobs[0]
    old, new = Attempt(job, Future()), Attempt(job, Future())
    assert receive({1: old}, 1, {"records.jsonl": b"old\n"}, folder) is old
    assert receive({2: new}, 2, {"records.jsonl": b"new\n"}, folder) is new
    late = {"records.jsonl": b"late\n", "done.json": b"{}"}
    assert receive({2: new}, 1, late, folder) is None
    assert (folder.run(job) / "records.jsonl").read_bytes() == b"new\n"
    assert folder.state(job) == "waiting"
    assert receive({}, 2, {"done.json": b"{}"}, folder) is None


def test_the_mailbox_keeps_the_newest_of_every_file(plan):
    box = Mailbox()
    assert box.deliver(1, 5, {"a": b"1", "b": b"1"}) is False
    assert box.deliver(1, 6, {"a": b"2"}) is False
    assert box.deliver(2, 3, {}) is False
    assert box.collect(False) == {1: (6, {"a": b"2", "b": b"1"}), 2: (3, {})}
    assert box.collect(True) == {}
    assert box.deliver(1, 7, {}) is True


def test_a_checkpoint_never_travels_without_its_records(tmp_path):
    run = tmp_path / "run"
    run_files.unpack({"config.json": b"{}", "records.jsonl": b"1\n", "x": b"not of a run"}, run)
    assert {path.name for path in run.iterdir()} == {"config.json", "records.jsonl"}
    news = run_files.ChangedFiles(run)
    assert news.take() == {}
    (run / "checkpoint.safetensors").write_bytes(b"heavy")
    (run / "lock").write_bytes(b"")
    everything = {
        "config.json": b"{}", "records.jsonl": b"1\n", "checkpoint.safetensors": b"heavy",
    }  # fmt: skip
    assert news.take() == everything == run_files.pack(run)
    assert news.take() == {}
    with open(run / "records.jsonl", "ab") as file:
        file.write(b"2\n")
    assert news.take() == {"config.json": b"{}", "records.jsonl": b"1\n2\n"}


def test_done_is_written_last(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(run_files, "write_atomically", lambda path, data: written.append(path.name))
    run_files.unpack(dict.fromkeys(reversed(run_files.RUN_FILES), b"x"), tmp_path)
    assert written == list(run_files.RUN_FILES)
    assert written.index("records.jsonl") < written.index("checkpoint.safetensors")
    assert written[-1] == "done.json"


def test_scratch_folders_of_the_killed_are_removed_and_those_in_use_are_not(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path;"
        "from shiftproof.sweeps.executors.run_files import scratch;"
        "folder = scratch(Path(sys.argv[1])); folder.__enter__();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    with scratch.scratch(tmp_path) as young:
        assert left.exists()  # too young to be sure
        for folder in (left, young):
            os.utime(folder / "held", (0, 0))
        with scratch.scratch(tmp_path):
            assert not left.exists()
            assert young.exists()
    assert list(tmp_path.iterdir()) == []


def test_mistakes_are_told_in_one_line(monkeypatch, tmp_path, shiftproof, table):
    with pytest.raises(UnknownName, match="unknown executor 'rya'; did you mean 'ray'"):
        open_executor("rya").__enter__()
    with pytest.raises(InvalidValue, match=r'`ray_address` is for `executor="ray"`'):
        open_executor("local", ray_address="auto").__enter__()
    for address in ("rubbish", "ray://here:10001", "here:port"):
        with pytest.raises(InvalidValue, match="must be HOST:PORT or auto, not '"):
            open_executor("ray", ray_address=address).__enter__()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidValue, match=r"pip install 'shiftproof\[ray\]'"):
        open_executor("ray").__enter__()
    monkeypatch.undo()
    sweep = ("sweep", table, "--domain", "place", "--out", tmp_path / "sweep", "--executor", "ray")
    code, out, err = shiftproof(*sweep, "--ray-address", "127.0.0.1:1")
    assert code == 2
    assert out == ""
    assert err.startswith("error: no Ray cluster answers at 127.0.0.1:1 (")
    assert err.count("\n") == 1
    assert not (tmp_path / "sweep").exists()


def test_what_a_run_takes_of_a_machine():
    machine = {"CPU": 8.0, "GPU": 2.0, "memory": 10e9}
    assert Share(1, 0, 10**9).within(machine) == 8
    assert Share(1, 0, 4 * 10**9).within(machine) == 2
    assert Share(1, 1, 10**9).within(machine) == 2
    assert Share(1, 1, 10**9).within({"CPU": 8.0}) == 0
    assert Share(3, 0, 0).within(machine) == 2


def test_images_are_read_where_the_run_is(tmp_path, monkeypatch):
    for domain in "abc":
        for kind in ("cat", "dog"):
            (tmp_path / "pets" / domain / kind).mkdir(parents=True)
            Image.new("RGB", (9, 9), (ord(domain), 0, 0)).save(
                tmp_path / "pets" / domain / kind / "1.png"
            )
    monkeypatch.chdir(tmp_path)
    dataset = DataRequest("pets").load(0)
    assert dataset.domains[0].is_lazy
    data = SweepData("pets", DataRequest("pets"))
    job = replace(jobs_of(dataset)[0], data=data)
    datasets = SharedDatasets()
    assert datasets.get(job).result(60) is None
    datasets.close()
    assert with_absolute_path(job).data.request.data == str(tmp_path / "pets")
    assert with_absolute_path(job).id == job.id
    digits = replace(data, request=DataRequest("colored-mnist"))
    assert with_absolute_path(replace(job, data=digits)).data == digits


def jobs_of(dataset):
    from _internals import Block, Needs, plan

    data = SweepData("toy", DataRequest("toy"))
    tiny = replace(PRESETS["lite"], backbones={"large-image": "mlp"})
    needs = Needs(("test-in",))
    return list(plan(Block(data, [Variant.plain("erm")], needs, [0], 1), {0: dataset}, tiny))


# --- on this machine --------------------------------------------------------------------------


def test_it_equals_the_local_sweep_byte_for_byte_and_continues_it(cluster, table, tmp_path):
    plan = make(table, ("erm", "idm"))
    assert len(plan.jobs) == 6
    dataset = plan.jobs[0].data.load(0)
    local, half = SweepFolder(tmp_path / "local"), SweepFolder(tmp_path / "half")
    for job in plan.jobs:
        train(job.config, dataset, local.prepare(job))
    # One run is finished and one is begun when Ray takes over.
    with half.claim(plan.settings):
        train(plan.jobs[0].config, dataset, half.prepare(plan.jobs[0]))
        stopped = train(plan.jobs[1].config, dataset, half.prepare(plan.jobs[1]), StopAt(3))
    assert (stopped.status, stopped.step) == ("stopped", 3)
    begun = half.run(plan.jobs[1])
    state = load_state(begun / "checkpoint.safetensors")
    save_state(begun / "checkpoint.safetensors", {**state, "seconds": 1e6})  # known again by this
    executor = Overheard()
    result = run_sweep(plan, half.path, executor=executor)
    assert result.failures == []
    assert result.standing.counts == {"finished": 6}
    assert outcome(half.path) == outcome(local.path)
    for run in (local.path / "runs").iterdir():
        again = half.path / "runs" / run.name
        assert {f.name for f in run.iterdir()} == {f.name for f in again.iterdir()}
        ended = json.loads((again / "done.json").read_text())
        assert ended["status"] == "finished"
        assert ended["environment"]["threads"] == 1
        assert (ended["seconds"] > 1e6) == (again == begun)
    ended = [event.job.id for event in executor.events if event.kind == "ended"]
    assert sorted(ended) == sorted(job.id for job in plan.jobs[1:])


class Overheard(RayExecutor):
    """An executor of which one knows what it has told."""

    def run(self, jobs, folder, listener, memory):
        self.events = []

        def listen(event):
            self.events.extend([] if event is None else [event])
            return listener(event)

        super().run(jobs, folder, listen, memory)

    def last_step(self):
        return self.events[-1].step if self.events else 0


class StopAt(Observer):
    def __init__(self, at):
        self.at = at

    def step(self, step, measured):
        if step == self.at:
            signal.raise_signal(signal.SIGTERM)


def test_failures_are_listed_and_tried_again_when_asked(cluster, table, tmp_path):
    plan = make(table)
    lines = table.read_text()
    table.write_text(lines.replace("north", "up"))  # noticed by the worker
    result = run_sweep(plan, tmp_path / "sweep", executor=RayExecutor(2))
    assert result.standing.counts == {"failed": 3}
    assert {f.reason for f in result.failures} == {
        "the run was configured for other data than this toy"
    }
    table.unlink()  # noticed by the driver
    result = run_sweep(plan, tmp_path / "sweep", executor=RayExecutor(2), retry_failed=True)
    assert {f.reason for f in result.failures} == {f"no such file or folder: {table}"}
    table.write_text(lines)
    assert run_sweep(plan, tmp_path / "sweep", executor=RayExecutor()).failures
    result = run_sweep(plan, tmp_path / "sweep", executor=RayExecutor(), retry_failed=True)
    assert result.standing.counts == {"finished": 3}


def one_long_run(table):
    plan = make(table, steps=300_000)
    return replace(plan, jobs=plan.jobs[:1])


def interrupt_once(asked):
    if not asked:
        asked.append(True)
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_stops_with_a_checkpoint_that_comes_home(cluster, table, tmp_path):
    plan, executor, asked = one_long_run(table), Overheard(checkpoint_seconds=1e6), []
    run = SweepFolder(tmp_path / "sweep").run(plan.jobs[0])
    before = signal.getsignal(signal.SIGINT)  # ignored, if the tests run in the background

    def look(standing):
        if executor.last_step() > 1:
            interrupt_once(asked)

    result = run_sweep(plan, tmp_path / "sweep", executor=executor, observer=Looking(look))
    assert result.stopped
    assert result.failures == []
    assert executor.events[-1].status == "stopped"
    assert load_state(run / "checkpoint.safetensors")["step"] == executor.events[-1].step
    assert executor.events[-1].step >= executor.events[-2].step > 1
    assert not (run / "done.json").exists()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_goes_on(cluster, table, tmp_path):
    plan, executor, asked = one_long_run(table), Overheard(checkpoint_seconds=0.2), []
    checkpoint = SweepFolder(tmp_path / "sweep").run(plan.jobs[0]) / "checkpoint.safetensors"
    arrived = {"step": 0, "seconds": 0.0}

    def look(standing):
        nonlocal arrived
        starts = [e.kind for e in executor.events].count("started")
        if starts == 1 and arrived["seconds"] < 3 and checkpoint.exists():
            arrived = load_state(checkpoint)
            if arrived["seconds"] >= 3:
                kill(descendants(os.getpid(), "ray::run_there"))
        elif starts == 2 and executor.last_step():
            interrupt_once(asked)

    result = run_sweep(plan, tmp_path / "sweep", executor=executor, observer=Looking(look))
    assert result.stopped
    assert result.failures == []
    again = [e.kind for e in executor.events].index("started", 1)
    assert next(e.step for e in executor.events[again:] if e.step) >= arrived["step"] > 0


def test_data_is_shared_in_place(cluster):
    x = torch.arange(1_000_000, dtype=torch.float64).reshape(1000, 10, 100)[:, ::2]
    domains = (
        Domain("a", x, torch.arange(1000) % 2),
        Domain("b", x.to(torch.bfloat16), torch.arange(1000) % 2),
        Domain("c", (x > 7)[:, :0], torch.arange(1000) % 2),
    )
    dataset = DomainDataset("toy", domains, ("n", "y"), "table", "mlp", 100)
    reference = share_dataset(dataset)
    one, other = ray.get(reference), ray.get(reference)
    for found, given in zip(one.domains, domains, strict=True):
        assert found.x.dtype == given.x.dtype
        assert torch.equal(found.x, given.x)
        assert torch.equal(found.y, given.y)
    assert one.domains[0].x.data_ptr() == other.domains[0].x.data_ptr()
    # Other tensors are copied, as Ray always does.
    reference = ray.put(x)
    one, other = ray.get(reference), ray.get(reference)
    assert one.data_ptr() != other.data_ptr()


# --- a cluster of two machines, and what may happen to it -------------------------------------

SWEEP = [
    "--algorithms", "erm,idm", "--preset", "lite", "--n-hparams", "4", "--trials", "1",
    "--domain", "place", "--steps", "400", "--device", "cpu", "--quiet",
]  # fmt: skip


@pytest.fixture
def machines(own_home, tmp_path_factory):
    """A cluster of two machines, each a raylet with a core; yields it and its second machine."""
    if ray.is_initialized():
        ray.shutdown()
    with contextlib.ExitStack() as stack:
        # Short: its sockets are in there.
        place = stack.enter_context(scratch.scratch(Path("/tmp")))
        (place / "ray").mkdir()
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("RAY_TMPDIR", str(place))
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        stack.callback(cluster.shutdown)
        yield cluster, cluster.add_node(num_cpus=1)
    del cluster
    gc.collect()


def command(table: Path, out: Path, *more: str) -> list[str]:
    sweep = [sys.executable, "-m", "shiftproof", "sweep", str(table), *SWEEP]
    return [*sweep, "--out", str(out), *more]


def report(folder: Path) -> str:
    selection = ["--selection", "training-domain,oracle"]
    done = subprocess.run(
        [sys.executable, "-m", "shiftproof", "report", ".", *selection],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def wait_until(true, driver, seconds=180):
    deadline = time.monotonic() + seconds
    while not true():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def begin():
    """Start commands; what a failed test leaves running is ended."""
    drivers = []

    def start(arguments, env=None):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        drivers.append(subprocess.Popen(arguments, start_new_session=True, env=env, **pipes))
        return drivers[-1]

    yield start
    for driver in drivers:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_machine_a_worker_and_the_driver_killed_it_ends_the_same(
    machines, table, begin, tmp_path
):
    cluster, second = machines
    subprocess.run(
        command(table, tmp_path / "straight", "--workers", "2"), check=True, capture_output=True
    )
    out = tmp_path / "killed"
    on_ray = command(table, out, "--executor", "ray", "--ray-address", cluster.address)

    def done() -> int:
        return len(list(out.glob("runs/*/done.json")))

    def working_on(raylet: int) -> list[int]:
        return descendants(raylet, "ray::run_there")

    head_raylet = cluster.head_node.all_processes["raylet"][0].process.pid
    second_raylet = second.all_processes["raylet"][0].process.pid

    driver = begin(on_ray)  # killed itself
    wait_until(lambda: done() >= 2 and working_on(second_raylet), driver)
    driver.kill()
    driver.communicate()
    kept = done()
    deadline = time.monotonic() + 60
    while working_on(head_raylet) or working_on(second_raylet):  # Ray ends what it had begun
        assert time.monotonic() < deadline
        time.sleep(0.1)

    driver = begin(on_ray)
    wait_until(lambda: done() > kept and working_on(head_raylet), driver)
    kill(working_on(head_raylet))
    wait_until(lambda: done() > kept + 2 and working_on(second_raylet), driver)
    assert done() < 24
    cluster.remove_node(second, allow_graceful=False)
    stdout, stderr = driver.communicate(timeout=600)
    assert driver.returncode == 0, stderr
    assert stderr == ""
    assert "24 of 24 runs: 24 finished" in stdout
    assert "raylet" not in stdout

    found = outcome(out)
    assert len(found) == 24
    assert found == outcome(tmp_path / "straight")
    for run in (out / "runs").iterdir():
        assert json.loads((run / "done.json").read_text())["status"] == "finished"
    assert report(out) == report(tmp_path / "straight")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ctrl_c_at_the_terminal(own_home, table, begin, tmp_path):
    arguments = command(table, tmp_path / "sweep", "--executor", "ray")
    arguments[arguments.index("--steps") + 1] = "300000"
    # A folder of its own, since others make temporary folders too; a short path, for sockets.
    place = Path(tempfile.mkdtemp())
    driver = begin(arguments, env={**os.environ, "TMPDIR": str(place)})
    wait_until(lambda: list((tmp_path / "sweep").glob("runs/*/records.jsonl")), driver)
    assert list(place.glob("shiftproof-*"))
    os.killpg(driver.pid, signal.SIGINT)
    stdout, stderr = driver.communicate(timeout=120)
    assert driver.returncode == 130, stderr
    assert stderr == "Interrupted. Run the same command again to resume.\n"
    assert "0 of 24 runs" in stdout
    assert list((tmp_path / "sweep").glob("runs/*/checkpoint.safetensors"))
    assert not list(place.glob("shiftproof-*"))
    shutil.rmtree(place)
