"""IRM's gradient penalty: how far a common scale of the logits is from optimal in each domain.

Arjovsky et al. (2019) multiply the logits by a scale w = 1 and penalise the slope of each domain's
risk Lᵢ(w) there.  For one sample with logits z and e = ∂ℓ/∂z that slope is

    s = ∂ℓ(w z, y)/∂w |₍w₌₁₎ = ⟨z, e⟩,   e = softmax(z) − onehot(y)

(or σ(z) − y for one logit, and ŷ − y for a number under the squared loss), so no second derivative
is needed.
"""

from __future__ import annotations

from torch import Tensor

from shiftproof.core.errors import InvalidValue
from shiftproof.models.risk import CROSS_ENTROPY_LOSS, Loss


def irm_slopes(logits: Tensor, labels: Tensor, loss: Loss = CROSS_ENTROPY_LOSS) -> Tensor:
    """Return each sample's slope s = ⟨z, e⟩: logits z [..., c], labels [...] → [...]."""
    return (logits * loss.residual(logits, labels)).sum(dim=-1)


def irm_penalty(logits: Tensor, labels: Tensor, loss: Loss = CROSS_ENTROPY_LOSS) -> Tensor:
    """Return (1/m) Σᵢ Lᵢ′(1; even samples) · Lᵢ′(1; odd samples), a scalar of any sign.

    The two halves of a minibatch are independent, so their product is an unbiased estimate of the
    squared slope; the square of one estimate is not.

    logits [domains, batch, c] (or [..., 1]), labels [domains, batch], batch ≥ 2.
    """
    if logits.shape[1] < 2:
        raise InvalidValue(
            "the penalty of IRM needs at least 2 samples per domain, not 1; raise `batch_size`"
        )
    slope = irm_slopes(logits, labels, loss)
    return (slope[:, ::2].mean(dim=1) * slope[:, 1::2].mean(dim=1)).mean()
