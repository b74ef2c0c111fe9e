"""Check a set of labelled images for missing, unreadable, repeated or leaked files.

`check_images` uses the records of the files (see `data.images.index`) and reads no file itself.  It
finds exact copies (the same bytes) and near-identical pictures: the same picture compressed,
rescaled, or slightly lighter or darker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from shiftproof.data.images.findings import (
    COPIES,
    LOOKALIKES,
    Expected,
    Finding,
    Group,
    LabelledImage,
    Severity,
    difference,
    repeated_images,
    unbalanced_classes,
    unexpected_counts,
    unreadable_images,
)
from shiftproof.data.images.near_identical import near_identical


@dataclass(frozen=True)
class ImageCheck:
    """The result of `check_images`.

    `counts` gives the number of files by domain and class, readable or not; `expected` gives the
    expected numbers, by class or, if only these are known, by domain.  `copies` are groups of files
    with the same bytes; `lookalikes` are near-identical pairs with different bytes, enough to
    connect each group of near-identical files.  `notes` report what was left out.
    """

    counts: Mapping[str, Mapping[str, int]]
    expected: Expected | None
    unreadable: Group
    copies: tuple[Group, ...]
    lookalikes: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether there are no errors."""
        return all(finding.severity != "error" for finding in self.findings())

    def findings(self) -> list[Finding]:
        """Return the problems found, errors first."""
        order: list[Severity] = ["error", "warning", "note"]
        found = [
            *repeated_images(self.copies, COPIES, " = "),
            *unreadable_images(self.unreadable),
            *unexpected_counts(self.counts, self.expected),
            *unbalanced_classes(self._usable()),
            *repeated_images(self.lookalikes, LOOKALIKES, " ≈ "),
        ]
        return sorted(found, key=lambda finding: order.index(finding.severity))

    def to_json(self) -> dict[str, Any]:
        """Return the result, with complete lists of files, as JSON values."""
        return {
            "sound": self.sound,
            "findings": [finding._asdict() for finding in self.findings()],
            "counts": _plain(self.counts),
            "expected": None if self.expected is None else _plain(self.expected),
            "unreadable": [_place(image) for image in self.unreadable],
            "copies": [[_place(image) for image in group] for group in self.copies],
            "lookalikes": [[_place(image) for image in pair] for pair in self.lookalikes],
            "notes": list(self.notes),
        }

    def _usable(self) -> dict[str, Counter[str]]:
        usable = {domain: Counter(classes) for domain, classes in self.counts.items()}
        for image in self.unreadable:
            usable[image.domain][image.label] -= 1
        return usable


def check_images(images: Sequence[LabelledImage], expected: Expected | None = None) -> ImageCheck:
    """Check a set of labelled images.

    `expected` is the number of images of each domain, or of each class in it.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    by_content: defaultdict[str, list[LabelledImage]] = defaultdict(list)
    for image in images:
        counts[image.domain][image.label] += 1
        if image.record.readable:
            by_content[image.record.sha256].append(image)
    contents = [tuple(group) for group in by_content.values()]
    pairs = near_identical([group[0].record.thumbnail for group in contents])
    return ImageCheck(
        {domain: dict(sorted(classes.items())) for domain, classes in sorted(counts.items())},
        expected,
        tuple(image for image in images if not image.record.readable),
        tuple(group for group in contents if len(group) > 1),
        tuple(_most_telling(contents[first], contents[second]) for first, second in pairs),
    )


def _most_telling(these: Group, those: Group) -> Group:
    """Choose a pair from the copies of two pictures, preferring different labels, then domains."""
    places = [{(image.domain, image.label): image for image in group} for group in (these, those)]
    return max(product(*(place.values() for place in places)), key=difference)


def _plain(counts: Expected) -> dict[str, dict[str, int] | int]:
    return {name: n if isinstance(n, int) else dict(n) for name, n in counts.items()}


def _place(image: LabelledImage) -> dict[str, str]:
    place = {"path": str(image.record.path), "domain": image.domain, "label": image.label}
    return place if image.record.readable else place | {"error": image.record.error}
