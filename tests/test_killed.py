"""Kill −9 of `features` and `report` at random moments; of other commands, beside their tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PROGRAM = Path(__file__).with_name("killed.py")
SWEEP = Path(__file__).parent / "golden" / "formats" / "2" / "sweep"
KILLS = [pytest.param(1, id="1"), pytest.param(25, id="25", marks=pytest.mark.slow)]


def killed(work: str, folder: Path, kills: int, home: Path) -> int:
    command = [sys.executable, PROGRAM, work, folder, kills]
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, "SHIFTPROOF_HOME": str(home), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["killed"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [1, 25])
def test_features_end_with_the_same_files(tmp_path: Path, kills: int) -> None:
    rng = np.random.default_rng(0)
    for n in range(24):
        place = tmp_path / "pets" / ("north", "south")[n % 2] / ("cat", "dog")[n // 2 % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(256, size=(40, 36, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{n}.png")
    assert killed("features", tmp_path / "pets", kills, tmp_path / "home") == kills


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", KILLS)
def test_a_report_is_the_old_or_the_new_one(tmp_path: Path, kills: int) -> None:
    folder = tmp_path / "sweep"
    shutil.copytree(SWEEP, folder)
    assert killed("report", folder, kills, tmp_path / "home") == kills
