"""Checks of an algorithm: functions that raise AssertionError with the broken rule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MappingProxyType

import torch

from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.testing.harness import Hparams

Check = Callable[..., None]
DEFAULTS: Hparams = MappingProxyType({})

CHECKS: list[Check] = []


def contract(rule: str) -> Callable[[Callable[[str, Hparams], None]], Check]:
    """Turn a function into a check: any error in it becomes an AssertionError."""

    def as_check(body: Callable[[str, Hparams], None]) -> Check:
        @functools.wraps(body)
        def check(name: str, hparams: Hparams = DEFAULTS) -> None:
            ALGORITHMS.get(name)  # an unknown name is the caller's error
            try:
                with torch.random.fork_rng():
                    body(name, hparams)
            except Exception as error:
                raise AssertionError(f"{name} must {rule}: {message_of(error)}") from error

        CHECKS.append(check)
        return check

    return as_check


def message_of(error: Exception) -> str:
    """Return the message of an error, with its type unless it is an AssertionError."""
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
