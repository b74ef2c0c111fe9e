"""The folder of a study: its runs, diagnosis, baselines and evidence."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shiftproof import __version__
from shiftproof.api.diagnose import ShiftReport
from shiftproof.api.run_folders import HELD_OUT, STUDY
from shiftproof.api.study_baselines import stored_baselines
from shiftproof.core.errors import DataError, RunConflict
from shiftproof.core.files import read_json, read_json_if_any, write_json
from shiftproof.core.json_values import from_stored
from shiftproof.data import DomainDataset
from shiftproof.inference.expected import Expected
from shiftproof.reporting.page import Source
from shiftproof.reporting.page.evidence import read_evidence
from shiftproof.training.config import RunConfig
from shiftproof.training.run_folder import START_OVER, changes

DIAGNOSED, BASELINES = "diagnosed.json", "baselines.safetensors"
INPUTS, REPORT = "inputs", "report"


def read_study(folder: Path, source: Source) -> Source:
    """Return the source of a page with what a study stored in its folder."""
    diagnosis = read_json_if_any(folder / DIAGNOSED, (INPUTS, REPORT))
    reports = [] if diagnosis is None else [from_stored(ShiftReport, diagnosis[REPORT], REPORT)]
    expected = source.held_out[0].expected if source.held_out else Expected({})
    return replace(
        source,
        diagnoses=[report.to_dict() for report in reports],
        baselines=stored_baselines(folder / BASELINES, expected.classes, expected.targets),
        evidence=read_evidence(folder / STUDY),
    )


def refuse_another(folder: Path, asked: RunConfig) -> None:
    """Raise if the folder holds a different study, before its diagnosis is overwritten."""
    for path in sorted((folder / HELD_OUT).glob("*/config.json")):
        stored = read_json(path, ("hparams",), START_OVER)
        configs = ({**config, "test_domains": None} for config in (stored, asked.to_json()))
        if differences := changes(*configs):
            raise RunConflict(
                f"{folder} holds another study ({differences}); choose another `out`, or delete it"
            )


def inputs_of(dataset: DomainDataset, **settings: Any) -> str:
    """Return a hash of what a diagnosis depends on: the data, the settings and the version."""
    described = (dataset.name, dataset.notes, dataset.input_shape, sorted(dataset.columns.items()))
    parts = (__version__, dataset.fingerprint, described, sorted(settings.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def stored_or_new(folder: Path, inputs: str, diagnose: Callable[[], ShiftReport]) -> ShiftReport:
    """Return the stored diagnosis of these inputs, or compute and store it."""
    report = stored_diagnosis(folder / DIAGNOSED, inputs)
    if report is None:
        report = diagnose()
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / DIAGNOSED, {INPUTS: inputs, REPORT: asdict(report)})
    return report


def stored_diagnosis(path: Path, inputs: str) -> ShiftReport | None:
    """Return the diagnosis in a file; None if it is missing, damaged or of other inputs."""
    # Measuring again gives the same diagnosis.
    with contextlib.suppress(DataError, ValueError):
        value = read_json_if_any(path, (INPUTS, REPORT))
        if value is not None and value[INPUTS] == inputs:
            return from_stored(ShiftReport, value[REPORT], REPORT)
    return None
