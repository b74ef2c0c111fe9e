"""A new user's first command, from the built wheel, timed.

    python tools/new_user.py patients.csv --label ill --domain hospital

It builds the wheel, unpacks it aside, and runs `shiftproof study` from there with the libraries of
this environment.  It prints the seconds to the first output, to an error of a wrong column, and of
the whole study, and fails if the study takes more than two minutes: on two idle cores that is ample
for a table of a thousand rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_SECONDS, MOST_TO_FIRST_OUTPUT, MOST_TO_AN_ERROR = 120.0, 2.0, 1.0
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


def main() -> None:
    """Build the wheel, run the commands and print their times."""
    table = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-c", BUILD, folder], cwd=ROOT, check=True)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")
        first, whole, said = timed(folder, "study", table, *sys.argv[2:], "--no-open")
        _, wrong, error = timed(folder, "study", table, "--label", "no such column")
        page = folder / "runs" / f"study-{Path(table).name}" / "report.html"
        made = page.is_file()
    print(said)
    print(f"first output after {first:.1f} s, the study took {whole:.1f} s, page written: {made}")
    print(f"a wrong column: {wrong:.1f} s, {error.splitlines()[-1]}")
    limits = (whole <= MOST_SECONDS, first <= MOST_TO_FIRST_OUTPUT, wrong <= MOST_TO_AN_ERROR)
    if not (made and all(limits)):
        sys.exit("too slow, or no page")


def timed(folder: Path, *arguments: str) -> tuple[float, float, str]:
    """Run a command; return the seconds to its first line and to its end, and its output."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "shiftproof", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    first = time.monotonic() - start
    rest = process.stdout.read()
    process.wait()
    return first, time.monotonic() - start, line + rest


if __name__ == "__main__":
    main()
