"""The library of published datasets on this machine: their folders, and how complete they are.

A dataset is stored in `datasets/NAME` of Shiftproof's cache folder as `domain/class/file`, with a
`dataset.json` that records the number of images.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json
from shiftproof.core.json_values import rebuilt
from shiftproof.core.text import listed
from shiftproof.data.base import DATASETS, DatasetCard, DatasetSource, Progress, cache_dir
from shiftproof.data.images.files import LabelledPath

RECORD = "dataset.json"
# Number of images by domain and class, in the order of the card's classes.
Counts = Mapping[str, tuple[int, ...]]


class Found(NamedTuple):
    """The images found in the published folders of a dataset, and notes on what was left out.

    `missing` is the number of images that the dataset lists but that do not exist.
    """

    samples: list[LabelledPath]
    notes: list[str]
    missing: int = 0


@dataclass(frozen=True)
class LibraryDataset(DatasetSource):
    """A registered dataset whose images are downloaded or imported into the library.

    `bounds` gives the smallest and largest number of images of a domain if the exact number is
    uncertain; otherwise the card's number applies.  `every_class` says whether each domain has
    images of each class.  `files` are the names of files that `convert` reads.
    """

    name: ClassVar[str]
    layout: ClassVar[str] = "folders DOMAIN/CLASS"
    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {}
    every_class: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the images in the published folders, with the card's domain and class names."""

    @classmethod
    def convert(cls, folders: Sequence[Path], out: Path) -> bool:
        """Write images from files that hold many into `out`; return whether there are any."""
        return False


@dataclass(frozen=True)
class LocalCopy:
    """How much of a dataset is in the library."""

    name: str
    counts: Counts
    complete: bool
    notes: tuple[str, ...] = ()

    @property
    def images(self) -> int:
        """The number of images."""
        return sum(map(sum, self.counts.values()))


def absent(source: type[LibraryDataset]) -> DataError:
    """Return the error for a dataset that is not on this machine, which says how to get it."""
    name = source.name
    pull = f"`shiftproof data pull {name}` to download it, or " if source.card.sources else ""
    return DataError(
        f"{name} is not on this machine; run {pull}`shiftproof data import {name} PATH` to use"
        " your own copy"
    )


def made_of(name: str, source: type[DatasetSource]) -> DataError:
    """Return the error for a dataset that consists of other datasets in the library."""
    return DataError(f"{name} combines {' and '.join(source.needs)}; name one of these instead")


def library_datasets() -> dict[str, type[LibraryDataset]]:
    """Return the registered datasets that the library can hold, by name."""
    return {name: source for name, source in DATASETS.items() if issubclass(source, LibraryDataset)}


def folder_of(name: str) -> Path:
    """Return the folder of a dataset in the library; it may not exist."""
    return cache_dir() / "datasets" / name


def local_copy(name: str) -> LocalCopy | None:
    """Return how much of a dataset is in the library, or None if it is absent."""
    path = folder_of(name) / RECORD
    if not path.parent.is_dir():
        return None
    remedy = f"run `shiftproof data remove {name}`, then pull or import it again"
    record = read_json(path, ("counts", "complete", "notes"), remedy)
    try:
        copy: LocalCopy = rebuilt(LocalCopy, {**record, "name": name})
    except ValueError:
        raise DataError(f"{path} is damaged; {remedy}") from None
    return copy


def count(samples: Sequence[LabelledPath], card: DatasetCard) -> Counts:
    """Return the number of images in each of the card's domains and classes."""
    sizes = Counter((sample.domain, sample.label) for sample in samples)
    return {domain: tuple(sizes[domain, label] for label in card.classes) for domain in card.counts}


def shortages(source: type[LibraryDataset], counts: Counts) -> list[str]:
    """Describe the domains and classes with fewer images than published."""
    card = source.card
    short = []
    for domain, published in card.counts.items():
        images = sum(counts[domain])
        least, _ = source.bounds.get(domain, (published or 1, published))
        default = (1 if published and source.every_class else 0,) * len(card.classes)
        by_class = card.class_counts.get(domain, default)
        rows = zip(card.classes, counts[domain], by_class, strict=True)
        few = [label for label, n, least_n in rows if n < least_n]
        if images < least:
            of = f" of {published:,}" if published else ", number unknown"
            short.append(f"{domain} {images:,}{of}")
        elif few:
            short.append(f"{domain} {images:,} of {published:,}, but too few of {listed(few, 3)}")
    return short


def surplus(source: type[LibraryDataset], counts: Counts) -> list[str]:
    """Describe the domains with more images than were ever published."""
    most = {domain: bounds[1] for domain, bounds in source.bounds.items()}
    return [
        f"{domain} {sum(counts[domain]):,} instead of {published:,}"
        for domain, published in source.card.counts.items()
        if published and sum(counts[domain]) > most.get(domain, published)
    ]


def expected_counts(
    source: type[LibraryDataset], counts: Counts
) -> dict[str, dict[str, int] | int]:
    """Return the expected number of images of each domain, or of each class in it.

    If the exact number is uncertain, any number within the bounds is as expected.
    """
    card = source.card
    expected: dict[str, dict[str, int] | int] = {}
    for domain, published in card.counts.items():
        images = sum(counts[domain])
        least, most = source.bounds.get(domain, (published, published))
        if domain in card.class_counts:
            expected[domain] = dict(zip(card.classes, card.class_counts[domain], strict=True))
        else:
            expected[domain] = images if not published or least <= images <= most else published
    return expected


def completeness_notes(source: type[LibraryDataset], counts: Counts) -> list[str]:
    """Return notes on how a local copy differs from the published dataset."""
    name = source.name
    total, published = sum(map(sum, counts.values())), sum(source.card.counts.values())
    of = f"of {published:,} images" if published else "images"
    notes = []
    if short := shortages(source, counts):
        notes.append(
            f"{name} is incomplete: {total:,} {of} ({'; '.join(short)}); run"
            f" `shiftproof data pull {name}` or `shiftproof data import {name} PATH` to complete it"
        )
    if many := surplus(source, counts):
        notes.append(f"{name} has more images than were published: {'; '.join(many)}")
    return notes
