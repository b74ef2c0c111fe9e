"""Shiftproof: train on several domains, hold up on one never seen, and find out what shifts.

The names in `__all__` are public.  Each is imported when it is first used, so `import shiftproof`
is quick and imports no torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shiftproof.api.compare_sites import compare_sites as compare_sites
    from shiftproof.api.diagnose import diagnose as diagnose
    from shiftproof.api.evaluate import evaluate as evaluate
    from shiftproof.api.expect import expect as expect
    from shiftproof.api.export import export as export
    from shiftproof.api.features import features as features
    from shiftproof.api.load import load as load
    from shiftproof.api.load_model import load_model as load_model
    from shiftproof.api.predict import predict as predict
    from shiftproof.api.recalibrate import recalibrate as recalibrate
    from shiftproof.api.report import report as report
    from shiftproof.api.study import study as study
    from shiftproof.api.sweep import sweep as sweep
    from shiftproof.api.train import train as train
    from shiftproof.api.train_each import train_each as train_each
    from shiftproof.core.errors import ShiftproofError as ShiftproofError
    from shiftproof.core.space import Choice as Choice, Float as Float, Int as Int, hparam as hparam
    from shiftproof.core.types import Batch as Batch, Task as Task
    from shiftproof.data import (
        DATASETS as DATASETS,
        DatasetCard as DatasetCard,
        DatasetSource as DatasetSource,
        Domain as Domain,
        DomainDataset as DomainDataset,
    )
    from shiftproof.inference.model import TrainedModel as TrainedModel
    from shiftproof.learners.algorithms import Algorithm as Algorithm, Losses as Losses
    from shiftproof.learners.base import ALGORITHMS as ALGORITHMS
    from shiftproof.matching import InterDomainMatching as InterDomainMatching
    from shiftproof.matching.pdm import pdm as pdm
    from shiftproof.metrics import METRICS as METRICS, Metric as Metric
    from shiftproof.sklearn import (
        ShiftproofClassifier as ShiftproofClassifier,
        ShiftproofRegressor as ShiftproofRegressor,
    )
    from shiftproof.training.observers import Observer as Observer

_VERBS = (
    *("compare_sites", "diagnose", "evaluate", "expect", "export", "features", "load"),
    *("load_model", "predict", "recalibrate", "report", "study", "sweep", "train", "train_each"),
)
_HOMES = {verb: f"shiftproof.api.{verb}" for verb in _VERBS} | {
    name: module
    for module, names in {
        "shiftproof.core.errors": "ShiftproofError",
        "shiftproof.core.space": "Choice Float Int hparam",
        "shiftproof.core.types": "Batch Task",
        "shiftproof.data": "DATASETS DatasetCard DatasetSource Domain DomainDataset",
        "shiftproof.inference.model": "TrainedModel",
        "shiftproof.learners.algorithms": "Algorithm Losses",
        "shiftproof.learners.base": "ALGORITHMS",
        "shiftproof.matching": "InterDomainMatching",
        "shiftproof.matching.pdm": "pdm",
        "shiftproof.metrics": "METRICS Metric",
        "shiftproof.training.observers": "Observer",
        "shiftproof.sklearn": "ShiftproofClassifier ShiftproofRegressor",
    }.items()
    for name in names.split()
}
__all__ = sorted([*_HOMES, "__version__"])


class LazyPackage(ModuleType):
    """A package that imports its public names when they are first used.

    Importing a submodule binds its name in the package.  A public name of the same name stays what
    it is.
    """

    _HOMES: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        errors = import_module(_HOMES["ShiftproofError"])
        with errors.named_extras():
            return getattr(import_module(self._HOMES[name]), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in self._HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)


sys.modules[__name__].__class__ = LazyPackage
