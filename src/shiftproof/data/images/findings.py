"""Check a set of labelled images for missing, unreadable, repeated or leaked files.

A finding says what is wrong, where, and what to do.  `check_images` uses the records of the files
(see `data.images.index`) and reads no file itself.  It finds exact copies (the same bytes) and
near-identical pictures: the same picture compressed, rescaled, or slightly lighter or darker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from shiftproof.core.text import counted
from shiftproof.data.images.index import ImageRecord
from shiftproof.data.images.near_identical import near_identical

# With fewer images, the 20% held out for validation may be empty.
FEWEST_PER_CLASS = 5
EXAMPLES = 5
MOST_IN_A_LINE = 4

Severity = Literal["error", "warning", "note"]
Expected = Mapping[str, Mapping[str, int] | int]


class LabelledImage(NamedTuple):
    """An image file with its domain and label."""

    record: ImageRecord
    domain: str
    label: str


Group = tuple[LabelledImage, ...]


class Finding(NamedTuple):
    """One problem, the first few places where it occurs, and what to do.

    An error makes results wrong, a warning may, a note rarely does.
    """

    severity: Severity
    what: str
    where: list[str]
    advice: str


# Severity, what is wrong, what to do.
_Words = tuple[Severity, str, str]


def difference(group: Group) -> tuple[bool, bool]:
    """Return whether the labels differ, and whether the domains differ."""
    return len({image.label for image in group}) > 1, len({image.domain for image in group}) > 1


COPIES: tuple[_Words, ...] = (
    (
        "error",
        "{files} files are copies of {groups}, with different labels.",
        "Keep each image under its correct label and delete the other copies.",
    ),
    (
        "error",
        "{files} files are copies of {groups}, in different domains:"
        " a model is tested on images that it was trained on.",
        "Keep each image in one domain and delete the other copies.",
    ),
    (
        "warning",
        "{files} files are copies of {groups}, each in one class of one domain:"
        " the validation split holds copies of training images.",
        "Delete all copies but one.",
    ),
)
LOOKALIKES: tuple[_Words, ...] = (
    (
        "warning",
        "Nearly identical pictures: {groups} with different labels.",
        "Look at them; if one is a copy of the other, delete the one with the wrong label.",
    ),
    (
        "warning",
        "Nearly identical pictures: {groups} in different domains;"
        " a model may be tested on images that it was trained on.",
        "Look at them; if one is a copy of the other, keep it in one domain only.",
    ),
    (
        "note",
        "Nearly identical pictures: {groups} in one class of one domain;"
        " accuracy on the validation split may be too high.",
        "Look at them; if one is a copy of the other, delete one.",
    ),
)


def repeated_images(
    groups: Sequence[Group], words: tuple[_Words, ...], noun: str, sign: str
) -> Iterator[Finding]:
    """Yield a finding each for groups that differ in label, in domain, and in neither."""
    kinds: tuple[list[Group], ...] = ([], [], [])
    for group in groups:
        other_label, other_domain = difference(group)
        kinds[0 if other_label else 1 if other_domain else 2].append(group)
    for kind, (severity, what, advice) in zip(kinds, words, strict=True):
        what = what.format(files=f"{sum(map(len, kind)):,}", groups=counted(len(kind), noun))
        lines = [_joined(group, sign, with_label=kind is kinds[0]) for group in kind[:EXAMPLES]]
        yield Finding(severity, what, lines, advice)


def unexpected_counts(
    counts: Mapping[str, Mapping[str, int]], expected: Expected
) -> Iterator[Finding]:
    """Yield findings for domains and classes with more or fewer images than expected."""
    # (where, number of images, expected number)
    compared: list[tuple[str, int, int]] = []
    for domain in sorted({*counts, *expected}):
        by_class, wanted = counts.get(domain, {}), expected.get(domain, 0)
        if isinstance(wanted, int):
            compared.append((domain, sum(by_class.values()), wanted))
        else:
            compared += [
                (f"{domain}/{label}", by_class.get(label, 0), wanted.get(label, 0))
                for label in sorted({*by_class, *wanted})
            ]
    total = sum(wanted for _, _, wanted in compared)
    missing = sum(max(wanted - n, 0) for _, n, wanted in compared)
    yield Finding(
        "error",
        f"{missing:,} of {counted(total, 'image')} are missing.",
        [f"{where}: {n:,} of {wanted:,}" for where, n, wanted in compared if n < wanted],
        "Add the missing files, or report every result as one on an incomplete set.",
    )
    surplus = sum(max(n - wanted, 0) for _, n, wanted in compared)
    yield Finding(
        "warning",
        f"{counted(surplus, 'image')} more than expected.",
        [f"{where}: {n:,} instead of {wanted:,}" for where, n, wanted in compared if n > wanted],
        "Remove files that are not part of the set.",
    )


def unbalanced_classes(usable: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    """Yield findings for domains without images, without some classes, or with rare classes."""
    present = {
        domain: [label for label, n in classes.items() if n] for domain, classes in usable.items()
    }
    labels = sorted({label for classes in present.values() for label in classes})
    empty = [domain for domain, classes in present.items() if not classes]
    what = f"{counted(len(empty), 'domain')} without a readable image."
    yield Finding("error", what, empty, "Add images or delete the folder.")
    if len(labels) == 1:
        advice = "Add images of another class."
        yield Finding("error", "All images have the same class.", labels, advice)
        return
    single = [f"{domain}: {classes[0]}" for domain, classes in present.items() if len(classes) == 1]
    yield Finding(
        "warning",
        f"{counted(len(single), 'domain')} with images of one class only:"
        " there, the domain determines the class.",
        single,
        "Add images of other classes, or leave the domain out of training.",
    )
    lacking = [
        f"{domain}: no {', '.join(label for label in labels if label not in classes)}"
        for domain, classes in present.items()
        if 1 < len(classes) < len(labels)
    ]
    yield Finding(
        "warning",
        f"{counted(len(lacking), 'domain')} without images of some classes.",
        lacking,
        "Add images of these classes, or expect lower accuracy on them.",
    )
    few = [
        f"{domain}/{label}: {n}"
        for domain, classes in usable.items()
        for label, n in classes.items()
        if 0 < n < FEWEST_PER_CLASS
    ]
    yield Finding(
        "warning",
        f"{counted(len(few), 'class of a domain')} with fewer than {FEWEST_PER_CLASS} images:"
        " the validation split may hold none of them.",
        few,
        "Add images of these classes.",
    )


def _joined(group: Group, sign: str, with_label: bool) -> str:
    """Name a few files of a group, starting with one of each domain and label."""
    first: dict[tuple[str, str], int] = {}
    for position, image in enumerate(group):
        first.setdefault((image.domain, image.label), position)
    others = sorted(set(range(len(group))) - set(first.values()))
    chosen = [group[position] for position in [*first.values(), *others][:MOST_IN_A_LINE]]
    names = sign.join(_named(image, with_label) for image in chosen)
    left = len(group) - len(chosen)
    return f"{names} and {left:,} more" if left else names


def _named(image: LabelledImage, with_label: bool = False) -> str:
    name = str(image.record.path)
    name = name if name.isprintable() else repr(name)
    return f"{name} ({image.domain}, {image.label})" if with_label else name


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
        unreadable = f"{counted(len(self.unreadable), 'file')} cannot be read as an image."
        errors = [f"{_named(image)}: {image.record.error}" for image in self.unreadable]
        advice = "Copy or download the files again, or delete them."
        usable = {domain: Counter(classes) for domain, classes in self.counts.items()}
        for image in self.unreadable:
            usable[image.domain][image.label] -= 1
        rules = [
            *repeated_images(self.copies, COPIES, "image", " = "),
            Finding("error", unreadable, errors, advice),
            *(() if self.expected is None else unexpected_counts(self.counts, self.expected)),
            *unbalanced_classes(usable),
            *repeated_images(self.lookalikes, LOOKALIKES, "pair of files", " ≈ "),
        ]
        problems = [rule._replace(where=rule.where[:EXAMPLES]) for rule in rules if rule.where]
        if not usable:
            advice = "Add images or delete the folder."
            problems.append(Finding("error", "There are no images.", [], advice))
        order: list[Severity] = ["error", "warning", "note"]
        return sorted(problems, key=lambda finding: order.index(finding.severity))

    def to_json(self) -> dict[str, Any]:
        """Return the result, with complete lists of files, as JSON values."""
        return {
            "sound": self.sound,
            "findings": [finding._asdict() for finding in self.findings()],
            "counts": _plain(self.counts),
            "expected": None if self.expected is None else _plain(self.expected),
            "unreadable": _files(self.unreadable),
            "copies": list(map(_files, self.copies)),
            "lookalikes": list(map(_files, self.lookalikes)),
            "notes": list(self.notes),
        }


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
    kinds = [{(image.domain, image.label): image for image in group} for group in (these, those)]
    return max(product(*(kind.values() for kind in kinds)), key=difference)


def _plain(counts: Expected) -> dict[str, dict[str, int] | int]:
    return {name: n if isinstance(n, int) else dict(n) for name, n in counts.items()}


def _files(images: Group) -> list[dict[str, str]]:
    return [
        {"path": str(record.path), "domain": domain, "label": label}
        | ({} if record.readable else {"error": record.error})
        for record, domain, label in images
    ]
