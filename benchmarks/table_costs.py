"""What tables cost, by processor time: growth in rows, domains, columns and classes, and peers.

Every command runs in a process of its own, whose processor time and peak memory the system counts,
workers included.  A command that exceeds its limit counts as infinite.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from benchmarks.figure import Figure
from benchmarks.growth import exponent
from shiftproof.paper.measure import medians, seconds_in_turn

# Processor seconds after which a command is ended.
LIMIT = 300
# The table from which one dimension grows, and the sizes of each.
ROWS, COLUMNS, DOMAINS, CLASSES = 20_000, 20, 10, 2
GROWTH: dict[str, tuple[Sequence[int], float]] = {
    "rows": ((1_000, 10_000, 100_000, 1_000_000), 1.1),
    "domains": ((3, 10, 30, 100, 1_000), 1.2),
    "columns": ((20, 200, 2_000), 1.2),
    "classes": ((2, 10, 100), 1.2),
}
LINEAR = ("--algorithm", "linear")


@dataclass(frozen=True)
class Cost:
    """Processor seconds and peak memory in bytes of a command and its workers."""

    seconds: float
    peak: float


def cost(*arguments: str, limit: float = LIMIT) -> Cost:
    """Run `python -m shiftproof` with arguments, or `python` if the first is `-c`."""
    module = [] if arguments[0] == "-c" else ["-m", "shiftproof"]
    limited = f'ulimit -t {int(limit)}; exec "$@"'
    command = ["bash", "-c", limited, "bash", sys.executable, *module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    message = process.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) > 128:
        return Cost(float("inf"), float("inf"))
    if status:
        raise RuntimeError(f"{' '.join(arguments[:3])}: {message.strip()[-300:]}")
    return Cost(used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)


def table(
    rows: int = ROWS, columns: int = COLUMNS, domains: int = DOMAINS, classes: int = CLASSES
) -> pa.Table:
    """Return a table whose label depends on half of the columns, and differs between domains."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    domain = rng.integers(0, domains, rows)
    weights = rng.normal(size=(columns, classes)) * (np.arange(columns) < columns / 2)[:, None]
    logits = 2 * x @ (weights / columns**0.5) + 0.5 * rng.normal(size=(domains, classes))[domain]
    label = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    names = {f"x{j}": np.round(x[:, j], 4) for j in range(columns)}
    return pa.table({**names, "site": [f"s{d:04d}" for d in domain], "label": label})


def table_growth() -> Iterator[Figure]:
    """Measure how the time of `train --algorithm linear` grows with each dimension of a table."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (sizes, target) in GROWTH.items():
            costs = [
                cost(*_train(_written(folder, **{name: size}), f"{folder}/{name}{size}"))
                for size in sizes
            ]
            # What every start costs is not growth.
            least = 0.5 * min(one.seconds for one in costs)
            finished = [
                (size, one.seconds - least)
                for size, one in zip(sizes, costs, strict=True)
                if np.isfinite(one.seconds)
            ]
            value = exponent(*map(list, zip(*finished, strict=True)))
            yield Figure(
                f"train-linear-{name}",
                f"exponent of the processor time of `train --algorithm linear` in the number of"
                f" {name}, {sizes[0]:,} to {sizes[-1]:,}",
                value if len(finished) == len(sizes) else float("inf"),
                "≤",
                target,
                {
                    "seconds": {str(s): c.seconds for s, c in zip(sizes, costs, strict=True)},
                    "MB": {str(s): c.peak / 1e6 for s, c in zip(sizes, costs, strict=True)},
                },
            )


def held_out_domains() -> Iterator[Figure]:
    """Measure commands that hold out every domain, or compare all domains."""
    targets = {
        "train-each": {10: 30.0, 30: 60.0},
        "diagnose": {10: 10.0, 30: 15.0, 100: 30.0, 1_000: 120.0},
        "study": {1_000: 300.0},
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, sizes in targets.items():
            for domains, target in sizes.items():
                path = _written(folder, domains=domains)
                out = f"{folder}/{name}{domains}"
                verb, *more = {
                    "train-each": ("train", "--test-domain", "each", *LINEAR, "--out", out),
                    "diagnose": ("diagnose",),
                    "study": ("study", *LINEAR, "--out", out),
                }[name]
                used = cost(verb, path, "--domain", "site", *more, "--quiet")
                yield Figure(
                    f"{name}-{domains}",
                    f"processor seconds of `{verb}` over {domains:,} domains, {ROWS:,} rows",
                    used.seconds,
                    "≤",
                    target,
                    {"MB": used.peak / 1e6},
                )


def table_peers() -> Iterator[Figure]:
    """Compare loading, training, prediction and memory with pandas, pyarrow and scikit-learn."""
    with tempfile.TemporaryDirectory() as folder:
        path = _written(folder, rows=100_000)
        yield from _loading(path)
        yield from _serving(folder)
        small = _written(folder, rows=1_000)
        used = cost(*_train(small, f"{folder}/small"))
        yield Figure(
            "train-memory",
            "peak memory of `train --algorithm linear` on 1,000 rows, MB",
            used.peak / 1e6,
            "≤",
            300,
            {"processor seconds": used.seconds},
        )
        ours = cost(*_train(path, f"{folder}/boosting", algorithm="boosting"))
        theirs = cost("-c", _BOOSTING, path)
        yield Figure(
            "boosting",
            "processor time of `train --algorithm boosting` / HistGradientBoosting with the same"
            " trees, 100,000 rows, both with start and loading",
            ours.seconds / theirs.seconds,
            "≤",
            1.1,
            {"seconds": {"ours": ours.seconds, "scikit-learn": theirs.seconds}},
        )


# Five folds and the final fit, as `train` makes them, with its early stopping.
_BOOSTING = """
import sys
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold, cross_val_predict

