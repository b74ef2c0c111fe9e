"""Proxies for the two terms of the paper's bound over a run, beside the generalization gap.

The weights contain at most the information on the domains that the gradients of all steps contain:
I(W;D) ≤ Σₜ I(Gₜ;D | W₁ … Wₜ₋₁).  The effect of a test domain is bounded by I(R;D).  A run of IDM
with `track_information` records a bound for *one dimension* of G and of R, averaged over dimensions
(`matching_information`).  These rise and fall with the terms, but do not bound them: the
information of all dimensions together can be larger than the sum over dimensions (two correlated
ones) or smaller (two copies).  Records hold means over the steps since the last record, so that
the sum over all steps is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean
from typing import NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.training.records import Record


class BoundTerms(NamedTuple):
    """The terms after `step` updates: information in nats per dimension, `gap` in units of risk.

    `gradient` is the mean per step since the last record, `accumulated` the sum over all steps so
    far.  `gap` is the mean risk on the test domains minus that on the training domains.
    """

    step: int
    gradient: float
    accumulated: float
    representation: float
    gap: float


def bound_terms(records: Sequence[Record], test_domains: Collection[str]) -> list[BoundTerms]:
    """Return the terms at each record of a run that held out `test_domains`."""
    terms: list[BoundTerms] = []
    before, accumulated = 0, 0.0
    for record in records:
        if "gradient_information" not in record:
            raise DataError(
                f"the record of step {record['step']} has no information terms; train idm with"
                " `track_information=True`"
            )
        step, gradient = record["step"], record["gradient_information"]
        accumulated += (step - before) * gradient
        before = step
        representation, gap = record["representation_information"], _gap(record, test_domains)
        terms.append(BoundTerms(step, gradient, accumulated, representation, gap))
    return terms


def _gap(record: Record, test_domains: Collection[str]) -> float:
    """Return the mean test risk minus the mean training risk, with equal weight for each domain."""
    risks: dict[bool, list[float]] = {True: [], False: []}
    for name, risk in record["risk"].items():
        domain, part = name.rsplit("/", 1) if "/" in name else (name, "")
        if part in ("in", "out"):
            risks[domain in test_domains].append(risk)
    if not all(risks.values()):
        raise DataError(
            f"the record of step {record['step']} lacks the risk of training or test domains;"
            ' train with `evaluate=["train-out", "test-in"]`'
        )
    return fmean(risks[True]) - fmean(risks[False])
