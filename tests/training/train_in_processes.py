"""Train a few algorithms in a folder; `test_processes.py` starts this in one or two processes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from shiftproof import ALGORITHMS, train

SOME = ["erm", "idm", "andmask", "mldg", "fish", "mixup", "arm", "miro"]


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    site, y = np.repeat(["a", "b", "c"], 41), rng.integers(2, size=123)
    return rng.normal(size=(123, 6)) + y[:, None] * (1 + (site == "b"))[:, None], y, site


def images(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    for domain in ("a", "b", "c"):
        for label in ("x", "y"):
            place = folder / domain / label
            place.mkdir(parents=True, exist_ok=True)
            for n in range(6):
                if not (place / f"{n}.png").exists():
                    pixels = rng.integers(256, size=(16, 16, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(place / f"{n}.png")
    return folder


def every_name() -> list[str]:
    return [name for name, algorithm in ALGORITHMS.items() if not algorithm.exact]


def main(out: Path, pictures: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    settings = {"test_domains": "c", "steps": 7, "eval_every": 3, "device": "cpu", "seed": 1}
    for name in names:
        train(table(), name, out=out / name, hparams={"batch_size": 7, "hidden": 16}, **settings)
    # In batches of 5 the last share is padded; images are augmented, by seeds of their own.
    lazy = {"hparams": {"batch_size": 5}, "backbone": "mlp", "image_size": 16, "workers": 1}
    train(pictures, "erm", out=out / "images", **lazy, **settings)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(","))
