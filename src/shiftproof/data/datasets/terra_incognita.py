"""TerraIncognita: animals in front of four camera traps, day and night."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from shiftproof.core.errors import DataError
from shiftproof.data.base import DATASETS, Progress, Source
from shiftproof.data.datasets.image_benchmark import (
    DEEPEST,
    ImageBenchmark,
    find_by_folders,
    image_card,
)
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.images.manifest import read_coco
from shiftproof.data.images.walk import folders_below, images_in
from shiftproof.data.library.base import Found

# Number of images in the current archives, and in those of the DomainBed paper.
COUNTS = {
    "location_100": (4_741, 4_879),
    "location_38": (9_736, 9_767),
    "location_43": (3_970, 4_020),
    "location_46": (5_883, 6_122),
}
SERVER = "https://storage.googleapis.com/public-datasets-lila/caltechcameratraps"
ARCHIVES = (
    ("eccv_18_all_images_sm.tar.gz", "8143c17aa2a12872b66f284ff211531f", 6_492_615_601),
    ("eccv_18_annotations.tar.gz", "66a1f481b44aa1edadf75c9cfbd27aba", 2_997_071),
)


@DATASETS.register("terra-incognita")
class TerraIncognita(ImageBenchmark):
    """Nine animals and empty images, from the cameras at locations 100, 38, 43 and 46.

    The number of images is uncertain.  The DomainBed paper says 24,788, and users of its early
    archive report 4,879, 9,767, 4,020 and 6,122 for the four locations, which add up to it.  With
    the current archives, users report 4,741, 9,736, 3,970 and 5,883: 24,330 in total.  The card has
    the latter numbers; a dataset between the two counts as complete.

    Labels are read as in DomainBed's script: an image belongs to every one of the ten classes that
    its annotations name, so to two classes if it shows both.

    Users of the archives have published their sizes and checksums.
    """

    name = "terra-incognita"
    card = image_card(
        summary="animals in front of four camera traps; 24,330 or 24,788 images, see the card",
        counts={domain: now for domain, (now, _) in COUNTS.items()},
        classes=(
            *("bird", "bobcat", "cat", "coyote", "dog"),
            *("empty", "opossum", "rabbit", "raccoon", "squirrel"),
        ),
        publication="Beery et al. (2018), Recognition in Terra Incognita; in this form Gulrajani"
        " and Lopez-Paz (2021)",
        licence="Community Data License Agreement, permissive variant",
        sources=tuple(
            (Source(f"{SERVER}/{name}", name, md5=md5, size=size),) for name, md5, size in ARCHIVES
        ),
    )
    layout = "folders eccv_18_all_images_sm and eccv_18_annotation_files, or folders DOMAIN/CLASS"
    bounds = COUNTS

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find prepared folders (`location_38/bird/…`), or images with their annotations."""
        prepared = find_by_folders(folders, cls.card, progress)
        if prepared.samples:
            return prepared
        inner = [path for folder in folders for path in folders_below(folder, DEEPEST)]
        annotations = [file for path in inner for file in sorted(path.glob("*.json"))]
        if not annotations:
            return prepared
        progress("reading annotations", 0, 0)
        labelled = sorted({pair for file in _one_edition(annotations) for pair in _labels(file)})
        wanted = {image for image, _, _ in labelled}
        paths = _find(wanted, inner, progress)
        samples = [
            LabelledPath(paths[image], label, f"location_{location}")
            for image, location, label in labelled
            if image in paths
        ]
        notes = []
        if missing := len(wanted) - len(paths):
            notes.append(f"annotated images that are missing: {missing:,} of {len(wanted):,}")
        if twice := len(labelled) - len(wanted):
            notes.append(f"images in two classes, because they show both: {twice:,}")
        return Found(samples, notes)


def _one_edition(files: Sequence[Path]) -> list[Path]:
    """Choose the five files of the ECCV 2018 subset, or the one of the whole collection."""
    subset = {file.name: file for file in files if file.stem.endswith("_annotations")}
    whole = [file for file in files if file.stem.startswith(("caltech_images", "caltech_camera"))]
    if subset:
        return list(subset.values())
    if len(whole) != 1:
        raise DataError(
            "expected the annotations of Caltech Camera Traps (eccv_18_annotation_files/*.json, or"
            f" one caltech_images_….json), but found"
            f" {', '.join(map(str, files[:3]))}"
        )
    return whole


def _labels(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (file name, location, class) of each annotation that belongs to the dataset."""
    card = TerraIncognita.card
    images, labels = read_coco(file)
    for key, image in images.items():
        name, location = PurePosixPath(str(image["file_name"])).name, str(image.get("location"))
        if f"location_{location}" in card.counts:
            for label in labels.get(key, set()).intersection(card.classes):
                yield name, location, label


def _find(names: set[str], folders: Sequence[Path], progress: Progress) -> dict[str, Path]:
    """Return the paths of the images with these names; duplicate names are an error."""
    paths: dict[str, Path] = {}
    for folder in folders:
        progress("finding images", len(paths), len(names))
        for path in images_in(folder):
            if path.name in names and (first := paths.setdefault(path.name, path)) != path:
                raise DataError(f"two images have the same name: {first} and {path}")
    return paths
