"""What the files of a run may hold, checked before anything is computed or shown of them.

Folders and archives of runs come from strangers.  Keys that are not named here may hold anything:
other versions wrote them, and nothing reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.json_types import conform
from shiftproof.core.text import quoted
from shiftproof.training.records import Record

_SCALAR = bool | int | float | str | None
_JOB = {
    "dataset": str,
    "algorithm": str,
    "variant": str,
    "domains": tuple[str, ...],
    "test_domains": tuple[str, ...],
    "hparams_seed": int,
    "trial_seed": int,
}
_CONFIG = {
    "dataset": str,
    "algorithm": str,
    "backbone": str,
    "fingerprint": str,
    "test_domains": tuple[str, ...],
    "hparams": Mapping[str, _SCALAR],
    "frozen": Mapping[str, str],
    "evaluate": tuple[str, ...],
    "average": str,
    "device": str,
    "precision": str,
    "steps": int,
    "eval_every": int,
    "holdout": float,
    "seed": int,
    "data_seed": int,
}
_DONE = {"seconds": float | None, "environment": Mapping[str, Any], "status": str}
# What a record says of sets of samples: a number for each.
_SHARES = ("accuracy", "risk")
_SHIFT = {"classes": int, "label_entropy": Mapping[str, float]}
_NUMBERS = {float, int}


def check_run(
    where: object,
    job: Mapping[str, Any],
    config: Mapping[str, Any],
    ended: Mapping[str, Any],
    records: Sequence[Record],
) -> None:
    """Require that the files of a run hold what they should, or raise `DataError`."""
    try:
        for value, kinds in ((job, _JOB), (config, _CONFIG), (ended, _DONE)):
            for name in value.keys() & kinds.keys():
                conform(value[name], kinds[name], name)
        for names in (job.get("domains", ()), config.get("test_domains", ())):
            _require_names(names)
        _require_names([v[k] for v in (job, config) for k in ("dataset", "algorithm") if k in v])
        for record in records:
            _check_record(record)
    except ValueError as error:
        raise DataError(f"{where} holds a damaged run ({error}); remove it") from error


def _check_record(record: Record) -> None:
    if type(record.get("step")) is not int:
        raise ValueError("a record has no step, or one that is not a whole number")
    for name in _SHARES:
        if name in record:
            shares = record[name]
            if type(shares) is not dict or not set(map(type, shares.values())) <= _NUMBERS:
                raise ValueError(f"{name} of step {record['step']} is not a number for each set")
    if shift := record.get("shift"):
        conform(shift, Mapping[str, Any], "shift")
        if "untested" in shift:
            conform(shift["untested"], str, "shift.untested")
            return
        for name, kind in _SHIFT.items():
            conform(shift.get(name), kind, f"shift.{name}")
        for name in ("concept", "covariate"):
            conform(shift.get(name), Mapping[str, Any], f"shift.{name}")
            conform(shift[name].get("value"), float, f"shift.{name}.value")
        conform(shift["concept"].get("p_value"), float, "shift.concept.p_value")


def _require_names(names: Sequence[str]) -> None:
    """Require names that can be printed: others could steer a terminal."""
    for name in names:
        if not name.isprintable():
            raise ValueError(f"the name {quoted(name)} has characters that cannot be printed")
