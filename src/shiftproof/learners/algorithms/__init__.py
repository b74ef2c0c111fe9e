"""Algorithms for training on several domains, one file each."""

from shiftproof.learners.algorithms.base import ALGORITHMS, Algorithm, Losses

__all__ = ["ALGORITHMS", "Algorithm", "Losses"]
