"""The diagnosis of a study, stored in its folder, so that a resumed study does not repeat it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shiftproof import __version__
from shiftproof.api.diagnose import ShiftReport
from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json_if_any, write_json
from shiftproof.core.json_values import rebuilt
from shiftproof.data import DomainDataset

# In the folder of a study.
DIAGNOSED = "diagnosed.json"
INPUTS, REPORT = "inputs", "report"


def inputs_of(dataset: DomainDataset, **settings: Any) -> str:
    """Return a hash of what a diagnosis depends on: the data, the settings and the version."""
    described = (dataset.name, dataset.notes, dataset.input_shape, sorted(dataset.columns.items()))
    parts = (__version__, dataset.fingerprint, described, sorted(settings.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def kept_or(folder: Path, inputs: str, diagnose: Callable[[], ShiftReport]) -> ShiftReport:
    """Return the stored diagnosis of these inputs, or compute and store it."""
    found = read_kept(folder / DIAGNOSED, inputs)
    if found is None:
        found = diagnose()
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / DIAGNOSED, {INPUTS: inputs, REPORT: asdict(found)})
    return found


def read_kept(path: Path, inputs: str) -> ShiftReport | None:
    """Return the diagnosis in a file; None if it is missing, damaged or of other inputs."""
    try:
        value = read_json_if_any(path, (INPUTS, REPORT))
        if value is None or value[INPUTS] != inputs:
            return None
        report: ShiftReport = rebuilt(ShiftReport, value[REPORT])
    except (DataError, ValueError):
        return None  # measuring again gives the same diagnosis
    return report
