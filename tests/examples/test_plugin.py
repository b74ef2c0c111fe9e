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
# One process for all commands: most of the time is spent on importing torch.
COMMANDS = f"""
algorithms
train table.csv --algorithm mean-match --test-domain c {TINY} --hparam penalty_weight=2 --out run
sweep table.csv --algorithms mean-match --test-domain c {TINY} --preset lite --n-hparams 1
 --trials 1 --selection oracle --workers 1 --out sweep
report sweep --selection oracle
"""
RUN = """
import shlex, sys
from shiftproof.cli import main
if __name__ == "__main__":
    for line in sys.argv.pop().replace("\\n ", " ").split("\\n"):
        sys.argv[1:] = shlex.split(line)
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package was installed into, without a network."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(PLUGIN, folder / "source")  # a build must not write into examples/
    where = ("--target", folder / "site", source)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
         "--no-build-isolation", "--disable-pip-version-check", *where],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return folder / "site"


def run(commands: str, site: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands one after the other in ``folder``, with the packages of ``site``."""
    script = folder / "commands.py"
    script.write_text(RUN)
    path = os.pathsep.join([str(site), str(Path(shiftproof.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, str(script), commands.strip()],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_commands_know_the_algorithm_of_an_installed_package(
    installed: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{place},{rng.normal():.3f},{i % 2}" for place in "abc" for i in range(20)]
    (tmp_path / "table.csv").write_text("place,age,ill\n" + "\n".join(rows) + "\n")
    done = run(COMMANDS, installed, tmp_path)
    assert done.returncode == 0, done.stderr
    listing, _, rest = done.stdout.partition("3 steps in")
    assert "mean-match" in listing
    assert "Tzeng et al. (2014)" in listing
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert "mean-match" in rest


def test_a_broken_package_is_one_line_and_nobody_elses_problem(
    installed: Path, tmp_path: Path
) -> None:
    site = shutil.copytree(installed, tmp_path / "site")
    (site / "shiftproof_mean_match.py").write_text("import of_another_year")
    told = (
        "algorithm 'mean-match' of the package 'shiftproof-mean-match' cannot be imported"
        " (ModuleNotFoundError: No module named 'of_another_year');"
        " update or uninstall that package"
    )
    done = run("algorithms\nalgorithms mean-match", site, tmp_path)
    assert "idm" in done.stdout
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"warning: {told}", f"error: {told}"]
