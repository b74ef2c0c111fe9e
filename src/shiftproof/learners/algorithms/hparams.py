"""Shared kinds of hyper-parameters: a weight, a moving-average memory, a number of steps."""

from __future__ import annotations

from functools import partial

from shiftproof.core.space import hparam

weight = partial(hparam, within=(0, 1e15))
memory = partial(hparam, within=(0, 0.999999))
steps = partial(hparam, within=(0, 1e12), unit="steps")
