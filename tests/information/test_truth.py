"""Estimates against shifts that are known: by enumeration, by quadrature, by simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, logsumexp, ndtr

from shiftproof.information import Counts, CrossFitted, Estimator, Shift

# What issue 6 asks for: agreement of colour and label per domain → I(X;D), I(Y;D|X), I(Z;D).
COLOURED = {
    (0.9, 0.8): (0.001426, 0.008541, 0.009966),
    (0.9, 0.8, 0.1): (0.065080, 0.224408, 0.289489),
}


def coloured_table(agreement):
    """Return p(domain, shape, colour, label) of Colored MNIST, domains equally likely."""
    table = np.zeros((len(agreement), 2, 2, 2))
    for domain, agree in enumerate(agreement):
        for shape, colour, label in np.ndindex(2, 2, 2):
            noise = 0.75 if shape == label else 0.25
            paint = agree if colour == label else 1 - agree
            table[domain, shape, colour, label] = 0.5 * noise * paint / len(agreement)
    return table


def coloured_samples(agreement, per_domain, seed):
    rng = np.random.default_rng(seed)
    x, y, d = [], [], []
    for domain, agree in enumerate(agreement):
        shape = rng.integers(0, 2, per_domain)
        label = shape ^ (rng.random(per_domain) < 0.25)
        colour = label ^ (rng.random(per_domain) >= agree)
        x.append(np.stack([shape, colour], axis=1))
        y.append(label)
        d.append(np.full(per_domain, domain))
    return np.concatenate(x), np.concatenate(y).astype(int), np.concatenate(d)


def entropy(*tables):
    flat = np.concatenate([table.ravel() for table in tables])
    return -(flat[flat > 0] * np.log(flat[flat > 0])).sum()


def information(table):
    """Return I(A;D) of a table [d, …]."""
    axes = tuple(range(1, table.ndim))
    return entropy(table.sum(axis=0)) + entropy(table.sum(axis=axes)) - entropy(table)


@pytest.mark.parametrize("agreement", COLOURED)
def test_the_ground_truth_by_enumeration(agreement):
    table = coloured_table(agreement)
    covariate, joint = information(table.sum(axis=3)), information(table)
    expected = COLOURED[agreement]
    assert (covariate, joint - covariate, joint) == pytest.approx(expected, abs=6e-7)
    assert information(table.sum(axis=(1, 2))) == pytest.approx(0, abs=1e-12)


def covers(shift: Shift, agreement) -> list[bool]:
    truths = dict(zip(("covariate", "concept", "joint"), COLOURED[agreement], strict=True))
    truths |= {"label": 0.0, "within_label": truths["joint"]}
    found = {name: getattr(shift, name) for name in truths}
    return [found[name].interval[0] <= truths[name] <= found[name].interval[1] for name in truths]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("agreement", COLOURED)
def test_counts_hit_coloured_mnist(agreement, seed):
    x, y, d = coloured_samples(agreement, 23_333, seed)
    shift = Counts(seed=0, balanced=True, permutations=99).measure(x, y, d)
    assert all(covers(shift, agreement))
    assert shift.concept.interval[1] - shift.concept.interval[0] < 0.01
    assert (shift.covariate.p_value, shift.concept.p_value) == (0.01, 0.01)
    assert shift.label.p_value > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("agreement", COLOURED)
def test_classifiers_hit_coloured_mnist(agreement, seed):
    x, y, d = coloured_samples(agreement, 23_333, seed)
    shift = CrossFitted(seed=0, balanced=True, permutations=99).measure(x, y, d)
    assert all(covers(shift, agreement))
    assert shift.concept.interval[1] - shift.concept.interval[0] < 0.01
    assert (shift.covariate.p_value, shift.concept.p_value) == (0.01, 0.01)


def test_classifiers_agree_with_counts_on_few_samples():
    agreement = (0.9, 0.8, 0.1)
    x, y, d = coloured_samples(agreement, 1000, seed=0)
    fitted = CrossFitted(seed=0, balanced=True).measure(x, y, d)
    counted = Counts(seed=0, balanced=True).measure(x, y, d)
    assert all(covers(fitted, agreement))
    for one, other in zip(fitted, counted, strict=True):
        assert one.value == pytest.approx(other.value, abs=2e-3)


def test_domains_of_unlike_sizes_count_alike_if_balanced():
    agreement = (0.9, 0.8, 0.1)
    x, y, d = coloured_samples(agreement, 6000, seed=1)
    kept = np.concatenate([np.flatnonzero(d == 0), np.flatnonzero(d > 0)[::3]])
    few = np.concatenate([np.flatnonzero(d == 0)[:400], np.flatnonzero(d > 0)[::8]])
    shift = Counts(seed=0, balanced=True).measure(x[kept], y[kept], d[kept])
    assert all(covers(shift, agreement))
    assert not covers(Counts(seed=0).measure(x[kept], y[kept], d[kept]), agreement)[0]
    assert all(
        covers(CrossFitted(seed=0, balanced=True).measure(x[few], y[few], d[few]), agreement)
    )


@dataclass(frozen=True)
class Family:
    """Gaussian domains N(μ_d, A_d A_dᵀ) and labels P(y=1|x,d) = link(b_d·x + c_d)."""

    mean: np.ndarray
    root: np.ndarray
    prior: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    probit: bool

    @classmethod
    def random(cls, seed):
        rng = np.random.default_rng(seed)
        domains, k = int(rng.integers(2, 4)), int(rng.integers(1, 6))
        slope = rng.normal(size=k) + 0.6 * rng.normal(size=(domains, k))
        return cls(
            mean=0.7 * rng.normal(size=(domains, k)),
            root=np.eye(k) + 0.3 * rng.normal(size=(domains, k, k)),
            prior=rng.dirichlet(np.full(domains, 8.0)),
            slope=slope,
            offset=0.5 * rng.normal(size=domains),
            probit=bool(rng.integers(0, 2)),
        )

    def log_density(self, x):
        centred = x[:, None] - self.mean
        white = np.einsum("dij,ndj->ndi", np.linalg.inv(self.root), centred)
        logs = stats.norm.logpdf(white).sum(axis=-1)
        return logs - np.log(np.abs(np.linalg.det(self.root)))

    def p_one(self, x):
        score = x @ self.slope.T + self.offset
        return np.clip(ndtr(score) if self.probit else expit(score), 1e-12, 1 - 1e-12)

    def draw(self, n, seed):
        rng = np.random.default_rng(seed)
        d = np.repeat(np.arange(len(self.prior)), np.round(self.prior * n).astype(int))
        noise = rng.normal(size=(len(d), self.mean.shape[1], 1))
        x = self.mean[d] + (self.root[d] @ noise)[..., 0]
        y = rng.random(len(d)) < self.p_one(x)[np.arange(len(d)), d]
        return x, y.astype(int), d

    def log_ratios(self, x, domain, shares):
        """Return log p(d|x)/p(d), and E[log p(y|x,d)/p(y|x)] over y, at x of one domain."""
        logs = self.log_density(x) + np.log(shares)
        posterior = logs - logsumexp(logs, axis=1, keepdims=True)
        one = self.p_one(x)
        mixed, own = (np.exp(posterior) * one).sum(axis=1), one[:, domain]
        concept = own * np.log(own / mixed) + (1 - own) * np.log((1 - own) / (1 - mixed))
        return posterior[:, domain] - np.log(shares[domain]), concept

    def truth(self, shares, n=60_000):
        """Return I(X;D), I(Y;D|X) and their sum by simulation."""
        rng = np.random.default_rng(12345)
        total = np.zeros(2)
        for domain, share in enumerate(shares):
            noise = rng.normal(size=(n // len(shares), self.mean.shape[1]))
            x = self.mean[domain] + noise @ self.root[domain].T
            total += share * np.array([part.mean() for part in self.log_ratios(x, domain, shares)])
        return {"covariate": total[0], "concept": total[1], "joint": total.sum()}


def test_the_simulated_truth_is_the_integral():
    family = next(f for f in map(Family.random, range(100)) if f.mean.shape[1] == 1)
    simulated = family.truth(family.prior, n=600_000)

    def integrand(x, part):
        point = np.array([[x]])
        densities = np.exp(family.log_density(point))[0]
        return sum(
            share * density * family.log_ratios(point, domain, family.prior)[part][0]
            for domain, (share, density) in enumerate(zip(family.prior, densities, strict=True))
        )

    for part, name in enumerate(["covariate", "concept"]):
        exact, _ = integrate.quad(integrand, -12, 12, args=(part,), limit=200)
        assert simulated[name] == pytest.approx(exact, abs=3e-3)


def hits(estimator: Estimator, cases: int, n: int) -> dict[str, int]:
    """Count over random families how often each interval holds the truth."""
    found = {"covariate": 0, "concept": 0, "joint": 0}
    for case in range(cases):
        family = Family.random(case)
        x, y, d = family.draw(n, seed=1000 + case)
        shift = estimator.measure(x, y, d)
        for name, value in family.truth(np.bincount(d) / len(d)).items():
            low, high = getattr(shift, name).interval
            found[name] += low <= value <= high
    return found


def fewest(cases: int) -> int:
    """Return how many of ``cases`` 95% intervals cover, all but once in a hundred times."""
    return int(stats.binom.ppf(0.01, cases, 0.95))


def test_intervals_of_classifiers_cover_gaussian_families():
    found = hits(CrossFitted(seed=0, folds=4), cases=5, n=500)
    assert min(found.values()) >= fewest(5), found


@pytest.mark.slow
def test_intervals_of_classifiers_cover_20_gaussian_families():
    found = hits(CrossFitted(seed=0), cases=20, n=2000)
    assert min(found.values()) >= fewest(20), found
