"""The wheel, not the source tree: built, unpacked and used from elsewhere."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, folder], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(unpacked, *command):
    # PYTHONPATH comes before the editable install of the source tree.
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        cwd=unpacked,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_it_carries_the_digits_the_type_marker_and_both_licences(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "shiftproof/data/datasets/assets/mnist.xz" in names
    assert "shiftproof/py.typed" in names
    assert sum("licenses" in name for name in names) == 2
    assert not any(name.startswith("tests") for name in names)


def test_it_trains_without_the_source_tree(unpacked):
    where = run(unpacked, "-c", "import shiftproof; print(shiftproof.__file__)").strip()
    assert Path(where).is_relative_to(unpacked)
    out = run(
        unpacked, "-m", "shiftproof", "train", "colored-mnist-irm", "--test-domain", "10%",
        "--data-option", "per_domain=50", "--hparam", "batch_size=8", "--steps", "2",
        "--out", str(unpacked / "run"), "--quiet",
    )  # fmt: skip
    assert "2 steps in" in out
