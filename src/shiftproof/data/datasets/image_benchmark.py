"""Base class of the published image datasets: find images in folders or lists, and load them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.core.text import letters_of, listed
from shiftproof.data.base import DatasetCard, DomainDataset, Progress, silent
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.walk import folders_below, images_in, subfolders
from shiftproof.data.library.base import (
    Found,
    LibraryDataset,
    absent,
    completeness_notes,
    count,
    folder_of,
    local_copy,
)

# A card with the protocol's settings for photographs.
image_card = partial(
    DatasetCard,
    input_shape=(3, 224, 224),
    regime="large-image",
    backbone="resnet50",
    eval_every=300,
)
FAIR_USE = (
    "fair use notice of its authors: for non-commercial research and education; the pictures belong"
    " to their authors"
)


@cache
def class_names(dataset: str) -> tuple[str, ...]:
    """Return the classes of a dataset with many, in order."""
    assets = resources.files("shiftproof.data.datasets").joinpath("assets/classes.json")
    return tuple(json.loads(assets.read_bytes())[dataset])


# Number of folder levels that are searched for a domain.
DEEPEST = 5


@dataclass(frozen=True)
class ImageBenchmark(ImageView, LibraryDataset):
    """A published image dataset, loaded from the library; its options are those of `ImageView`."""

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find `DOMAIN/CLASS/image` in nested folders, comparing names by letters and digits."""
        return find_by_folders(folders, cls.card, progress)

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the images in the library, with domains in the card's order; `seed` is unused."""
        if local_copy(self.name) is None:
            raise absent(type(self))
        samples, notes = find_images(folder_of(self.name))
        card = self.card
        foreign = [s for s in samples if s.domain not in card.counts or s.label not in card.classes]
        if foreign:
            raise DataError(
                f"{foreign[0].path} is not in a domain and class of {self.name}; delete it"
            )
        notes = [*completeness_notes(type(self), count(samples, card)), *notes]
        dataset = image_dataset(
            self.name, samples, self, classes=card.classes, notes=notes, progress=progress
        )
        position = list(card.counts).index
        return replace(
            dataset,
            domains=tuple(sorted(dataset.domains, key=lambda domain: position(domain.name))),
            regime=card.regime,
            backbone=card.backbone,
            eval_every=card.eval_every,
        )


def find_by_folders(folders: Sequence[Path], card: DatasetCard, progress: Progress) -> Found:
    """Find the images of a card's domains and classes by their folder names.

    A domain is a folder with its name that contains a class folder; names are compared by letters
    and digits, ignoring case.  Two folders for one domain or class are an error.
    """
    domains = {letters_of(name): name for name in card.counts}
    classes = {letters_of(name): name for name in card.classes}
    domain_folders: dict[str, Path] = {}
    for folder in folders:
        for path in _domain_folders(folder, domains, classes, DEEPEST):
            domain = domains[letters_of(path.name)]
            _assign(domain_folders, domain, path, f"domain {domain}")
    samples: list[LabelledPath] = []
    notes = []
    for domain in card.counts:
        if domain not in domain_folders:
            continue
        progress(f"finding images of {domain}", len(samples), sum(card.counts.values()))
        class_folders: dict[str, Path] = {}
        foreign = []
        for folder in subfolders(domain_folders[domain]):
            if label := classes.get(letters_of(folder.name)):
                _assign(class_folders, label, folder, f"class {label} of {domain}")
            else:
                foreign.append(folder.name)
        if foreign:
            notes.append(
                f"{domain}: left out folders of unknown classes ({listed(foreign, most=5)})"
            )
        for label in card.classes:
            if label in class_folders:
                samples += [LabelledPath(p, label, domain) for p in images_in(class_folders[label])]
    return Found(samples, notes)


def _domain_folders(
    folder: Path, domains: Collection[str], classes: Collection[str], deeper: int
) -> Iterator[Path]:
    inner = subfolders(folder)
    if letters_of(folder.name) in domains and any(
        letters_of(path.name) in classes for path in inner
    ):
        yield folder
    elif deeper:
        for path in inner:
            yield from _domain_folders(path, domains, classes, deeper - 1)


def _assign(folders: dict[str, Path], name: str, path: Path, what: str) -> None:
    if (first := folders.setdefault(name, path)) != path:
        raise DataError(
            f"two folders for the {what}: {first} and {path}; import a folder that holds only one"
            " of them"
        )


def folder_with(files: Sequence[str], folders: Sequence[Path]) -> Path | None:
    """Return the folder that has all these files; two such folders are an error."""
    candidates = [
        path
        for folder in folders
        for path in folders_below(folder, DEEPEST)
        if all((path / name).is_file() for name in files)
    ]
    if len(candidates) > 1:
        raise DataError(
            f"two folders have {' and '.join(files)}: {candidates[0]} and {candidates[1]}; import"
            " one"
        )
    return candidates[0] if candidates else None


def listed_images(listed: Sequence[LabelledPath], name: str, progress: Progress) -> Found:
    """Return the listed images that exist, with a note on how many do not."""
    samples = []
    for done, sample in enumerate(listed):
        if done % 1000 == 0:
            progress(f"finding images of {name}", done, len(listed))
        if sample.path.is_file():
            samples.append(sample)
    missing = len(listed) - len(samples)
    notes = [f"listed images that are missing: {missing:,} of {len(listed):,}"] if missing else []
    return Found(samples, notes, missing)
