"""Is this image set sound?  What is wrong with it, where, and what to do about it.

`examine` looks at what is known of the files (see `data.images.index`) and
reads nothing itself.  The copies it looks for are exact, the same bytes, or near-identical: the
same picture compressed, rescaled, or made a little lighter or darker, but not another like it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from shiftproof.data.images.index import ImageRecord
from shiftproof.data.images.near_identical import near_identical

# Of fewer images, a fifth, held out for validation, is none.
FEWEST_PER_CLASS = 5
EXAMPLES = 5
MOST_IN_A_LINE = 4

Severity = Literal["error", "warning", "note"]
Expected = Mapping[str, Mapping[str, int] | int]


class LabelledImage(NamedTuple):
    """An image file with its place in the set."""

    record: ImageRecord
    domain: str
    label: str


Group = tuple[LabelledImage, ...]


class Finding(NamedTuple):
    """One thing that a person should know, and the first few places where it is so.

    An error spoils results, a warning may, a note rarely does.
    """

    severity: Severity
    what: str
    where: list[str]
    advice: str


@dataclass(frozen=True)
class Examination:
    """What `examine` saw.

    ``counts`` are files by domain and class, readable or not; ``expected`` is what they should
    be, by class or, where no more is known, for a whole domain.  ``copies`` are groups of files
    with the same bytes; ``lookalikes`` are near-identical pairs with different bytes, enough of
    them to connect all that belong together.
    """

    counts: Mapping[str, Mapping[str, int]]
    expected: Expected | None
    unreadable: Group
    copies: tuple[Group, ...]
    lookalikes: tuple[Group, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing was found that spoils results."""
        return all(finding.severity != "error" for finding in self.findings())

    def findings(self) -> list[Finding]:
        """Return what was found, the worst first."""
        order: list[Severity] = ["error", "warning", "note"]
        found = [
            *_alike(self.copies, _COPIES, " = "),
            *_unreadable(self.unreadable),
            *_unexpected(self.counts, self.expected),
            *_unbalanced(self._usable()),
            *_alike(self.lookalikes, _LOOKALIKES, " ≈ "),
        ]
        return sorted(found, key=lambda finding: order.index(finding.severity))

    def to_json(self) -> dict[str, Any]:
        """Return everything, whole lists of files included, as JSON values."""
        return {
            "sound": self.sound,
            "findings": [finding._asdict() for finding in self.findings()],
            "counts": _plain(self.counts),
            "expected": None if self.expected is None else _plain(self.expected),
            "unreadable": [_place(image) for image in self.unreadable],
            "copies": [[_place(image) for image in group] for group in self.copies],
            "lookalikes": [[_place(image) for image in pair] for pair in self.lookalikes],
        }

    def _usable(self) -> dict[str, Counter[str]]:
        usable = {domain: Counter(classes) for domain, classes in self.counts.items()}
        for image in self.unreadable:
            usable[image.domain][image.label] -= 1
        return usable


