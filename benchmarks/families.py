"""Random families of domains whose shifts are known: densities of inputs and labels in each domain.

A family draws u with independent coordinates of a known density f, and x = μ + A u with μ and A of
the domain (and of the class, where labels come first).  So log p(x, y | d) is known exactly, and
the five amounts are means of log ratios over many samples.  Amounts that are zero are zero sample
by sample, hence exactly.  `family(seed)` draws kind, sizes, tails and strengths from the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import stats
from scipy.linalg import expm
from scipy.special import entr, log_expit, logsumexp

Array = np.ndarray
KINDS = (
    "none",
    "label",
    "mean",
    "gain",
    "rotation",
    "concept",
    "mean + concept",
    "label + mean",
    "far apart",
    "tails",
)
TAILS: dict[str, Any] = {
    "normal": stats.norm(),
    "t3": stats.t(3),
    "laplace": stats.laplace(),
    "skewed": stats.gumbel_r(),
}
# Densities of mean 0 and variance 1, for domains that differ in their tails alone.
SHAPES = (stats.norm(), stats.laplace(scale=np.sqrt(0.5)), stats.uniform(-np.sqrt(3), 12**0.5))
RULES = ("linear", "radial", "product", "wave")
TRUTH = 20_000
TRIAL = 3_000


class HasTruth(Protocol):
    """A family whose true amounts can be simulated with n samples."""

    def truth(self, n: int) -> dict[str, float]:
        """Return the true amounts."""


Known = TypeVar("Known", bound=HasTruth)


@dataclass(frozen=True, eq=False)
class Family:
    """Domains d with x = μ_d + A_d u; y depends on x or, with `shares`, x depends on y.

    `means`, `roots`, `twist` and `shares` are the strengths; `missing` [domains, k] is the
    probability of a missing cell, in columns that the label does not depend on.
    """

    name: str
    kind: str
    seed: int
    rows: int
    tails: str
    rule: str
    means: Array
    roots: Array
    weights: Array
    twist: Array
    classes: Array | None = None
    shares: Array | None = None
    shapes: tuple[Any, ...] = ()
    missing: Array | None = None

    @property
    def domains(self) -> int:
        """Return the number of domains."""
        return len(self.means)

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return int(self.means.shape[1])

    def score(self, x: Array, d: int) -> Array:
        """Return the log odds of label 1 at x in domain d."""
        a, b = x[:, 0], x[:, 1]
        base = {
            "linear": x @ self.weights,
            "radial": 3 * ((x**2).mean(axis=1) - 1) * np.sqrt(self.columns / 2),
            "product": 2 * a * b,
            "wave": 2.5 * np.sin(2 * a) + b,
        }[self.rule]
        return np.asarray(base + x[:, :2] @ self.twist[d])

    def _u(self, x: Array, d: int, shift: Array | float = 0.0) -> Array:
        return np.asarray(np.linalg.solve(self.roots[d], (x - self.means[d] - shift).T).T)

    def log_inputs(self, x: Array, d: int, shift: Array | float = 0.0) -> Array:
        """Return log p(x | d) of the observed cells and of the missingness pattern."""
        law = self.shapes[d] if self.shapes else TAILS[self.tails]
        filled = np.where(np.isnan(x), 0.0, x)
        u = self._u(filled, d, shift)
        if self.missing is None:
            return np.asarray(law.logpdf(u).sum(axis=1) - np.linalg.slogdet(self.roots[d])[1])
        logs = law.logpdf(u) - np.log(np.abs(np.diag(self.roots[d])))
        gone = np.clip(self.missing[d], 1e-12, 1 - 1e-12)
        return np.asarray(np.where(np.isnan(x), np.log(gone), logs + np.log(1 - gone)).sum(axis=1))

    def log_both(self, x: Array) -> Array:
        """Return log p(x, y | d) for all d and y: [n, domains, 2]."""
        found = np.empty((len(x), self.domains, 2))
        for d in range(self.domains):
            if self.shares is not None and self.classes is not None:
                for y in (0, 1):
                    share = self.shares[d] if y else 1 - self.shares[d]
                    found[:, d, y] = np.log(share) + self.log_inputs(x, d, self.classes[y])
            else:
                logs = self.log_inputs(x, d)
                score = self.score(np.where(np.isnan(x), 0.0, x), d)
                found[:, d, 0] = logs + log_expit(-score)
                found[:, d, 1] = logs + log_expit(score)
        return found

    def draw(self, rows: int, seed: int) -> tuple[Array, Array, Array]:
        """Return x [n, k] with NaN where missing, y [n] and d [n]; domains differ in size."""
        rng = np.random.default_rng([self.seed, seed, 7])
        sizes = np.maximum(rng.dirichlet(np.full(self.domains, 10.0)) * rows, 60).astype(int)
        return self._drawn(sizes, rng)

    def _drawn(self, sizes: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        xs, ys = [], []
        for d, size in enumerate(sizes):
            law = self.shapes[d] if self.shapes else TAILS[self.tails]
            u = law.rvs(size=(size, self.columns), random_state=rng)
            x = self.means[d] + u @ self.roots[d].T
            if self.shares is not None and self.classes is not None:
                y = (rng.random(size) < self.shares[d]).astype(int)
                x = x + self.classes[y]
            else:
                y = (np.log(rng.random(size)) < log_expit(self.score(x, d))).astype(int)
            if self.missing is not None:
                x = np.where(rng.random(x.shape) < self.missing[d], np.nan, x)
            xs.append(x)
            ys.append(y)
        return np.concatenate(xs), np.concatenate(ys), np.repeat(np.arange(self.domains), sizes)

    def truth(self, n: int = TRUTH) -> dict[str, float]:
        """Return the amounts for equally likely domains, H(Y|X) and H(D), by simulation."""
        rng = np.random.default_rng([self.seed, 12345])
        x, y, d = self._drawn(np.full(self.domains, n // self.domains), rng)
        ones = self.shares
        if ones is None:
            ones = np.array([y[d == k].mean() for k in range(self.domains)])
        shares = np.stack([1 - ones, ones], axis=1)
        return amounts(self.log_both(x), y, d, shares, alike=self.kind == "none")


def amounts(both: Array, y: Array, d: Array, shares: Array, *, alike: bool) -> dict[str, float]:
    """Return the true amounts, H(Y), H(Y|X) and H(D), for equally likely domains.

    both [n, domains, classes] is log p(x, y | d) of samples with labels y [n] and domains d [n];
    `shares` [domains, classes] are the label shares, the same in all domains if `alike`.
    """
    own, count = np.arange(len(d)), np.log(both.shape[1])
    inputs = logsumexp(both, axis=2)
    log_mixed = logsumexp(inputs, axis=1) - count
    covariate = inputs[own, d] - log_mixed
    log_label = logsumexp(both, axis=1) - count - log_mixed[:, None]
    concept = both[own, d, y] - inputs[own, d] - log_label[own, y]
    label_entropy = entr(shares.mean(axis=0)).sum()
    label = 0.0 if alike else label_entropy - entr(shares).sum(axis=1).mean()
    found = {
        "covariate": float(max(covariate.mean(), 0)),
        "label": float(max(label, 0)),
        "concept": float(max(concept.mean(), 0)),
        "uncertainty": float(-(np.exp(log_label) * log_label).sum(axis=1).mean()),
        "label_entropy": float(label_entropy),
        "domain_entropy": float(count),
    }
    found["joint"] = found["covariate"] + found["concept"]
    found["within_label"] = max(found["joint"] - found["label"], 0.0)
    return found


def family(seed: int) -> Family:
    """Return the family of a seed: its kind is `KINDS[seed % 10]`, the rest is random."""
    rng = np.random.default_rng([seed, 21])
    kind = KINDS[seed % len(KINDS)]
    domains = int(rng.integers(2, 9))
    columns = int(np.round(np.exp(rng.uniform(np.log(2), np.log(50)))))
    rows = int(np.exp(rng.uniform(np.log(max(300, 100 * domains)), np.log(10_000))))
    tails = str(rng.choice(list(TAILS)))
    rule = str(rng.choice(RULES[:2] if kind == "gain" else RULES))
    if kind == "rotation":
        columns, tails = max(columns, 3), "normal"
    weights = rng.normal(size=columns) * (rng.random(columns) < 0.5)
    weights[0] = 1.0
    plain = Family(
        name=f"{kind} {seed}",
        kind=kind,
        seed=seed,
        rows=rows,
        tails=tails,
        rule=rule,
        means=np.zeros((domains, columns)),
        roots=np.tile(np.eye(columns), (domains, 1, 1)),
        weights=2 * weights / np.linalg.norm(weights),
        twist=np.zeros((domains, 2)),
    )
    if kind in ("mean", "none", "tails") and columns > 4 and rng.random() < 0.6:
        gone = np.zeros((domains, columns))
        gone[:, 2:] = (rng.random(columns - 2) < 0.3) * rng.uniform(0.05, 0.4)
        if kind == "mean":  # the sites differ in what they measure
            gone[:, 2:] *= rng.uniform(0, 2, (domains, 1))
        if plain.rule in ("linear", "radial"):  # the label depends on complete columns only
            plain = replace(plain, rule="wave")
        plain = replace(plain, missing=gone, name=plain.name + " with gaps")
    return _BUILD[kind](plain, rng)


def reaching(
    amount: str, of: str, target: float, at: Callable[[float], Known], most: float
) -> Known:
    """Return `at(t)` whose true amount is about the share `target` of `of`, by bisection on t."""
    low, high = 0.0, most
    for _ in range(18):
        middle = (low + high) / 2
        true = at(middle).truth(TRIAL)
        low, high = (middle, high) if true[amount] < target * true[of] else (low, middle)
    return at(high)


def _directions(f: Family, rng: np.random.Generator) -> Array:
    moved = rng.normal(size=(f.domains, f.columns))
    moved *= rng.random(f.columns) < max(rng.uniform(0.1, 1), 1.5 / f.columns)
    if not moved.any():
        moved[:, 0] = rng.normal(size=f.domains)
    return np.asarray(moved - moved.mean(axis=0))


def _moved(f: Family, rng: np.random.Generator, low: float = 0.1, high: float = 0.6) -> Family:
    toward = _directions(f, rng)
    return reaching(
        "covariate",
        "domain_entropy",
        rng.uniform(low, high),
        lambda t: replace(f, means=t * toward),
        20.0,
    )


def _gain(f: Family, rng: np.random.Generator) -> Family:
    gains = np.linspace(-1, 1, f.domains)
    eye = np.eye(f.columns)
    return reaching(
        "covariate",
        "domain_entropy",
        rng.uniform(0.08, 0.5),
        lambda t: replace(f, roots=np.exp(t * gains)[:, None, None] * eye),
        3.0,
    )


def _rotated(f: Family, rng: np.random.Generator) -> Family:
    stretch = np.diag(np.exp(rng.uniform(-1, 1, f.columns)))
    skew = rng.normal(size=(f.domains, f.columns, f.columns)) / np.sqrt(f.columns)
    skew = skew - skew.transpose(0, 2, 1)
    return reaching(
        "covariate",
        "domain_entropy",
        rng.uniform(0.15, 0.7),
        lambda t: replace(f, roots=np.stack([expm(t * s) @ stretch for s in skew])),
        1.5,
    )


def _twisted(f: Family, rng: np.random.Generator) -> Family:
    toward = rng.normal(size=(f.domains, 2))
    toward -= toward.mean(axis=0)
    return reaching(
        "concept",
        "uncertainty",
        rng.uniform(0.08, 0.4),
        lambda t: replace(f, twist=t * toward),
        20.0,
    )


def _labelled(f: Family, rng: np.random.Generator) -> Family:
    apart = rng.normal(size=f.columns) * (np.arange(f.columns) < max(2, f.columns // 3))
    apart *= rng.uniform(1, 2.5) / np.linalg.norm(apart)
    f = replace(f, classes=np.stack([-apart / 2, apart / 2]))
    lean = rng.permutation(np.linspace(-1, 1, f.domains))
    return reaching(
        "label",
        "label_entropy",
        rng.uniform(0.05, 0.3),
        lambda t: replace(f, shares=1 / (1 + np.exp(-t * lean))),
        6.0,
    )


def _shaped(f: Family, rng: np.random.Generator) -> Family:
    shapes = tuple(SHAPES[d % len(SHAPES)] for d in range(f.domains))
    return replace(f, shapes=shapes, tails="mixed")


_BUILD: dict[str, Callable[[Family, np.random.Generator], Family]] = {
    "none": lambda f, rng: f,
    "label": _labelled,
    "mean": _moved,
    "gain": _gain,
    "rotation": _rotated,
    "concept": _twisted,
    "mean + concept": lambda f, rng: _twisted(_moved(f, rng, 0.1, 0.4), rng),
    "label + mean": lambda f, rng: _labelled(_moved(f, rng, 0.1, 0.4), rng),
    "far apart": lambda f, rng: _moved(f, rng, 0.9, 0.98),
    "tails": _shaped,
}
