"""DomainNet: 345 classes in six styles, more than half a million images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.files import file_hash
from shiftproof.core.text import counted
from shiftproof.data.base import DATASETS, Progress, Source
from shiftproof.data.datasets.image_benchmark import FAIR_USE, ImageBenchmark, image_card
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.base import Found

# The folder names, in order.
CLASSES = """
    The_Eiffel_Tower The_Great_Wall_of_China The_Mona_Lisa aircraft_carrier airplane alarm_clock
    ambulance angel animal_migration ant anvil apple arm asparagus axe backpack banana bandage barn
    baseball baseball_bat basket basketball bat bathtub beach bear beard bed bee belt bench bicycle
    binoculars bird birthday_cake blackberry blueberry book boomerang bottlecap bowtie bracelet
    brain bread bridge broccoli broom bucket bulldozer bus bush butterfly cactus cake calculator
    calendar camel camera camouflage campfire candle cannon canoe car carrot castle cat ceiling_fan
    cell_phone cello chair chandelier church circle clarinet clock cloud coffee_cup compass computer
    cookie cooler couch cow crab crayon crocodile crown cruise_ship cup diamond dishwasher
    diving_board dog dolphin donut door dragon dresser drill drums duck dumbbell ear elbow elephant
    envelope eraser eye eyeglasses face fan feather fence finger fire_hydrant fireplace firetruck
    fish flamingo flashlight flip_flops floor_lamp flower flying_saucer foot fork frog frying_pan
    garden garden_hose giraffe goatee golf_club grapes grass guitar hamburger hammer hand harp hat
    headphones hedgehog helicopter helmet hexagon hockey_puck hockey_stick horse hospital
    hot_air_balloon hot_dog hot_tub hourglass house house_plant hurricane ice_cream jacket jail
    kangaroo key keyboard knee knife ladder lantern laptop leaf leg light_bulb lighter lighthouse
    lightning line lion lipstick lobster lollipop mailbox map marker matches megaphone mermaid
    microphone microwave monkey moon mosquito motorbike mountain mouse moustache mouth mug mushroom
    nail necklace nose ocean octagon octopus onion oven owl paint_can paintbrush palm_tree panda
    pants paper_clip parachute parrot passport peanut pear peas pencil penguin piano pickup_truck
    picture_frame pig pillow pineapple pizza pliers police_car pond pool popsicle postcard potato
    power_outlet purse rabbit raccoon radio rain rainbow rake remote_control rhinoceros rifle river
    roller_coaster rollerskates sailboat sandwich saw saxophone school_bus scissors scorpion
    screwdriver sea_turtle see_saw shark sheep shoe shorts shovel sink skateboard skull skyscraper
    sleeping_bag smiley_face snail snake snorkel snowflake snowman soccer_ball sock speedboat spider
    spoon spreadsheet square squiggle squirrel stairs star steak stereo stethoscope stitches
    stop_sign stove strawberry streetlight string_bean submarine suitcase sun swan sweater swing_set
    sword syringe t-shirt table teapot teddy-bear telephone television tennis_racquet tent tiger
    toaster toe toilet tooth toothbrush toothpaste tornado tractor traffic_light train tree triangle
    trombone truck trumpet umbrella underwear van vase violin washing_machine watermelon waterslide
    whale wheel windmill wine_bottle wine_glass wristwatch yoga zebra zigzag
"""

# Number of images without and with the listed duplicates.
COUNTS = {
    "clipart": (48_129, 48_837),
    "infograph": (51_605, 53_201),
    "painting": (72_266, 75_759),
    "quickdraw": (172_500, 172_500),
    "real": (172_947, 175_327),
    "sketch": (69_128, 70_386),
}
BOUNDS = {domain: (cleaned * 99 // 100, raw) for domain, (cleaned, raw) in COUNTS.items()}
SERVER = "http://csr.bu.edu/ftp/visda/2019/multi-source"
ARCHIVES = (
    ("groundtruth/clipart.zip", "cd0d8f2d77a4e181449b78ed62bccf1e", 1_270_909_081),
    ("infograph.zip", "720380b86f9e6ab4805bb38b6bd135f8", 4_338_659_804),
    ("groundtruth/painting.zip", "1ae32cdb4f98fe7ab5eb0a351768abfd", 3_679_366_174),
    ("quickdraw.zip", "bdc1b6f09f277da1a263389efe0c7a66", 459_920_701),
    ("real.zip", "dcc47055e8935767784b7162e7c7cca6", 6_062_039_589),
    ("sketch.zip", "658d8009644040ff7ce30bb2e820850f", 2_633_992_926),
)


@DATASETS.register("domain-net")
class DomainNet(ImageBenchmark):
    """345 classes in six styles; 18 GB to download.

    The protocol removes 9,435 listed duplicates, which leaves 586,575 images.  Here duplicates are
    found by content: among files with the same bytes in one class of one domain, the last by name
    is kept, as the list seems to do.  A picture in two classes is kept in both, because the correct
    class is unknown.  So a few images may differ from the published ones, and the dataset counts as
    complete if each domain has at least 99% of the published images and no more than the archives.

    Sizes and checksums of the archives were recorded by a public mirror in 2021.
    """

    name = "domain-net"
    card = image_card(
        summary="345 classes: clip art, infographics, paintings, scribbles, photographs, sketches",
        counts={domain: cleaned for domain, (cleaned, _) in COUNTS.items()},
        classes=tuple(CLASSES.split()),
        regime="huge-image",
        eval_every=1000,
        publication="Peng et al. (2019), Moment Matching for Multi-Source Domain Adaptation",
        licence=FAIR_USE,
        sources=tuple(
            (Source(f"{SERVER}/{path}", path.rpartition("/")[2], md5=md5, size=size),)
            for path, md5, size in ARCHIVES
        ),
    )
    bounds = BOUNDS

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the images and leave out duplicates."""
        samples, notes, _ = super().collect(folders, progress)
        kept = without_duplicates(samples, progress)
        if dropped := len(samples) - len(kept):
            notes.append(f"left out {counted(dropped, 'duplicate')} (same bytes, same class)")
        return Found(kept, notes)


def without_duplicates(samples: Sequence[LabelledPath], progress: Progress) -> list[LabelledPath]:
    """Keep one of the files that have the same bytes, domain and class: the last by name."""
    alike: defaultdict[tuple[str, str, int], list[LabelledPath]] = defaultdict(list)
    for sample in samples:
        alike[sample.domain, sample.label, sample.path.stat().st_size].append(sample)
    kept: set[LabelledPath] = set()
    for done, group in enumerate(alike.values()):
        progress("finding duplicates", done, len(alike))
        if len(group) > 1:  # a file with a unique size has no duplicate
            group.sort(key=lambda sample: (sample.path.name, str(sample.path)))
            group = list({file_hash(sample.path): sample for sample in group}.values())
        kept.update(group)
    return [sample for sample in samples if sample in kept]
