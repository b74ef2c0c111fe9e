"""Camera traps: images with the animal they show and the place of their camera, listed in JSON.

The format is COCO Camera Traps, which LILA and most tools for camera traps write: `images` with
`file_name` and `location`, `annotations` that give an image a category, and `categories`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed, printable
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset
from shiftproof.data.images.image_root import image_root
from shiftproof.data.tables.cell_types import text_of

LOCATION = "location"
SUFFIX = ".json"


def load_camera_traps(
    file: Path, view: ImageView, domain: str | None = None, progress: Progress = silent
) -> DomainDataset:
    """Return the images that a file of annotations lists; each location is a domain.

    `domain` names another entry of the images to take the domains from.  Images without an
    annotation or a domain are left out, and so are those that show two categories.
    """
    images, labels = _read(file)
    entry = domain or LOCATION
    known = {key for image in images.values() for key in image}
    if entry not in known:
        raise DataError(
            f"the images of {file.name} have no entry {entry!r}; set `domain` to one of"
            f" {listed(sorted(map(str, known)))}"
        )
    root, notes = image_root(file, [str(image["file_name"]) for image in images.values()])
    samples: list[LabelledPath] = []
    left_out = {"without an annotation": 0, "of two categories": 0, f"without {entry!r}": 0}
    for key, image in images.items():
        found, place = labels.get(key, set()), text_of(image.get(entry))
        if len(found) != 1:
            left_out["of two categories" if found else "without an annotation"] += 1
        elif place is None:
            left_out[f"without {entry!r}"] += 1
        else:
            (label,) = found
            samples.append(LabelledPath(root / str(image["file_name"]), label, place))
    notes += [f"left out {counted(n, 'image')} {why}" for why, n in left_out.items() if n]
    there = [sample for sample in samples if sample.path.is_file()]
    if not there:
        raise DataError(
            f"none of the {counted(len(samples), 'image')} that {file.name} lists is beside it"
        )
    if missing := len(samples) - len(there):
        notes.append(f"left out {counted(missing, 'image')} that {file.name} lists, not found")
    return image_dataset(file.stem, there, view, notes=notes, progress=progress)


def _read(file: Path) -> tuple[dict[Any, Mapping[str, Any]], dict[Any, set[str]]]:
    """Return the images by id, and the categories of each."""
    try:
        content = json.loads(file.read_bytes())
        names = {item["id"]: printable(str(item["name"])) for item in content["categories"]}
        images = {item["id"]: item for item in content["images"]}
        labels: dict[Any, set[str]] = {}
        for annotation in content["annotations"]:
            labels.setdefault(annotation["image_id"], set()).add(names[annotation["category_id"]])
        if any("file_name" not in image for image in images.values()):
            raise KeyError("file_name")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{file} is not a file of COCO Camera Traps ({error!r})") from error
    return images, labels
