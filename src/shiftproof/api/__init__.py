"""The public functions, one per file.

The command line parses its options, calls these functions and prints their results.  The functions
print nothing: they report progress to a callback or an observer.  `shiftproof` exports them:
`shiftproof.train` is `shiftproof.api.train`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shiftproof import LazyPackage

if TYPE_CHECKING:
    from shiftproof.api.compare_sites import compare_sites
    from shiftproof.api.diagnose import diagnose
    from shiftproof.api.evaluate import evaluate
    from shiftproof.api.expect import expect
    from shiftproof.api.export import export
    from shiftproof.api.features import features
    from shiftproof.api.load import load
    from shiftproof.api.load_model import load_model
    from shiftproof.api.predict import predict
    from shiftproof.api.recalibrate import recalibrate
    from shiftproof.api.report import report
    from shiftproof.api.study import study
    from shiftproof.api.sweep import sweep
    from shiftproof.api.train import train
    from shiftproof.api.train_each import train_each

__all__ = [
    "compare_sites",
    "diagnose",
    "evaluate",
    "expect",
    "export",
    "features",
    "load",
    "load_model",
    "predict",
    "recalibrate",
    "report",
    "study",
    "sweep",
    "train",
    "train_each",
]

_HOMES = {verb: f"{__name__}.{verb}" for verb in __all__}
sys.modules[__name__].__class__ = LazyPackage
