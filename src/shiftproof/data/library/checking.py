"""Check the images of a dataset in the library or in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shiftproof.core.errors import DataError, UnknownName
from shiftproof.data.base import DATASETS, Progress, silent
from shiftproof.data.images.findings import ImageCheck, LabelledImage, check_images
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.index import scan
from shiftproof.data.library.base import absent, folder_of, library_datasets, local_copy, made_of
from shiftproof.data.library.completeness import count, expected_counts


def check_data(data: str, progress: Progress = silent) -> ImageCheck:
    """Check all images of a dataset in the library, or of a folder DIR/domain/class.

    The image counts of a dataset are compared with its card.
    """
    source = library_datasets().get(data)
    folder = Path(data).expanduser() if source is None else folder_of(data)
    if source is None:
        if data in DATASETS and DATASETS.get(data).needs:
            raise made_of(data, DATASETS.get(data))
        if data in DATASETS:
            raise DataError(f"{data} is part of the package: there is nothing to check")
        if folder.is_file():
            raise DataError(f"{data} is a file; pass a folder of images or a dataset name")
        if not folder.is_dir():
            raise UnknownName("dataset or folder", data, DATASETS)
    elif local_copy(data) is None:
        raise absent(source)
    samples, notes = find_images(folder)
    records = scan([sample.path for sample in samples], progress)
    images = [
        LabelledImage(record, sample.domain, sample.label)
        for sample, record in zip(samples, records, strict=True)
    ]
    expected = None if source is None else expected_counts(source, count(samples, source.card))
    progress("comparing images", 0, 1)
    return replace(check_images(images, expected), notes=tuple(notes))
