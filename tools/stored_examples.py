"""Write an example of every stored file in the current format, beside the examples of older ones.

    python tools/stored_examples.py

Run it once for a new format.  The examples of a format never change after its release:
`tests/test_stored_formats.py` reads them all.  `sweep` is not made here, because it is the recorded
sweep of version 0.1, converted to format 2.
"""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import torch

from shiftproof import Observer, ShiftproofClassifier, predict, train
from shiftproof.api.report import write_records
from shiftproof.core.migrations import FORMAT
from shiftproof.training.features import _shard

HERE = Path(__file__).parents[1] / "tests/golden/formats"
TABLE = HERE / "patients.csv"
COLUMNS = {"label": "ill", "domain": "site"}
NETWORK = {**COLUMNS, "test_domains": "east", "steps": 20, "eval_every": 5}


class StopAfter(Observer):
    """Interrupt a run after some steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def step(self, step: int, measured: object) -> None:
        """Send the signal of Ctrl-C."""
        if step == self.steps:
            signal.raise_signal(signal.SIGINT)


def make(folder: Path) -> None:
    """Write the examples."""
    train(TABLE, "linear", **COLUMNS, test_domains="east", out=folder / "linear")
    small = {"hidden": 8, "depth": 1}
    train(TABLE, "erm", **NETWORK, hparams=small, out=folder / "erm")
    unfinished = folder / "unfinished"
    train(TABLE, "erm", **NETWORK, hparams=small, out=unfinished, observer=StopAfter(8))
    for name in ("linear", "erm"):
        found = predict(folder / name, TABLE, domain="site")
        found.to_frame().to_csv(folder / f"predictions-{name}.csv", index=False)
    write_records([folder / "sweep"], folder / "runs.jsonl.gz")
    (folder / "features.safetensors").write_bytes(_shard(torch.arange(6.0).reshape(3, 2)))
    x = np.random.default_rng(0).normal(size=(60, 2))
    fitted = ShiftproofClassifier("linear").fit(x, x[:, 0] > 0, sample_domain=np.arange(60) % 3)
    fitted.save(folder / "estimator")
    for lock in folder.rglob("lock"):
        lock.unlink()


if __name__ == "__main__":
    make(HERE / str(FORMAT))
