"""Damaged and crafted files of a stranger, for every reader: 280 cases, and 2,800 with `slow`.

Each is read, or refused in one clear line.  None runs a program, changes a file elsewhere, or takes
much memory.  Image folders, tables and dataset archives have further cases in `test_fuzz.py`.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from _internals import (
    HEADER,
    DataError,
    EstimatorModel,
    _read,
    _shard,
    decode,
    load_state,
    loaded,
    model_bytes,
    read_run,
    results_page,
    trained_model,
)
from hostile import VALUES, Rng, crafted_json, damaged, either, guarded
from PIL import Image
from sklearn.ensemble import HistGradientBoostingClassifier

from shiftproof import (
    ShiftproofClassifier,
    ShiftproofError,
    TrainedModel,
    diagnose,
    expect,
    load,
    load_model,
    report,
    train,
)

FORMATS = Path(__file__).parent / "golden" / "formats"
CASES, MANY = 20, 200


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One good file of every kind."""
    matplotlib.get_configdir()  # which makes a folder the first time, and no file asks for it
    root = tmp_path_factory.mktemp("good")
    shutil.copytree(FORMATS / "2" / "sweep", root / "sweep")
    shutil.copy(FORMATS / "patients.csv", root / "patients.csv")
    table = pd.read_csv(FORMATS / "patients.csv")
    table.to_parquet(root / "patients.parquet")
    runs = root / "runs"
    train(table, "linear", label="ill", domain="site", test_domains="north", out=runs / "linear")
    shutil.copytree(runs / "linear", root / "linear")
    numbers = table.select_dtypes("number").assign(site=table.site, ill=table.ill)
    own = HistGradientBoostingClassifier(max_iter=3)
    train(numbers, own, label="ill", domain="site", test_domains="north", out=root / "own")
    for site in ("north", "south", "east"):
        train(table, "erm", label="ill", domain="site", test_domains=site, out=runs / site, steps=2)
    shutil.rmtree(runs / "linear")
    shutil.copytree(runs / "east", root / "network")
    for folder in (root / "network", root / "linear"):  # only the models are read
        (folder / "done.json").unlink()
    diagnose(table, label="ill", domain="site").save(root / "diagnosis.json")
    (root / "shard.safetensors").write_bytes(_shard(torch.randn(6, 4)))
    x = np.random.default_rng(0).normal(size=(300, 2))
    fitted = ShiftproofClassifier(steps=2).fit(x, x[:, 0] > 0, sample_domain=np.arange(300) % 3)
    fitted.save(root / "estimator")
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 20, 3), np.uint8))
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"):
        picture.save(root / f"picture.{kind.lower()}")
    logs = root / "logs" / "0"
    logs.mkdir(parents=True)
    args = {"dataset": "PACS", "algorithm": "ERM", "test_envs": [0], "hparams_seed": 0,
            "trial_seed": 0, "steps": 301, "seed": 0, "holdout_fraction": 0.2}  # fmt: skip
    lines = [
        {"step": step, "args": args, "hparams": {"lr": 0.001}, "loss": 0.5,
         **{f"env{e}_{p}_acc": 0.5 + e / 10 for e in range(4) for p in ("in", "out")}}
        for step in (0, 300)
    ]  # fmt: skip
    (logs / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (logs / "done").write_text("done")
    return root


# --- one function a reader: damage a copy, return what reads it ---------------------------------


def _spoil(path: Path, how: Callable[[bytes, Rng], bytes], rng: Rng) -> None:
    path.write_bytes(how(path.read_bytes(), rng))


def _without_hashes(folder: Path, rng: Rng) -> None:
    """In half of the cases, remove the hashes that reveal every change of a finished run."""
    if rng.random() < 0.5:
        for path in folder.rglob("done.json"):
            path.unlink()


def _chosen(folder: Path, pattern: str, rng: Rng) -> Path:
    found = sorted(folder.rglob(pattern))
    return found[int(rng.integers(len(found)))]


def _header(data: bytes, rng: Rng) -> bytes:
    """Craft the JSON header of a safetensors file."""
    tensors = safetensors.torch.load(data)
    length = int.from_bytes(data[:8], "little")
    own = json.loads(data[8 : 8 + length])["__metadata__"]
    key = sorted(own)[int(rng.integers(len(own)))]
    value = json.loads(own[key])
    if isinstance(value, dict | list):
        text = crafted_json(value, rng)
    else:  # the version of the format
        text = json.dumps(VALUES[int(rng.integers(len(VALUES)))])
    return safetensors.torch.save(tensors, metadata={**own, key: text})


def _safetensors(data: bytes, rng: Rng) -> bytes:
    return damaged(data, rng) if rng.random() < 0.5 else _header(data, rng)


def model(folder: Path, rng: Rng) -> None:
    name = ["network", "linear"][int(rng.integers(2))]
    path = folder / name / "model.safetensors"
    _spoil(path, _safetensors, rng)
    rows = pd.read_csv(folder / "patients.csv").head(3)
    loaded = load_model(path, "cpu")
    loaded.predict(loaded.form.read(rows))


def table_model(folder: Path, rng: Rng) -> None:
    """A model whose header and arrays are crafted, and whose hash is right."""
    path = folder / "linear" / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    described = TrainedModel.load(path).described()
    if rng.random() < 0.5:
        described = json.loads(crafted_json(described, rng))
    else:
        names = sorted(name for name, array in arrays.items() if array.size)
        name = names[int(rng.integers(len(names)))]
        spoiled = bytearray(arrays[name].tobytes())
        spoiled[int(rng.integers(len(spoiled)))] = int(rng.integers(256))
        arrays[name] = np.frombuffer(spoiled, arrays[name].dtype).reshape(arrays[name].shape)
    path.write_bytes(model_bytes(described, arrays))
    loaded = load_model(path, "cpu")
    loaded.predict(loaded.form.read(pd.read_csv(folder / "patients.csv").head(3)))


def stored_estimator(folder: Path, rng: Rng) -> None:
    """The skops archive inside a model, which its reader trusts."""
    arrays = safetensors.numpy.load((folder / "own" / "model.safetensors").read_bytes())
    (data,) = (array.tobytes() for array in arrays.values() if array.dtype == np.uint8)
    if rng.random() < 0.6:
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                new.writestr(name, either(content, rng) if name.endswith("json") else content)
        data = packed.getvalue()
    else:
        data = damaged(data, rng)
    model = EstimatorModel(loaded(data, trust=True), [], np.arange(2))
    model.predict(np.zeros((2, 4)))


def saved_estimator(folder: Path, rng: Rng) -> None:
    _spoil(_chosen(folder / "estimator", "*.json", rng), either, rng)
    ShiftproofClassifier.load(folder / "estimator").predict(np.zeros((2, 2)))


def checkpoint(folder: Path, rng: Rng) -> None:
    run = folder / "runs" / "north"
    _spoil(run / "checkpoint.safetensors", _safetensors, rng)
    table = load(folder / "patients.csv", label="ill", domain="site")
    load_state(run / "checkpoint.safetensors")
    trained_model(read_run(run), table, run)


def run_folder(folder: Path, rng: Rng) -> None:
    _spoil(_chosen(folder / "runs", "*.json*", rng), either, rng)
    _without_hashes(folder / "runs", rng)
    found = report(folder / "runs")
    found.to_text(), found.page()


def sweep(folder: Path, rng: Rng) -> None:
    _spoil(_chosen(folder / "sweep", "*.json*", rng), either, rng)
    _without_hashes(folder / "sweep", rng)
    found = report(folder / "sweep")
    found.to_text(), found.page(), found.selected_to_csv()


def diagnosis(folder: Path, rng: Rng) -> None:
    shutil.copy(folder / "diagnosis.json", folder / "runs")
    _spoil(folder / "runs" / "diagnosis.json", either, rng)
    report(folder / "runs").page()


def record_archive(folder: Path, rng: Rng) -> None:
    path = folder / "records.jsonl.gz"
    shutil.copy(FORMATS / "2" / "runs.jsonl.gz", path)
    data = b"\n".join(gzip.decompress(path.read_bytes()).splitlines()[:2]) + b"\n"
    if rng.random() < 0.6:
        path.write_bytes(gzip.compress(either(data, rng)))
    else:
        path.write_bytes(damaged(gzip.compress(data), rng))
    report(path).to_text()


def domainbed_log(folder: Path, rng: Rng) -> None:
    _spoil(folder / "logs" / "0" / "results.jsonl", either, rng)
    report(folder / "logs", as_domainbed=bool(rng.integers(2))).to_text()


def held_out(folder: Path, rng: Rng) -> None:
    _spoil(_chosen(folder / "runs", "held_out.safetensors", rng), _safetensors, rng)
    _without_hashes(folder / "runs", rng)
    expect(folder / "runs")


def parquet(folder: Path, rng: Rng) -> None:
    _spoil(folder / "patients.parquet", damaged, rng)
    load(folder / "patients.parquet", label="ill", domain="site")


def table(folder: Path, rng: Rng) -> None:
    _spoil(folder / "patients.csv", damaged, rng)
    load(folder / "patients.csv", label="ill", domain="site")


def image(folder: Path, rng: Rng) -> None:
    path = _chosen(folder, "picture.*", rng)
    _spoil(path, damaged, rng)
    decode(path.read_bytes(), path.name)


def feature_cache(folder: Path, rng: Rng) -> None:
    path = folder / "shard.safetensors"
    good = safetensors.torch.load(path.read_bytes())["features"]
    if rng.random() < 0.5:
        _spoil(path, damaged, rng)
    else:
        shapes = [(6, 3), (6,), (5, 4), (6, 4, 1), (0, 4)]
        other = torch.zeros(shapes[int(rng.integers(5))])
        kinds = [torch.float32, torch.int64, torch.float16, torch.bool]
        kind = kinds[int(rng.integers(4))]
        path.write_bytes(safetensors.torch.save({"features": other.to(kind)}))
    found = _read(path, 6)
    if found is None:  # they are computed again
        raise DataError("damaged")
    assert torch.equal(found, good)


# What a page needs is imported before files are watched: matplotlib makes a folder of its own.
assert callable(results_page)
READERS = [
    model, table_model, stored_estimator, saved_estimator, checkpoint, run_folder, sweep, diagnosis,
    record_archive, domainbed_log, held_out, parquet, table, image, feature_cache,
]  # fmt: skip
assert len(READERS) * CASES + 20 >= 300


def attack(reader: Callable[[Path, Rng], None], files: Path, root: Path, cases: int) -> None:
    refused = 0
    for seed in range(cases):
        folder = root / "work"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(files, folder)
        said = ""
        with guarded(root, Path("/tmp/shiftproof-none")) as seen, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                reader(folder, np.random.default_rng([len(reader.__name__), seed]))
            except ShiftproofError as error:
                refused += 1
                said = str(error)
            except Exception as error:
                raise AssertionError(f"{reader.__name__} of seed {seed}: {error!r}") from error
        assert seen == [], f"{reader.__name__} of seed {seed}"
        assert said.isprintable(), f"{reader.__name__} of seed {seed}: {said!r}"
        assert len(said) < 1500, f"{reader.__name__} of seed {seed}: {len(said)} characters"
    assert refused > 0  # or nothing was damaged


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_a_hostile_file_is_read_or_refused(
    reader: Callable[[Path, Rng], None], files: Path, tmp_path: Path
) -> None:
    attack(reader, files, tmp_path, CASES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_many_hostile_files_are_read_or_refused(
    reader: Callable[[Path, Rng], None], files: Path, tmp_path: Path
) -> None:
    attack(reader, files, tmp_path, MANY)


def test_the_guard_sees_what_it_should(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "in").mkdir()
    with guarded(tmp_path / "in") as seen:
        (tmp_path / "in" / "a").write_text("")
        subprocess.run(["true"], check=True)
        (tmp_path / "out").write_text("")
        (tmp_path / "out").unlink()
    assert [event.split()[0] for event in seen] == ["subprocess.Popen", "open", "os.remove"]


def test_the_header_key_is_known() -> None:
    assert HEADER == "shiftproof"