def examine(images: Sequence[LabelledImage], expected: Expected | None = None) -> Examination:
    """Look for everything that may be wrong with a set of labelled images.

    ``expected`` is the number of images of each domain, or of each class in it.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    by_content: defaultdict[str, list[LabelledImage]] = defaultdict(list)
    for image in images:
        counts[image.domain][image.label] += 1
        if image.record.readable:
            by_content[image.record.sha256].append(image)
    contents = [tuple(group) for group in by_content.values()]
    pairs = near_identical([group[0].record.thumbnail for group in contents])
    return Examination(
        {domain: dict(sorted(classes.items())) for domain, classes in sorted(counts.items())},
        expected,
        tuple(image for image in images if not image.record.readable),
        tuple(group for group in contents if len(group) > 1),
        tuple(_most_telling(contents[first], contents[second]) for first, second in pairs),
    )


def _most_telling(these: Group, those: Group) -> Group:
    """Choose, from the copies of two pictures, a pair that differs in label, else in domain."""
    places = [{(image.domain, image.label): image for image in group} for group in (these, those)]
    return max(product(*(place.values() for place in places)), key=_difference)


# --- what was found, in words -----------------------------------------------------------------


class _Words(NamedTuple):
    severity: Severity
    what: str
    advice: str


def _difference(group: Group) -> tuple[bool, bool]:
    """Whether the labels differ, and whether the domains do."""
    return len({image.label for image in group}) > 1, len({image.domain for image in group}) > 1


_COPIES = (
    _Words(
        "error",
        "{files} files hold only {groups}, under different labels.",
        "Keep each image under its right label and delete the other copies.",
    ),
    _Words(
        "error",
        "{files} files hold only {groups}, in different domains:"
        " a model is tested on images that it was trained on.",
        "Keep each image in one domain and delete the other copies.",
    ),
    _Words(
        "warning",
        "{files} files hold only {groups}, each in one class of one domain:"
        " copies of training images are in the validation split.",
        "Delete all copies but one.",
    ),
)
_LOOKALIKES = (
    _Words(
        "warning",
        "Nearly the same picture is in {groups} under different labels.",
        "Look at them; where one is a copy of the other, delete the one with the wrong label.",
    ),
    _Words(
        "warning",
        "Nearly the same picture is in {groups} in different domains:"
        " a model may be tested on images that it was trained on.",
        "Look at them; where one is a copy of the other, keep it in one domain only.",
    ),
    _Words(
        "note",
        "Nearly the same picture is in {groups} in one class of one domain:"
        " accuracy on the validation split may be too good.",
        "Look at them; where one is a copy of the other, delete one.",
    ),
)


def _alike(groups: Sequence[Group], words: tuple[_Words, ...], sign: str) -> Iterator[Finding]:
    """Report groups once each, by the worst difference within: of label, of domain, of neither."""
    noun = "image" if words is _COPIES else "pair of files"
    kinds: tuple[list[Group], ...] = ([], [], [])
    for group in groups:
        other_label, other_domain = _difference(group)
        kinds[0 if other_label else 1 if other_domain else 2].append(group)
    for kind, (severity, what, advice) in zip(kinds, words, strict=True):
        if kind:
            files = f"{sum(map(len, kind)):,}"
            what = what.format(files=files, groups=_count(len(kind), noun))
            shown = [_listed(group, sign, with_label=kind is kinds[0]) for group in kind[:EXAMPLES]]
            yield Finding(severity, what, shown, advice)


def _unreadable(images: Group) -> Iterator[Finding]:
    if images:
        yield Finding(
            "error",
            f"{_count(len(images), 'file')} cannot be read as an image.",
            [f"{_named(image)}: {image.record.error}" for image in images[:EXAMPLES]],
            "Get the files anew from where they came from, or delete them.",
        )


def _unexpected(
    counts: Mapping[str, Mapping[str, int]], expected: Expected | None
) -> Iterator[Finding]:
    if expected is None:
        return
    # (where, found, wanted)
    compared: list[tuple[str, int, int]] = []
    for domain in sorted({*counts, *expected}):
        found, wanted = counts.get(domain, {}), expected.get(domain, 0)
        if isinstance(wanted, int):
            compared.append((domain, sum(found.values()), wanted))
        else:
            compared += [
                (f"{domain}/{label}", found.get(label, 0), wanted.get(label, 0))
                for label in sorted({*found, *wanted})
            ]
    total = sum(wanted for _, _, wanted in compared)
    few = [(where, n, wanted) for where, n, wanted in compared if n < wanted]
    if few:
        missing = sum(wanted - n for _, n, wanted in few)
        yield Finding(
            "error",
            f"{missing:,} of {_count(total, 'image')} are missing.",
            [f"{where}: {n:,} of {wanted:,}" for where, n, wanted in few[:EXAMPLES]],
            "Add the missing files, or call every result one of an incomplete set.",
        )
    many = [(where, n, wanted) for where, n, wanted in compared if n > wanted]
    if many:
        yield Finding(
            "warning",
            f"{_count(sum(n - wanted for _, n, wanted in many), 'image')} more than the set has.",
            [f"{where}: {n:,} instead of {wanted:,}" for where, n, wanted in many[:EXAMPLES]],
            "Remove what is not part of the set.",
        )


def _unbalanced(usable: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    """Report domains without images, with one class, without some class or with little of one."""
    present = {
        domain: [label for label, n in classes.items() if n] for domain, classes in usable.items()
    }
    labels = sorted({label for classes in present.values() for label in classes})
    empty = [domain for domain, classes in present.items() if not classes]
    if empty or not usable:
        what = f"{_count(len(empty), 'domain')} without a readable image."
        advice = "Add images or delete the folder."
        yield Finding("error", what if usable else "There are no images.", empty, advice)
    if len(labels) == 1:
        advice = "Add images of another class."
        yield Finding("error", "All images are of one class.", labels, advice)
        return
    single = [domain for domain, classes in present.items() if len(classes) == 1]
    if single:
        yield Finding(
            "warning",
            f"{_count(len(single), 'domain')} with images of one class only:"
            " what tells the domain also tells the class.",
            [f"{domain}: {present[domain][0]}" for domain in single[:EXAMPLES]],
            "Add images of other classes, or leave the domain out of training.",
        )
    lacking = {
        domain: [label for label in labels if label not in classes]
        for domain, classes in present.items()
        if 1 < len(classes) < len(labels)
    }
    if lacking:
        yield Finding(
            "warning",
            f"{_count(len(lacking), 'domain')} without images of some classes.",
            [f"{domain}: no {', '.join(names)}" for domain, names in lacking.items()][:EXAMPLES],
            "Add images of these classes, or expect lower accuracy on them.",
        )
    few = [
        (f"{domain}/{label}", n)
        for domain, classes in usable.items()
        for label, n in classes.items()
        if 0 < n < FEWEST_PER_CLASS
    ]
    if few:
        yield Finding(
            "warning",
            f"{_count(len(few), 'class')} of a domain with fewer than {FEWEST_PER_CLASS} images:"
            " validation may see none of them.",
            [f"{where}: {n}" for where, n in few[:EXAMPLES]],
            "Add images of these classes.",
        )


def _count(n: int, noun: str) -> str:
    """Write a number with its noun.

    >>> _count(1, "pair of files"), _count(1200, "pair of files"), _count(2, "class")
    ('1 pair of files', '1,200 pairs of files', '2 classes')
    """
    head, *rest = noun.split(" ")
    plural = head + ("es" if head.endswith("s") else "s") if n != 1 else head
    return " ".join([f"{n:,}", plural, *rest])


def _listed(group: Group, sign: str, with_label: bool) -> str:
    """Name the first few files of a group, those of different places before the rest."""
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


def _plain(counts: Expected) -> dict[str, dict[str, int] | int]:
    return {name: n if isinstance(n, int) else dict(n) for name, n in counts.items()}


def _place(image: LabelledImage) -> dict[str, str]:
    place = {"path": str(image.record.path), "domain": image.domain, "label": image.label}
    return place if image.record.readable else place | {"error": image.record.error}
