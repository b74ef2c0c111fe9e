"""PACS: photographs, paintings, cartoons and sketches of the same seven classes."""

from __future__ import annotations

from shiftproof.data.base import DATASETS, Source
from shiftproof.data.datasets.image_benchmark import ImageBenchmark, image_card

COUNTS = {
    "art_painting": (379, 255, 285, 184, 201, 295, 449),
    "cartoon": (389, 457, 346, 135, 324, 288, 405),
    "photo": (189, 202, 182, 186, 199, 280, 432),
    "sketch": (772, 740, 753, 608, 816, 80, 160),
}
ARCHIVE = Source.google_drive(
    "1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd", "PACS.zip", md5="fd5db817f7cdafeef3bfd525aaf9b42e"
)
COPY = Source(
    "https://codeload.github.com/MachineLearning2020/Homework3-PACS/zip/refs/heads/master",
    "Homework3-PACS.zip",
)


@DATASETS.register("pacs")
class PACS(ImageBenchmark):
    """Seven classes in four styles; the style shifts, and so do the class frequencies.

    The first source is the archive of the DomainBed protocol, with the checksum published by other
    users of that file; the second is a copy on GitHub, verified by its counts.
    """

    name = "pacs"
    card = image_card(
        summary="seven classes as photographs, paintings, cartoons and sketches",
        counts={domain: sum(by_class) for domain, by_class in COUNTS.items()},
        classes=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
        publication="Li et al. (2017), Deeper, Broader and Artier Domain Generalization",
        licence="none stated by its authors; made for research, from pictures found on the web",
        class_counts=COUNTS,
        sources=((ARCHIVE, COPY),),
    )
