"""Camera traps: images with their animal and camera location, listed in JSON.

The format is COCO Camera Traps, which LILA and most tools for camera traps write: `images` with
`file_name` and `location`, `annotations` that assign categories to images, and `categories`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed, printable, quoted, reason_of
from shiftproof.data.base import DomainDataset, Progress, silent
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset
from shiftproof.data.images.walk import image_root
from shiftproof.data.tables.cell_types import text_of

LOCATION = "location"
NO_DOMAIN = "none"
SUFFIX = ".json"


def load_camera_traps(
    file: Path, view: ImageView, domain: str | None = None, progress: Progress = silent
) -> DomainDataset:
    """Return the images listed in an annotation file as a dataset; each location is a domain.

    `domain` names another field of the images to use as the domain.  Images without an annotation
    or a domain, and images with several categories, are left out.
    """
    samples, notes = camera_traps(file, domain)
    return image_dataset(file.stem, samples, view, notes=notes, progress=progress)


def camera_traps(
    file: Path, domain: str | None = None, *, labelled: bool = True
) -> tuple[list[LabelledPath], list[str]]:
    """Return the images listed in a file, and notes on those left out.

    Without `labelled`, annotations and domains are not needed: labels are empty, and a missing
    domain becomes `NO_DOMAIN`.
    """
    images, labels = _read(file)
    entry = domain or LOCATION
    known = {key for image in images.values() for key in image}
    if not images:
        raise DataError(f"{file.name} lists no images")
    if entry not in known and (labelled or domain is not None):
        raise DataError(
            f"the images of {file.name} have no entry {entry!r}; set `domain` to one of"
            f" {listed(sorted(map(str, known)))}"
        )
    for image in images.values():
        if _leads_out(str(image["file_name"])):
            raise DataError(
                f"{file.name} lists {quoted(str(image['file_name']))}, which is not below its"
                f" folder; list paths below the folder, or move {file.name}"
            )
    root, notes = image_root(file, [str(image["file_name"]) for image in images.values()])
    samples: list[LabelledPath] = []
    left_out = {"without an annotation": 0, "of two categories": 0, f"without {entry!r}": 0}
    for key, image in images.items():
        found, place = labels.get(key, set()), text_of(image.get(entry))
        if place is None and not labelled:
            place = NO_DOMAIN
        if labelled and len(found) != 1:
            left_out["of two categories" if found else "without an annotation"] += 1
        elif place is None:
            left_out[f"without {entry!r}"] += 1
        else:
            label = next(iter(found)) if labelled else ""
            samples.append(LabelledPath(root / str(image["file_name"]), label, place))
    skipped = [f"left out {counted(n, 'image')} {why}" for why, n in left_out.items() if n]
    if not samples:
        raise DataError(f"{file.name} lists no image that can be used: {'; '.join(skipped)}")
    there = [sample for sample in samples if sample.path.is_file()]
    if not there:
        raise DataError(
            f"none of the {counted(len(samples), 'image')} listed in {file.name} exists (the first:"
            f" {samples[0].path}); relative paths start at its folder"
        )
    notes += skipped
    if missing := len(samples) - len(there):
        notes.append(f"left out {counted(missing, 'image')} listed in {file.name} but not found")
    return there, notes


def _leads_out(path: str) -> bool:
    """Whether a path in a list leads out of the folder of the list.

    >>> _leads_out("../a.jpg"), _leads_out("/a.jpg"), _leads_out("night/a.jpg")
    (True, True, False)
    """
    named = PureWindowsPath(path)  # it accepts both / and \\
    return named.is_absolute() or bool(named.root) or ".." in named.parts


def _read(file: Path) -> tuple[dict[Any, Mapping[str, Any]], dict[Any, set[str]]]:
    """Return the images and their categories, both by image id."""
    try:
        content = json.loads(file.read_bytes())
        if not isinstance(content, Mapping):
            raise KeyError("images")
        names = {item["id"]: printable(str(item["name"])) for item in content["categories"]}
        images: dict[Any, Mapping[str, Any]] = {}
        for item in content["images"]:
            if images.setdefault(item["id"], item) != item:
                raise DataError(f"two images of {file.name} have the id {item['id']!r}; keep one")
        labels: dict[Any, set[str]] = {}
        for annotation in content["annotations"]:
            category = annotation["category_id"]
            if category not in names:
                raise DataError(
                    f"{file} is not a file of COCO Camera Traps (an annotation has the category"
                    f" {category!r}, which is not listed)"
                )
            labels.setdefault(annotation["image_id"], set()).add(names[category])
        if any("file_name" not in image for image in images.values()):
            raise KeyError("file_name")
    except KeyError as error:
        raise DataError(
            f"{file} is not a file of COCO Camera Traps ({error} is missing)"
        ) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = reason_of(error, 120)
        raise DataError(f"{file} is not a file of COCO Camera Traps ({reason})") from error
    return images, labels
