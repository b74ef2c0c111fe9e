"""The types of bounds: a number with its statement in the paper and that statement's assumptions.

The module also lists the printed numbers of the paper's statements (sections in Roman numerals, one
counter for all kinds of statement, one appendix A), with their labels in the paper's source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shiftproof.core.errors import InvalidValue

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
class Bound:
    """A bound on one number.

    `bounded` names that number.  `probability` is the probability with which the bound holds, or
    None if it always holds.
    """

    statement: str
    bounded: str
    value: float
    assumptions: tuple[str, ...]
    probability: float | None = None


@dataclass(frozen=True)
class TailBound:
    """A bound on the probability of a large gap: Pr{gap ≥ ε + offset} ≤ (scale / ε)^power.

    Power 1 is Markov's inequality, power 2 Chebyshev's.

    >>> tail = TailBound("Theorem III.5 (thm:pp_con)", "|L_t(w) − L(w)|", 0.02, 2, ())
    >>> round(tail.chance(0.1), 6), round(tail.gap(0.04), 6)
    (0.04, 0.1)
    """

    statement: str
    gap_of: str
    scale: float
    power: int
    assumptions: tuple[str, ...]
    offset: float = 0.0

    def chance(self, gap: float) -> float:
        """Return the upper bound, at most 1, on the probability that the gap reaches `gap`."""
        positive("a gap", gap)
        margin = gap - self.offset
        if margin <= self.scale:
            return 1.0
        return float((self.scale / margin) ** self.power)

    def gap(self, level: float) -> float:
        """Return a gap that is reached with probability at most `level`."""
        check_level(level)
        return float(self.offset + self.scale / level ** (1 / self.power))

    def at(self, level: float) -> Bound:
        """Return `gap` as a bound that holds with probability 1 − `level`."""
        return Bound(self.statement, self.gap_of, self.gap(level), self.assumptions, 1 - level)


def printed(number: str) -> str:
    """Return a statement's printed number followed by its label.

    >>> printed("Theorem III.5"), printed("Theorem A.14")
    ('Theorem III.5 (thm:pp_con)', 'Theorem A.14')
    """
    label = STATEMENTS[number]
    return f"{number} ({label})" if label else number


def nonnegative(what: str, value: float) -> float:
    """Return `value` if it is at least 0 (infinity is allowed), or raise."""
    if not value >= 0:
        raise InvalidValue(f"{what} must be at least 0, not {value}")
    return float(value)


def information(what: str, value: float) -> float:
    """Return an amount of information in nats if it is at least 0, or raise."""
    if not value >= 0:
        raise InvalidValue(f"{what} must be at least 0 nats, not {value}; clip an estimate at 0")
    return float(value)


def informations(what: str, values: Iterable[float]) -> list[float]:
    """Return at least one amount of information in nats, all at least 0, or raise."""
    return _several(what, [information(what, value) for value in values])


def distances(what: str, values: Iterable[float]) -> list[float]:
    """Return at least one distance, all at least 0, or raise."""
    return _several(what, [nonnegative(what, value) for value in values])


def positive(what: str, value: float) -> float:
    """Return `value` if it is finite and above 0, or raise."""
    if not 0 < value < math.inf:
        raise InvalidValue(f"{what} must be above 0 and finite, not {value}")
    return float(value)


def count(what: str, value: int) -> int:
    """Return `value` if it is a whole number of at least 1, or raise."""
    if value != int(value) or value < 1:
        raise InvalidValue(f"the number of {what} must be a whole number above 0, not {value}")
    return int(value)


def check_level(level: float) -> float:
    """Return `level` if it is strictly between 0 and 1, or raise."""
    if not 0 < level < 1:
        raise InvalidValue(f"a probability level must lie strictly between 0 and 1, not {level}")
    return float(level)


def _several(what: str, values: Sequence[float]) -> list[float]:
    if not values:
        raise InvalidValue(f"{what} is needed for at least one training domain")
    return list(values)
