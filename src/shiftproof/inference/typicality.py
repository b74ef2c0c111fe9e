"""Typicality: whether an input resembles the training data, as a warning for its prediction.

Each training domain is described by the mean μᵢ of its samples' representations; all domains share
the covariance Σ within domains.  The distance of an input r is the distance to the nearest domain,

    d(r) = minᵢ √((r − μᵢ)ᵀ Σ⁻¹ (r − μᵢ)),

and its typicality is the share of held-out samples of the training domains that are at least as
far: a conformal p-value, (1 + #{j : d(rⱼ) ≥ d(r)}) / (n + 1).  For a new sample of the training
domains it is at most α with probability at most α, for any distribution.  A low value means that
the model has seen nothing similar; a high value does not mean that the prediction is correct.

Representations, means and covariance: Lee et al. (2018), *A Simple Unified Framework for Detecting
Out-of-Distribution Samples*, with domains for classes.  P-values: Bates et al. (2023), *Testing for
Outliers with Conformal p-values*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from shiftproof.core.errors import CheckpointError
from shiftproof.learners.array_model import ArrayModel, Part, require

# A sample is far if at most this share of held-out samples is at least as far.
FAR = 0.01
# Largest number of training samples, and of held-out samples, used from each domain.
MOST_SAMPLES = 1000
# A mean of fewer samples would reveal too much about each sample in the model file.
FEWEST_IN_A_MEAN = 10
# Distances with a smaller relative difference are equal.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Typicality(ArrayModel):
    """A description of the training domains in the model's representation.

    `means` [domains, k], `whitening` [k, k] with whitening · whiteningᵀ = Σ⁻¹, and the sorted
    `distances` [n] of the held-out samples, all float64.
    """

    means: Annotated[np.ndarray, Part("f8", ("domains", "features"))]
    whitening: Annotated[np.ndarray, Part("f4", ("features", "features"))]
    distances: Annotated[np.ndarray, Part("f8", ("samples",))]

    @classmethod
    def fit(
        cls, trained_on: Mapping[str, np.ndarray], held_out: Mapping[str, np.ndarray]
    ) -> Typicality:
        """Fit to the representations [n, k] of each domain.

        The covariance is shrunk as in Ledoit and Wolf (2004), so that it is invertible even with
        few samples.  Domains of fewer than `FEWEST_IN_A_MEAN` samples share a mean.
        """
        from sklearn.covariance import ledoit_wolf

        groups = _large_enough([r.astype(np.float64) for r in trained_on.values()])
        means = np.stack([r.mean(axis=0) for r in groups])
        within = [r - r.mean(axis=0) for r in groups]
        covariance, _ = ledoit_wolf(np.concatenate(within), assume_centered=True)
        values, vectors = np.linalg.eigh(np.atleast_2d(covariance))
        # In a direction without variance, any difference counts as a large distance.  Without any
        # variance, the bound keeps the weights finite in single precision.
        least = max((1e-7 * float(np.abs(means).max())) ** 2, 1e-40)
        values = np.maximum(values, max(float(values.max()), least) * 1e-12)
        white = (vectors / np.sqrt(values)).astype(np.float32)  # as it will be written
        domains = cls(means, white.astype(np.float64), np.zeros(0))
        distances = np.concatenate([domains.distance(r) for r in held_out.values()])
        return replace(domains, distances=np.sort(distances))

    def distance(self, r: np.ndarray) -> np.ndarray:
        """Return the distance of representations [n, k] to the nearest training domain, [n]."""
        if r.shape[1] != self.means.shape[1]:
            raise CheckpointError(
                f"the model file is damaged: its typicality describes {self.means.shape[1]}"
                f" features, but the network has {r.shape[1]}; train again"
            )
        white, centres = r.astype(np.float64) @ self.whitening, self.means @ self.whitening
        apart = [np.square(white - centre).sum(axis=1) for centre in centres]
        nearest: np.ndarray = np.sqrt(np.min(apart, axis=0))
        return nearest

    def p_value(self, r: np.ndarray) -> np.ndarray:
        """Return the share [n] of held-out samples at least as far as each row of r [n, k]."""
        n = len(self.distances)
        # Matrix products of other shapes round differently, which must not break ties.
        nearer = np.searchsorted(self.distances, self.distance(r) * (1 - ROUNDING))
        p_value: np.ndarray = (1 + n - nearer) / (n + 1)
        return p_value

    def is_far(self, p_value: np.ndarray) -> np.ndarray:
        """Return which p-values are at most `FAR`, or the lowest possible if samples are few."""
        low: np.ndarray = p_value <= max(FAR, 1 / (len(self.distances) + 1)) + 1e-12
        return low

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` unless the distances are sorted and there is a domain."""
        require((np.diff(self.distances) >= 0).all(), "the distances are not sorted")
        require(len(self.means) > 0, "the typicality describes no domain")


def _large_enough(domains: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the samples of each domain, with small domains merged.

    If the merged domains are still too small, they are added to the smallest other domain.
    """
    large = sorted((r for r in domains if len(r) >= FEWEST_IN_A_MEAN), key=len)
    small = [r for r in domains if len(r) < FEWEST_IN_A_MEAN]
    if not small:
        return list(domains)
    together = np.concatenate(small)
    if len(together) >= FEWEST_IN_A_MEAN or not large:
        return [*large, together]
    return [np.concatenate([large[0], together]), *large[1:]]
