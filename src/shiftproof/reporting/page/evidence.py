"""What a page shows besides the outputs of runs: it needs the data, so `study` collects it.

A page is made from runs, which do not contain the data.  `study` has both, and writes what the page
needs from the data to `study.json`: how many inputs are unlike the training data, the most
confident errors, and how columns or images differ between domains.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json
from shiftproof.core.json_values import rebuilt

# The side of a picture.
SIDE = 112


@dataclass(frozen=True)
class ConfidentError:
    """A sample that the model predicts wrongly; `row` is its number within its domain.

    It has `cells` (names and values as text) or an `image` (a `data:` URL).
    """

    domain: str
    row: int
    label: str
    predicted: str
    probability: float
    cells: Sequence[tuple[str, str]] = ()
    image: str = ""

    def __post_init__(self) -> None:
        _require_picture(self.image)


@dataclass(frozen=True)
class ColumnByDomain:
    """Five quantiles (5, 25, 50, 75, 95%) of a column by domain; None if it has no values there.

    `missing` is the share of missing values.
    """

    name: str
    quantiles: Mapping[str, Sequence[float] | None]
    missing: Mapping[str, float]

    def __post_init__(self) -> None:
        for five in self.quantiles.values():
            if five is not None and not (len(five) == 5 and sorted(five) == list(five)):
                raise ValueError(f"the quantiles of {self.name} are not five numbers in order")
        if self.quantiles.keys() != self.missing.keys():
            raise ValueError(f"the quantiles of {self.name} do not fit its domains")


@dataclass(frozen=True)
class Evidence:
    """The evidence of a study.

    `noun` is the word for a domain, and `label` the label column.  `far` is the share of inputs of
    each held-out domain that are unlike the training data, None if the model cannot tell.  `images`
    are a few images of each domain, as `data:` URLs.
    """

    noun: str = "domain"
    label: str = ""
    rows: int = 0
    columns: int = 0
    seconds: float = 0.0
    far: Mapping[str, float | None] = field(default_factory=dict)
    errors: Sequence[ConfidentError] = ()
    shifted: Sequence[ColumnByDomain] = ()
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pictures in self.images.values():
            for picture in pictures:
                _require_picture(picture)

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON values, which `read_evidence` reads."""
        return asdict(self)


def read_evidence(path: Path) -> Evidence:
    """Read what `study` wrote; raise `DataError` if the file is damaged."""
    try:
        evidence: Evidence = rebuilt(Evidence, read_json(path))
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); run the study again") from error
    return evidence


def _require_picture(text: str) -> None:
    if text and not text.startswith("data:image/"):
        raise ValueError("a picture is not in the file itself")


def image_address(image: np.ndarray) -> str:
    """Return the `data:` URL of an image [height, width, channels] in [0, 1].

    A small image is enlarged without smoothing and stored as PNG; others become JPEG.
    """
    from PIL import Image

    pixels = (np.clip(image, 0, 1) * 255).astype(np.uint8)
    drawn = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    small = min(drawn.size) < SIDE // 2
    out = io.BytesIO()
    if small:
        times = SIDE // max(drawn.size)
        size = (times * drawn.width, times * drawn.height)
        drawn.resize(size, Image.Resampling.NEAREST).save(out, format="PNG")
    else:
        drawn.resize((SIDE, SIDE)).convert("RGB").save(out, format="JPEG", quality=80)
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"
