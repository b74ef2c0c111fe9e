"""The types of bounds: a number with its statement in the paper and that statement's assumptions.

The module also lists the printed numbers of the paper's statements (sections in Roman numerals, one
counter for all kinds of statement, one appendix A), with their labels in the paper's source.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.theory import checks

# Printed number → label in the source (empty if it has none).
STATEMENTS = {
    "Proposition III.1": "prop:concept_shift",
    "Theorem III.2": "thm:pp_domain",
    "Theorem III.3": "thm:mi_bound",
    "Theorem III.4": "thm:pp_domain_wass",
    "Theorem III.5": "thm:pp_con",
    "Theorem III.6": "thm:pp_best",
    "Proposition III.7": "prop:cov_shift_emp",
    "Theorem IV.1": "thm:indist",
    "Theorem IV.2": "thm:bijection",
    "Theorem IV.3": "thm:minimizer",
    "Lemma A.6": "lm:kl_con_pair",
    "Lemma A.7": "lm:sg_sq",
    "Lemma A.8": "lm:dv_ineq",
    "Lemma A.9": "lm:kl_con",
    "Lemma A.10": "lm:kr_dual",
    "Lemma A.11": "lm:pinsker",
    "Proposition A.12": "",
    "Proposition A.13": "prop:ib_emp",
    "Theorem A.14": "",
    "Theorem A.15": "",
    "Theorem A.16": "thm:pp_wass_con",
    "Theorem A.17": "thm:pp_wass_best",
    "Theorem A.18": "thm:ep_con",
    "Theorem A.19": "thm:ep_wass",
}

# Assumptions that several statements share.
BOUNDED = "The loss lies between 0 and its bound M."
SUBGAUSSIAN = "The loss is σ-sub-Gaussian over the pooled data (a loss in [0, M] is with σ = M/2)."
METRIC = "The loss is symmetric and obeys the triangle inequality (0-1 loss, absolute error)."
SAME_LAW = "Training and test domains are drawn from the same distribution of domains."
TEST_APART = "The test domains are independent of the training domains."
TEST_INDEPENDENT = "The test domains are independent of each other."
TRAINING_INDEPENDENT = "The training domains are independent of each other."
FIXED = "The predictor does not depend on the test domains."


@dataclass(frozen=True)
class _Statement:
    """A statement of the paper: its printed number, followed by its label in the source."""

    statement: str

    def __post_init__(self) -> None:
        if label := STATEMENTS.get(self.statement):
            object.__setattr__(self, "statement", f"{self.statement} ({label})")


@dataclass(frozen=True)
class Bound(_Statement):
    """A bound on one number.

    `bounded` names that number.  `probability` is the probability with which the bound holds, or
    None if it always holds.

    >>> Bound("Theorem III.5", "|L_t(w) − L(w)|", 0.02, ()).statement
    'Theorem III.5 (thm:pp_con)'
    """

    bounded: str
    value: float
    assumptions: tuple[str, ...]
    probability: float | None = None


@dataclass(frozen=True)
class TailBound(_Statement):
    """A bound on the probability of a large gap: Pr{gap ≥ ε + offset} ≤ (scale / ε)^power.

    Power 1 is Markov's inequality, power 2 Chebyshev's.

    >>> tail = TailBound("Theorem III.5", "|L_t(w) − L(w)|", 0.02, 2, ())
    >>> round(tail.chance(0.1), 6), round(tail.gap(0.04), 6)
    (0.04, 0.1)
    """

    gap_of: str
    scale: float
    power: int
    assumptions: tuple[str, ...]
    offset: float = 0.0

    def chance(self, gap: float) -> float:
        """Return the upper bound, at most 1, on the probability that the gap reaches `gap`."""
        checks.positive("a gap", gap)
        margin = gap - self.offset
        if margin <= self.scale:
            return 1.0
        return float((self.scale / margin) ** self.power)

    def gap(self, level: float) -> float:
        """Return a gap that is reached with probability at most `level`."""
        checks.check_level(level)
        return float(self.offset + self.scale / level ** (1 / self.power))

    def at(self, level: float) -> Bound:
        """Return `gap` as a bound that holds with probability 1 − `level`."""
        return Bound(self.statement, self.gap_of, self.gap(level), self.assumptions, 1 - level)
