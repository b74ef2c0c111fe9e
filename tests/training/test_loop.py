import os
import signal
import threading
from types import SimpleNamespace

import pytest
import torch
from _internals import (
    ERM,
    CheckpointError,
    DataError,
    Observer,
    RunConflict,
    Trainer,
    configure,
    load_state,
    stop_on_signal,
    train,
    training_loop,
    training_loop as loop,
)
from filelock import FileLock

from shiftproof import Domain, DomainDataset


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    domains = []
    for index, name in enumerate(("north", "east", "south")):
        x = torch.randn(60, 4, generator=generator) + index
        domains.append(Domain(name, x, (x.sum(1) > 4 * index).long()))
    gray = Domain("gray", torch.randn(10, 4, generator=generator), torch.arange(10) % 2)
    return DomainDataset("toy", tuple(domains), ("a", "b"), "table", "mlp", 10, (gray,))


def make_config(dataset, algorithm="idm", **change):
    settings = {
        "test_domains": ["south"],
        "hparams": {"hidden": 8, "batch_size": 6, "dropout": 0.5},
        "steps": 40,
        "eval_every": 10,
        **change,
    }
    return configure(dataset, algorithm, **settings)


class StopAfter(Observer):
    """Send this process a signal after some step."""

    def __init__(self, step, number=signal.SIGINT):
        self.at, self.number = step, number

    def step(self, step, measured):
        if step == self.at:
            os.kill(os.getpid(), self.number)


def weights(folder):
    return (folder / "checkpoint.safetensors").read_bytes()


def test_records_come_at_the_planned_steps_with_the_planned_sets(dataset, tmp_path):
    result = train(make_config(dataset), dataset, tmp_path)
    assert (result.status, result.step) == ("finished", 40)
    assert [r["step"] for r in result.records] == [1, 11, 21, 31, 40]
    assert list(result.final["accuracy"]) == [
        "north/out", "east/out", "south/in", "south/out", "gray",
    ]  # fmt: skip
    assert {"loss", "risk", "gradient_penalty", "representation_penalty"} <= result.final.keys()


def test_only_what_is_asked_for_is_evaluated(dataset, tmp_path, monkeypatch):
    evaluated = []
    predict = ERM.predict
    monkeypatch.setattr(
        ERM, "predict", lambda self, x: evaluated.append(len(x)) or predict(self, x)
    )
    config = make_config(dataset, "erm", evaluate=["test-out"], eval_every=0)
    result = train(config, dataset, tmp_path)
    assert evaluated == [12]
    assert [r["step"] for r in result.records] == [40]


def test_accuracy_and_risk_are_those_of_the_final_model(dataset, tmp_path):
    config = make_config(dataset, "erm", evaluate=["test-in", "test-out"], holdout=0.25)
    result = train(config, dataset, tmp_path)
    trainer = Trainer(config, dataset)
    trainer.load(load_state(tmp_path / "checkpoint.safetensors"))
    trainer.algorithm.eval()
    south = dataset.domains[2]
    with torch.no_grad():
        logits = trainer.algorithm.predict(south.x).double()
    right = (logits.argmax(1) == south.y).double().mean().item()
    risk = torch.nn.functional.cross_entropy(logits, south.y).item()
    shares = {"in": 0.75, "out": 0.25}
    accuracy = sum(w * result.final["accuracy"][f"south/{p}"] for p, w in shares.items())
    assert accuracy == pytest.approx(right, abs=1e-12)
    assert sum(w * result.final["risk"][f"south/{p}"] for p, w in shares.items()) == pytest.approx(
        risk, abs=1e-6
    )


def test_the_recorded_loss_is_the_mean_of_the_steps_since_the_last_record(dataset, tmp_path):
    losses = []

    class Losses(Observer):
        def step(self, step, measured):
            losses.append(measured["loss"].item())

    result = train(make_config(dataset), dataset, tmp_path, Losses())
    assert result.records[1]["loss"] == pytest.approx(sum(losses[1:11]) / 10, rel=1e-5)


@pytest.mark.parametrize("algorithm", ["erm", "idm"])
@pytest.mark.parametrize("stops", [[1], [13], [20, 21, 39]])
def test_a_stopped_run_goes_on_bit_for_bit(dataset, tmp_path, algorithm, stops):
    config = make_config(dataset, algorithm)
    straight = train(config, dataset, tmp_path / "straight")
    for stop in stops:
        part = train(config, dataset, tmp_path / "parts", StopAfter(stop))
        assert (part.status, part.step) == ("stopped", stop)
        torch.manual_seed(stop)  # nothing outside the run's own state may matter
    whole = train(config, dataset, tmp_path / "parts")
    assert whole.status == "finished"
    assert whole.records == straight.records
    records = [(tmp_path / name / "records.jsonl").read_bytes() for name in ("straight", "parts")]
    assert records[0] == records[1]
    states = [Trainer(config, dataset) for _ in range(2)]
    for trainer, name in zip(states, ("straight", "parts"), strict=True):
        trainer.load(load_state(tmp_path / name / "checkpoint.safetensors"))
    for first, second in zip(*(t.algorithm.state_dict().values() for t in states), strict=True):
        assert torch.equal(first, second)


