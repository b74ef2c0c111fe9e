"""``shiftproof train`` on a user's own folder, table and manifest, and with their mistakes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SHARED = Path(__file__).parents[3] / "shared/data"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="no shared data here")
SHORT = ["--steps", "3", "--device", "cpu", "--hparam", "batch_size=4", "--evaluate", "test-in"]


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def pets(tmp_path):
    """Three domains of two classes that differ in brightness, as files."""
    rng = np.random.default_rng(0)
    for domain in ("north", "south", "west & east"):
        for label, level in (("cat", 40), ("dog", 200)):
            place = tmp_path / "pets" / domain / label
            place.mkdir(parents=True)
            for n in range(6):
                pixels = rng.normal(level, 10, size=(20, 24, 3)).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"{n}.png")
    return tmp_path / "pets"


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["ward,age,kind,ill"]
    for ward in ("a", "b", "c"):
        for n in range(20):
            ill = int(rng.random() < 0.5)
            age = "" if n % 5 == 0 else f"{40 + 30 * ill + rng.normal():.2f}"
            rows.append(f"{ward},{age},{'xy'[ill]},{ill}")
    path = tmp_path / "wards.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_folder_of_images_alone(shiftproof, pets):
    code, out, err = shiftproof(
        "train", pets, "-a", "erm", "--backbone", "mlp", "--image-size", "8",
        "--test-domain", "north", "--out", "run", *SHORT, "--steps", "40", "--hparam", "lr=0.01",
    )  # fmt: skip
    assert code == 0, err
    assert "erm on pets after step 40" in out
    config = json.loads(Path("run/config.json").read_text())
    assert config["dataset"] == "pets"
    record = json.loads(Path("run/records.jsonl").read_text().splitlines()[-1])
    assert record["accuracy"] == {"north/in": 1.0}


def test_each_domain_in_turn_from_a_table(shiftproof, table):
    command = [
        "train", table, "--label", "ill", "--domain", "ward", "-a", "idm", "--test-domain", "each",
        "--steps", "60", "--hparam", "gradient_warmup=20", "--hparam", "batch_size=8",
        "--out", "runs", "--device", "cpu",
    ]  # fmt: skip
    code, out, err = shiftproof(*command)
    assert code == 0, err
    assert "idm on wards.csv, each domain held out in turn" in out
    rows = dict(re.findall(r"│ (\w+) +│ +(?:20)? +│ +([\d.]+)% +│", out))
    assert rows.keys() == {"a", "b", "c", "mean", "worst"}
    accuracies = []
    for ward in "abc":
        config = json.loads(Path(f"runs/{ward}/config.json").read_text())
        assert config["test_domains"] == [ward]
        last = json.loads(Path(f"runs/{ward}/records.jsonl").read_text().splitlines()[-1])
        right = 16 * last["accuracy"][f"{ward}/in"] + 4 * last["accuracy"][f"{ward}/out"]
        accuracies.append(right / 20)
        assert rows[ward] == f"{100 * right / 20:.1f}"
    assert rows["mean"] == f"{100 * np.mean(accuracies):.1f}"
    assert rows["worst"] == f"{100 * min(accuracies):.1f}"
    assert min(accuracies) > 0.8
    code, out, _ = shiftproof(*command, "--json")
    runs = json.loads(out)["runs"]
    assert [run["test_domains"] for run in runs] == [["a"], ["b"], ["c"]]
    assert {run["status"] for run in runs} == {"finished"}


def test_without_anything_held_out_there_is_no_empty_table(shiftproof, table):
    code, out, err = shiftproof(
        "train", table, "--label", "ill", "--domain", "ward", "--algorithm", "forest",
        "--hparam", "trees=2", "--quiet", "--out", "run",
    )  # fmt: skip
    assert code == 0, err
    assert out.startswith("forest on wards.csv: nothing was held out, so there is no score; ")
    assert "risk" not in out


def test_folders_of_runs_are_named_after_any_domain(shiftproof, pets):
    code, _, err = shiftproof(
        "train", pets, "-a", "erm", "--backbone", "mlp", "--image-size", "8",
        "--test-domain", "each", "--out", "runs", *SHORT,
    )  # fmt: skip
    assert code == 0, err
    names = sorted(path.name for path in Path("runs").iterdir())
    assert names[:2] == ["north", "south"]
    assert re.fullmatch(r"west_east-[0-9a-f]{8}", names[2])


def test_an_image_manifest(shiftproof, pets):
    rows = [f"{p},{p.parent.name},{p.parent.parent.name}" for p in sorted(pets.rglob("*.png"))]
    Path("list.csv").write_text("\n".join(["file,animal,place", *rows]) + "\n")
    code, _, err = shiftproof(
        "train", "list.csv", "--image", "file", "--label", "animal", "--domain", "place",
        "-a", "erm", "--backbone", "mlp", "--image-size", "8", "--test-domain", "south",
        "--out", "run", *SHORT,
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(Path("run/config.json").read_text())["dataset"] == "list"


def test_frozen_features_by_the_command(shiftproof, pets):
    command = [
        "train", pets, "--freeze", "--backbone", "test_resnet", "--weights", "random",
        "--image-size", "32", "-a", "erm", "--test-domain", "north", *SHORT,
    ]  # fmt: skip
    code, _, err = shiftproof(*command, "--out", "run")
    assert code == 0, err
    config = json.loads(Path("run/config.json").read_text())
    assert config["backbone"] == "mlp"
    assert config["extractor"]["weights"] == "random"
    assert config["extractor"]["backbone"] == "test_resnet.r160_in1k"
    assert "weights" not in config["hparams"]
    code, _, err = shiftproof(*command, "--out", "linear", "--hparam", "depth=0")
    assert code == 0, err


def test_what_is_left_out_is_said_once_and_training_goes_on(shiftproof, pets):
    (pets / "north" / "cat" / "0.png").write_bytes(b"no image")
    (pets / "south" / "readme.txt").write_text("x")
    code, _, err = shiftproof(
        "train", pets, "-a", "erm", "--backbone", "mlp", "--image-size", "8",
        "--test-domain", "each", "--out", "run", *SHORT,
    )  # fmt: skip
    assert code == 0
    assert err.count("pets: 3 domains (north 11, south 12, west & east 12)") == 1
    assert err.count("note: domain 'north': left out 1 image that cannot be read") == 1
    assert err.count("note: left out 1 file of other kinds (1 .txt)") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pets", "--label", "x"], "--label is for tables and manifests; pets is a folder"),
        (["rotated-mnist", "--drop", "x"], "--drop is for tables"),
        (["wards.csv"], "no column named 'label'; set --label to one of 'ward', 'age'"),
        (["wards.csv", "--label", "il", "--domain", "ward"], "'il'; did you mean 'ill'?"),
        (["wards.csv", "--label", "ill", "--domain", "ill"], "name the same column"),
        (
            ["wards.csv", "--label", "age", "--domain", "ward", "--task", "classification"],
            "too many for a class label",
        ),
        (["wards.csv", "--label", "ill", "--domain", "ward", "--drop", "agee"], "did you mean"),
        (["wards.csv", "--label", "ill", "--domain", "ward", "--freeze"], "--freeze is for images"),
        (["nowhere.csv"], "no such file or folder: nowhere.csv"),
        (["no/where"], "no such file or folder: no/where"),
        (["petz"], "unknown dataset, file or folder 'petz'"),
        (["empty"], "empty is an empty folder; give DIR/domain/class/*.jpg, or a table"),
        ([".", "--backbone", "mlp"], "one level too deep"),
        (["pets/north"], "images outside of a class folder"),
        (["pets", "--image-size", "2"], "--image-size must lie in [8, 4096], not 2"),
        (["pets", "--test-domain", "nort"], "did you mean 'north'"),
        (
            ["pets", "--test-domain", "each", "--test-domain", "north"],
            "each holds out every domain in turn; give it without other domains",
        ),
        (["pets", "--test-domain", "north", "--test-domain", "south"], "with 1 left for training"),
        (["pets", "--seed", "-1"], "--seed must be at least 0, not -1"),
        (["pets", "--workers", "-1"], "workers must be at least 0"),
        (["pets", "--checkpoint-seconds", "-1"], "--checkpoint-seconds must be at least 0"),
        (["pets", "--data-option", "image_size=8", "--image-size", "9"], "give image_size twice"),
        (["pets", "--freeze", "--backbone", "mlp"], "--backbone must be a pretrained network"),
        (["pacs"], "pacs is not on this machine; run `shiftproof data pull pacs`"),
        (["pets", "--freeze", "--backbone", "resnet18", "--weights", "lost.pt"], "no file 'lost"),
    ],
)
def test_a_mistake_is_one_line(shiftproof, pets, table, arguments, words):
    Path("empty").mkdir()
    code, out, err = shiftproof("train", *arguments, "--out", "run", "--steps", "1")
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


@needs_shared
@pytest.mark.parametrize("algorithm", ["erm", "idm"])
def test_the_multi_hospital_table_with_every_hospital_held_out(shiftproof, algorithm):
    code, out, err = shiftproof(
        "train", SHARED / "heart-disease/heart.csv", "--label", "disease", "--domain", "hospital",
        "-a", algorithm, "--test-domain", "each", "--steps", "100", "--out", "runs",
        "--hparam", "batch_size=16", "--eval-every", "0",
        *(["--hparam", "gradient_warmup=50"] if algorithm == "idm" else []),
    )  # fmt: skip
    assert code == 0, err
    for hospital, count in {
        "cleveland": 303,
        "hungarian": 294,
        "switzerland": 123,
        "va": 200,
    }.items():
        assert re.search(rf"│ {hospital} +│ +{count} +│ +[\d.]+% +│", out)


@needs_shared
def test_two_steps_end_to_end_on_photographs(shiftproof):
    code, _, err = shiftproof(
        "train", SHARED / "pacs-sample", "--backbone", "tf_efficientnet_lite0",
        "--weights", SHARED / "weights/tf_efficientnet_lite0.safetensors", "--image-size", "64",
        "-a", "idm", "--hparam", "gradient_warmup=1", "--test-domain", "sketch", "--out", "run",
        *SHORT, "--steps", "2",
    )  # fmt: skip
    assert code == 0, err
