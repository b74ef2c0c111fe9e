import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from _internals import Standing, SweepFolder, cli, cli_main as main
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

QUICK = [
    "train", "colored-mnist-irm", "--algorithm", "idm", "--test-domain", "10%",
    "--data-option", "per_domain=60", "--hparam", "hidden=8", "--hparam", "batch_size=16",
    "--steps", "12", "--eval-every", "5",
]  # fmt: skip


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory):
    """A finished run, to be copied."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["shiftproof", *QUICK, "--quiet", "--out", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return folder


@pytest.fixture
def finished(kept_run, tmp_path):
    """A folder with a run of its own that has finished."""
    shutil.copytree(kept_run, tmp_path / "finished")
    return tmp_path / "finished"


@pytest.mark.parametrize(
    "command", ["", "demo", "diagnose", "train", "algorithms", "data", "sweep", "report"]
)
def test_help_shows_an_example(shiftproof, command):
    code, out, _ = shiftproof(*command.split(), "--help")
    assert code == 0
    assert f"Example: shiftproof {command}".strip() in " ".join(out.split())


def without(heavy, *arguments):
    """Run a command in a new process, which must not import heavy packages; return its seconds."""
    script = (
        f"import sys, time; sys.argv = ['shiftproof', *{list(map(str, arguments))}]\n"
        "from shiftproof.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        # The processor's time, from the start of the process: other work on the machine is not
        # ours to measure.
        "print('SECONDS', time.process_time())\n"
        f"print('HEAVY', sorted({heavy} & set(sys.modules)))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert "HEAVY []" in out
    return float(out.split("SECONDS ")[1].split()[0])


def test_help_takes_under_0_4_seconds_and_no_torch():
    # The fastest: a busy machine slows the others.
    assert min(without({"torch", "numpy", "matplotlib"}, "--help") for _ in range(5)) < 0.4


def test_the_status_of_a_large_sweep_takes_under_a_second_and_no_torch(tmp_path):
    standing = Standing(5000, Counter(finished=4000, failed=3))
    standing.running = {f"{n:016x}": (f"idm on data, draw {n}", 300, 5001) for n in range(64)}
    standing.best = {f"data without domain {n}": (0.5, "idm") for n in range(24)}
    SweepFolder(tmp_path).write_status(standing.to_json())
    assert min(without({"torch"}, "sweep", "--status", tmp_path) for _ in range(3)) < 1


STATUS = {
    "format": 2,
    **Standing(9, Counter(failed=1), {"a": ("erm", 3, 10)}, {"x": (0.5, "erm")}, 7.0).to_json(),
}


@pytest.mark.parametrize(
    "damage",
    [
        [], {"total": "x"}, {"total": 1e999}, {"time": []}, {"counts": {"failed": "1"}},
        {"running": {"a": ["erm", "x", 10]}}, {"running": [1]}, {"best": {"x": [None, "erm"]}},
        {"seconds_left": "soon"}, {"best": {"x": [0.5, 3]}},
    ],
)  # fmt: skip
def test_a_damaged_status_is_one_line(shiftproof, tmp_path, damage):
    value = {**STATUS, **damage} if damage else damage
    (tmp_path / "status.json").write_text(json.dumps(value))
    code, out, err = shiftproof("sweep", "--status", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "status.json is" in err


def test_a_strangers_status_steers_no_terminal(shiftproof, tmp_path):
    told = {"running": {"a": ["\x1b[2J", 3, 0]}, "best": {"\x1b]0;x\x07": [0.5, "\x9b2J"]}}
    (tmp_path / "status.json").write_text(json.dumps({**STATUS, **told}))
    code, out, _ = shiftproof("sweep", "--status", tmp_path)
    assert code == 0
    assert not {"\x1b", "\x07", "\x9b"} & set(out)


def test_tables_of_domainbeds_logs_need_no_torch(tmp_path):
    args = {"dataset": "PACS", "algorithm": "ERM", "test_envs": [0]}
    args |= {"hparams_seed": 0, "trial_seed": 0}
    shares = {f"env{n}_{part}_acc": 0.5 for n in range(4) for part in ("in", "out")}
    record = {"args": args, "hparams": {}, "step": 0, **shares}
    (tmp_path / "results.jsonl").write_text(json.dumps(record) + "\n")
    without({"torch", "pandas", "sklearn"}, "report", tmp_path)


def test_version(shiftproof):
    from shiftproof import __version__

    assert shiftproof("--version") == (0, f"shiftproof {__version__}\n", "")


def test_ctrl_c_before_the_command_runs_is_one_line(shiftproof, monkeypatch):
    """Commands handle Ctrl-C only once they have been prepared."""

    def interrupted(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.app, "main", interrupted)
    message = "Interrupted. Run the same command again to resume.\n"
    assert shiftproof("algorithms") == (130, "", message)


@pytest.mark.parametrize("error", [None, ValueError("a defect")])
def test_torchruns_report_has_the_message_of_a_process_that_prints_nothing(
    shiftproof, monkeypatch, tmp_path, error
):
    """Torchrun ends the process that prints as soon as another one fails."""
    file = tmp_path / "error.json"
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "TORCHELASTIC_ERROR_FILE": file}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # restored afterwards
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    if error is None:
        assert shiftproof("data", "show", "nowhere") == (2, "", "")
        told = "error: unknown dataset 'nowhere'"
    else:
        monkeypatch.setattr(cli.app, "main", lambda **options: (_ for _ in ()).throw(error))
        with pytest.raises(ValueError, match="a defect"):
            shiftproof("algorithms")
        told = "Traceback"
    sys.stderr.close()
    failure = ProcessFailure(1, 2, 2, str(file))  # how torchrun reads it
    assert failure.message["message"].startswith(told)


def test_algorithms_and_datasets_list_and_explain(shiftproof):
    code, out, _ = shiftproof("algorithms")
    assert code == 0
    assert {"erm", "idm"} <= set(out.split())
    code, out, _ = shiftproof("algorithms", "idm")
    assert code == 0
    assert "λ₁ L_G" in out
    assert "10^U(1, 5)" in out
    assert "× the time of ERM" in out
    code, out, _ = shiftproof("algorithms", "erm")
    assert "the time of ERM" not in out  # of itself
    assert "Hyper-parameters of the network (mlp)" in out
    assert {"hidden", "dropout"} <= set(out.split())
    code, out, _ = shiftproof("data", "list")
    assert code == 0
    assert {"colored-mnist", "colored-mnist-irm"} <= set(out.split())
    code, out, _ = shiftproof("data", "show", "colored-mnist-irm")
    assert code == 0
    assert "CC BY-SA 3.0" in out
    assert "per_domain" in out


def test_train_prints_a_table_and_goes_on_silently_when_done(shiftproof, tmp_path):
    code, out, err = shiftproof(*QUICK, "--out", tmp_path / "run")
    assert code == 0
    assert "one run, seed 0, last step (no model selection)" in out
    assert "10%" in out
    assert "gray" in out
    assert "step 12" in err
    assert (tmp_path / "run/done.json").exists()
    code, again, err = shiftproof(*QUICK, "--out", tmp_path / "run")
    assert (code, again, err) == (0, out, "")


def test_train_as_json(shiftproof, tmp_path):
    code, out, err = shiftproof(*QUICK, "--out", tmp_path / "run", "--json", "--quiet")
    outcome = json.loads(out)
    assert (code, err) == (0, "")
    assert outcome["status"] == "finished"
    assert outcome["final"]["step"] == 12
    assert 0 <= outcome["final"]["accuracy"]["10%/in"] <= 1


def test_without_out_the_run_is_named_after_its_content(shiftproof, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shiftproof(*QUICK)[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("colored-mnist-irm-idm-")
    assert shiftproof(*QUICK, "--seed", 1)[0] == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["train", "colored-mnst"],
            "unknown dataset, file or folder 'colored-mnst'; did you mean 'colored-mnist'",
        ),
        (["train", "colored-mnist-irm", "-a", "imd"], "did you mean 'idm'"),
        ([*QUICK, "--test-domain", "10"], "did you mean '10%'"),
        ([*QUICK, "--test-domain", "80%"], "at least two"),
        ([*QUICK, "--hparam", "gradient_wieght=3"], "did you mean 'gradient_weight'"),
        ([*QUICK, "--hparam", "lr=nan"], "lr must be a finite number, not 'nan'"),
        ([*QUICK, "--hparam", "lr=-1"], "lr must lie in"),
        ([*QUICK, "--hparam", "lr"], "--hparam takes name=value, not 'lr'"),
        ([*QUICK, "--hparam", "lr=1", "--hparam", "lr=2"], "gives lr twice"),
        ([*QUICK, "--hparam", "variant=papr"], "one of authors, paper"),
        ([*QUICK, "--data-option", "per_domian=5"], "did you mean 'per_domain'"),
        ([*QUICK, "--evaluate", "test"], "did you mean"),
        ([*QUICK, "--evaluate", ""], "unknown evaluation set ''"),
        ([*QUICK, "--data-option", "foo=1"], "unknown option of colored-mnist-irm 'foo'"),
        ([*QUICK, "--steps", "0"], "steps must be at least 1"),
        ([*QUICK, "--holdout", "1.5"], "holdout must lie in [0, 1)"),
        ([*QUICK, "--holdout", "0"], "has none in its 'out' part"),
        ([*QUICK, "--backbone", "mlpp"], "did you mean 'mlp'"),
        ([*QUICK, "--device", "cuda"], "no cuda device"),
        ([*QUICK, "--weights", "nowhere.pt"], "mlp has no weights to start from"),
        (
            ["train", "colored-mnist-irm", "--backbone", "resnet18", "--weights", "nowhere.pt"],
            "there is no file 'nowhere.pt'",
        ),
        (["algorithms", "idn"], "did you mean 'idm'"),
        (["data", "show", "colored"], "did you mean 'colored-mnist"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(shiftproof, tmp_path, arguments, words):
    if arguments[0] == "train":
        arguments = [*arguments, "--out", tmp_path / "run"]
    code, out, err = shiftproof(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "did you mean 'train'"),
        (["train", "colored-mnist", "--stesp", "3"], "--steps"),
        (["train"], "Missing argument"),
        (["train", "colored-mnist", "--steps", "many"], "--steps must be a whole number"),
    ],
)
def test_a_mistake_in_the_command_itself_exits_2_without_traceback(shiftproof, arguments, words):
    code, _, err = shiftproof(*arguments)
    assert code == 2
    assert words in " ".join(err.split())
    assert "Traceback" not in err


def test_a_folder_of_other_things_is_left_alone(shiftproof, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    code, _, err = shiftproof(*QUICK, "--out", tmp_path)
    assert code == 2
    assert "thesis.txt but no config.json" in err
    assert err.count("\n") == 1


def test_a_run_without_its_configuration_is_never_taken_for_another(shiftproof, finished):
    (finished / "config.json").unlink()
    code, out, err = shiftproof(*QUICK, "--algorithm", "erm", "--out", finished)
    assert (code, out) == (2, "")
    assert "no config.json" in err


@pytest.mark.parametrize("also_lost", [[], ["done.json"]])
def test_lost_records_are_noticed(shiftproof, finished, also_lost):
    records = finished / "records.jsonl"
    for damaged in (records.read_bytes()[:-20], b""):
        records.write_bytes(damaged)
        for name in also_lost:
            (finished / name).unlink(missing_ok=True)
        code, out, err = shiftproof(*QUICK, "--out", finished)
        assert (code, out) == (2, "")
        assert "has lost records" in err


def test_a_penalty_that_never_acts_is_noted(shiftproof, tmp_path):
    late = shiftproof(*QUICK, "--out", tmp_path / "a")[2]
    assert "starts at step 1500, which is never reached in 12 steps" in late
    early = shiftproof(*QUICK, "--hparam", "gradient_warmup=3", "--out", tmp_path / "b")[2]
    assert "note:" not in early


def test_too_large_a_network_is_one_line(shiftproof, tmp_path, monkeypatch):
    from _internals import MLP

    def build(self, task):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(MLP, "build", build)
    code, _, err = shiftproof(*QUICK, "--out", tmp_path / "run")
    assert code == 2
    assert err.startswith("error: not enough memory")


def test_a_folder_of_another_run_is_refused(shiftproof, finished):
    code, _, err = shiftproof(*QUICK, "--out", finished, "--hparam", "lr=0.5")
    assert code == 2
    assert "holds another run (lr 0.001 → 0.5)" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["config.json", "records.jsonl", "done.json"])
@pytest.mark.parametrize("damage", [b"{oops\n", b"[]\n", b"{}\n"])
def test_a_damaged_run_folder_is_one_line(shiftproof, finished, name, damage):
    (finished / name).write_bytes(damage)
    code, _, err = shiftproof(*QUICK, "--out", finished)
    assert code == 2
    assert name in err or "holds another run" in err
    assert err.count("\n") == 1


def test_a_terminal_without_greek_letters_is_no_reason_to_fail(shiftproof, monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    code, _, _ = shiftproof("algorithms", "erm")
    sys.stdout.flush()
    assert code == 0
    assert b"L_E = (1/m)" in printed.getvalue()
    assert b"?" in printed.getvalue()


def test_a_place_that_cannot_be_written_is_one_line(shiftproof, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = shiftproof(*QUICK, "--out", tmp_path / "file" / "run")
    assert code == 2
    assert "Not a directory" in err
    assert err.count("\n") == 1


def test_a_full_disk_is_one_line_and_leaves_a_resumable_run(shiftproof, tmp_path, monkeypatch):
    original = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = shiftproof(*QUICK, "--out", tmp_path / "run")
    assert code == 2
    assert "the disk is full; free some space" in err
    assert err.count("\n") == 1
    monkeypatch.setattr(os, "fsync", original)
    assert shiftproof(*QUICK, "--out", tmp_path / "run")[0] == 0


def test_a_diverged_run_says_where(shiftproof, tmp_path):
    code, out, err = shiftproof(*QUICK, "--out", tmp_path, "--hparam", "gradient_weight=1e15",
                                "--hparam", "gradient_warmup=4", "--hparam", "lr=1000",
                                "--hparam", "depth=9", "--steps", "200")  # fmt: skip
    assert code == 1
    assert "diverged: the loss of step" in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize("processes", ["two", "", "-1", "9" * 5000, "²"])
def test_an_odd_number_of_processes_is_one_line(shiftproof, monkeypatch, processes):
    monkeypatch.setenv("WORLD_SIZE", processes)
    code, out, err = shiftproof("--version")
    assert (code, out) == (2, "")
    assert err.startswith("error: WORLD_SIZE must be a whole number")
    assert err.count("\n") == 1


def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path):
    command = [sys.executable, "-m", "shiftproof", *QUICK[:-4], "--steps", "100000",
               "--eval-every", "100", "--out", str(tmp_path)]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    records = tmp_path / "records.jsonl"
    while not records.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Run the same command again to resume." in err
    assert "Traceback" not in err
    assert (tmp_path / "checkpoint.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "x", "--stesp", "2"], "no such option '--stesp'; did you mean '--steps'"),
        (["train", "x", "--steps", "two"], "--steps must be a whole number, not 'two'"),
        (["export", "run"], "Missing option '--to'; see shiftproof export --help"),
        (["trian"], "no such command 'trian'; did you mean 'train'?"),
        (["data", "lst"], "did you mean 'list'?"),
        (["data", "xyzzy"], "see shiftproof data --help"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_slip_of_spelling_is_one_line_too(shiftproof, arguments, message):
    code, out, err = shiftproof(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert message in err
