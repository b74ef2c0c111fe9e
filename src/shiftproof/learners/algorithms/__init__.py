"""Algorithms for training on several domains, one file each, and what they are built from."""

from shiftproof.learners.algorithms.adam import Adam
from shiftproof.learners.algorithms.base import ALGORITHMS, Algorithm, HeldOut, Losses, overwrite
from shiftproof.learners.algorithms.erm import ERM, AnnealedPenalty, Outputs, PenalisedRisk
from shiftproof.learners.algorithms.hparams import decay, memory, rate, share, size, steps, weight

__all__ = [
    "ALGORITHMS", "ERM", "Adam", "Algorithm", "AnnealedPenalty", "HeldOut", "Losses", "Outputs",
    "PenalisedRisk", "decay", "memory", "overwrite", "rate", "share", "size", "steps", "weight",
]  # fmt: skip
