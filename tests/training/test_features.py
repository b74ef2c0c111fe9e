"""Frozen features: the backbone's own, computed once, found again by content."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from _internals import (
    CheckpointError,
    DataError,
    ImageView,
    InvalidValue,
    RunConfig,
    UnknownName,
    configure,
    freeze,
    resolve,
    train,
    training_features as features,
)
from image_data import load_images
from PIL import Image
from safetensors.torch import load_file, save_file

from shiftproof import Domain, DomainDataset, Task
from shiftproof.models import MODELS

SIZE = 32
BACKBONE = "test_resnet"  # timm's smallest


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for domain in ("north", "south", "west"):
        for label in ("cat", "dog"):
            place = tmp_path / "pets" / domain / label
            place.mkdir(parents=True)
            for n in range(5):
                pixels = rng.integers(256, size=(40, 36, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{n}.png")
    return tmp_path / "pets"


def load(folder, size=SIZE, **view):
    return load_images(folder, ImageView(image_size=size, **view))


def frozen(dataset, **options):
    return freeze(dataset, BACKBONE, "random", device="cpu", **options)


def directly(dataset, domain):
    """Return the features of a domain without cache, batches or threads."""
    torch.manual_seed(0)
    model = resolve(MODELS.get(BACKBONE), "large-image", {"weights": "random"})
    featurizer = model.build(Task(dataset.input_shape, 2, 1, "large-image")).featurizer.eval()
    with torch.no_grad():
        return featurizer(domain.inputs(np.arange(len(domain))))


@pytest.fixture
def count_passes(monkeypatch):
    """Count the images that a backbone sees."""
    seen = []
    real = features._Extractor.features

    def counted(self, domain, groups, workers):
        seen.extend(map(len, groups))
        return real(self, domain, groups, workers)

    monkeypatch.setattr(features._Extractor, "features", counted)
    return seen


def test_features_are_the_backbone_s_own(folder):
    dataset = load(folder)
    found = frozen(dataset)
    assert found.domain_names == dataset.domain_names
    for domain, original in zip(found.domains, dataset.domains, strict=True):
        expected = directly(dataset, original)
        assert expected.std() > 1e-3
        torch.testing.assert_close(domain.x, expected, atol=1e-5, rtol=1e-4)
        assert torch.equal(domain.y, original.y)
    assert (found.regime, found.backbone) == ("features", "mlp")


def test_the_second_time_no_backbone_is_built(folder, count_passes, monkeypatch):
    first = frozen(load(folder))
    assert count_passes == [10, 10, 10]
    monkeypatch.setattr(features._Extractor, "built", lambda self: pytest.fail("built"))
    again = frozen(load(folder))
    assert all(torch.equal(a.x, b.x) for a, b in zip(first.domains, again.domains, strict=True))
    assert again.fingerprint == first.fingerprint


def test_moved_images_find_their_features_and_changed_ones_do_not(folder, count_passes):
    first = frozen(load(folder))
    moved = folder.rename(folder.parent / "animals")
    assert frozen(load(moved)).fingerprint == first.fingerprint
    assert count_passes == [10, 10, 10]
    Image.new("RGB", (40, 36)).save(moved / "south" / "cat" / "0.png")
    assert frozen(load(moved)).fingerprint != first.fingerprint
    assert count_passes == [10] * 4  # of the domain that changed alone


@pytest.mark.parametrize("change", ["size", "precision", "backbone", "weights"])
def test_whatever_features_depend_on_is_part_of_their_name(folder, count_passes, change, tmp_path):
    first = frozen(load(folder))
    options = {"backbone": BACKBONE, "weights": "random", "precision": "fp32", "device": "cpu"}
    if change == "backbone":
        options["backbone"] = "test_efficientnet"
    if change == "precision":
        options["precision"] = "bf16"
    if change == "weights":
        options["weights"] = str(random_weights(tmp_path / "w.safetensors"))
    other = freeze(load(folder, size=48 if change == "size" else SIZE), **options)
    assert count_passes == [10] * 6
    assert other.fingerprint != first.fingerprint
    assert not torch.equal(other.domains[0].x[:, :8], first.domains[0].x[:, :8])


def random_weights(path):
    import timm
    from safetensors.torch import save_file

    torch.manual_seed(5)
    save_file(timm.create_model(BACKBONE).state_dict(), path)
    return path


def test_augmentation_does_not_matter(folder, count_passes):
    with_chance, without = frozen(load(folder)), frozen(load(folder, augment=False))
    assert with_chance.fingerprint == without.fingerprint
    assert len(count_passes) == 3


def test_the_number_of_threads_does_not_matter(folder, home, monkeypatch):
    one = frozen(load(folder), workers=0)
    monkeypatch.setenv("SHIFTPROOF_HOME", str(home / "other"))
    three = frozen(load(folder), workers=3)
    assert all(torch.equal(a.x, b.x) for a, b in zip(one.domains, three.domains, strict=True))


def test_images_of_the_next_file_are_read_while_one_is_written(folder, monkeypatch):
    """One series of batches a domain: threads that read ahead do not stop between two files."""
    monkeypatch.setattr(features, "SHARD", 4)
    monkeypatch.setattr(features, "batch_size", lambda domain: 3)
    series, real = [], features.prefetch

    def watched(function, arguments, workers):
        series.append([len(each) for each in arguments])
        return real(function, arguments, workers)

    monkeypatch.setattr(features, "prefetch", watched)
    dataset = load(folder)
    found = frozen(dataset, workers=2)
    assert series == [[3, 1, 3, 1, 2]] * 3
    expected = directly(dataset, dataset.domains[2])
    torch.testing.assert_close(found.domains[2].x, expected, atol=1e-5, rtol=1e-4)


def test_an_interrupted_extraction_goes_on(folder, count_passes, monkeypatch, home):
    monkeypatch.setattr(features, "SHARD", 4)
    real, written = features.write_atomically, []

    def fails_at_fifth(path, data):
        written.append(path)
        if len(written) == 5:
            raise KeyboardInterrupt
        real(path, data)

    monkeypatch.setattr(features, "write_atomically", fails_at_fifth)
    with pytest.raises(KeyboardInterrupt):
        frozen(load(folder))
    monkeypatch.setattr(features, "write_atomically", real)
    del count_passes[:]
    told = []
    whole = frozen(load(folder), progress=lambda *seen: told.append(seen))
    assert count_passes == [4, 2, 4, 4, 2]
    assert told[-1] == (f"features of {whole.frozen['backbone']}", 30, 30)
    dataset = load(folder)
    torch.testing.assert_close(
        whole.domains[1].x, directly(dataset, dataset.domains[1]), atol=1e-5, rtol=1e-4
    )


DAMAGED = {
    "other rows": lambda x: x[:3],
    "another width": lambda x: x[:, :7],
    "one dimension": lambda x: x[:, 0],
    "integers": lambda x: x.long(),
    "doubles": lambda x: x.double(),
    "another number": lambda x: x + 1e-3,
    "unchecked": lambda x: x,
}


@pytest.mark.parametrize("damage", ["cut", "empty", "junk", *DAMAGED])
def test_a_damaged_file_is_computed_again(folder, home, count_passes, damage):
    first = frozen(load(folder))
    path = min((home / "features").rglob("*.safetensors"))
    data = path.read_bytes()
    if damage in DAMAGED:
        save_file({"features": DAMAGED[damage](load_file(path)["features"]).contiguous()}, path)
    else:
        path.write_bytes({"cut": data[:-9], "empty": b"", "junk": b"x" * 99}[damage])
    again = frozen(load(folder))
    assert len(count_passes) == 4
    assert all(torch.equal(a.x, b.x) for a, b in zip(first.domains, again.domains, strict=True))


def test_a_picture_replaced_with_the_same_size_and_time_is_noticed(folder, count_passes):
    """By the index, since replacing it changes its time of change, and by the hash when read."""
    dataset = load(folder)
    first = frozen(dataset)
    path = min(folder.rglob("*.png"))
    status, size = path.stat(), path.stat().st_size
    Image.new("RGB", (36, 40), (9, 9, 9)).save(path)
    path.write_bytes(path.read_bytes().ljust(size, b" "))  # a PNG may be followed by anything
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (size, status.st_mtime_ns)
    with pytest.raises(DataError, match=r"has changed since the images were read; load them again"):
        dataset.domains[0].stored(np.arange(len(dataset.domains[0])))
    again = frozen(load(folder))
    assert not all(torch.equal(a.x, b.x) for a, b in zip(first.domains, again.domains, strict=True))


def test_a_run_on_features_says_where_they_come_from(folder, tmp_path):
    dataset = frozen(load(folder))
    config = configure(dataset, "idm", test_domains=["west"], steps=3, device="cpu",
                       hparams={"gradient_warmup": 1, "batch_size": 4})  # fmt: skip
    assert config.extractor == {
        "backbone": MODELS.full_name(BACKBONE), "weights": "random", "precision": "fp32",
    }  # fmt: skip
    assert (config.backbone, config.hparams["depth"]) == ("mlp", 1)
    assert RunConfig.from_json(config.to_json()) == config
    result = train(config, dataset, tmp_path / "run")
    assert result.status == "finished"
    plain = DomainDataset("x", dataset.domains, dataset.classes, "table", "mlp", 10)
    assert "extractor" not in configure(plain, "erm").to_json()


def test_images_in_memory_have_features_too():
    x = torch.randint(256, (6, 3, SIZE, SIZE), dtype=torch.uint8)
    dataset = DomainDataset(
        "toy", (Domain("a", x, torch.arange(6) % 2), Domain("b", x.flip(0), torch.arange(6) % 2)),
        ("p", "q"), "small-image", "mnist-cnn", 10,
    )  # fmt: skip
    found = frozen(dataset)
    torch.testing.assert_close(found.domains[1].x, found.domains[0].x.flip(0))


def test_mistakes_are_one_line(folder, tmp_path, monkeypatch):
    table = DomainDataset(
        "t", (Domain("a", torch.rand(4, 3), torch.arange(4) % 2),), ("p", "q"), "table", "mlp", 10
    )
    with pytest.raises(InvalidValue, match="`freeze` is for images, but t has none"):
        frozen(table)
    with pytest.raises(InvalidValue, match=r"pretrained network .*not mnist-cnn"):
        freeze(load(folder), "mnist-cnn")
    with pytest.raises(UnknownName, match="did you mean"):
        freeze(load(folder), BACKBONE, "random", precision="fp31")
    with pytest.raises(InvalidValue, match="there is no file 'nowhere'"):
        freeze(load(folder), BACKBONE, "nowhere")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"junk")
    with pytest.raises(CheckpointError):
        freeze(load(folder), BACKBONE, str(bad))

    def infinite(self):
        return lambda x: torch.full((len(x), 2), torch.inf)

    monkeypatch.setattr(features._Extractor, "built", infinite)
    with pytest.raises(DataError, match="features of domain 'north' are not finite"):
        frozen(load(folder))


def test_two_processes_at_once_end_alike(folder, home):
    script = (
        "import sys; from shiftproof.data.load import DataRequest\n"
        "from shiftproof.training.features import freeze\n"
        f"d = DataRequest(sys.argv[1], image_size='{SIZE}').load(0)\n"
        "print('ready', flush=True); input()\n"
        f"f = freeze(d, '{BACKBONE}', 'random', device='cpu')\n"
        "print(f.fingerprint, float(f.domains[2].x.sum()))"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", script, str(folder)], **pipes) as other:
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        other.stdin.flush()
        found = freeze(load(folder), BACKBONE, "random", device="cpu")
        said = other.communicate(timeout=200)[0]
    assert other.returncode == 0
    assert said == f"{found.fingerprint} {float(found.domains[2].x.sum())}\n"
    assert not list(Path(home / "features").rglob("*.new"))
