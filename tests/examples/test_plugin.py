"""The package in examples/plugin, installed: every command knows its algorithm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shiftproof

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
TINY = "--label ill --domain place --steps 3 --hparam batch_size=4 --device cpu --quiet"
COMMANDS = f"""
algorithms
train table.csv --algorithm mean-match --test-domain c {TINY} --hparam penalty_weight=2 --out run
sweep table.csv --algorithms mean-match --test-domain c {TINY} --preset lite --n-hparams 1 \
 --trials 1 --selection oracle --workers 1 --out sweep
algorithms of-another-year
"""
# One process for all of them: most of the time is spent on importing torch.
SCRIPT = """
import runpy, shlex, sys
from shiftproof.cli import main
if __name__ == "__main__":
    runpy.run_path("source/try_it.py")
    for line in sys.argv.pop().splitlines():
        sys.argv[1:] = shlex.split(line)
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise
"""
BROKEN = (
    "algorithm 'of-another-year' of the package 'broken' cannot be imported"
    " (ModuleNotFoundError: No module named 'broken'); update or uninstall that package"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the package, installed without a network, and beside it one that is broken."""
    folder = tmp_path / "site"
    source = shutil.copytree(PLUGIN, tmp_path / "source")  # a build must not write into examples/
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, *offline, "--target", folder, source], check=True, capture_output=True)
    info = folder / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[shiftproof.algorithms]\nof-another-year = broken:X\n")
    return folder


@pytest.mark.slow
def test_the_commands_know_the_algorithm_of_an_installed_package(
    site: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{place},{rng.normal():.3f},{i % 2}" for place in "abc" for i in range(20)]
    (tmp_path / "table.csv").write_text("place,age,ill\n" + "\n".join(rows) + "\n")
    script = tmp_path / "commands.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(site), str(Path(shiftproof.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, str(script), COMMANDS.strip()],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # The broken one: a warning where all are listed, an error where it is asked for.
    assert done.stderr.splitlines() == [f"warning: {BROKEN}", f"error: {BROKEN}"]
    assert done.returncode == 2
    assert "mean-match: accuracy in the south" in done.stdout
    assert "Tzeng et al. (2014)" in done.stdout
    assert (tmp_path / "run" / "model.safetensors").exists()
    (records,) = (tmp_path / "sweep").rglob("records.jsonl")
    assert '"penalty"' in records.read_text()
