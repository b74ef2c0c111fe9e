"""SVIRO: occupancy of the rear seats of ten cars (synthetic images)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.text import letters_of
from shiftproof.data.base import DATASETS, Progress, Source
from shiftproof.data.datasets.image_benchmark import DEEPEST, ImageBenchmark, image_card
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.images.walk import folders_below, images_in
from shiftproof.data.library.base import Found

CARS = ("aclass", "escape", "hilux", "i3", "lexus", "tesla", "tiguan", "tucson", "x5", "zoe")
# In the order of the class numbers in file names.
CLASSES = (
    *("empty", "infant_seat", "child_seat", "person"),
    *("object", "empty_infant_seat", "empty_child_seat"),
)
# [car]_train_imageID_[number]_seatPosition_[0 to 2]_GT_[class].png
_LABEL = re.compile(r"_GT_([0-6])$")


@DATASETS.register("sviro")
class SVIRO(ImageBenchmark):
    """Seven classes of one rear seat in grey images; the car shifts.

    The domains are those of DomainBed (`SVIRO` in its `datasets.py`).  The publishers describe the
    file names and the order of the classes at sviro.kl.dfki.de/data-format and /classification: the
    number after `GT` is the class.  They do not state the number of images per car, so the card has
    none: a copy with all cars counts as complete.
    """

    name = "sviro"
    card = image_card(
        summary="rear seats of ten cars, synthetic: empty, seats for children, people, objects",
        counts=dict.fromkeys(CARS, 0),
        classes=CLASSES,
        publication="Dias Da Cruz et al. (2020), SVIRO: Synthetic Vehicle Interior Rear Seat"
        " Occupancy Dataset and Benchmark",
        licence="see sviro.kl.dfki.de",
        sources=(
            (
                Source(
                    "https://sviro.kl.dfki.de/?wpdmdl=1731",
                    "sviro_grayscale_rectangle_classification.zip",
                ),
            ),
        ),
    )
    layout = "images CAR_train_imageID_…_GT_0.png to …_GT_6.png in folders named after the car"

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find images by their car, named by a folder above them, and the class in their names."""
        samples: list[LabelledPath] = []
        nameless = 0
        for folder in folders:
            for inner in folders_below(folder, DEEPEST):
                # The nearest folder above an image that is named after a car.
                names = map(letters_of, (folder.name, *inner.relative_to(folder).parts))
                car = next((name for name in reversed([*names]) if name in CARS), None)
                if car is None:
                    continue
                progress(f"finding images of {car}", len(samples), 0)
                for path in images_in(inner):
                    if label := _LABEL.search(path.stem):
                        samples.append(LabelledPath(path, CLASSES[int(label[1])], car))
                    else:
                        nameless += 1
        notes = [f"images without a class in their names: {nameless:,}"] if nameless else []
        return Found(samples, notes)
