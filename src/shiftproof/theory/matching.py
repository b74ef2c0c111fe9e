"""Bounds on distances between distributions by the matching penalty (`shiftproof.matching.pdm`).

The b points of a domain in one dimension, each with a Gaussian kernel of standard deviation σ, give
its density estimate P̄.  Any pairing of the points of two domains bounds the distance between their
estimates (Theorem IV.2), sorting is the best pairing (Theorem IV.3), and PDM is its penalty.
"""

from __future__ import annotations

from shiftproof.theory.statement import Bound, nonnegative, positive, printed

KERNELS = "The distributions are the density estimates with Gaussian kernels of that bandwidth."
TWO_DOMAINS = "PDM compares two domains in one dimension."
EQUAL_DOMAINS = "PDM compares any number of equally likely domains in one dimension."


def kernel_divergence(penalty: float, bandwidth: float) -> Bound:
    """Bound KL(P̄ ‖ Q̄) ≤ (1/b) Σⱼ (x¹₍j₎ − x²₍j₎)² / (2σ²) = 2 PDM₂ / σ² (Theorems IV.2, IV.3)."""
    value = 2 * nonnegative("a penalty", penalty) / positive("the bandwidth", bandwidth) ** 2
    return Bound(printed("Theorem IV.2"), "KL(P̄ ‖ Q̄)", value, (KERNELS, TWO_DOMAINS))


def kernel_distance(penalty: float) -> Bound:
    """Bound W(P̄, Q̄) ≤ (1/b) Σⱼ |x¹₍j₎ − x²₍j₎| = 2 PDM₁ (Theorems IV.2, IV.3)."""
    value = 2 * nonnegative("a penalty", penalty)
    return Bound(printed("Theorem IV.2"), "W(P̄, Q̄)", value, (KERNELS, TWO_DOMAINS))


def kernel_information(penalty: float, bandwidth: float) -> Bound:
    """Bound I(R;D) ≤ PDM₂ / (2σ²), for any number of domains (from Theorem IV.2).

    I(R;D) is the mean over domains of KL(P̄ᵢ ‖ their mixture), and no other distribution gives a
    smaller mean than the mixture; the bound uses the density estimate of the mean points x̄₍j₎.
    For a penalty averaged over dimensions, this bounds the average information of the dimensions,
    not their joint information.
    """
    value = nonnegative("a penalty", penalty) / (2 * positive("the bandwidth", bandwidth) ** 2)
    return Bound(printed("Theorem IV.2"), "I(R;D)", value, (KERNELS, EQUAL_DOMAINS))
