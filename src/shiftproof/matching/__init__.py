"""Matching for any PyTorch loop: one module to call, and one term to add to the loss."""

from shiftproof.matching.loss import InterDomainMatching

__all__ = ["InterDomainMatching"]
