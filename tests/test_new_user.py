"""A new user's path, timed: the wheel in an empty environment, then docs/your-data.md.

Nothing but the page is followed: its Python blocks and its commands, from the top to predictions
for a hospital never seen, run by the environment that the wheel was installed into.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "your-data.md"
LAST_SECTION = "## Predict for a new hospital"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a user would still bear; on two idle cores it takes a tenth of it.
MOST_SECONDS = 600.0


def path_of_the_page() -> list[tuple[str, str]]:
    """Return the blocks up to the end of the last section: (language, text)."""
    before, heading, after = PAGE.read_text("utf-8").partition(LAST_SECTION)
    assert heading, f"{PAGE.name} has no section {LAST_SECTION!r} any more"
    section = re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0]
    return [(match[1], match[2]) for match in FENCE.finditer(before + section)]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would lead back to the source tree."""
    hidden = ("PYTHON", "VIRTUAL_ENV", "PYTEST", "COVERAGE")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The folder of the installed commands, and how long it took to install them."""
    folder = tmp_path_factory.mktemp("new-user")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, folder], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed; make install brings it")
    environment = folder / "env"

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [uv, *arguments], env=clean_environment(), capture_output=True, text=True, check=False
        )

    start = time.monotonic()
    assert run("venv", "--python", sys.executable, environment).returncode == 0
    python = environment / "bin" / "python"
    install = ("pip", "install", "--python", python, "-c", ROOT / "constraints.txt")
    if run(*install, "--dry-run", "packaging").returncode != 0:
        pytest.skip("no packages can be had here: no network, and not in uv's cache")
    done = run(*install, wheel)
    assert done.returncode == 0, done.stderr
    return environment / "bin", time.monotonic() - start


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_the_wheel_to_predictions_for_a_hospital_never_seen(
    installed: tuple[Path, float], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    commands, seconds = installed
    spent = {"install": seconds}
    environment = {**clean_environment(), "PATH": f"{commands}:{os.environ['PATH']}"}
    environment["SHIFTPROOF_HOME"] = str(tmp_path / "home")
    at_work = tmp_path / "work"
    at_work.mkdir()

    def run(title: str, *command: str) -> None:
        start = time.monotonic()
        done = subprocess.run(
            command, cwd=at_work, env=environment, capture_output=True, text=True, check=False
        )
        spent[title] = spent.get(title, 0) + time.monotonic() - start
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"

    source = ""
    for language, text in path_of_the_page():
        if language == "python":
            source += text  # a later block may use what an earlier one has defined
            run("python", str(commands / "python"), "-c", source)
        elif language == "console":
            for line in text.splitlines():
                if line.startswith("$ "):
                    program, *arguments = shlex.split(line[2:])
                    assert program == "shiftproof"
                    run(arguments[0], str(commands / program), *arguments)

    predictions = pd.read_csv(at_work / "predictions.csv")
    assert len(predictions) == 90
    assert (at_work / "results.html").stat().st_size > 10_000
    assert {"diagnose", "train", "report", "predict", "evaluate"} <= spent.keys()
    record_property("seconds", {title: round(value, 1) for title, value in spent.items()})
    print("new user:", ", ".join(f"{title} {value:.1f} s" for title, value in spent.items()))
    assert sum(spent.values()) < MOST_SECONDS, spent
