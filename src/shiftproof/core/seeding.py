"""Seeds: DomainBed's hash, and one independent stream for each use of randomness.

Seeds determine a run.  Each use of randomness (data, splits, initial weights, batches, noise inside
an algorithm) has its own named stream, so that adding a use does not change the others.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Stream = Literal["data", "split", "init", "sampler", "noise"]


def seed_hash(*args: object) -> int:
    """Return md5(str(args)) mod 2³¹, the seed derivation of the DomainBed protocol.

    >>> seed_hash(0, 0)
    894182419
    """
    return int(hashlib.md5(str(args).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31


def stream_seed(seed: int, stream: Stream) -> int:
    """Return the seed of one named stream of a run."""
    return seed_hash("shiftproof", stream, seed)


def torch_generator(seed: int, stream: Stream) -> torch.Generator:
    """Return a CPU generator at the start of one named stream."""
    import torch

    return torch.Generator().manual_seed(stream_seed(seed, stream))
