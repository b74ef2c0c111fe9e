"""Shared kinds of hyper-parameters, by their unit and the values that are allowed."""

from __future__ import annotations

from functools import partial

from shiftproof.core.space import Float, Int, hparam

weight = partial(hparam, within=(0, 1e15))  # of a part of the loss
memory = partial(hparam, within=(0, 0.999999))  # of a moving average
rate = partial(hparam, within=(1e-12, 1e3))  # of learning
decay = partial(hparam, within=(0, 1e3))  # of weights
share = partial(hparam, within=(0, 1))
size = partial(hparam, within=(1, 1e6))  # of a layer
steps = partial(hparam, within=(0, 1e12), unit="steps")
# The learning rate of most Adams, and the samples that a step takes from each domain.
adam_rate = partial(
    rate,
    1e-3,
    Float(-4.5, -2.5, base=10),
    regimes={"large-image": (5e-5, Float(-5, -3.5, base=10))},
)
samples = partial(
    hparam,
    64,
    Int(3, 9, base=2),
    within=(0, 1e9),
    help="samples per domain and step; 0 takes the whole domain",
)
