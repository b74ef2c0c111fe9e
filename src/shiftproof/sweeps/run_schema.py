"""Validate the files of a run before using or showing their content.

Folders and archives of runs may come from strangers.  Keys that are not listed here may hold
anything: other versions wrote them, and nothing reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.json_values import conform, is_text
from shiftproof.core.text import quoted
from shiftproof.training.records import Record


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def _whole(value: Any) -> bool:
    return type(value) is int


def _step(value: Any) -> bool:
    return _whole(value) and -_LARGEST < value < _LARGEST


def _number(value: Any) -> bool:
    return type(value) in _NUMBERS and -1e300 < value < 1e300


def _scalars(value: Any) -> bool:
    return isinstance(value, dict) and all(
        each is None or type(each) in (bool, int) or is_text(each) or _finite(each)
        for each in value.values()
    )


def _finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _number_or_none(value: Any) -> bool:
    return value is None or _number(value)


# One call per value: a sweep has tens of thousands of runs.
_KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("dataset", "algorithm", "variant", "backbone", "fingerprint"), is_text),
    **dict.fromkeys(("average", "device", "precision", "status", "standardize"), is_text),
    **dict.fromkeys(("domains", "test_domains", "evaluate"), _texts),
    **dict.fromkeys(("hparams_seed", "trial_seed", "steps", "eval_every", "seed"), _whole),
    "data_seed": _whole,
    "holdout": _number,
    "hparams": _scalars,
    "frozen": _scalars,
    "seconds": _number_or_none,
    "environment": _object,
}
# The keys of a record that hold a number for each set of samples.
_SHARES = ("accuracy", "risk", "r2", "mae", "rmse")
_SHIFT = {"classes": int, "label_entropy": Mapping[str, float]}
_NUMBERS = {float, int}
# Steps below this can be read by other programs and placed in a chart.
_LARGEST = 2**63


def check_run(
    where: object,
    job: Mapping[str, Any],
    config: Mapping[str, Any],
    ended: Mapping[str, Any],
    records: Sequence[Record],
) -> None:
    """Raise `DataError` if the files of a run are invalid."""
    try:
        for value in (job, config, ended):
            for name, item in value.items():
                if name in _KINDS and not _KINDS[name](item):
                    raise ValueError(
                        f"{name} is {quoted(str(type(item).__name__))}, or out of range"
                    )
        for names in (job.get("domains", ()), config.get("test_domains", ())):
            _require_names(names)
        _require_names([v[k] for v in (job, config) for k in ("dataset", "algorithm") if k in v])
        for record in records:
            _check_record(record)
    except ValueError as error:
        raise DataError(f"{where} holds a damaged run ({error}); remove it") from error


def _check_record(record: Record) -> None:
    if not _step(record.get("step")):
        raise ValueError("a record has no step, or one that is not a whole number or too large")
    for name in _SHARES:
        if name in record:
            shares = record[name]
            if type(shares) is not dict or not set(map(type, shares.values())) <= _NUMBERS:
                raise ValueError(f"{name} of step {record['step']} is not a number for each set")
            if not _in_range(name, list(shares.values())):
                raise ValueError(f"{name} of step {record['step']} has values out of range")
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


def _in_range(name: str, values: list[float]) -> bool:
    """Whether numbers are finite, as all that we write are, and accuracies between 0 and 1."""
    if not values:
        return True
    # Accuracies of weighted samples are sums with rounding errors.
    lowest, highest = (-1e-6, 1 + 1e-6) if name == "accuracy" else (-1e300, 1e300)
    # With a NaN, minimum and maximum depend on its position; the sum is always NaN.
    return lowest <= min(values) and max(values) <= highest and sum(values) * 0 == 0


def _require_names(names: Sequence[str]) -> None:
    """Require printable names: others could send control sequences to a terminal."""
    for name in names:
        if not name.isprintable():
            raise ValueError(f"the name {quoted(name)} has characters that cannot be printed")
