"""The image datasets of DomainBed whose images lie in folders DOMAIN/CLASS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.files import file_hash
from shiftproof.core.text import counted
from shiftproof.data.base import DATASETS, Progress, Source
from shiftproof.data.datasets.image_benchmark import (
    FAIR_USE,
    ImageBenchmark,
    class_names,
    image_card,
)
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.base import Found

PACS_COUNTS = {
    "art_painting": (379, 255, 285, 184, 201, 295, 449),
    "cartoon": (389, 457, 346, 135, 324, 288, 405),
    "photo": (189, 202, 182, 186, 199, 280, 432),
    "sketch": (772, 740, 753, 608, 816, 80, 160),
}
PACS_ARCHIVE = Source.google_drive(
    "1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd", "PACS.zip", md5="fd5db817f7cdafeef3bfd525aaf9b42e"
)
PACS_COPY = Source(
    "https://codeload.github.com/MachineLearning2020/Homework3-PACS/zip/refs/heads/master",
    "Homework3-PACS.zip",
)


@DATASETS.register("pacs")
class PACS(ImageBenchmark):
    """Seven classes in four styles; the style shifts, and so do the class frequencies.

    The first source is the archive of the DomainBed protocol, with the checksum published by other
    users of that file; the second is a copy on GitHub, verified by its counts.
    """

    name = "pacs"
    card = image_card(
        summary="seven classes as photographs, paintings, cartoons and sketches",
        counts={domain: sum(by_class) for domain, by_class in PACS_COUNTS.items()},
        classes=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
        publication="Li et al. (2017), Deeper, Broader and Artier Domain Generalization",
        licence="none stated by its authors; made for research, from pictures found on the web",
        class_counts=PACS_COUNTS,
        sources=((PACS_ARCHIVE, PACS_COPY),),
    )


VLCS_COUNTS = {
    "Caltech101": (237, 123, 118, 67, 870),
    "LabelMe": (80, 1209, 88, 42, 1237),
    "SUN09": (20, 932, 1036, 30, 1264),
    "VOC2007": (330, 699, 428, 420, 1499),
}
VLCS_ARCHIVE = Source.google_drive(
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
        counts={domain: sum(by_class) for domain, by_class in VLCS_COUNTS.items()},
        classes=("bird", "car", "chair", "dog", "person"),
        publication="Fang et al. (2013), Unbiased Metric Learning: On the Utilization of Multiple"
        " Datasets and Web Images for Softening Bias",
        licence="none for the whole; the images come from Caltech-101, LabelMe, SUN09 and PASCAL"
        " VOC 2007, each with its own terms",
        class_counts=VLCS_COUNTS,
        sources=((VLCS_ARCHIVE,),),
    )


OFFICE_HOME_ARCHIVE = Source.google_drive(
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
        classes=class_names("office-home"),
        publication="Venkateswara et al. (2017), Deep Hashing Network for Unsupervised Domain"
        " Adaptation",
        licence=FAIR_USE,
        sources=((OFFICE_HOME_ARCHIVE,),),
    )


# Number of images without and with the listed duplicates.
DOMAIN_NET_COUNTS = {
    "clipart": (48_129, 48_837),
    "infograph": (51_605, 53_201),
    "painting": (72_266, 75_759),
    "quickdraw": (172_500, 172_500),
    "real": (172_947, 175_327),
    "sketch": (69_128, 70_386),
}
DOMAIN_NET_BOUNDS = {
    domain: (cleaned * 99 // 100, raw) for domain, (cleaned, raw) in DOMAIN_NET_COUNTS.items()
}
DOMAIN_NET_SERVER = "http://csr.bu.edu/ftp/visda/2019/multi-source"
DOMAIN_NET_ARCHIVES = (
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
        counts={domain: cleaned for domain, (cleaned, _) in DOMAIN_NET_COUNTS.items()},
        classes=class_names("domain-net"),
        regime="huge-image",
        eval_every=1000,
        publication="Peng et al. (2019), Moment Matching for Multi-Source Domain Adaptation",
        licence=FAIR_USE,
        sources=tuple(
            (Source(f"{DOMAIN_NET_SERVER}/{path}", path.rpartition("/")[2], md5=md5, size=size),)
            for path, md5, size in DOMAIN_NET_ARCHIVES
        ),
    )
    bounds = DOMAIN_NET_BOUNDS

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
