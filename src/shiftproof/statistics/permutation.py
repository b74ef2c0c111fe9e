"""Permutation tests of "no shift", for values with few levels and for features of any kind.

All tests of features compare sums of fixed functions φ(x) (`features.functions_to_test`): for few
columns the features, their squares and products and some random cosines; for many columns, the
leading principal components, with squares, norms and squared random projections of their normal
scores.  The functions do not depend on domains or labels, so domains can be permuted without
refitting, and the p-values of covariate, joint and within-label shift are exact.  (Fixed
cross-fitted scores would not be valid: the scores of each fold are learned from the other folds, so
under the null the sums of the folds are dependent, with twice the variance that permutations of
fixed scores have.)

Concept shift: independence of Y and D given X cannot be tested exactly for continuous X.  With the
out-of-fold q(d|x) and q(y|x), the products of residuals

    φ(x) · (1[D=d] − q(d|x)) · (1[Y=y] − q(y|x))

have mean zero without concept shift, up to the *product* of the errors of the two classifiers
(Shah and Peters, 2020; with weight functions φ, Scheidegger et al., 2022), however strongly X
depends on D.  Their sums are compared with those under random signs.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.sparse import csc_array
from scipy.special import xlogy

from shiftproof.statistics.features import principal_components
from shiftproof.statistics.sample import Floats, Ints, Sample, contingency

# The largest number of products of residuals.
MOST_PRODUCTS = 2_000
# Statistics whose standard deviation over the draws is smaller are constant up to rounding.
CONSTANT = 1e-9


def p_value(observed: float, null: Floats) -> float:
    """Return the share of draws, including the observed one, that are at least as extreme."""
    # Values that differ only by rounding count as ties.
    as_extreme = null >= observed - 1e-9 * max(1.0, abs(observed))
    return float((1 + as_extreme.sum()) / (1 + len(null)))


def independence(codes: Ints, sample: Sample, permutations: int, seed: int) -> float | None:
    """Return the p-value of "A and D are independent" by permuting the domains."""
    return conditional_independence(codes, np.zeros_like(codes), sample, permutations, seed)


def conditional_independence(
    codes: Ints, given: Ints, sample: Sample, permutations: int, seed: int
) -> float | None:
    """Return the p-value of "A and D are independent given B", permuting domains within each b.

    The test is exact: given b and under the hypothesis, all assignments of domains to samples are
    equally likely.  The statistic is the likelihood ratio G = 2n·Î(A;D|B).  None if `permutations`
    is 0.
    """
    if not permutations:
        return None
    rng = np.random.default_rng([seed, 1])
    observed, null = 0.0, np.zeros(permutations)
    for value in np.unique(given):
        members = given == value
        table = contingency(codes[members], sample.d[members])
        table = table[table.any(axis=1)][:, table.any(axis=0)]
        if min(table.shape) < 2:
            continue
        drawn = stats.random_table(table.sum(axis=1), table.sum(axis=0)).rvs(
            permutations, random_state=rng
        )
        # Σ n log n over the cells is the only part of G that varies for fixed margins.
        observed += float(xlogy(table, table).sum())
        null += xlogy(drawn, drawn).sum(axis=(-2, -1))
    return p_value(observed, null)


def exact_p_values(phi: Floats, sample: Sample, permutations: int, seed: int) -> dict[str, float]:
    """Return the p-values of all exact tests, which permute domains.

    `covariate` tests I(X;D) = 0, `joint` I(X,Y;D) = 0 with sums and counts for each class, and
    `within_label` I(X;D|Y) = 0 with permutations within each class.
    """
    none, y = np.zeros_like(sample.d), sample.y
    strata = {"covariate": (none, none), "joint": (y, none), "within_label": (y, y)}
    return {
        name: _permuted(phi, *blocks, sample, permutations, seed) for name, blocks in strata.items()
    }


def covariate_p(phi: Floats, sample: Sample, permutations: int, seed: int) -> float:
    """Test I(X;D) = 0 by permuting domains, with the statistic Σ_d ‖Σ φ‖²/n_d."""
    same = np.zeros_like(sample.d)
    return _permuted(phi, same, same, sample, permutations, seed)


def concept_p(
    phi: Floats, q_domain: Floats, q_label: Floats, sample: Sample, permutations: int, seed: int
) -> float:
    """Test I(Y;D|X) = 0 by products of residuals: q_domain [n, D], q_label [n, C]."""
    rest_d = np.eye(sample.domains)[sample.d] - q_domain
    rest_y = np.eye(q_label.shape[1])[sample.y] - q_label
    both = (rest_d[:, :, None] * rest_y[:, None, :]).reshape(len(phi), -1)
    room = max(1, MOST_PRODUCTS // both.shape[1])
    weighing = np.concatenate([np.ones((len(phi), 1)), phi], axis=1)[:, :room]
    products = (both[:, :, None] * weighing[:, None, :]).reshape(len(phi), -1)
    products = products * (sample.weights * len(phi))[:, None]
    length = np.sqrt((products**2).sum(axis=0))
    products = (products[:, length > 0] / length[length > 0]).astype(np.float32)
    signs = np.random.default_rng([seed, 2]).choice(
        np.array([-1, 1], dtype=np.float32), (permutations, len(phi))
    )
    observed = (products.sum(axis=0) ** 2).sum()
    return p_value(float(observed), ((signs @ products) ** 2).sum(axis=1))


def _permuted(
    phi: Floats, block: Ints, stratum: Ints, sample: Sample, permutations: int, seed: int
) -> float:
    """Return the p-value of Σ_{block, d} ‖Σ φ‖² / (expected count), permuting domains in strata.

    The sum is computed three times: for the counts of the blocks alone; for φ, where smooth
    changes, which affect many functions, have most weight; and for decorrelated φ, where all
    changes have the same weight.  The test statistic is the largest of the three, each standardised
    over all draws.
    """
    rng = np.random.default_rng([seed, 3])
    domains = np.tile(sample.d, (permutations + 1, 1))
    for value in np.unique(stratum):
        members = np.flatnonzero(stratum == value)
        # The first row keeps the observed domains.
        domains[1:, members] = rng.permuted(domains[1:, members], axis=1)
    decorrelated = principal_components(phi, phi.shape[1]) if phi.shape[1] else phi
    statistics = np.stack(
        [_sums_of_squares(part, block, domains, sample) for part in (phi[:, :0], phi, decorrelated)]
    )
    middle, spread = statistics.mean(axis=1), statistics.std(axis=1)
    moves = spread > CONSTANT * (1 + middle)
    if not moves.any():
        return 1.0
    largest = ((statistics[moves].T - middle[moves]) / spread[moves]).max(axis=1)
    return p_value(float(largest[0]), largest[1:])


def _sums_of_squares(phi: Floats, block: Ints, domains: Ints, sample: Sample) -> Floats:
    """Return Σ_{block, d} ‖Σ φ‖² / (expected count) for domains [draws, n]: [draws]."""
    _, codes, sizes = np.unique(block, return_inverse=True, return_counts=True)
    expected = np.outer(sizes, np.bincount(sample.d)).ravel() / len(codes)
    centre = np.stack([phi[codes == code].mean(axis=0) for code in range(len(sizes))])
    # A column of ones adds the count of the block in each domain.
    rows = np.concatenate([np.ones((len(phi), 1)), phi - centre[codes]], axis=1)
    statistic = np.empty(len(domains))
    for draw, drawn in enumerate(domains):
        cells = codes * sample.domains + drawn
        members = csc_array(
            (np.ones(len(cells)), cells, np.arange(len(cells) + 1)),
            shape=(len(expected), len(cells)),
        )
        sums = members @ rows
        sums[:, 0] -= expected
        statistic[draw] = ((sums**2).sum(axis=1) / expected).sum()
    return statistic
