"""FMoW of WILDS: what land and buildings are used for, in satellite images of six regions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.data.base import DATASETS, Progress
from shiftproof.data.datasets.image_benchmark import ImageBenchmark, image_card
from shiftproof.data.datasets.wilds import folder_with, listed_images
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.base import Found
from shiftproof.data.tables.cell_types import text_of
from shiftproof.data.tables.read_file import read_frame

METADATA, COUNTRIES = "rgb_metadata.csv", "country_code_mapping.csv"
# By region, in order of first occurrence in the metadata, which is DomainBed's numbering.
COUNTS = {
    "Asia": 103_299,
    "Europe": 162_333,
    "Africa": 33_239,
    "Americas": 157_711,
    "Oceania": 13_253,
    "Other": 251,
}
# The metadata decides what is missing, not these numbers.
BOUNDS = {region: (1, count) for region, count in COUNTS.items()}
# Images withheld for the publishers' contest.
SEQUESTERED = "seq"
CLASSES = (
    *("airport", "airport_hangar", "airport_terminal", "amusement_park", "aquaculture"),
    *("archaeological_site", "barn", "border_checkpoint", "burial_site", "car_dealership"),
    *("construction_site", "crop_field", "dam", "debris_or_rubble", "educational_institution"),
    *("electric_substation", "factory_or_powerplant", "fire_station", "flooded_road", "fountain"),
    *("gas_station", "golf_course", "ground_transportation_station", "helipad", "hospital"),
    *("impoverished_settlement", "interchange", "lake_or_pond", "lighthouse"),
    *("military_facility", "multi-unit_residential", "nuclear_powerplant", "office_building"),
    *("oil_or_gas_facility", "park", "parking_lot_or_garage", "place_of_worship"),
    *("police_station", "port", "prison", "race_track", "railway_bridge"),
    *("recreational_facility", "road_bridge", "runway", "shipyard", "shopping_mall"),
    *("single-unit_residential", "smokestack", "solar_farm", "space_facility", "stadium"),
    *("storage_tank", "surface_mine", "swimming_pool", "toll_booth", "tower", "tunnel_opening"),
    *("waste_disposal", "water_treatment_facility", "wind_farm", "zoo"),
)


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
        counts=COUNTS,
        classes=CLASSES,
        eval_every=100,
        publication="Christie et al. (2018), Functional Map of the World; in this form Koh et al."
        " (2021), WILDS",
        licence="FMoW Challenge Public License",
    )
    bounds = BOUNDS
    every_class = False
    layout = "a folder with rgb_metadata.csv, country_code_mapping.csv and images/, as in fmow_v1.1"

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the images listed in the metadata; their number is their row."""
        root = folder_with([METADATA, COUNTRIES], folders)
        if root is None:
            return Found([], [])
        frame, countries = read_frame(root / METADATA), read_frame(root / COUNTRIES)
        for table, file, names in (
            (frame, METADATA, ("split", "country_code", "category")),
            (countries, COUNTRIES, ("alpha-3", "region")),
        ):
            if absent := [name for name in names if name not in table]:
                raise DataError(f"{root / file} has no column {absent[0]!r}; download it again")
        region_of = dict(zip(countries["alpha-3"], map(text_of, countries["region"]), strict=True))
        listed = []
        rows = zip(frame["split"], frame["country_code"], frame["category"], strict=True)
        for number, (split, country, label) in enumerate(rows):
            if split != SEQUESTERED:
                region = region_of.get(country) or "Other"
                path = root / "images" / f"rgb_img_{number}.png"
                listed.append(LabelledPath(path, str(label), region))
        domains = {sample.domain for sample in listed}
        strange = {s.label for s in listed} - set(CLASSES) | domains - set(COUNTS)
        if strange:
            raise DataError(
                f"{root / METADATA} has {sorted(strange)[0]!r}, which is not a class or region of"
                " FMoW; download it again"
            )
        return listed_images(listed, cls.name, progress)
