"""Cross-fitted classifiers of the domain, and of the label with and without the domain.

For any classifier q, E log q(d|x)/p(d) = I(X;D) − E KL(p(d|x) ‖ q(d|x)) (Barber and Agakov, 2003),
so the best classifier gives I(X;D) and any other gives less.

The concept shift comes from classifiers of the label,

    I(Y;D|X) = E log q(y|x,d) / q(y|x),   with   q(y|x) = Σ_d q(d|x) q(y|x,d).

The mixture, instead of a second independent classifier q(y|x), fixes the sign of the error.  Since
KL is convex, E KL(p(y|x) ‖ q(y|x)) ≤ E KL(p(y|x,d) ‖ q(y|x,d)) if q(d|x) is correct: then the
estimate never exceeds the true value, however poor the classifiers of the label are.  With an
independent q(y|x), two domains that cover different parts of a curved p(y|x) would each be fitted
better alone, which would look like concept shift where there is none.  (The same number is E log
q(d|x,y)/q(d|x) with Bayes' q(d|x,y) ∝ q(d|x) q(y|x,d), so the chain rule holds exactly, and the
joint estimate is also that of Barber and Agakov.)  At the true distributions, all first
derivatives by q(d|x) and q(y|x,d) are zero, so errors enter only to second order.

`stacking.Posterior.cost` estimates the loss due to finite samples, which is added back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp  # type: ignore[import-untyped]

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.information.base import Estimator, Parts
from shiftproof.information.experts import (
    COMPONENTS,
    SQUARED,
    Expert,
    experts,
    few_columns,
    linear_experts,
    linear_features,
)
from shiftproof.information.no_shift import concept_p, exact_p_values
from shiftproof.information.sample import Floats, LogRatio, Sample
from shiftproof.information.stacking import Posterior, cross_fit, jackknife_cost


@dataclass(frozen=True, kw_only=True)
class CrossFitted(Estimator):
    """Cross-fitted classifiers of the domain and the label.

    With `linear` they are logistic regressions on the features, and the tests sum the features
    themselves.  Use it for the outputs of a model: they are made for a linear rule, softmax, so
    little is lost, and it takes milliseconds instead of minutes.
    """

    folds: int = 5
    linear: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds < 3:
            raise InvalidValue(f"`folds` must be at least 3, not {self.folds}")

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return "cross-fitted linear classifiers" if self.linear else "cross-fitted classifiers"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions of the estimates."""
        stated = [
            "the classifiers can represent how domains and labels depend on the features;"
            " otherwise I(X;D) and I(X,Y;D) are too small, and I(Y;D|X) is too large by at most"
            " what I(X;D) lacks",
        ]
        most = SQUARED if self.linear else COMPONENTS
        if self.linear:
            stated.append("domains and labels depend on the features by a linear rule")
        if sample.x.shape[1] > most:
            stated.append(
                f"the {most} leading principal components represent the"
                f" {sample.x.shape[1]} features"
            )
        return tuple(stated)

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        return _covariate(sample, self._domain(sample, self._panel(sample)))

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios, and the requested p-values."""
        panel = self._panel(sample)
        domain = self._domain(sample, panel)
        label = cross_fit(
            panel,
            sample.y,
            sample.folds(self.folds, self.seed),
            sample.weights,
            group=sample.d,
            shrunk=self._shrunk(sample),
        )
        mixed = mixture(domain.fitted, label.fitted)
        covariate = _covariate(sample, domain)
        concept = _concept(sample, domain, label, mixed)
        p_values = self._p_values(sample, np.exp(domain.fitted[:, 0]), np.exp(mixed))
        return Parts(covariate, concept, covariate + concept, p_values)

    def _domain(self, sample: Sample, panel: Sequence[Expert]) -> Posterior:
        """Return q(d|x)."""
        sizes = np.bincount(sample.d)
        if sizes.min() < self.folds:
            raise DataError(
                f"domain {sample.names[sizes.argmin()]} has {sizes.min()} samples, fewer than the"
                f" {self.folds} folds; leave it out or lower `folds`"
            )
        fold, shrunk = sample.folds(self.folds, self.seed), self._shrunk(sample)
        return cross_fit(panel, sample.d, fold, sample.weights, shrunk=shrunk)

    def _panel(self, sample: Sample) -> list[Expert]:
        return linear_experts(sample.x) if self.linear else experts(sample.x)

    def functions(self, x: Floats) -> Floats:
        """Return the functions φ(x) that the tests of "no shift" compare."""
        return linear_features(x) if self.linear else super().functions(x)

    def _shrunk(self, sample: Sample) -> bool:
        return not (self.linear or few_columns(sample.x))

    def _p_values(self, sample: Sample, q_domain: Floats, q_label: Floats) -> dict[str, float]:
        if not self.permutations:
            return {}
        phi, draws = self.functions(sample.x), (self.permutations, self.seed)
        concept = concept_p(phi, q_domain, q_label, sample, *draws)
        return {"concept": concept} | exact_p_values(phi, sample, *draws)


def _covariate(sample: Sample, domain: Posterior) -> LogRatio:
    own = np.arange(len(sample.d))
    ratio = domain.fitted[own, 0, sample.d] - np.log(sample.shares)[sample.d]
    return LogRatio(ratio, domain.cost(sample.weights, np.zeros_like(sample.d)))


def _concept(sample: Sample, domain: Posterior, label: Posterior, mixed: Floats) -> LogRatio:
    own = np.arange(len(sample.d))
    ratio = label.fitted[own, sample.d, sample.y] - mixed[own, sample.y]
    cost = label.cost(sample.weights, sample.d)
    remixed = mixture(domain.refitted, label.refitted)
    return LogRatio(ratio, cost - jackknife_cost(mixed, remixed, sample.weights))


def mixture(domain: Floats, label: Floats) -> Floats:
    """Return log Σ_d q(d|x) q(y|x,d): domain [..., n, 1, D], label [..., n, D, C] → [..., n, C]."""
    return np.asarray(logsumexp(np.swapaxes(domain, -1, -2) + label, axis=-2))
