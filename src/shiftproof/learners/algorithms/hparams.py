"""Shared kinds of hyper-parameters, by their unit and the values that are allowed."""

from __future__ import annotations

from functools import partial

from shiftproof.core.space import hparam

weight = partial(hparam, within=(0, 1e15))  # of a part of the loss
memory = partial(hparam, within=(0, 0.999999))  # of a moving average
rate = partial(hparam, within=(1e-12, 1e3))  # of learning
decay = partial(hparam, within=(0, 1e3))  # of weights
share = partial(hparam, within=(0, 1))
size = partial(hparam, within=(1, 1e6))  # of a layer
steps = partial(hparam, within=(0, 1e12), unit="steps")
