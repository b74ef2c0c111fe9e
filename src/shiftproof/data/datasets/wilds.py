"""Camelyon17 and FMoW of WILDS: patches of lymph nodes, and satellite images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.core.text import quoted
from shiftproof.data.base import DATASETS, Progress
from shiftproof.data.datasets.image_benchmark import (
    ImageBenchmark,
    class_names,
    folder_with,
    image_card,
    listed_images,
)
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.base import Found
from shiftproof.data.tables.cell_types import Cells, cells_of
from shiftproof.data.tables.read import read_table

PATCHES = "metadata.csv"
TISSUES = ("normal", "tumor")
HOSPITALS = {
    "hospital_0": 59_436,
    "hospital_1": 34_904,
    "hospital_2": 85_054,
    "hospital_3": 129_838,
    "hospital_4": 146_722,
}
# The numbers of classes and hospitals in the metadata.
KNOWN = {
    "tumor": tuple(str(code) for code in range(len(TISSUES))),
    "center": tuple(domain.removeprefix("hospital_") for domain in HOSPITALS),
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
        counts=HOSPITALS,
        classes=TISSUES,
        eval_every=100,
        publication="Bandi et al. (2018), The CAMELYON17 challenge; in this form Koh et al. (2021),"
        " WILDS",
        licence="CC0",
    )
    layout = "a folder with metadata.csv and patches/, as in camelyon17_v1.0"

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the patches that the metadata lists."""
        root = folder_with([PATCHES], folders)
        if root is None:
            return Found([], [])
        needed = ("patient", "node", "x_coord", "y_coord", "tumor", "center")
        columns = [_known_texts(cells, root / PATCHES) for cells in _cells(root / PATCHES, needed)]
        listed = []
        for patient, node, x, y, tumor, center in zip(*columns, strict=True):
            stem = f"patient_{patient}_node_{node}"
            path = root / "patches" / stem / f"patch_{stem}_x_{x}_y_{y}.png"
            listed.append(LabelledPath(path, TISSUES[int(tumor)], f"hospital_{center}"))
        return listed_images(listed, cls.name, progress)


def _cells(file: Path, columns: Sequence[str]) -> list[Cells]:
    """Return columns of a metadata file."""
    table = read_table(file)
    if absent := [name for name in columns if name not in table.column_names]:
        raise DataError(f"{file} has no column {absent[0]!r}; download it again")
    return [cells_of(table, name) for name in columns]


def _known_texts(column: Cells, file: Path) -> list[str]:
    """Return the cells of a column; a missing or unknown value, or a path, is an error."""
    codes, values = column.texts
    if (codes < 0).any():
        row = int((codes < 0).argmax()) + 1
        raise DataError(f"row {row} of {file} has no {column.name}; download it again")
    for code, text in enumerate(values):
        if text not in KNOWN.get(column.name, (Path(text).name,)):
            row = int((codes == code).argmax()) + 1
            raise DataError(
                f"row {row} of {file} has {column.name} {quoted(text)}, which is not a value of"
                " Camelyon17; download it again"
            )
    return [values[code] for code in codes]


IMAGES, COUNTRIES = "rgb_metadata.csv", "country_code_mapping.csv"
# By region, in order of first occurrence in the metadata, which is DomainBed's numbering.
REGIONS = {
    "Asia": 103_299,
    "Europe": 162_333,
    "Africa": 33_239,
    "Americas": 157_711,
    "Oceania": 13_253,
    "Other": 251,
}
# The metadata decides what is missing, not these numbers.
REGION_BOUNDS = {region: (1, count) for region, count in REGIONS.items()}
# Images withheld for the publishers' contest.
SEQUESTERED = "seq"
USES = class_names("wilds-fmow")


@DATASETS.register("wilds-fmow")
class WildsFMoW(ImageBenchmark):
    """62 uses of land; the region shifts, and so do the frequencies of the classes.

    Layout, columns, classes and regions are those of the publishers' code (`fmow_dataset.py` of
    version 1.1 in github.com/p-lambda/wilds) and of DomainBed (`WILDSFMoW`): all images but the
    sequestered ones, by the region of their country.  The publishers state no numbers by region.
    Those on the card were recorded by users of the dataset (viictorjimenezzz/pa-covariate-shift on
    GitHub, `fmow_oodtest.yaml`), and add up to its 470,086 images.  A copy is complete if it has
    every image listed in its metadata.  Not every region has every class.
    """

    name = "wilds-fmow"
    card = image_card(
        summary="62 uses of land and buildings in satellite images of six regions (WILDS FMoW)",
        counts=REGIONS,
        classes=USES,
        eval_every=100,
        publication="Christie et al. (2018), Functional Map of the World; in this form Koh et al."
        " (2021), WILDS",
        licence="FMoW Challenge Public License",
    )
    bounds = REGION_BOUNDS
    every_class = False
    layout = "a folder with rgb_metadata.csv, country_code_mapping.csv and images/, as in fmow_v1.1"

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the images listed in the metadata; their number is their row."""
        root = folder_with([IMAGES, COUNTRIES], folders)
        if root is None:
            return Found([], [])
        images = _cells(root / IMAGES, ("split", "country_code", "category"))
        countries = _cells(root / COUNTRIES, ("alpha-3", "region"))
        region_of = dict(zip(*(cells.text_list for cells in countries), strict=True))
        listed = []
        rows = zip(*(cells.text_list for cells in images), strict=True)
        for number, (split, country, label) in enumerate(rows):
            if split != SEQUESTERED:
                region = region_of.get(country) or "Other"
                path = root / "images" / f"rgb_img_{number}.png"
                listed.append(LabelledPath(path, str(label), region))
        domains = {sample.domain for sample in listed}
        strange = {s.label for s in listed} - set(USES) | domains - set(REGIONS)
        if strange:
            raise DataError(
                f"{root / IMAGES} has {sorted(strange)[0]!r}, which is not a class or region of"
                " FMoW; download it again"
            )
        return listed_images(listed, cls.name, progress)
