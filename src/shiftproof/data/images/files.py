"""Image files as inputs: read when needed, or kept in memory as pixels if they fit.

The transforms are those of the DomainBed protocol, on torchvision's kernels (v2).  Both views
return uint8 pixels; the network normalises them, because the normalisation belongs to its weights.
The random numbers are not torchvision's, which uses one generator per process: here any thread may
transform any image.  torch and torchvision take seconds to import, so they are imported with the
first image.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from shiftproof.core.errors import DataError
from shiftproof.core.space import hparam
from shiftproof.core.text import counted, listed
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.domain import Domain, LazyInputs
from shiftproof.data.images.index import ImageRecord, decode, scan
from shiftproof.data.prefetch import prefetch

if TYPE_CHECKING:
    from torch import Tensor

# Threads that decode images while they are loaded into memory.
LOADERS = 4


@dataclass(frozen=True)
class ImageView:
    """The options of every set of image files."""

    image_size: int = hparam(224, within=(8, 4096), help="height and width of an input, in pixels")
    augment: bool = hparam(
        True, help="train on random views (crop, mirror, colours); evaluate on the whole image"
    )


class LabelledPath(NamedTuple):
    """An image file with its label and domain; for regression, `number` is the label.

    `name` is the file's name in the library, if it differs from that of `path`.
    """

    path: Path
    label: str
    domain: str
    name: str = ""
    number: float = math.nan


def numbered_path(path: Path, number: float, domain: str) -> LabelledPath:
    """Return an image file whose label is a number."""
    return LabelledPath(path, f"{number:g}", domain, number=float(number))


class ImageFiles(LazyInputs):
    """Image files with one view: uint8 [n, 3, image_size, image_size]."""

    def __init__(self, records: Sequence[ImageRecord], view: ImageView) -> None:
        self.records = tuple(records)
        self.view = view
        self.shape = (len(self.records), 3, view.image_size, view.image_size)

    def read(self, index: np.ndarray) -> Tensor:
        """Return the whole images, resized."""
        size = self.view.image_size
        return stacked(evaluation_view(self.picture(i), size) for i in index)

    def draw(self, index: np.ndarray, seeds: np.ndarray) -> Tensor:
        """Return random views, each drawn with its own seed; whole images without `augment`."""
        if not self.view.augment:
            return self.read(index)
        size = self.view.image_size
        return stacked(
            training_view(self.picture(i), size, np.random.default_rng(seed))
            for i, seed in zip(index, seeds, strict=True)
        )

    def digest(self) -> bytes:
        """Return a hash of the files' content and of the view."""
        digest = hashlib.sha256(repr(self.view).encode())
        for record in self.records:
            digest.update(bytes.fromhex(record.sha256))
        return digest.digest()

    def without_augmentation(self) -> ImageFiles:
        """Return the same files, without random views."""
        return ImageFiles(self.records, replace(self.view, augment=False))

    @property
    def nbytes(self) -> int:
        """The size of the decoded images in memory, in bytes."""
        return sum(record.width * record.height * 3 for record in self.records)

    def in_memory(self) -> ImageFiles:
        """Return the same images, decoded in memory."""
        return DecodedImages(self)

    def picture(self, position: int) -> Image.Image:
        """Return one image, neither resized nor augmented.

        Runs and features are identified by the content of the files, so a changed file is an error.
        """
        record = self.records[position]
        path = record.path
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} can no longer be read ({error.strerror})") from error
        if hashlib.sha256(data).hexdigest() != record.sha256:
            raise DataError(f"{path} has changed since the images were read; load them again")
        return decode(data, path)


class DecodedImages(ImageFiles):
    """Image files whose pixels are in memory."""

    def __init__(self, files: ImageFiles) -> None:
        super().__init__(files.records, files.view)
        pictures = prefetch(files.picture, range(len(files)), LOADERS)
        self._pixels = [np.asarray(picture) for picture in pictures]

    def picture(self, position: int) -> Image.Image:
        """Return one image, neither resized nor augmented."""
        return Image.fromarray(self._pixels[position])

    def in_memory(self) -> ImageFiles:
        """Return itself."""
        return self


