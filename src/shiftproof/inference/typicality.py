"""Whether an input is like anything that was trained on: a warning before a prediction is believed.

Each training domain is summed up by the mean of its samples' representations, and all together by
their covariance Σ within domains.  An input r is as far off as it is from the nearest domain,

    d(r) = minᵢ √((r − μᵢ)ᵀ Σ⁻¹ (r − μᵢ)),

and its typicality is the share of held-out samples of the training domains that are at least as
far: a conformal p-value, (1 + #{j : d(rⱼ) ≥ d(r)}) / (n + 1).  For a new sample of the training
domains it is below α with probability at most α, whatever the distributions.  A low one says that
the model has seen nothing like it; a high one does not say that the model is right.

Representations, means and covariance: Lee et al. (2018), *A Simple Unified Framework for Detecting
Out-of-Distribution Samples*, with domains for classes.  P-values: Bates et al. (2023), *Testing for
Outliers with Conformal p-values*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

# A sample is far if fewer held-out samples than this share are as far off.
FAR = 0.01
# Of each domain, so many samples trained on and so many held out are enough.
MOST_SAMPLES = 1000


@dataclass(frozen=True)
class Typicality:
    """What the training domains look like to the model.

    ``means`` [domains, k], ``whitening`` [k, k] with whitening · whiteningᵀ = Σ⁻¹, and the sorted
    ``distances`` [n] of the held-out samples, all float64.
    """

    means: Tensor
    whitening: Tensor
    distances: Tensor

    @classmethod
    def fit(cls, trained_on: Mapping[str, Tensor], held_out: Mapping[str, Tensor]) -> Typicality:
        """Learn from representations [n, k] of each domain.

        The covariance is shrunk as Ledoit and Wolf (2004) do, so that it can be inverted however
        few the samples are.
        """
        from sklearn.covariance import ledoit_wolf  # type: ignore[import-untyped]

        means = torch.stack([r.double().mean(dim=0) for r in trained_on.values()])
        within = [r.double() - r.double().mean(dim=0) for r in trained_on.values()]
        covariance, _ = ledoit_wolf(torch.cat(within).numpy(), assume_centered=True)
        values, vectors = torch.linalg.eigh(torch.from_numpy(np.asarray(covariance)))
        # A direction in which nothing varies: any step along it is a long one.
        values = values.clamp(min=float(values.max().clamp(min=1e-300)) * 1e-12)
        whitening = (vectors / values.sqrt()).float().double()  # as it will be written
        none = torch.zeros(0, dtype=torch.float64)
        domains = cls(means, whitening, none)
        distances = torch.cat([domains.distance(r) for r in held_out.values()])
        return replace(domains, distances=distances.sort().values)

    def distance(self, r: Tensor) -> Tensor:
        """Return how far representations [n, k] are from the nearest training domain, [n]."""
        white, centres = r.double() @ self.whitening, self.means @ self.whitening
        return torch.cdist(white, centres, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1)

    def p_value(self, r: Tensor) -> Tensor:
        """Return the share of held-out samples at least as far off as each of r [n, k]: [n]."""
        n = len(self.distances)
        nearer = torch.searchsorted(self.distances, self.distance(r).contiguous())
        return (1 + n - nearer).double() / (n + 1)

    def is_far(self, p_value: Tensor) -> Tensor:
        """Return which p-values are low: at most ``FAR``, or the lowest that so few can show."""
        return p_value <= max(FAR, 1 / (len(self.distances) + 1)) + 1e-12

    def tensors(self) -> dict[str, Tensor]:
        """Return all there is, by name; whitening, the largest, as float32, which it fits."""
        return {
            "means": self.means,
            "whitening": self.whitening.float().contiguous(),
            "distances": self.distances,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Typicality:
        """Rebuild what `tensors` returned."""
        return cls(**{name: tensor.double() for name, tensor in tensors.items()})
