"""The base class of everything that can be trained, and the registry of algorithms.

An `Algorithm` (`learners.algorithms.base`) trains a network in steps.  An `Exact` model
(`learners.exact`) is fitted in one call and needs no torch.
"""

from __future__ import annotations

import inspect
from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from shiftproof.core.registry import Registry
from shiftproof.core.types import Task

Family = Literal[
    "baseline", "gradient", "representation", "predictor", "augmentation", "meta", "robust", "exact"
]


class Learner(ABC):
    """The attributes that every learner declares."""

    family: ClassVar[Family]
    paper: ClassVar[str]
    # Whether it is meant for batches of whole domains; a sweep over all algorithms skips it.
    full_batches: ClassVar[bool] = False
    # Whether it is fitted to all samples at once by `Exact.fit`, not trained in steps.
    exact: ClassVar[bool] = False
    # Why it does not support regression, as the end of a sentence; empty if it does.
    classes_only: ClassVar[str] = ""
    # Whether its loss uses sample weights.
    weighs_samples: ClassVar[bool] = False
    # Whether a prediction depends on the rest of its batch, treated as one unknown domain.
    predicts_by_batch: ClassVar[bool] = False

    # Whether it predicts with an average of the weights, so that no other average can be taken.
    averages_weights: ClassVar[bool] = False

    @dataclass(frozen=True)
    class Hparams:
        """The hyper-parameters."""

    task: Task
    hparams: Any

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return inspect.getdoc(cls).splitlines()[0]  # type: ignore[union-attr]


ALGORITHMS: Registry[type[Any]] = Registry(
    "algorithm", package="shiftproof.learners", plugins="shiftproof.algorithms"
)
