"""IRM: invariant risk minimisation."""

from __future__ import annotations

from torch import Tensor

from shiftproof.learners.algorithms import ALGORITHMS, AnnealedPenalty, Outputs
from shiftproof.penalties.formulas import irm_penalty


@ALGORITHMS.register("irm")
class IRM(AnnealedPenalty):
    """Find a predictor optimal in every domain at once: L_E + λₜ (1/m) Σᵢ (∂Lᵢ(w·f)/∂w |₍w₌₁₎)².

    Lᵢ is the risk of domain i and w a scale of the logits f.  The two halves of each minibatch give
    an unbiased estimate of the square (`irm_penalty`).  λₜ is 1 until step `anneal_steps` and λ
    from then on; Adam restarts at that step.

    Paper: Arjovsky et al. (2019), *Invariant Risk Minimization*.
    """

    family = "predictor"
    paper = "Arjovsky et al. (2019)"

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the mean over domains of the squared slope."""
        return irm_penalty(outputs.logits, outputs.labels, self.sample_loss)
