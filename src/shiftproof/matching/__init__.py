"""IDM's mathematics: `InterDomainMatching` adds it to the loss of any PyTorch loop."""

from shiftproof.matching.module import InterDomainMatching

__all__ = ["InterDomainMatching"]
