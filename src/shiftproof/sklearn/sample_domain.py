"""The parameter `sample_domain` of `fit`: the domain of each sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator  # type: ignore[import-untyped]

from shiftproof.core.errors import DataError
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.sklearn.inputs import as_numpy
from shiftproof.sklearn.names import Names

# The name of the single domain if no domains are given.
ONE_DOMAIN = "all"
# Algorithms of these families do not compare domains, so they need none.
WITHOUT_DOMAINS = ("baseline", "exact")


def require_none_of(other: Mapping[str, Any]) -> None:
    """Raise for unknown keywords; for those of other estimators, suggest `sample_domain`."""
    for name in other:
        if name in ("groups", "domains", "domain", "sites", "environments"):
            raise DataError(f"`fit` has no {name!r}; the domain of each sample is `sample_domain`")
        raise TypeError(f"fit() got an unexpected keyword argument {name!r}")


def domains_of(
    algorithm: str | BaseEstimator, sample_domain: Any, samples: int
) -> tuple[Names, np.ndarray]:
    """Return the domains, and the domain index of each sample."""
    named = isinstance(algorithm, str)  # a scikit-learn estimator needs no domains
    compares = named and ALGORITHMS.get(algorithm).family not in WITHOUT_DOMAINS
    advice = '`algorithm="erm"` does not use domains'
    if sample_domain is None:
        if compares:
            raise DataError(
                f"{algorithm} compares domains and needs the domain of each sample"
                " (hospital, camera, year), as in fit(X, y, sample_domain=hospitals);"
                f" without any, {advice}"
            )
        return Names.of([ONE_DOMAIN] * samples, "sample_domain")
    domains, where = Names.of(as_numpy(sample_domain), "sample_domain")
    if compares and len(domains.texts) == 1:
        raise DataError(
            f"{algorithm} compares domains, and all {len(where)} samples are from one,"
            f" {domains.texts[0]!r}; give samples of at least two, or {advice}"
        )
    return domains, where
