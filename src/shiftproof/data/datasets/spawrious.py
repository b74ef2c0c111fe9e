"""Spawrious: four breeds of dogs; the background predicts the breed in training but not in tests.

Each of the six challenges has the domain `Test` and the training domains `SC_group_1` and
`SC_group_2`.

- One-to-one (`o2o`): in group 1, 97% of the images of a breed have the background of that breed,
  and 87% in group 2; the others share one background.  In the test, breeds have other backgrounds.
- Many-to-many (`m2m`): two breeds share two backgrounds, one in each group, and have two other ones
  in the test.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from shiftproof.data.base import DATASETS, Progress
from shiftproof.data.datasets.image_benchmark import DEEPEST, ImageBenchmark, image_card
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.images.walk import folders_below, images_in
from shiftproof.data.library.base import Found

BREEDS = ("bulldog", "corgi", "dachshund", "labrador")
# The breeds in the order of the backgrounds below.
_ORDER = ("bulldog", "dachshund", "labrador", "corgi")
# Images of one breed in front of one background, in each of the folders 0 and 1.
EACH = 3168
SHARED = (int(0.97 * EACH), int(0.87 * EACH))
GROUPS = ("SC_group_1", "SC_group_2")
TEST = "Test"


class Part(NamedTuple):
    """Some images of one breed: the first `most` in the folder `half`/`background`/`breed`."""

    domain: str
    breed: str
    half: int
    background: str
    most: int


def one_to_one(train: str, test: str, filler: str) -> list[Part]:
    """Return the parts of a challenge in which each breed has one background."""
    parts = []
    for breed, background, other in zip(_ORDER, train.split(), test.split(), strict=True):
        for half, (group, most) in enumerate(zip(GROUPS, SHARED, strict=True)):
            parts += [
                Part(group, breed, half, background, most),
                Part(group, breed, half, filler, EACH - most),
                Part(TEST, breed, half, other, EACH),
            ]
    return parts


def many_to_many(train: str, test: str) -> list[Part]:
    """Return the parts of a challenge in which two breeds share two backgrounds."""
    parts = []
    for position, breed in enumerate(_ORDER):
        partner = position ^ 1  # 0 and 1 share their backgrounds, and so do 2 and 3
        for group, at in zip(GROUPS, (position, partner), strict=True):
            parts.append(Part(group, breed, 0, train.split()[at], EACH))
            parts.append(Part(TEST, breed, 0, test.split()[at], EACH))
    return parts


class Spawrious(ImageBenchmark):
    """A challenge of Spawrious; the background shifts.

    Backgrounds, shares and numbers are those of the publishers' code (`build_combination` in
    github.com/aengusl/spawrious, the same in DomainBed's `datasets.py`).  That code uses the images
    that the system lists first; here they are the first by name.  It trains without random crops;
    here all photographs are cropped in the same way.
    """

    parts: ClassVar[Sequence[Part]] = ()
    layout = "folders 0/BACKGROUND/BREED and 1/BACKGROUND/BREED, as in spawrious224"

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the images of each part."""
        backgrounds: dict[tuple[str, ...], Path] = {}
        for root in folders:
            for path in folders_below(root, DEEPEST):
                if path.name in BREEDS:
                    backgrounds[path.parent.parent.name, path.parent.name, path.name] = path
        samples: list[LabelledPath] = []
        for part in cls.parts:
            progress("finding images", len(samples), sum(cls.card.counts.values()))
            folder = backgrounds.get((str(part.half), part.background, part.breed))
            for path in images_in(folder)[: part.most] if folder else ():
                # The same name occurs in several folders.
                name = f"{part.half}-{part.background}-{path.name}"
                samples.append(LabelledPath(path, part.breed, part.domain, name))
        return Found(samples, [])


CHALLENGES = {
    "o2o-easy": one_to_one("desert jungle dirt snow", "dirt snow desert jungle", "beach"),
    "o2o-medium": one_to_one("mountain beach dirt jungle", "jungle dirt beach snow", "desert"),
    "o2o-hard": one_to_one("jungle mountain snow desert", "mountain snow desert jungle", "beach"),
    "m2m-easy": many_to_many("desert mountain dirt jungle", "dirt jungle mountain desert"),
    "m2m-medium": many_to_many("beach snow mountain desert", "desert mountain beach snow"),
    "m2m-hard": many_to_many("dirt jungle snow beach", "snow beach dirt jungle"),
}


def _challenge(name: str, parts: Sequence[Part]) -> type[Spawrious]:
    counts = {
        domain: tuple(
            sum(p.most for p in parts if (p.domain, p.breed) == (domain, breed)) for breed in BREEDS
        )
        for domain in (TEST, *GROUPS)
    }
    card = image_card(
        summary=f"dogs of four breeds, background correlated with the breed ({name})",
        counts={domain: sum(by_class) for domain, by_class in counts.items()},
        classes=BREEDS,
        class_counts=counts,
        eval_every=100,
        publication="Lynch et al. (2023), Spawrious: A Benchmark for Fine Control of Spurious"
        " Correlation Biases",
        licence="MIT, as the publishers' repository says (github.com/aengusl/spawrious)",
    )
    members = {"name": f"spawrious-{name}", "card": card, "parts": parts}
    words = name.title().replace("-", "")
    return type(f"Spawrious{words}", (Spawrious,), {**members, "__doc__": Spawrious.__doc__})


for _name, _parts in CHALLENGES.items():
    DATASETS.register(f"spawrious-{_name}")(_challenge(_name, _parts))
