"""Split a domain into a training part (*in*) and a held-out part (*out*)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftproof.core.seeding import seed_hash


class Split(NamedTuple):
    """Positions of the samples in each part."""

    in_: np.ndarray
    out: np.ndarray


def split_domain(size: int, holdout: float, trial_seed: int, domain_index: int) -> Split:
    """Split `range(size)` as the DomainBed protocol does.

    Positions are shuffled with RandomState(seed_hash(trial_seed, domain_index)); the first
    ⌊holdout · size⌋ are *out*, the rest *in*.
    """
    order = np.arange(size)
    np.random.RandomState(seed_hash(trial_seed, domain_index)).shuffle(order)
    held_out = int(size * holdout)
    return Split(in_=order[held_out:], out=order[:held_out])
