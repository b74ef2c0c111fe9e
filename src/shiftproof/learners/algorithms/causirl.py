"""CausIRL: match two random mixtures of the domains, by CORAL or by MMD."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.algorithms.coral import CORAL
from shiftproof.penalties.formulas import coral, mmd


@ALGORITHMS.register("causirl-coral")
class CausIRLCORAL(CORAL):
    """Match means and covariances of two random mixtures A, B of domains: L_E + λ CORAL(A, B).

    A representation of the causes alone has the same distribution under any intervention, hence in
    any mixture of domains.  Each domain's minibatch of b samples is split at a position drawn
    uniformly from 0 … b − 1; the samples before it form A, the others B.

    Paper: Chevalley et al. (2022), *Invariant Causal Mechanisms through Distribution Matching*.
    """

    paper = "Chevalley et al. (2022)"

    def distance(self, representations: Tensor) -> Tensor:
        """Return the distance of two random mixtures of representations [domains, batch, k]."""
        first, second = self.cut(representations)
        if min(len(first), len(second)) < 2:  # fewer than two points have no covariance
            return torch.zeros_like(representations[0, 0, 0])
        return self.mixture_distance(first, second)

    def mixture_distance(self, first: Tensor, second: Tensor) -> Tensor:
        """Return CORAL(A, B) of two mixtures, [n, k] and [l, k]."""
        return coral([first, second])

    def cut(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Split each domain at a random position; return the samples before it and the others.

        x [domains, batch, k] → [n, k] and [domains · batch − n, k].
        """
        domains, batch = x.shape[:2]
        cuts = torch.randint(batch, (domains,), generator=self.generator).tolist()
        before = [group[:cut] for group, cut in zip(x, cuts, strict=True)]
        after = [group[cut:] for group, cut in zip(x, cuts, strict=True)]
        return torch.cat(before), torch.cat(after)


@ALGORITHMS.register("causirl-mmd")
class CausIRLMMD(CausIRLCORAL):
    """Match two random mixtures A, B of the domains by Gaussian kernels: L_E + λ MMD²(A, B).

    The mixtures are those of `causirl-coral`, and the distance is that of `mmd`.

    Paper: Chevalley et al. (2022), *Invariant Causal Mechanisms through Distribution Matching*.
    """

    def mixture_distance(self, first: Tensor, second: Tensor) -> Tensor:
        """Return MMD²(A, B) of two mixtures, [n, k] and [l, k]."""
        return mmd([first, second])
