"""Where users wait: the start, and diagnoses of many columns or rows."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.figure import Figure
from shiftproof.shift.diagnose import diagnose as measure

# Domains, classes, and latent dimensions of the embeddings in the first diagnosis.
DOMAINS, CLASSES, INNER = 4, 7, 64
# Runs a command up to its first fit, and prints the processor seconds it took.
UNTIL_THE_FIRST_FIT = """
import os, time
from shiftproof.cli import main
from shiftproof.learners.exact import Exact

def first_fit(*_):
    print(time.process_time(), flush=True)
    os._exit(0)

Exact.fit = first_fit
main()
"""


def start() -> Iterator[Figure]:
    """Measure the time to the first fit when `train` starts on a small table, median of three."""
    rng = np.random.default_rng(0)
    table: dict[str, np.ndarray] = {f"x{j}": rng.normal(size=1_000) for j in range(10)}
    table |= {"site": np.array(list("abcd"))[np.arange(1_000) % 4], "label": np.arange(1_000) % 2}
    seconds, own = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "small.csv")
        pyarrow.csv.write_csv(pa.table(table), path)
        rows = ["--label", "label", "--domain", "site", "--test-domain", "each", "--quiet"]
        asked = ["train", str(path), *rows, "--algorithm", "linear", "--out", f"{folder}/runs"]
        for _ in range(3):
            started = time.perf_counter()
            command = [sys.executable, "-c", UNTIL_THE_FIRST_FIT, *asked]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds.append(time.perf_counter() - started)
            own.append(float(done.stdout))
    yield Figure(
        "start-exact",
        "seconds of `shiftproof train --algorithm linear` of a CSV file to its first fit",
        float(np.median(seconds)),
        "≤",
        1.5,
        {"processor seconds": float(np.median(own))},
    )


def diagnosis() -> Iterator[Figure]:
    """Measure 10,000 rows of 1,280 columns in this process, and 1,000,000 of 50 by the command."""
    x, y, d = embeddings(10_000, 1_280)
    names, classes = "abcd", "tuvwxyz"
    started, own = time.perf_counter(), time.process_time()
    measure(x, y, d, domains=names, classes=classes, seed=0)
    seconds, cpu = time.perf_counter() - started, time.process_time() - own
    yield Figure(
        "diagnose-wide",
        "seconds of a diagnosis of 10,000 rows × 1,280 columns",
        seconds,
        "≤",
        15,
        {"processor seconds": cpu},
    )
    seconds, kilobytes = _long_table(1_000_000, 50)
    yield Figure(
        "diagnose-long",
        "seconds of `shiftproof diagnose` of a CSV file of 1,000,000 rows × 50 columns",
        seconds,
        "≤",
        180,
    )
    yield Figure("diagnose-long-memory", "its peak memory, in GB", kilobytes / 1e6, "≤", 4)


def embeddings(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rectified projections of clusters that differ by domain, class, and both."""
    rng = np.random.default_rng(0)
    d, y = rng.integers(0, DOMAINS, rows), rng.integers(0, CLASSES, rows)
    inner = (
        rng.normal(size=(rows, INNER))
        + rng.normal(size=(CLASSES, INNER))[y]
        + 0.3 * rng.normal(size=(DOMAINS, INNER))[d]
        + 0.5 * rng.normal(size=(DOMAINS, CLASSES, INNER))[d, y]
    )
    x = inner @ rng.normal(size=(INNER, columns)) / INNER**0.5
    return np.maximum(x + 0.3 * rng.normal(size=x.shape), 0).astype(np.float32), y, d


def _long_table(rows: int, columns: int) -> tuple[float, int]:
    """Return seconds and peak kilobytes of the command on a file of `rows` rows."""
    rng = np.random.default_rng(0)
    d, y = rng.integers(0, 5, rows), rng.integers(0, 3, rows)
    table = {
        f"x{j}": np.round(rng.normal(size=rows) + 0.5 * (j < 5) * y, 4) for j in range(columns)
    }
    table |= {"site": np.array(list("abcde"))[d], "label": np.array(list("pqr"))[y]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "long.csv")
        pyarrow.csv.write_csv(pa.table(table), path)
        del table
        command = [sys.executable, "-m", "shiftproof", "diagnose", str(path)]
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--label", "label", "--domain", "site", "--quiet"], stdout=subprocess.DEVNULL
        )
        most = 0
        while process.poll() is None:
            most = max(most, _peak_kilobytes(process.pid))
            time.sleep(0.5)
        seconds = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"the diagnosis ended with code {process.returncode}")
    return seconds, most


def _peak_kilobytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
    except OSError:
        return 0
    return max((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=0)