def test_records_written_after_the_checkpoint_are_not_doubled(dataset, tmp_path):
    config = make_config(dataset)
    straight = train(config, dataset, tmp_path / "straight")
    train(config, dataset, tmp_path / "crashed", StopAfter(12))
    records = tmp_path / "crashed/records.jsonl"
    lines = (tmp_path / "straight/records.jsonl").read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:4]) + lines[4][:20])  # the crash came after step 31
    assert train(config, dataset, tmp_path / "crashed").records == straight.records
    assert records.read_bytes() == b"".join(lines)


def test_a_finished_run_is_not_trained_again(dataset, tmp_path):
    config = make_config(dataset)
    first = train(config, dataset, tmp_path)
    before = weights(tmp_path)

    class Forbidden(Observer):
        def step(self, step, measured):
            raise AssertionError("trained again")

    again = train(config, dataset, tmp_path, Forbidden())
    assert again == first
    assert weights(tmp_path) == before


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(dataset, tmp_path):
    torch.manual_seed(1)
    train(make_config(dataset), dataset, tmp_path / "a")
    torch.manual_seed(2)
    train(make_config(dataset), dataset, tmp_path / "b")
    train(make_config(dataset, seed=1, data_seed=0), dataset, tmp_path / "c")
    texts = [(tmp_path / n / "records.jsonl").read_bytes() for n in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_the_callers_random_state_is_left_alone(dataset, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(make_config(dataset), dataset, tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("explodes_at", [1, 24, 40])
def test_a_loss_that_is_not_finite_ends_the_run_at_its_step(
    dataset, tmp_path, monkeypatch, explodes_at
):
    healthy = ERM.objective

    def explodes(self, batch):
        losses = healthy(self, batch)
        factor = float("nan") if self.updates + 1 == explodes_at else 1.0
        return losses._replace(total=losses.total * factor)

    monkeypatch.setattr(ERM, "objective", explodes)
    result = train(make_config(dataset, "erm"), dataset, tmp_path)
    assert (result.status, result.step) == ("diverged", explodes_at)
    assert result.final == {"step": explodes_at, "event": "diverged"}
    assert all(r["step"] < explodes_at for r in result.records[:-1])
    again = train(make_config(dataset, "erm"), dataset, tmp_path)
    assert (again.status, again.records) == ("diverged", result.records)


def test_killed_before_it_could_say_that_it_diverged_it_says_so_again(
    dataset, tmp_path, monkeypatch
):
    healthy = ERM.objective

    def explodes(self, batch):
        losses = healthy(self, batch)
        return losses._replace(total=losses.total * (float("nan") if self.updates == 23 else 1.0))

    monkeypatch.setattr(ERM, "objective", explodes)
    # With a checkpoint after every step: the last one is later than the step that went wrong.
    monkeypatch.setattr(training_loop, "CHECKPOINT_SHARE", float("inf"))
    result = train(make_config(dataset, "erm"), dataset, tmp_path, checkpoint_seconds=0)
    assert result.final == {"step": 24, "event": "diverged"}
    assert load_state(tmp_path / "checkpoint.safetensors")["step"] > 24
    (tmp_path / "done.json").unlink()
    again = train(make_config(dataset, "erm"), dataset, tmp_path)
    assert (again.status, again.records) == ("diverged", result.records)


def test_weights_that_are_not_finite_are_noticed_though_the_loss_was(dataset, tmp_path):
    dataset.domains[0].x[0] = float("inf")
    poisoned = DomainDataset("toy", dataset.domains, ("a", "b"), "table", "mlp", 10)
    config = configure(poisoned, "erm", test_domains=["north"], hparams={"hidden": 8}, steps=1)
    result = train(config, poisoned, tmp_path)
    assert (result.status, result.step) == ("diverged", 1)


def test_another_configuration_does_not_get_the_folder(dataset, tmp_path):
    train(make_config(dataset), dataset, tmp_path)
    before = weights(tmp_path)
    with pytest.raises(RunConflict, match=r"another run \(seed 0 → 7\)"):
        train(make_config(dataset, seed=7, data_seed=0), dataset, tmp_path)
    assert weights(tmp_path) == before


def test_a_folder_in_which_nothing_was_begun_is_free(dataset, tmp_path):
    with pytest.raises(DataError, match="has none"):
        train(make_config(dataset, holdout=0.0), dataset, tmp_path)
    assert (tmp_path / "config.json").exists()
    assert train(make_config(dataset), dataset, tmp_path).status == "finished"


def test_files_that_a_killed_process_left_do_not_block_a_run(dataset, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".shiftproof-0123.new").write_text("left while config.json was written")
    (run / ".shiftproof-4567.new").symlink_to(precious)
    assert train(make_config(dataset), dataset, run).status == "finished"
    assert precious.read_text() == "keep"
    assert not list(run.glob(".shiftproof-*"))


def test_another_process_does_not_get_the_folder(dataset, tmp_path):
    config = make_config(dataset)
    with FileLock(tmp_path / "lock"), pytest.raises(RunConflict, match="another process"):
        train(config, dataset, tmp_path)


def test_other_data_than_configured_is_refused(dataset, tmp_path):
    config = make_config(dataset)
    other = DomainDataset("toy", dataset.domains[::-1], dataset.classes, "table", "mlp", 10)
    with pytest.raises(DataError, match="other data"):
        train(config, other, tmp_path)


def test_a_damaged_checkpoint_is_named(dataset, tmp_path):
    config = make_config(dataset)
    train(config, dataset, tmp_path, StopAfter(12))
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="delete it to start over"):
        train(config, dataset, tmp_path)


def test_an_empty_held_out_part_is_named(dataset, tmp_path):
    config = make_config(dataset, holdout=0.0)
    with pytest.raises(DataError, match=r"'north' \(60 samples\) has none in its 'out' part"):
        train(config, dataset, tmp_path)


def test_a_test_domain_too_small_to_split_is_evaluated_whole(dataset, tmp_path):
    small = Domain("south", dataset.domains[2].x[:2], dataset.domains[2].y[:2])
    data = DomainDataset("toy", (*dataset.domains[:2], small), ("a", "b"), "table", "mlp", 10)
    final = train(make_config(data, steps=2), data, tmp_path).final
    assert "south/in" in final["accuracy"]
    assert "south/out" not in final["accuracy"]


def test_bf16_trains_close_to_fp32_and_resumes(dataset, tmp_path):
    config = make_config(dataset, precision="bf16", hparams={"hidden": 8, "batch_size": 30})
    straight = train(config, dataset, tmp_path / "straight")
    train(config, dataset, tmp_path / "parts", StopAfter(17))
    assert train(config, dataset, tmp_path / "parts").records == straight.records
    full = train(
        make_config(dataset, hparams={"hidden": 8, "batch_size": 30}), dataset, tmp_path / "fp32"
    )
    assert straight.final["loss"] != full.final["loss"]
    assert straight.final["loss"] == pytest.approx(full.final["loss"], rel=0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_a_closed_terminal_stop_as_sigint_does(dataset, tmp_path, number):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        result = train(make_config(dataset), dataset, tmp_path, StopAfter(5, number))
        assert (result.status, result.step) == ("stopped", 5)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_under_nohup_a_closed_terminal_does_not_stop_a_run(dataset, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        result = train(make_config(dataset), dataset, tmp_path, StopAfter(5, signal.SIGHUP))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert result.status == "finished"


def test_the_first_checkpoints_of_a_process_come_early(monkeypatch):
    """So a run advances even if each of its processes is killed after a second."""
    now = [0.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    clock = loop._Clock(SimpleNamespace(seconds=0.0), 5.0)
    written = []
    while now[0] < 25:
        now[0] += 0.125
        if clock.checkpoint_due():
            with clock.checkpointing():
                written.append(now[0])
    assert written == [0.5, 1.5, 3.5, 7.5, 12.5, 17.5, 22.5]


@pytest.mark.usefixtures("interruptible")
def test_a_second_signal_acts_at_once():
    with stop_on_signal() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked()
        stop.heeded = True
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("step", [39, 40])
def test_a_stop_that_comes_too_late_for_a_run_reaches_the_caller(dataset, tmp_path, number, step):
    came = []
    before = signal.signal(number, lambda number, frame: came.append(number))
    try:
        result = train(make_config(dataset), dataset, tmp_path, StopAfter(step, number))
    finally:
        signal.signal(number, before)
    assert (result.status, came) == (("stopped", []) if step == 39 else ("finished", [number]))


@pytest.mark.usefixtures("interruptible")
def test_a_stop_reaches_the_caller_of_a_run_that_fails():
    def fail():
        with stop_on_signal():
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("the run fails while it is asked to stop")

    with pytest.raises(KeyboardInterrupt):
        fail()


def test_training_works_outside_the_main_thread(dataset, tmp_path):
    results = []
    worker = threading.Thread(
        target=lambda: results.append(train(make_config(dataset), dataset, tmp_path))
    )
    worker.start()
    worker.join()
    assert results[0].status == "finished"
