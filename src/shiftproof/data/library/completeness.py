"""Compare the number of images of a dataset in the library with the numbers on its card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shiftproof.core.text import listed
from shiftproof.data.base import DatasetCard
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.base import Counts, LibraryDataset


def count(samples: Sequence[LabelledPath], card: DatasetCard) -> Counts:
    """Return the number of images in each of the card's domains and classes."""
    found = Counter((sample.domain, sample.label) for sample in samples)
    return {domain: tuple(found[domain, label] for label in card.classes) for domain in card.counts}


def shortages(source: type[LibraryDataset], counts: Counts) -> list[str]:
    """Describe the domains and classes with fewer images than published."""
    card = source.card
    short = []
    for domain, published in card.counts.items():
        found = sum(counts[domain])
        least, _ = source.bounds.get(domain, (published or 1, published))
        default = (1 if published and source.every_class else 0,) * len(card.classes)
        by_class = card.class_counts.get(domain, default)
        rows = zip(card.classes, counts[domain], by_class, strict=True)
        few = [label for label, n, least_n in rows if n < least_n]
        if found < least:
            of = f" of {published:,}" if published else ", number unknown"
            short.append(f"{domain} {found:,}{of}")
        elif few:
            short.append(f"{domain} {found:,} of {published:,}, but too few of {listed(few, 3)}")
    return short


def surplus(source: type[LibraryDataset], counts: Counts) -> list[str]:
    """Describe the domains with more images than were ever published."""
    many = []
    for domain, published in source.card.counts.items():
        _, most = source.bounds.get(domain, (published, published))
        if published and sum(counts[domain]) > most:
            many.append(f"{domain} {sum(counts[domain]):,} instead of {published:,}")
    return many


def expected_counts(
    source: type[LibraryDataset], counts: Counts
) -> dict[str, dict[str, int] | int]:
    """Return the expected number of images of each domain, or of each class in it.

    If the exact number is uncertain, any number within the bounds is as expected.
    """
    card = source.card
    expected: dict[str, dict[str, int] | int] = {}
    for domain, published in card.counts.items():
        found = sum(counts[domain])
        least, most = source.bounds.get(domain, (published, published))
        if domain in card.class_counts:
            expected[domain] = dict(zip(card.classes, card.class_counts[domain], strict=True))
        else:
            expected[domain] = found if not published or least <= found <= most else published
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
