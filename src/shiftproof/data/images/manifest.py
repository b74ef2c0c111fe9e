"""Lists of images: manifests and the files of camera traps.

A manifest is a table with the path, label and domain of one image per row.  Camera traps list their
images, with animal and camera location, in JSON: COCO Camera Traps, which LILA and most tools
write, with `images` (`file_name` and `location`), `annotations` that assign categories to images,
and `categories`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, listed, printable, quoted, reason_of
from shiftproof.data.images.files import LabelledPath, numbered_path
from shiftproof.data.images.walk import image_root
from shiftproof.data.tables.cell_types import cells_of, text_of
from shiftproof.data.tables.column_names import column_name
from shiftproof.data.tables.groups import Groups, grouped
from shiftproof.data.tables.label_kind import AUTO, one_label
from shiftproof.data.tables.read import read_table


def manifest_images(
    manifest: Path, image: str, label: str | None, domain: str | None, task: str = AUTO
) -> tuple[list[LabelledPath], list[str], Groups]:
    """Return the images listed in a CSV or Parquet file, notes on those left out, and the labels.

    `image`, `label` and `domain` name its columns.  Relative paths start at the manifest's folder,
    or at one below it (`image_root`).  `task` says whether labels are classes or numbers; by
    default they are classes, unless they cannot be (`label_kind`).
    """
    table = read_table(manifest)
    columns = table.column_names
    images = table.column(column_name(columns, manifest.name, "image", image)).to_pylist()
    label = one_label(columns, manifest.name, label)
    domain = column_name(columns, manifest.name, "domain", domain)
    if domain == label:
        raise InvalidValue(f"`label` and `domain` name the same column, {domain!r}")
    label_cells, domain_cells = cells_of(table, label), cells_of(table, domain)
    groups = grouped(label_cells, domain_cells, manifest.name, task, images=True)
    root, notes = image_root(manifest, [str(value) for value in images[:1]])
    notes += groups.notes
    samples, nameless = [], []
    for row, value in enumerate(images):
        if groups.domain[row] < 0:
            continue
        if text_of(value) is None:
            nameless.append(row)
            continue
        path = root / str(value)  # an absolute path is unchanged
        domain = groups.names[groups.domain[row]]
        row_label = groups.label[row]
        samples.append(
            numbered_path(path, row_label, domain)
            if groups.targets
            else LabelledPath(path, groups.classes[row_label], domain)
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
    return samples, notes, groups


def _repeated(samples: list[LabelledPath], manifest: str) -> list[str]:
    """Return a note on files listed more than once; a file with two labels is an error."""
    labels: dict[Path, str] = {}
    for path, label, *_ in samples:
        if (first := labels.setdefault(path, label)) != label:
            names = " and ".join(sorted([first, label]))
            raise DataError(f"{manifest} gives {path} the labels {names}; keep one of them")
    if (twice := len(samples) - len(labels)) == 0:
        return []
    return [
        f"{counted(twice, 'repeated file')} in {manifest}: held-out parts may contain copies of"
        " training images"
    ]


LOCATION = "location"
NO_DOMAIN = "none"
SUFFIX = ".json"


def camera_traps(
    file: Path, domain: str | None = None, *, labelled: bool = True
) -> tuple[list[LabelledPath], list[str]]:
    """Return the images listed in an annotation file, and notes on those left out.

    Each location is a domain, or `domain` names another field of the images.  Images without an
    annotation or a domain, and images with several categories, are left out.  Without `labelled`,
    annotations and domains are not needed: labels are empty, and a missing domain becomes
    `NO_DOMAIN`.
    """
    images, labels = read_coco(file)
    entry = domain or LOCATION
    known = {key for image in images.values() for key in image}
    if not images:
        raise DataError(f"{file.name} lists no images")
    if entry not in known and (labelled or domain is not None):
        raise DataError(
            f"the images of {file.name} have no entry {entry!r}; set `domain` to one of"
            f" {listed(sorted(map(str, known)))}"
        )
    names = [str(image["file_name"]) for image in images.values()]
    if outside := list(filter(_leads_out, names)):
        raise DataError(
            f"{file.name} lists {quoted(outside[0])}, which is not below its folder; list paths"
            f" below the folder, or move {file.name}"
        )
    root, notes = image_root(file, names)
    samples: list[LabelledPath] = []
    left_out = {"without an annotation": 0, "of two categories": 0, f"without {entry!r}": 0}
    for name, (key, image) in zip(names, images.items(), strict=True):
        categories, site = labels.get(key, set()), text_of(image.get(entry))
        if site is None and not labelled:
            site = NO_DOMAIN
        if labelled and len(categories) != 1:
            left_out["of two categories" if categories else "without an annotation"] += 1
        elif site is None:
            left_out[f"without {entry!r}"] += 1
        else:
            label = next(iter(categories)) if labelled else ""
            samples.append(LabelledPath(root / name, label, site))
    skipped = [f"left out {counted(n, 'image')} {why}" for why, n in left_out.items() if n]
    if not samples:
        raise DataError(f"{file.name} lists no image that can be used: {'; '.join(skipped)}")
    present = [sample for sample in samples if sample.path.is_file()]
    if not present:
        raise DataError(
            f"none of the {counted(len(samples), 'image')} listed in {file.name} exists (the first:"
            f" {samples[0].path}); relative paths start at its folder"
        )
    notes += skipped
    if missing := len(samples) - len(present):
        notes.append(f"left out {counted(missing, 'image')} listed in {file.name} but not found")
    return present, notes


def _leads_out(path: str) -> bool:
    """Whether a path in a list leads out of the folder of the list.

    >>> _leads_out("../a.jpg"), _leads_out("/a.jpg"), _leads_out("night/a.jpg")
    (True, True, False)
    """
    named = PureWindowsPath(path)  # it accepts both / and \\
    return named.is_absolute() or bool(named.root) or ".." in named.parts


def read_coco(file: Path) -> tuple[dict[Any, Mapping[str, Any]], dict[Any, set[str]]]:
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
