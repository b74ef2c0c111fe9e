"""Image transforms of the DomainBed protocol, on torchvision's kernels.

Both views return uint8 pixels; the network normalises them, because the normalisation belongs to
its weights.  The kernels are those of torchvision's v2 transforms.  The random numbers are not,
because torchvision uses one generator per process, and here any thread may transform any image.

torch and torchvision take seconds to import, so they are imported with the first image.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from torch import Tensor

# The protocol's settings (see training_view).
AREA = (0.7, 1.0)
ASPECT = (3 / 4, 4 / 3)
JITTER = 0.3
GREY = 0.1


def evaluation_view(image: Image.Image, size: int) -> Image.Image:
    """Return the whole image, resized bilinearly to `size` × `size`."""
    from torchvision.transforms.v2 import functional as F  # type: ignore[import-untyped]

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
