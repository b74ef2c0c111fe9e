"""Typicality: whether an input resembles the training data, as a warning for its prediction.

Each training domain is described by the mean μᵢ of its samples' representations, and all of them by
their covariance Σ within domains.  The distance of an input r is that to the nearest domain,

    d(r) = minᵢ √((r − μᵢ)ᵀ Σ⁻¹ (r − μᵢ)),

and its typicality is the share of held-out samples of the training domains that are at least as
far: a conformal p-value, (1 + #{j : d(rⱼ) ≥ d(r)}) / (n + 1).  For a new sample of the training
domains it is at most α with probability at most α, for any distribution.  A low value means that
the model has seen nothing similar; a high value does not mean that the prediction is right.

Representations, means and covariance: Lee et al. (2018), *A Simple Unified Framework for Detecting
Out-of-Distribution Samples*, with domains for classes.  P-values: Bates et al. (2023), *Testing for
Outliers with Conformal p-values*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import CheckpointError

# A sample is far if at most this share of held-out samples is as far.
FAR = 0.01
# At most this many training samples and held-out samples of each domain are used.
MOST_SAMPLES = 1000
# A mean of fewer would tell a reader of the model file too much of each sample: of one, all.
FEWEST_IN_A_MEAN = 10


@dataclass(frozen=True)
class Typicality:
    """A description of the training domains in the model's representation.

    `means` [domains, k], `whitening` [k, k] with whitening · whiteningᵀ = Σ⁻¹, and the sorted
    `distances` [n] of the held-out samples, all float64.
    """

    means: Tensor
    whitening: Tensor
    distances: Tensor

    @classmethod
    def fit(cls, trained_on: Mapping[str, Tensor], held_out: Mapping[str, Tensor]) -> Typicality:
        """Fit to the representations [n, k] of each domain.

        The covariance is shrunk as in Ledoit and Wolf (2004), so that it is invertible even with
        few samples.  Domains of fewer than `FEWEST_IN_A_MEAN` samples share a mean.
        """
        from sklearn.covariance import ledoit_wolf  # type: ignore[import-untyped]

        groups = _large_enough([r.double() for r in trained_on.values()])
        means = torch.stack([r.mean(dim=0) for r in groups])
        within = [r - r.mean(dim=0) for r in groups]
        covariance, _ = ledoit_wolf(torch.cat(within).numpy(), assume_centered=True)
        values, vectors = torch.linalg.eigh(torch.from_numpy(np.asarray(covariance)))
        # In a direction without variance, any difference counts as a large distance.
        values = values.clamp(min=float(values.max().clamp(min=1e-300)) * 1e-12)
        whitening = (vectors / values.sqrt()).float().double()  # as it will be written
        none = torch.zeros(0, dtype=torch.float64)
        domains = cls(means, whitening, none)
        distances = torch.cat([domains.distance(r) for r in held_out.values()])
        return replace(domains, distances=distances.sort().values)

    def distance(self, r: Tensor, without: int | None = None) -> Tensor:
        """Return the distance of representations [n, k] to the nearest training domain, [n].

        ``without`` leaves out a domain, by its place.
        """
        if r.shape[1] != self.means.shape[1]:
            raise CheckpointError(
                f"the model file is damaged: its typicality describes {self.means.shape[1]}"
                f" features, but the network has {r.shape[1]}; train again"
            )
        kept = [place for place in range(len(self.means)) if place != without]
        white, centres = r.double() @ self.whitening, self.means[kept] @ self.whitening
        return torch.cdist(white, centres, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1)

    def p_value(self, r: Tensor, without: int | None = None) -> Tensor:
        """Return the share of held-out samples at least as far as each of r [n, k]: [n].

        ``without`` leaves out a domain: it is as if the samples were of a new one.
        """
        n = len(self.distances)
        nearer = torch.searchsorted(self.distances, self.distance(r, without).contiguous())
        return (1 + n - nearer).double() / (n + 1)

    def is_far(self, p_value: Tensor) -> Tensor:
        """Return which p-values are low: at most `FAR`, or the lowest if samples are few."""
        return p_value <= max(FAR, 1 / (len(self.distances) + 1)) + 1e-12

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name; whitening, the largest, as float32, without loss."""
        return {**vars(self), "whitening": self.whitening.float().contiguous()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Typicality:
        """Rebuild what `tensors` returned; other shapes or an other order are a `ValueError`."""
        found = cls(**{name: tensor.double() for name, tensor in tensors.items()})
        if found.means.ndim != 2 or found.distances.ndim != 1 or not len(found.means):
            raise ValueError("the typicality has means or distances of a wrong shape")
        if (found.distances.diff() < 0).any():
            raise ValueError("the distances of the typicality are not sorted")
        found.require_width(found.means.shape[1])
        return found

    def require_width(self, width: int) -> None:
        """Require that it describes representations [n, width], or raise `ValueError`."""
        if self.means.shape[1] != width or self.whitening.shape != (width, width):
            raise ValueError(
                f"the typicality describes {self.means.shape[1]} features with a matrix of shape"
                f" {tuple(self.whitening.shape)}, but the model has {width}"
            )


def _large_enough(domains: Sequence[Tensor]) -> list[Tensor]:
    """Return the samples of each domain, small domains together with each other.

    If these are too few even together, they join the smallest of the others.
    """
    large = sorted((r for r in domains if len(r) >= FEWEST_IN_A_MEAN), key=len)
    small = [r for r in domains if len(r) < FEWEST_IN_A_MEAN]
    if not small:
        return list(domains)
    together = torch.cat(small)
    if len(together) >= FEWEST_IN_A_MEAN or not large:
        return [*large, together]
    return [torch.cat([large[0], together]), *large[1:]]
