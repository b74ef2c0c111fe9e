"""The contract of all that can be trained, with a network or without, and the registry of it.

What is trained by steps is an `Algorithm` (`learners.algorithms.base`); what is fitted at once is
an `Exact` (`learners.exact`), which needs no torch.
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
    """What all learners tell of themselves."""

    family: ClassVar[Family]
    paper: ClassVar[str]
    # Whether it is meant for batches of whole domains; a sweep of all algorithms leaves it out.
    full_batches: ClassVar[bool] = False
    # Whether it is fitted to all samples at once, by `Exact.fit`, and not by steps.
    exact: ClassVar[bool] = False
    # Why it cannot predict numbers, as the end of a sentence; empty if it can.
    classes_only: ClassVar[str] = ""
    # Whether the weights of samples count in its loss.
    weighs_samples: ClassVar[bool] = False
    # Whether a prediction depends on its batch, which is treated as one unknown domain.
    predicts_by_batch: ClassVar[bool] = False

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
