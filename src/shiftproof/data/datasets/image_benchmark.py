"""What the published sets of image files share: finding them in folders, and loading them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.data.base import DatasetCard, DomainDataset, Progress, silent
from shiftproof.data.images.decode import SUFFIXES
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset
from shiftproof.data.images.folder import find_images
from shiftproof.data.library.completeness import count, state_notes
from shiftproof.data.library.store import Found, KeptSet, folder_of, holding

# Folders below the one given in which a domain is still looked for.
DEEPEST = 5


@dataclass(frozen=True)
class ImageBenchmark(ImageView, KeptSet):
    """A published set of image files, loaded from the library; its options are those of a view."""

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find ``DOMAIN/CLASS/image`` at any depth; names need only have the same letters."""
        return find_by_folders(folders, cls.card, progress)

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the images in the library; nothing of them depends on chance."""
        if holding(self.name) is None:
            raise DataError(
                f"{self.name} is not on this machine; shiftproof data pull {self.name} downloads"
                f" it, or shiftproof data import {self.name} PATH takes a folder or archive you"
                " have"
            )
        samples, notes = find_images(folder_of(self.name))
        foreign = [s for s in samples if not _belongs(s, self.card)]
        if foreign:
            raise DataError(
                f"{foreign[0].path} is in no domain and class of {self.name}; delete it"
            )
        notes = [*state_notes(type(self), count(samples, self.card)), *notes]
        dataset = image_dataset(
            self.name, samples, self, classes=self.card.classes, notes=notes, progress=progress
        )
        card = self.card
        return replace(
            dataset, regime=card.regime, backbone=card.backbone, eval_every=card.eval_every
        )


def find_by_folders(folders: Sequence[Path], card: DatasetCard, progress: Progress) -> Found:
    """Find the images of a card's domains and classes by the names of their folders.

    A domain is a folder of that name which holds a class; both are known by their letters and
    digits alone, whatever the case.  Nothing else is taken, and two folders for one are an error.
    """
    domains, classes = _by_key(card.counts), _by_key(card.classes)
    places: dict[str, Path] = {}
    for folder in folders:
        for place in _domain_folders(folder, domains, classes, DEEPEST):
            domain = domains[key_of(place.name)]
            _assign(places, domain, place, f"domain {domain}")
    samples: list[LabelledPath] = []
    notes = []
    for domain in card.counts:
        if domain not in places:
            continue
        progress(f"looking into {domain}", len(samples), sum(card.counts.values()))
        labelled: dict[str, Path] = {}
        foreign = []
        for folder in subfolders(places[domain]):
            if key_of(folder.name) in classes:
                label = classes[key_of(folder.name)]
                _assign(labelled, label, folder, f"class {label} of {domain}")
            else:
                foreign.append(folder.name)
        if foreign:
            notes.append(f"{domain}: folders of no known class were left out ({_listed(foreign)})")
        for label in card.classes:
            if label in labelled:
                samples += [LabelledPath(p, label, domain) for p in images_in(labelled[label])]
    return Found(samples, notes)


def key_of(name: str) -> str:
    """Return what two spellings of one name share.

    >>> key_of("Real World") == key_of("real_world") == key_of("RealWorld")
    True
    """
    return "".join(character for character in name.casefold() if character.isalnum())


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder by name; hidden ones and macOS's own are left out."""
    return [path for path in _visible(folder) if path.is_dir()]


def images_in(folder: Path) -> list[Path]:
    """Return the image files directly in a folder, by name."""
    return [path for path in _visible(folder) if path.suffix.lower() in SUFFIXES and path.is_file()]


def _visible(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not p.name.startswith((".", "__MACOSX")))


def _domain_folders(
    folder: Path, domains: Mapping[str, str], classes: Mapping[str, str], deeper: int
) -> Iterator[Path]:
    inner = subfolders(folder)
    if key_of(folder.name) in domains and any(key_of(path.name) in classes for path in inner):
        yield folder
    elif deeper:
        for path in inner:
            yield from _domain_folders(path, domains, classes, deeper - 1)


def _assign(places: dict[str, Path], name: str, place: Path, what: str) -> None:
    if name in places:
        raise DataError(
            f"two folders for the {what}: {places[name]} and {place}; import a folder that"
            " holds one of them"
        )
    places[name] = place


def _by_key(names: Iterable[str]) -> dict[str, str]:
    return {key_of(name): name for name in names}


def _belongs(sample: LabelledPath, card: DatasetCard) -> bool:
    return sample.domain in card.counts and sample.label in card.classes


def _listed(names: Iterable[str], shown: int = 5) -> str:
    names = list(names)
    return ", ".join(names[:shown]) + (", …" if len(names) > shown else "")
