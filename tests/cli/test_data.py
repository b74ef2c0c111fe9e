"""``shiftproof data``: the commands, as a person uses them."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from _internals import PACS, data_importing, library_datasets
from PIL import Image

from shiftproof import DATASETS


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SHIFTPROOF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "home" / "datasets"


@pytest.fixture
def sample(tmp_path) -> Path:
    """Two images of each class in two domains of PACS, no two alike."""
    number = 0
    for domain in ("photo", "sketch"):
        for label in PACS.card.classes:
            for file in ("1.png", "2.png"):
                number += 1
                path = tmp_path / "sample" / domain / label / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(noise(number))
    return tmp_path / "sample"


def noise(seed: int) -> bytes:
    import numpy as np

    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("command", ["", "list", "show", "pull", "import", "check", "remove"])
def test_help_shows_an_example(shiftproof, command):
    code, out, _ = shiftproof("data", *command.split(), "--help")
    assert code == 0
    assert f"Example: shiftproof data {command}".strip() in words(out)


def test_list_names_every_set_with_its_state(shiftproof, sample):
    code, out, err = shiftproof("data", "list")
    assert (code, err) == (0, "")
    assert set(DATASETS) <= set(out.split())
    inside = set(DATASETS) - set(library_datasets()) - {"digits"}
    assert out.count("in the package") == len(inside)
    assert out.count("needs mnist-m") == 1  # digits
    assert out.count("not downloaded") == len(library_datasets())
    assert max(map(len, out.splitlines())) <= 80
    shiftproof("data", "import", "pacs", sample)
    _, out, _ = shiftproof("data", "list")
    kept = (out.count("not downloaded"), out.count("incomplete"))
    assert kept == (len(library_datasets()) - 1, 1)
    assert "28 images" in out


def test_one_domain_is_not_domains(shiftproof, sample):
    code, out, _ = shiftproof("data", "list")
    assert code == 0
    assert "1 domain, 10 classes" in " ".join(out.split())


def test_show_has_the_whole_card(shiftproof, sample):
    code, out, _ = shiftproof("data", "show", "pacs")
    assert code == 0
    assert "Li et al. (2017)" in out
    assert "dog 379 389 189 772" in words(out)
    assert "all 2,048 2,344 1,670 3,929" in words(out)
    assert "md5 fd5db817f7cdafeef3bfd525aaf9b42e" in out
    assert "verified by the number of images" in out
    assert "image_size" in out
    shiftproof("data", "import", "pacs", sample)
    _, out, _ = shiftproof("data", "show", "pacs")
    assert "dog 0 of 379 0 of 389 2 of 189 2 of 772" in words(out)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_every_card_can_be_shown(shiftproof, name):
    code, out, err = shiftproof("data", "show", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}: ")
    assert DATASETS.get(name).card.publication.split(",")[0] in words(out)


def test_import_says_exactly_what_there_is(shiftproof, sample, library):
    (sample / "photo/dog/3.png").touch()
    code, out, err = shiftproof("data", "import", "pacs", sample)
    assert (code, err) == (0, "")
    assert "pacs is incomplete: 28 of 9,991 images" in out
    assert "all 0 of 2,048 0 of 2,344 14 of 1,670 14 of 3,929" in words(out)
    assert "note: left out 1 empty file" in out
    assert out.endswith(f"It is in {library / 'pacs'}\n")


def test_check_finds_what_spoils_results(shiftproof, sample):
    code, out, _ = shiftproof("data", "check", sample)
    assert code == 0
    assert f"{sample}: 28 images, 2 domains, 7 classes" in out
    shutil.copyfile(sample / "photo/dog/1.png", sample / "sketch/dog/leak.png")
    code, out, _ = shiftproof("data", "check", sample)
    assert code == 1
    assert "error" in out
    assert "leak.png" in out
    assert "check failed: 1 error" in out
    code, out, err = shiftproof("data", "check", sample, "--json")
    found = json.loads(out)
    assert (code, err) == (1, "")
    assert found["sound"] is False
    assert found["counts"]["sketch"]["dog"] == 3
    assert found["expected"] is None


def test_check_of_a_set_knows_what_should_be_there(shiftproof, sample):
    shiftproof("data", "import", "pacs", sample)
    code, out, _ = shiftproof("data", "check", "pacs")
    assert code == 1
    assert "9,963 of 9,991 images are missing" in out
    _, out, _ = shiftproof("data", "check", "pacs", "--json")
    assert json.loads(out)["expected"]["photo"]["dog"] == 189


def test_remove_asks_first(shiftproof, sample, library, monkeypatch):
    shiftproof("data", "import", "pacs", sample)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert shiftproof("data", "remove", "pacs")[0] == 1
    assert (library / "pacs").exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert shiftproof("data", "remove", "pacs")[0] == 0
    assert not (library / "pacs").exists()
    shiftproof("data", "import", "pacs", sample)
    assert shiftproof("data", "remove", "pacs", "--yes") == (0, f"removed {library / 'pacs'}\n", "")
    assert not (library / "pacs").exists()


@pytest.mark.parametrize("command", ["import", "pull"])
def test_interrupted_it_leaves_nothing_and_says_how_to_go_on(
    shiftproof, sample, library, monkeypatch, command
):
    calls = 0

    def stop(*_, **__):
        nonlocal calls
        calls += 1
        if command == "pull" or calls == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(data_importing, "fetch_any", stop)
    monkeypatch.setattr(shutil, "copyfile", stop)
    code, out, err = shiftproof("data", command, "pacs", *[sample] * (command == "import"))
    assert (code, out) == (130, "")
    assert err.startswith("Interrupted. ")
    assert "Run the same command again" in err
    assert err.count("\n") == 1
    assert calls == (1 if command == "pull" else 5)
    assert not (library / "pacs").exists()
    assert not (library / ".pacs").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "pasc"], "unknown dataset 'pasc'; did you mean 'pacs'?"),
        (["pull", "colored-mnist"], "colored-mnist is part of the package"),
        (["import", "pacs", "nowhere"], "no such file or folder: nowhere"),
        (["check", "pacs"], "pacs is not on this machine"),
        (["check", "rotated-mnist"], "part of the package: there is nothing to check"),
        (["check", "pasc"], "unknown dataset or folder 'pasc'; did you mean"),
        (["remove", "pacs"], "pacs is not on this machine"),
        (["remove", "pasc", "--yes"], "unknown dataset 'pasc'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(shiftproof, arguments, told):
    code, out, err = shiftproof("data", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert told in err


def test_training_on_a_set_that_is_not_here_names_the_commands(shiftproof, tmp_path):
    code, _, err = shiftproof("train", "pacs", "--out", tmp_path / "run")
    assert code == 2
    assert "run `shiftproof data pull pacs` to download it" in err
    assert err.count("\n") == 1
