"""Helpers for WILDS datasets, whose images and labels are listed in a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.data.base import Progress
from shiftproof.data.datasets.image_benchmark import DEEPEST
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.images.walk import folders_below
from shiftproof.data.library.base import Found


def folder_with(files: Sequence[str], folders: Sequence[Path]) -> Path | None:
    """Return the folder that has all these files; two such folders are an error."""
    places = [
        place
        for folder in folders
        for place in folders_below(folder, DEEPEST)
        if all((place / name).is_file() for name in files)
    ]
    if len(places) > 1:
        raise DataError(
            f"two folders have {' and '.join(files)}: {places[0]} and {places[1]}; import one"
        )
    return places[0] if places else None


def listed_images(listed: Sequence[LabelledPath], name: str, progress: Progress) -> Found:
    """Return the listed images that exist, with a note on how many do not."""
    samples = []
    for done, sample in enumerate(listed):
        if done % 1000 == 0:
            progress(f"finding images of {name}", done, len(listed))
        if sample.path.is_file():
            samples.append(sample)
    missing = len(listed) - len(samples)
    notes = [f"listed images that are missing: {missing:,} of {len(listed):,}"] if missing else []
    return Found(samples, notes, missing)
