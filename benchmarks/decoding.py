"""How many images two reading threads decode and augment, compared with one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.figure import Figure
from shiftproof.data.images.files import ImageFiles, ImageView
from shiftproof.data.images.index import scan
from shiftproof.data.prefetch import prefetch
from shiftproof.paper.measure import medians, ratio_of, seconds_in_turn

IMAGES, BATCH, BATCHES = 64, 16, 8
ROUNDS = 5


def decoding() -> Iterator[Figure]:
    """Measure images per second with two threads against one, in one process."""
    if (os.cpu_count() or 1) < 2:
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # only the reading threads should matter
    try:
        with tempfile.TemporaryDirectory() as folder:
            files = _files(Path(folder))
            sides = {str(workers): partial(_read, files, workers) for workers in (1, 2)}
            taken = seconds_in_turn(sides, ROUNDS, 1)
    finally:
        torch.set_num_threads(threads)
    count = BATCH * BATCHES
    yield Figure(
        "decoding",
        "images a second, two reading threads / one; random views of 640 × 480 JPEG files",
        ratio_of(taken, "1", "2"),
        "≥",
        1.7,
        {"images a second": {side: count / own for side, own in medians(taken).items()}},
    )


def _files(folder: Path) -> ImageFiles:
    rng = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(IMAGES)]
    for path in paths:
        coarse = Image.fromarray(rng.integers(0, 255, (30, 40, 3), np.uint8))
        coarse.resize((640, 480)).save(path, quality=90)
    return ImageFiles(scan(paths), ImageView())


def _read(files: ImageFiles, workers: int) -> None:
    def draw(step: int) -> torch.Tensor:
        index = (np.arange(BATCH) + step * BATCH) % IMAGES
        return files.draw(index, index.astype(np.uint64))

    for _ in prefetch(draw, range(BATCHES), workers):
        pass
