"""The parts of a shift, the least risk it causes, and the divergence of training domains."""

from __future__ import annotations

import math

from shiftproof.core.errors import InvalidValue
from shiftproof.theory.statement import SAME_LAW, Bound, information, nonnegative, printed

MARKOV = "R is computed from X alone, without Y and D."
RATIO_BOUNDED = "The two densities differ by a factor of at most B everywhere."
FRESH_SAMPLE = "The training domain's sample is one that W was not trained on."


def distribution_shift(covariate_shift: float, concept_shift: float) -> float:
    """Return I(Z;D) = I(X;D) + I(Y;D|X) (Equation (1)), or the same with R in place of X.

    >>> round(distribution_shift(0.001426, 0.008541), 6)
    0.009967
    """
    return _sum(covariate_shift, concept_shift)


def distribution_shift_by_label(label_shift: float, conditional_shift: float) -> float:
    """Return I(R,Y;D) = I(Y;D) + I(R;D|Y), the anti-causal order (Appendix A)."""
    return _sum(label_shift, conditional_shift)


def conditional_shift(kept_of_input: float, kept_of_label: float) -> Bound:
    """Bound I(R;D|Y) ≤ I(R;X) − I(R;Y), the information bottleneck (Appendix A).

    Args:
        kept_of_input: I(R;X).
        kept_of_label: I(R;Y), at most I(R;X) because R is computed from X.
    """
    of_input = information("I(R;X)", kept_of_input)
    of_label = information("I(R;Y)", kept_of_label)
    if of_label > of_input:
        raise InvalidValue(f"I(R;Y) cannot exceed I(R;X), but {of_label} is above {of_input}")
    return Bound("Appendix A, information bottleneck", "I(R;D|Y)", of_input - of_label, (MARKOV,))


def concept_shift_floor(concept_shift: float, label_entropy: float = 0.0) -> Bound:
    """Bound the average cross-entropy of any predictor from below (Proposition III.1).

    KL(P_{Y|X,D} ‖ Q_{Y|X}) ≥ I(Y;D|X), with equality only for Q = P_{Y|X}.  The cross-entropy is
    that divergence plus H(Y|X,D).

    Args:
        concept_shift: I(Y;D|X).
        label_entropy: H(Y|X,D); with 0, the bound is on the divergence alone.
    """
    return Bound(
        printed("Proposition III.1"),
        "the average cross-entropy, from below",
        _sum(concept_shift, label_entropy),
        (SAME_LAW,),
    )


def predictor_divergence(lost: float, classifier_divergence: float) -> Bound:
    """Bound a predictor's divergence by those of its parts (Proposition III.1, second part).

    KL(P_{Y|X,D=d} ‖ Q_{Y|X}) ≤ I(X;Y|R,D=d) + KL(P_{Y|R,D=d} ‖ Q_{Y|R}), with equality for a
    deterministic encoder.

    Args:
        lost: I(X;Y|R,D=d), the information about the label that the encoder loses.
        classifier_divergence: KL(P_{Y|R,D=d} ‖ Q_{Y|R}).
    """
    return Bound(
        printed("Proposition III.1"),
        "KL(P_{Y|X,D=d} ‖ Q_{Y|X})",
        _sum(lost, classifier_divergence),
        (MARKOV,),
    )


def proxy_divergence(learned: float, density_ratio: float) -> Bound:
    """Bound SKL(P_{R,D} ‖ P_{R_i,D_i}) ≤ log(B) √(2 I(W;D_i)) (Proposition III.7).

    The divergence measures how much training domain i differs from all domains.  The same holds for
    SKL(P_{R,X,Y} ‖ P_{R_i,X_i,Y_i}) (Proposition A.13).  SKL is the sum of KL in both directions.

    Correction to the text, which assumes only that the two distributions have the same null sets
    and concludes that their density ratio is bounded.  It need not be, and the constant depends on
    its bound B.  Without B, KL(P_{R_i,D_i} ‖ P_{R,D}) ≤ I(W;D_i) still holds, because the same
    channel leads from (W, D) to (R, D) in both; only the other direction needs B.

    Args:
        learned: I(W;D_i).  For a sample that W was trained on, I(W;X_i,D_i).
        density_ratio: B ≥ 1, with 1/B ≤ P_{R,D} / P_{R_i,D_i} ≤ B.
    """
    if not density_ratio >= 1:
        raise InvalidValue(
            f"the bound on the ratio of densities must be at least 1, not {density_ratio}"
        )
    value = math.log(density_ratio) * math.sqrt(2 * information("I(W;D_i)", learned))
    return Bound(
        printed("Proposition III.7"),
        "SKL(P_{R,D} ‖ P_{R_i,D_i})",
        value,
        (SAME_LAW, RATIO_BOUNDED, FRESH_SAMPLE),
    )


def _sum(one: float, other: float) -> float:
    return nonnegative("a part of a shift", one) + nonnegative("a part of a shift", other)
