"""Averages over the steps of a run that forget its beginning (Shamir and Zhang, 2013).

    θ̄_t = (1 − (η+1)/(t+η)) θ̄_{t−1} + (η+1)/(t+η) θ_t,   η = 3,

so θ̄_1 = θ_1, and step s ≤ t counts in proportion to about s^η.  They take the place of a falling
learning rate and can be read at any step.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

ETA = 3


def follow(averages: Iterable[Tensor], values: Iterable[Tensor], step: int) -> None:
    """Take the values after a step, counted from 1, into their averages, in place."""
    for average, value in zip(averages, values, strict=True):
        average.lerp_(value.detach(), (ETA + 1) / (step + ETA))
