"""Kill −9 at random moments, rerun the same command: the records end up identical."""

import random
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file


def command(folder, steps):
    return [
        "train", "colored-mnist-irm",
        "--algorithm", "idm", "--test-domain", "10%", "--data-option", "per_domain=2000",
        "--hparam", "hidden=64", "--hparam", "batch_size=256", "--hparam", "dropout=0.1",
        "--hparam", "gradient_warmup=100", "--steps", str(steps), "--eval-every", "10",
        "--seed", "0", "--checkpoint-seconds", "0.05", "--out", str(folder), "--quiet", "--json",
    ]  # fmt: skip


def run_until_step(folder, steps, records, deadline=120.0):
    """Start a run and return it once it has written ``records`` records (or has ended)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "shiftproof", *command(folder, steps)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    path = folder / "records.jsonl"
    give_up = time.monotonic() + deadline
    while process.poll() is None and time.monotonic() < give_up:
        if path.exists() and path.read_bytes().count(b"\n") >= records:
            break
        time.sleep(0.001)
    return process


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kills", "steps"), [(1, 150), pytest.param(10, 400, marks=pytest.mark.slow)]
)
def test_kills_leave_no_trace(tmp_path, kills, steps, shiftproof):
    assert shiftproof(*command(tmp_path / "straight", steps))[0] == 0
    straight = (tmp_path / "straight/records.jsonl").read_bytes()
    total = straight.count(b"\n")

    rng = random.Random(20240607)
    killed = tmp_path / "killed"
    moments = sorted(rng.sample(range(1, total - 1), kills))
    for moment in moments:
        process = run_until_step(killed, steps, moment)
        time.sleep(rng.uniform(0, 0.05))  # anywhere within the steps, writes and checkpoints
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        assert not (killed / "done.json").exists()
    assert shiftproof(*command(killed, steps))[0] == 0

    assert (killed / "records.jsonl").read_bytes() == straight
    tensors = [load_file(tmp_path / n / "checkpoint.safetensors") for n in ("straight", "killed")]
    assert tensors[0].keys() == tensors[1].keys()
    for name, tensor in tensors[0].items():
        assert tensor.equal(tensors[1][name]), name
