"""Office-Home: objects of office and home in art, clip art, product pictures and photographs."""

from __future__ import annotations

from shiftproof.data.base import DATASETS, Source
from shiftproof.data.datasets.image_benchmark import FAIR_USE, ImageBenchmark, image_card

# The folder names, in order.
CLASSES = """
    Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair
    Clipboards Computer Couch Curtains Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops
    Flowers Folder Fork Glasses Hammer Helmet Kettle Keyboard Knives Lamp_Shade Laptop Marker
    Monitor Mop Mouse Mug Notebook Oven Pan Paper_Clip Pen Pencil Postit_Notes Printer Push_Pin
    Radio Refrigerator Ruler Scissors Screwdriver Shelf Sink Sneakers Soda Speaker Spoon TV Table
    Telephone ToothBrush Toys Trash_Can Webcam
"""
ARCHIVE = Source.google_drive(
    "1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC", "office_home.zip", md5="b1c14819770c4448fd5b6d931031c91c"
)


@DATASETS.register("office-home")
class OfficeHome(ImageBenchmark):
    """65 classes in four domains: art, clip art, product pictures and photographs.

    The source is the archive of the DomainBed protocol, with the checksum published by other users
    of that file.  Counts by class are unknown; each class must have at least one image.
    """

    name = "office-home"
    card = image_card(
        summary="65 objects of office and home in art, clip art, product pictures and photographs",
        counts={"Art": 2427, "Clipart": 4365, "Product": 4439, "Real World": 4357},
        classes=tuple(CLASSES.split()),
        publication="Venkateswara et al. (2017), Deep Hashing Network for Unsupervised Domain"
        " Adaptation",
        licence=FAIR_USE,
        sources=((ARCHIVE,),),
    )
