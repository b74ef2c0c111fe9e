"""Runs on image files: the same bytes however they are read, and memory that stays flat."""

import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import torch
from _internals import ImageView, Observer, configure, data_base as base, train
from image_data import load_images
from PIL import Image


def paint_folder(root: Path, per_class: int, size: int) -> Path:
    """Three domains of two classes: bright at the left or at the right."""
    rng = np.random.default_rng(0)
    for shade, domain in enumerate(("dawn", "noon", "dusk")):
        for label in ("left", "right"):
            folder = root / domain / label
            folder.mkdir(parents=True)
            for n in range(per_class):
                pixels = rng.integers(60, size=(size, size, 3), dtype=np.uint8) + 30 * shade
                half = slice(None, size // 2) if label == "left" else slice(size // 2, None)
                pixels[:, half] += 100
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{n}.jpg")
    return root


@pytest.fixture
def folder(tmp_path):
    return paint_folder(tmp_path / "light", per_class=8, size=24)


def load(folder, **view):
    return load_images(folder, ImageView(**{"image_size": 16, **view}))


def settings(dataset, **changes):
    given = {
        "test_domains": ["dusk"],
        "backbone": "mnist-cnn",
        "hparams": {"batch_size": 4},
        "steps": 8,
        "eval_every": 3,
        "seed": 1,
        "device": "cpu",
    }
    return configure(dataset, "erm", **{**given, **changes})


def outcome(folder):
    checkpoint = (folder / "checkpoint.safetensors").read_bytes()
    return (folder / "records.jsonl").read_bytes(), weights(checkpoint)


def weights(checkpoint):
    from safetensors.torch import load as load_tensors

    tensors = load_tensors(checkpoint)
    return {name: value.numpy().tobytes() for name, value in tensors.items()}


class StopAfter(Observer):
    def __init__(self, step):
        self.last = step

    def step(self, step, measured):
        if step == self.last:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("kept", [True, False])
def test_the_outcome_does_not_depend_on_how_images_are_read(
    folder, tmp_path, monkeypatch, workers, kept
):
    dataset = load(folder)
    config = settings(dataset)
    train(config, dataset, tmp_path / "plain", workers=0)
    if not kept:
        monkeypatch.setattr(base.DomainDataset, "in_memory", lambda self: self)
    train(config, dataset, tmp_path / "other", workers=workers)
    assert outcome(tmp_path / "plain") == outcome(tmp_path / "other")


def test_an_interrupted_run_on_images_ends_with_the_same_bytes(folder, tmp_path):
    dataset = load(folder)
    config = settings(dataset, augment_validation=True)
    train(config, dataset, tmp_path / "straight", workers=2)
    assert train(config, dataset, tmp_path / "parts", StopAfter(5), workers=2).step == 5
    train(config, dataset, tmp_path / "parts", workers=2)
    assert outcome(tmp_path / "straight") == outcome(tmp_path / "parts")


def test_training_sees_random_views_and_tests_do_not(folder, tmp_path):
    """What augmentation changes: the training loss, but no first-step test score."""
    records = {}
    for augment in (True, False):
        dataset = load(folder, augment=augment)
        config = settings(dataset, steps=1, hparams={"batch_size": 4, "lr": 1e-9})
        records[augment] = train(config, dataset, tmp_path / str(augment)).final
    assert records[True]["loss"] != records[False]["loss"]
    assert records[True]["risk"] == pytest.approx(records[False]["risk"], rel=1e-4)


def test_validation_on_random_views_is_that_of_training_domains_alone(folder, tmp_path):
    dataset = load(folder)
    plain, augmented = (
        train(
            settings(dataset, steps=1, augment_validation=random_views),
            dataset,
            tmp_path / str(random_views),
        ).final["risk"]
        for random_views in (False, True)
    )
    changed = {name for name in plain if plain[name] != augmented[name]}
    assert changed == {"dawn/out", "noon/out"}


def test_it_learns(folder, tmp_path):
    dataset = load(folder, augment=False)
    config = settings(dataset, backbone="mlp", hparams={"batch_size": 8, "hidden": 16}, steps=60)
    assert train(config, dataset, tmp_path / "run").final["accuracy"]["dusk/in"] == 1.0


def test_a_file_that_vanishes_during_the_run_is_one_line(folder, tmp_path, monkeypatch):
    dataset = load(folder)
    monkeypatch.setattr(base.DomainDataset, "in_memory", lambda self: self)
    config = settings(dataset)
    for path in (folder / "noon").rglob("*.jpg"):
        path.unlink()
    with pytest.raises(base.DataError, match="can no longer be read"):
        train(config, dataset, tmp_path / "run")


MEMORY = """
import sys
from pathlib import Path
import torch
from shiftproof.data import base
from shiftproof.data.load import DataRequest
from shiftproof.training.configure import configure
from shiftproof.training.loop import train
from shiftproof.training.observers import Observer

class Watch(Observer):
    seen = []
    def step(self, step, measured):
        if step % 25 == 0:
            pages = int(open("/proc/self/statm").read().split()[1])
            self.seen.append(pages * 4096 / 2**20)

if sys.argv[2] == "lazy":
    base.DomainDataset.in_memory = lambda self: self
dataset = DataRequest(sys.argv[1], image_size=sys.argv[4]).load(0)
config = configure(dataset, "erm", test_domains=["dusk"], backbone="mnist-cnn", steps=500,
                   hparams={"batch_size": int(sys.argv[5])}, eval_every=0, evaluate=["test-in"],
                   device="cpu")
train(config, dataset, Path(sys.argv[3]), Watch(), workers=2)
print(*Watch.seen)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size", "batch"), [("lazy", "16", "4"), ("kept", "32", "8")])
def test_memory_does_not_grow_over_500_steps(tmp_path, kind, size, batch):
    """Resident memory, read every 25 steps: the last 200 take no more than those before 250.

    A leak of one batch of decoded pixels a step (0.4 or 0.8 MB) would be 100 MB and more.
    """
    folder = paint_folder(tmp_path / "light", per_class=20, size=128)
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(folder), kind, str(tmp_path / "run"), size, batch],
        capture_output=True, text=True, check=True, timeout=250,
    )  # fmt: skip
    seen = [float(value) for value in run.stdout.split()]
    assert len(seen) == 20
    # Single readings go up and down by ten megabytes, as threads come and go.
    assert median(seen[-8:]) - median(seen[2:10]) < 12, seen


def test_batches_are_bounded_in_bytes_for_images_and_in_number_for_the_rest():
    from _internals import batch_size

    from shiftproof import Domain

    def of(*shape):
        return batch_size(Domain("x", torch.zeros(2, *shape, dtype=torch.uint8), torch.zeros(2)))

    assert of(2, 28, 28) == 1024
    assert of(13) == 1024
    assert of(3, 224, 224) == 69
    assert of(3, 4000, 4000) == 1
