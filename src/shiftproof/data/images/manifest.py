"""Image manifests: tables with the path, label and domain of one image per row."""

from __future__ import annotations

from pathlib import Path

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset, numbered_path
from shiftproof.data.images.walk import image_root
from shiftproof.data.tables.cell_types import text_of
from shiftproof.data.tables.dataset import column_of
from shiftproof.data.tables.groups import Groups, grouped
from shiftproof.data.tables.label_kind import AUTO, one_label
from shiftproof.data.tables.read_file import read_frame


def load_manifest(
    manifest: Path,
    view: ImageView,
    *,
    image: str,
    label: str | None = None,
    domain: str | None = None,
    task: str = AUTO,
    progress: Progress = silent,
) -> DomainDataset:
    """Return the images listed in a CSV or Parquet file as a dataset.

    `image`, `label` and `domain` name its columns.  Relative paths start at the manifest's folder,
    or at one below it (`image_root`).  `task` says whether labels are classes or numbers; by
    default they are classes, unless they cannot be (`image_label_kind`).
    """
    frame = read_frame(manifest)
    images = frame[column_of(frame, manifest.name, "image", image)]
    label = one_label(list(frame.columns), manifest.name, label)
    place = column_of(frame, manifest.name, "domain", domain)
    if place == label:
        raise InvalidValue(f"`label` and `domain` name the same column, {place!r}")
    groups = grouped(frame[label], frame[place], manifest.name, task, images=True)
    root, notes = image_root(manifest, [str(value) for value in images[:1]])
    notes += groups.notes
    samples, nameless = [], []
    for row, value in enumerate(images):
        if groups.domain[row] < 0:
            continue
        if text_of(value) is None:
            nameless.append(row)
            continue
        samples.append(
            # An absolute path is unchanged.
            _labelled(root / str(value), groups, row)
        )
    if nameless:
        notes.append(
            f"left out {counted(len(nameless), 'row')} without a path in column {image!r}, the"
            f" first in row {nameless[0] + 1}"
        )
    notes += _repeated(samples, manifest.name)
    if not samples:
        raise DataError(f"no row of {manifest.name} has a path in column {image!r}")
    missing = [sample.path for sample in samples if not sample.path.exists()]
    if len(missing) == len(samples):
        raise DataError(
            f"none of the {len(samples)} files in column {image!r} of {manifest.name} exists (the"
            f" first: {missing[0]}); relative paths start at the manifest's folder"
        )
    return image_dataset(
        manifest.stem,
        samples,
        view,
        classes=groups.classes,
        targets=groups.targets,
        notes=notes,
        progress=progress,
    )


def _labelled(path: Path, groups: Groups, row: int) -> LabelledPath:
    """Return an image with the class or the number of its row."""
    domain = groups.names[groups.domain[row]]
    if not groups.targets:
        return LabelledPath(path, groups.classes[groups.label[row]], domain)
    return numbered_path(path, groups.label[row], domain)


def _repeated(samples: list[LabelledPath], manifest: str) -> list[str]:
    """Return a note on files listed more than once; a file with two labels is an error."""
    places: dict[Path, set[tuple[str, str]]] = {}
    for sample in samples:
        places.setdefault(sample.path, set()).add((sample.label, sample.domain))
    for path, found in places.items():
        if len({label for label, _ in found}) > 1:
            labels = " and ".join(sorted({label for label, _ in found}))
            raise DataError(f"{manifest} gives {path} the labels {labels}; keep one of them")
    twice = len(samples) - len(places)
    if twice == 0:
        return []
    return [
        f"{counted(twice, 'repeated file')} in {manifest}: held-out parts may contain copies of"
        " training images"
    ]
