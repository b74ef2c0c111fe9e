"""How much of a published set is there: its images against the card's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shiftproof.data.base import DatasetCard
from shiftproof.data.images.files import LabelledPath

if TYPE_CHECKING:
    from shiftproof.data.library.store import KeptSet

# Images by domain, and in each by class in the order of the card's classes.
Counts = Mapping[str, tuple[int, ...]]


def count(samples: Sequence[LabelledPath], card: DatasetCard) -> Counts:
    """Return how many images there are in each of the card's domains and classes."""
    found = Counter((sample.domain, sample.label) for sample in samples)
    return {domain: tuple(found[domain, label] for label in card.classes) for domain in card.counts}


def lacks(source: type[KeptSet], counts: Counts) -> list[str]:
    """Say which domains and classes have fewer images than were published."""
    card = source.card
    short = []
    for domain, published in card.counts.items():
        found = sum(counts[domain])
        least, _ = source.bounds.get(domain, (published, published))
        by_class = card.class_counts.get(domain, (1,) * len(card.classes))
        rows = zip(card.classes, counts[domain], by_class, strict=True)
        few = [label for label, n, least_n in rows if n < least_n]
        if found < least:
            short.append(f"{domain} {found:,} of {published:,}")
        elif few:
            short.append(f"{domain} {found:,} of {published:,}, but too few of {_listed(few)}")
    return short


def surplus(source: type[KeptSet], counts: Counts) -> list[str]:
    """Say which domains have more images than were ever published."""
    many = []
    for domain, published in source.card.counts.items():
        _, most = source.bounds.get(domain, (published, published))
        if sum(counts[domain]) > most:
            many.append(f"{domain} {sum(counts[domain]):,} instead of {published:,}")
    return many


def expected(source: type[KeptSet], counts: Counts) -> dict[str, dict[str, int] | int]:
    """Return how many images a domain, or each class in it, should have.

    Where no single number is certain, a domain that lies within its bounds is as it should be.
    """
    card = source.card
    should: dict[str, dict[str, int] | int] = {}
    for domain, published in card.counts.items():
        found = sum(counts[domain])
        least, most = source.bounds.get(domain, (published, published))
        if domain in card.class_counts:
            should[domain] = dict(zip(card.classes, card.class_counts[domain], strict=True))
        else:
            should[domain] = found if least <= found <= most else published
    return should


def state_notes(source: type[KeptSet], counts: Counts) -> list[str]:
    """Say in what a set differs from the published one, for whoever trains on it."""
    name = source.name
    total, published = sum(map(sum, counts.values())), sum(source.card.counts.values())
    notes = []
    if short := lacks(source, counts):
        notes.append(
            f"{name} is incomplete: {total:,} of {published:,} images ({'; '.join(short)});"
            f" shiftproof data import {name} PATH, or data pull {name}, brings the full set"
        )
    if many := surplus(source, counts):
        notes.append(f"{name} has more images than were published: {'; '.join(many)}")
    return notes


def _listed(names: Sequence[str], shown: int = 3) -> str:
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")