frame = pd.read_csv(sys.argv[1])
y, site = frame.pop("label"), frame.pop("site")
model = HistGradientBoostingClassifier(early_stopping=True, random_state=0)
cross_val_predict(model, frame, y, groups=site, cv=GroupKFold(5), method="predict_proba")
model.fit(frame, y)
"""


def _loading(path: str) -> Iterator[Figure]:
    from shiftproof import load

    sides: dict[str, Any] = {
        "ours": lambda: load(path, domain="site"),
        "pandas": lambda: pd.read_csv(path),
        "pyarrow": lambda: pyarrow.csv.read_csv(path),
    }
    taken = medians(seconds_in_turn(sides, 5, 1))
    for peer, target in {"pyarrow": 2.0, "pandas": 1.0}.items():
        yield Figure(
            f"load-{peer}",
            f"our time to load a CSV file of 100,000 rows as a dataset / that of {peer} to read it",
            taken["ours"] / taken[peer],
            "≤",
            target,
            {"seconds": taken},
        )


def _serving(folder: str) -> Iterator[Figure]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    import shiftproof

    frame = table().to_pandas()
    x, y = frame.drop(columns=["label", "site"]), frame["label"]
    peers = {"linear": LogisticRegression(), "boosting": HistGradientBoostingClassifier()}
    batch, row = x.iloc[:10_000], x.iloc[:1]
    for name, peer in peers.items():
        out = f"{folder}/served-{name}"
        shiftproof.train(frame, domain="site", algorithm=name, out=out)
        model, peer = shiftproof.load_model(out), peer.fit(x, y)
        sides: dict[str, Any] = {
            "ours": lambda m=model: m.predict(batch),
            "scikit-learn": lambda m=peer: m.predict_proba(batch),
            "one row": lambda m=model: m.predict(row),
        }
        taken = medians(seconds_in_turn(sides, 5, 1))
        yield Figure(
            f"predict-{name}",
            f"our time to predict 10,000 rows with typicality ({name}) / scikit-learn's without",
            taken["ours"] / taken["scikit-learn"],
            "≤",
            1.5,
            {"rows a second": 10_000 / taken["ours"]},
        )
        yield Figure(
            f"predict-one-{name}",
            f"seconds to predict one row from Python ({name})",
            taken["one row"],
            "≤",
            0.003,
        )


def _written(folder: str, **sizes: int) -> str:
    path = Path(folder, "-".join(["table", *(f"{k}{v}" for k, v in sizes.items())]) + ".csv")
    if not path.exists():
        pyarrow.csv.write_csv(table(**sizes), path)
    return str(path)


def _train(path: str, out: str, algorithm: str = "linear") -> list[str]:
    return ["train", path, "--domain", "site", "--algorithm", algorithm, "--out", out, "--quiet"]
