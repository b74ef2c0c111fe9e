"""The weight that makes a penalty as large as the risk: the unit of automatic weights.

    λ = (1 − γ)^(p−1) · L₀ / P₀,

with L₀ and P₀ the risk and PDM of order p on the first matched batch.  The factor cancels the
moving average, which sums 1 / (1 − γ) batches.  The meaning of a fixed λ differs between networks
and datasets; this one does not depend on the scale of the features or of the gradients.
"""

from __future__ import annotations


def unit_weight(risk: float, penalty: float, gamma: float, order: int) -> float:
    """Return λ, or 0 if there is nothing to match.

    >>> unit_weight(risk=1.5, penalty=0.5, gamma=0.0, order=2), unit_weight(0.7, 0.0, 0.5, 2)
    (3.0, 0.0)
    """
    return (1 - gamma) ** (order - 1) * risk / penalty if penalty > 0 else 0.0
