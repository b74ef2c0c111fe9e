"""The errors that a user can cause.

    ShiftproofError
    ├── UnknownName      a name that is not registered; the message suggests similar names
    ├── InvalidValue     a setting or hyper-parameter that is not allowed
    ├── DataError        data that cannot be used
    ├── RunConflict      a run folder that belongs to another run, or that is in use
    ├── CheckpointError  a checkpoint that cannot be read or does not fit
    └── MissingExtra     a package that is not installed; the message names the extra

Every message is one line: the rule, the value, and what to do.

**Parameters are in backticks**, with their Python names: "`holdout` must lie in [0, 1), not 1.5",
"choose another `out`", "use `backbone="mlp"`".  The library never names an option of the command
line.  `shiftproof.cli.messages` converts each name, with its value, to the option of the running
command.  The command line prints the message after `error:` and exits with code 2.  Notes of a run
follow the same rule for parameters.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Our names, with those of other libraries for the same thing.
_ELSEWHERE = {
    "lr": "learning_rate learningrate eta",
    "batch_size": "batchsize bs",
    "weight_decay": "wd l2",
    "trees": "n_estimators num_trees",
    "smallest_leaf": "min_samples_leaf",
    "penalty": "alpha c",
    "linear": "logistic logistic_regression",
    "forest": "random_forest randomforest",
    "boosting": "xgboost lightgbm gbm",
    "erm": "mlp",
    "erm-plus-plus": "erm++",
    "auroc": "auc roc_auc",
    "log_loss": "logloss cross_entropy",
    "average_precision": "ap",
}
OURS = {name: ours for ours, names in _ELSEWHERE.items() for name in names.split()}
# Optional packages, and the extra that installs each.
EXTRAS = {
    "torch": "torch",
    "torchvision": "torch",
    "timm": "torch",
    "ray": "ray",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "skl2onnx": "onnx",
    "skops": "skops",
}
# The maximum number of names listed in a message.
MOST_LISTED = 40


class ShiftproofError(Exception):
    """Base class of all errors that Shiftproof raises on purpose."""


class UnknownName(ShiftproofError):
    """A name that is not registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self._given = (kind, name, list(known))
        super().__init__(f"unknown {kind} {name!r}; {nearest(name, self._given[2])}")

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, list[str]]]:
        return UnknownName, self._given


class InvalidValue(ShiftproofError):
    """A setting or hyper-parameter that is not allowed."""


class DataError(ShiftproofError):
    """Data that cannot be used."""


class RunConflict(ShiftproofError):
    """A run folder that holds another run, or that another process is writing."""


class CheckpointError(ShiftproofError):
    """A checkpoint that cannot be read or belongs to another model."""


class MissingExtra(ShiftproofError, ImportError):
    """An optional package that is not installed."""


@contextmanager
def named_extras() -> Iterator[None]:
    """Within this context, a failed import of an optional package names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        extra = f"pip install 'shiftproof[{EXTRAS[package]}]'"
        raise MissingExtra(f"this needs {package}, which is not installed; run {extra}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known names most similar to `name`, or list the first known names.

    Names that other libraries use for the same thing count as similar.

    >>> nearest("imd", ["erm", "idm", "mmd"])
    "did you mean 'idm' or 'mmd'?"
    >>> nearest("xyzzy", ["erm", "idm"])
    'known: erm, idm'
    >>> nearest("learning_rate", ["lr", "weight_decay"])
    "did you mean 'lr'?"
    >>> nearest("ERM++", ["eqrm", "erm", "erm-plus-plus"])
    "did you mean 'erm-plus-plus'?"
    """
    known = list(known)
    if (same := OURS.get(name.lower().replace("-", "_"))) in known:
        return f"did you mean {same!r}?"
    by_lower = {candidate.lower(): candidate for candidate in known}
    # Swapped letters are the most common typing error, and difflib rates them low.
    swapped = [other for other in by_lower if sorted(other) == sorted(name.lower())]
    similar = difflib.get_close_matches(name.lower(), by_lower, n=2, cutoff=0.5)
    close = list(dict.fromkeys(swapped + similar))[:2]
    if close:
        return "did you mean " + " or ".join(repr(by_lower[match]) for match in close) + "?"
    more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    return "known: " + (", ".join(known[:MOST_LISTED]) or "none") + more
