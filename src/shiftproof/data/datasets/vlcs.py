"""VLCS: the same five classes in four collections of photographs."""

from __future__ import annotations

from shiftproof.data.base import DATASETS, Source
from shiftproof.data.datasets.image_benchmark import ImageBenchmark, image_card

COUNTS = {
    "Caltech101": (237, 123, 118, 67, 870),
    "LabelMe": (80, 1209, 88, 42, 1237),
    "SUN09": (20, 932, 1036, 30, 1264),
    "VOC2007": (330, 699, 428, 420, 1499),
}
ARCHIVE = Source.google_drive(
    "1skwblH1_okBwxWxmRsp9_qi15hyPpxg8", "VLCS.tar.gz", md5="8870171eba660927d9668f4e515928e4"
)


@DATASETS.register("vlcs")
class VLCS(ImageBenchmark):
    """Five classes in four collections, which differ in what they show and how they label it.

    The source is the archive of the DomainBed protocol, with the checksum published by other users
    of that file.
    """

    name = "vlcs"
    card = image_card(
        summary="five classes in four collections of photographs",
        counts={domain: sum(by_class) for domain, by_class in COUNTS.items()},
        classes=("bird", "car", "chair", "dog", "person"),
        publication="Fang et al. (2013), Unbiased Metric Learning: On the Utilization of Multiple"
        " Datasets and Web Images for Softening Bias",
        licence="none for the whole; the images come from Caltech-101, LabelMe, SUN09 and PASCAL"
        " VOC 2007, each with its own terms",
        class_counts=COUNTS,
        sources=((ARCHIVE,),),
    )
