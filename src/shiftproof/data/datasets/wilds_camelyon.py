"""Camelyon17 of WILDS: tumour in patches of lymph nodes from five hospitals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiftproof.core.errors import DataError
from shiftproof.core.text import quoted
from shiftproof.data.base import DATASETS, Progress
from shiftproof.data.datasets.image_benchmark import ImageBenchmark, image_card
from shiftproof.data.datasets.wilds import folder_with, listed_images
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.base import Found
from shiftproof.data.tables.cell_types import texts
from shiftproof.data.tables.read_file import read_frame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

METADATA = "metadata.csv"
CLASSES = ("normal", "tumor")
COUNTS = {
    "hospital_0": 59_436,
    "hospital_1": 34_904,
    "hospital_2": 85_054,
    "hospital_3": 129_838,
    "hospital_4": 146_722,
}
# The numbers of classes and hospitals in the metadata.
KNOWN = {
    "tumor": tuple(str(code) for code in range(len(CLASSES))),
    "center": tuple(domain.removeprefix("hospital_") for domain in COUNTS),
}


@DATASETS.register("wilds-camelyon")
class WildsCamelyon(ImageBenchmark):
    """Two classes of 96 × 96 patches; stain and scanner of the hospital shift.

    Layout, columns and domains are those of the publishers' code (`camelyon17_dataset.py` in
    github.com/p-lambda/wilds) and of DomainBed (`WILDSCamelyon`).  The published splits have
    302,436 + 33,560 patches of hospitals 0, 3 and 4 together, 34,904 of hospital 1 and 85,054 of
    hospital 2.  The numbers for hospitals 0, 3 and 4 were recorded by users of the dataset
    (viictorjimenezzz/pa-covariate-shift on GitHub, `camelyon17_oodval.yaml`).
    """

    name = "wilds-camelyon"
    card = image_card(
        summary="tumour in patches of lymph nodes from five hospitals (WILDS Camelyon17)",
        counts=COUNTS,
        classes=CLASSES,
        eval_every=100,
        publication="Bandi et al. (2018), The CAMELYON17 challenge; in this form Koh et al. (2021),"
        " WILDS",
        licence="CC0",
    )
    layout = "a folder with metadata.csv and patches/, as in camelyon17_v1.0"

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the patches that the metadata lists."""
        root = folder_with([METADATA], folders)
        if root is None:
            return Found([], [])
        frame = read_frame(root / METADATA)
        needed = ["patient", "node", "x_coord", "y_coord", "tumor", "center"]
        if absent := [name for name in needed if name not in frame]:
            raise DataError(f"{root / METADATA} has no column {absent[0]!r}; download it again")
        columns = {name: _texts(frame[name], root / METADATA) for name in needed}
        listed = []
        for patient, node, x, y, tumor, center in zip(*columns.values(), strict=True):
            stem = f"patient_{patient}_node_{node}"
            path = root / "patches" / stem / f"patch_{stem}_x_{x}_y_{y}.png"
            listed.append(LabelledPath(path, CLASSES[int(tumor)], f"hospital_{center}"))
        return listed_images(listed, cls.name, progress)


def _texts(column: pd.Series, file: Path) -> list[str]:
    """Return the cells of a column; a missing or unknown value, or a path, is an error."""
    codes, found = texts(column)
    if (codes < 0).any():
        row = int((codes < 0).argmax()) + 1
        raise DataError(f"row {row} of {file} has no {column.name}; download it again")
    for code, text in enumerate(found):
        if text not in KNOWN.get(str(column.name), (Path(text).name,)):
            row = int((codes == code).argmax()) + 1
            raise DataError(
                f"row {row} of {file} has {column.name} {quoted(text)}, which is not a value of"
                " Camelyon17; download it again"
            )
    return [found[code] for code in codes]