def image_dataset(
    name: str,
    samples: Sequence[LabelledPath],
    view: ImageView,
    *,
    classes: Sequence[str] = (),
    targets: Sequence[str] = (),
    notes: Sequence[str] = (),
    progress: Progress = silent,
) -> DomainDataset:
    """Return labelled image files as a dataset; domains and classes are sorted by name.

    Every file is read once, and an index stores the result.  Files that cannot be read are left out
    with a note.  All domains share one list of classes; for regression it is empty, and `targets`
    names the number to predict.
    """
    records = scan([sample.path for sample in samples], progress)
    pairs = list(zip(samples, records, strict=True))
    class_names = () if targets else tuple(classes or sorted({s.label for s in samples}))
    codes = {label: code for code, label in enumerate(class_names)}
    domains = []
    for domain in sorted({sample.domain for sample in samples}):
        images = [(s, r) for s, r in pairs if s.domain == domain and r.readable]
        if not images:
            raise DataError(
                f"domain {domain!r} of {name} has no image that can be read; remove the folder or"
                " replace its files"
            )
        labels = np.array([codes[s.label] if codes else s.number for s, _ in images])
        domains.append(Domain(domain, ImageFiles([record for _, record in images], view), labels))
    return DomainDataset(
        name,
        tuple(domains),
        class_names,
        regime="large-image",
        backbone="resnet50",
        eval_every=300,
        notes=(*notes, *_unreadable(pairs), *_missing_classes(domains, class_names)),
        targets=tuple(targets),
    )


def _unreadable(pairs: Sequence[tuple[LabelledPath, ImageRecord]]) -> Iterator[str]:
    """Yield a note for each domain with images that were left out."""
    broken: dict[str, list[tuple[LabelledPath, ImageRecord]]] = {}
    for sample, record in pairs:
        if not record.readable:
            broken.setdefault(sample.domain, []).append((sample, record))
    for domain, images in broken.items():
        sample, record = images[0]
        yield (
            f"domain {domain!r}: left out {counted(len(images), 'image')} that cannot be read, the"
            f" first {sample.path} ({record.error})"
        )


def _missing_classes(domains: Sequence[Domain], classes: Sequence[str]) -> Iterator[str]:
    for domain in domains:
        missing = set(range(len(classes))).difference(domain.label_array.tolist())
        if missing:
            names = [classes[code] for code in sorted(missing)]
            yield (
                f"domain {domain.name!r} has no sample of {len(missing)} of {len(classes)} classes"
                f" ({listed(names, most=5)})"
            )


# The protocol's settings (see training_view).
AREA = (0.7, 1.0)
ASPECT = (3 / 4, 4 / 3)
JITTER = 0.3
GREY = 0.1


def evaluation_view(image: Image.Image, size: int) -> Image.Image:
    """Return the whole image, resized bilinearly to `size` × `size`."""
    from torchvision.transforms.v2 import functional as F

    resized: Image.Image = F.resize(image, [size, size])
    return resized


def training_view(image: Image.Image, size: int, rng: np.random.Generator) -> Image.Image:
    """Return a random view of the image, of size `size` × `size`.

    The view is a crop of 70–100% of the area with an aspect ratio from 3:4 to 4:3, flipped
    horizontally with probability 0.5.  Brightness, contrast and saturation change by factors in
    [0.7, 1.3] and hue by a shift in [−0.3, 0.3], in random order; it is grey with probability 0.1.
    """
    from torchvision.transforms.v2 import functional as F

    top, left, height, width = random_crop(image.height, image.width, rng)
    view = F.resized_crop(image, top, left, height, width, [size, size])
    if rng.random() < 0.5:
        view = F.horizontal_flip(view)
    factors = rng.uniform(1 - JITTER, 1 + JITTER, size=3)
    turn = rng.uniform(-JITTER, JITTER)
    changes = [
        lambda picture: F.adjust_brightness(picture, factors[0]),
        lambda picture: F.adjust_contrast(picture, factors[1]),
        lambda picture: F.adjust_saturation(picture, factors[2]),
        lambda picture: F.adjust_hue(picture, turn),
    ]
    for position in rng.permutation(len(changes)):
        view = changes[position](view)
    if rng.random() < GREY:
        view = F.rgb_to_grayscale(view, num_output_channels=3)
    jittered: Image.Image = view
    return jittered


def random_crop(height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw (top, left, height, width) of a crop by Inception's rule (Szegedy et al., 2015).

    The share of the area is U(AREA) and the aspect ratio is exp U(log ASPECT), independently.  If
    ten draws do not fit into the image, return the largest centred crop with an allowed ratio.
    """
    for _ in range(10):
        area = height * width * rng.uniform(*AREA)
        ratio = math.exp(rng.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
            return int(top), int(left), h, w
    ratio = min(max(width / height, ASPECT[0]), ASPECT[1])
    w, h = min(width, round(height * ratio)), min(height, round(width / ratio))
    w, h = max(w, 1), max(h, 1)
    return (height - h) // 2, (width - w) // 2, h, w


def stacked(images: Iterable[Image.Image]) -> Tensor:
    """Return the pixels of images of one size as uint8 [n, channels, height, width]."""
    import torch

    return torch.stack([to_pixels(image) for image in images])


def to_pixels(image: Image.Image) -> Tensor:
    """Return an RGB image as uint8 [3, height, width]."""
    import torch

    return torch.from_numpy(np.array(image)).permute(2, 0, 1)
