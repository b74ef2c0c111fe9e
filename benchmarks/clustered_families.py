"""More families whose shifts are known, unlike those of `families`: clusters, codes, many classes.

Made after the method was settled, to see whether it holds on what it was not built on.  Inputs are
a mixture of clusters (normal numbers), beside codes of two values; up to five classes.  In domain d

    p(x, y | d) = Σ_c w_dc f_c(x) · p_d(codes) · p(y | x, d)      (the label follows the input), or
    p(x, y | d) = s_dy Σ_{c of y} w_c f_c(x) · p_d(codes)         (`shares`: it comes first).

Of the kinds, `clusters`, `codes`, `one column` and `gaps` change inputs alone; `threshold`, `flip`
and `noise` change what an input means; `label` changes the shares of the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logsumexp, softmax

from benchmarks.families import TRUTH, Array, amounts, reaching

KINDS = (
    "same",
    "clusters",
    "codes",
    "one column",
    "gaps",
    "threshold",
    "flip",
    "noise",
    "shares",
    "clusters + flip",
)


@dataclass(frozen=True, eq=False)
class Clustered:
    """Domains of clusters [C, k] with weights [D, C], and binary codes with probabilities [D, b].

    `offsets` [D, k] move all clusters of a domain.  `slopes` [D, k + b, classes] and `levels`
    [D, classes] determine the label, and `blur` [D] is the probability of a random label; if the
    label comes first, `shares` [D, classes] determine it.  `gone` [D, k + b] is the probability of
    a missing cell.
    """

    name: str
    kind: str
    seed: int
    rows: int
    classes: int
    weights: Array
    centres: Array
    spreads: Array
    chances: Array
    offsets: Array
    slopes: Array
    levels: Array
    blur: Array
    gone: Array
    shares: Array | None = None
    tails: str = "clusters"
    rule: str = "classes"

    @property
    def domains(self) -> int:
        """Return the number of domains."""
        return len(self.weights)

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return int(self.gone.shape[1])

    @property
    def missing(self) -> Array | None:
        """Return the probabilities of missing cells, if any."""
        return self.gone if self.gone.any() else None

    def log_labels(self, x: Array, d: int) -> Array:
        """Return log p(y | x, d) of complete rows: [n, classes]."""
        logits = x @ self.slopes[d] + self.levels[d]
        q = (1 - self.blur[d]) * softmax(logits, axis=1) + self.blur[d] / self.classes
        return np.asarray(np.log(q))

    def log_both(self, x: Array) -> Array:
        """Return log p(x, y | d) for all d and y: [n, domains, classes]."""
        k = self.centres.shape[1]
        holes = np.isnan(x)
        filled = np.where(holes, 0.0, x)
        found = np.empty((len(x), self.domains, self.classes))
        owner = np.arange(len(self.centres)) % self.classes
        for d in range(self.domains):
            at = (filled[:, None, :k] - self.centres - self.offsets[d]) / self.spreads
            logs = -(at**2) / 2 - np.log(self.spreads)
            clusters = np.where(holes[:, None, :k], 0.0, logs).sum(axis=2)
            chance = np.where(filled[:, k:] > 0, self.chances[d], 1 - self.chances[d])
            rest = np.where(holes[:, k:], 0.0, np.log(chance)).sum(axis=1)
            gone = np.clip(self.gone[d], 1e-12, 1 - 1e-12)
            rest += np.where(holes, np.log(gone), np.log(1 - gone)).sum(axis=1)
            if self.shares is None:
                inputs = logsumexp(clusters + np.log(self.weights[d]), axis=1) + rest
                found[:, d] = inputs[:, None] + self.log_labels(filled, d)
                continue
            for y in range(self.classes):
                own = owner == y
                weights = self.weights[d][own] / self.weights[d][own].sum()
                inputs = logsumexp(clusters[:, own] + np.log(weights), axis=1) + rest
                found[:, d, y] = np.log(self.shares[d, y]) + inputs
        return found

    def draw(self, rows: int, seed: int) -> tuple[Array, Array, Array]:
        """Return x [n, k + b] with NaN where missing, y [n] and d [n]."""
        rng = np.random.default_rng([self.seed, seed, 8])
        sizes = np.maximum(rng.dirichlet(np.full(self.domains, 10.0)) * rows, 60).astype(int)
        return self._drawn(sizes, rng)

    def _drawn(self, sizes: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        xs, ys = [], []
        owner = np.arange(len(self.centres)) % self.classes
        for d, size in enumerate(sizes):
            chance = self.weights[d]
            if self.shares is not None:
                within = np.array([chance[owner == o].sum() for o in owner])
                chance = self.shares[d][owner] * chance / within
            c = rng.choice(len(self.centres), size, p=chance)
            numbers = self.centres[c] + self.spreads[c] * rng.normal(
                size=(size, len(self.centres[0]))
            )
            codes = rng.random((size, self.chances.shape[1])) < self.chances[d]
            x = np.concatenate([numbers + self.offsets[d], codes], axis=1)
            y = owner[c]
            if self.shares is None:
                q = np.exp(self.log_labels(x, d)).cumsum(axis=1)
                y = np.minimum((rng.random((size, 1)) > q).sum(axis=1), self.classes - 1)
            xs.append(np.where(rng.random(x.shape) < self.gone[d], np.nan, x))
            ys.append(y)
        return np.concatenate(xs), np.concatenate(ys), np.repeat(np.arange(self.domains), sizes)

    def truth(self, n: int = TRUTH) -> dict[str, float]:
        """Return the amounts for equally likely domains, H(Y|X) and H(D), by simulation."""
        rng = np.random.default_rng([self.seed, 54321])
        x, y, d = self._drawn(np.full(self.domains, n // self.domains), rng)
        shares = self.shares
        if shares is None:
            shares = np.stack(
                [np.bincount(y[d == k], minlength=self.classes) for k in range(self.domains)]
            )
            shares = shares / shares.sum(axis=1, keepdims=True)
        return amounts(self.log_both(x), y, d, shares, alike=self.kind in ("same", "gaps"))


def clustered(seed: int) -> Clustered:
    """Return the family of a seed: its kind is `KINDS[seed % 10]`, the rest is random."""
    rng = np.random.default_rng([seed, 22])
    kind = KINDS[seed % len(KINDS)]
    domains, classes = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    columns = int(np.round(np.exp(rng.uniform(np.log(2), np.log(40)))))
    codes = int(rng.integers(1, 11)) if kind == "codes" or rng.random() < 0.5 else 0
    rows = int(np.exp(rng.uniform(np.log(max(300, 100 * domains)), np.log(10_000))))
    clusters = classes * int(rng.integers(1, 3)) if kind == "shares" else int(rng.integers(2, 6))
    used = rng.random(columns + codes) < 0.5
    used[0] = True
    slopes = rng.normal(size=(columns + codes, classes)) * used[:, None]
    slopes *= 2 / np.linalg.norm(slopes, axis=0)
    gone = np.zeros((domains, columns + codes))
    if kind in ("same", "gaps"):  # only in columns that the label does not depend on
        gone[:, ~used] = rng.uniform(0.05, 0.4)
    plain = Clustered(
        name=f"{kind} {seed}",
        kind=kind,
        seed=seed,
        rows=rows,
        classes=classes,
        weights=np.tile(rng.dirichlet(np.full(clusters, 5.0)), (domains, 1)),
        centres=rng.normal(size=(clusters, columns)) * rng.uniform(0.5, 2),
        spreads=rng.uniform(0.5, 1.5, (clusters, columns)),
        chances=np.tile(rng.uniform(0.1, 0.9, codes), (domains, 1)),
        offsets=np.zeros((domains, columns)),
        slopes=np.tile(slopes, (domains, 1, 1)),
        levels=np.zeros((domains, classes)),
        blur=np.full(domains, 0.05),
        gone=gone,
    )
    return _BUILD[kind](plain, rng)


def _chance(odds: Array) -> Array:
    return np.asarray(np.clip(expit(odds), 1e-6, 1 - 1e-6))


def _spread(domains: int, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    toward = rng.normal(size=(domains, *shape))
    return np.asarray(toward - toward.mean(axis=0))


def _covariate(rng: np.random.Generator, at: Callable[[float], Clustered]) -> Clustered:
    return reaching("covariate", "domain_entropy", rng.uniform(0.08, 0.5), at, 20.0)


def _concept(rng: np.random.Generator, at: Callable[[float], Clustered]) -> Clustered:
    return reaching("concept", "uncertainty", rng.uniform(0.06, 0.3), at, 20.0)


def _clusters(f: Clustered, rng: np.random.Generator) -> Clustered:
    toward = _spread(f.domains, rng, (f.weights.shape[1],))
    return reaching(
        "covariate",
        "domain_entropy",
        rng.uniform(0.06, 0.2),
        lambda t: replace(f, weights=softmax(np.log(f.weights) + t * toward, axis=1)),
        6.0,
    )


def _codes(f: Clustered, rng: np.random.Generator) -> Clustered:
    toward = _spread(f.domains, rng, (f.chances.shape[1],))
    odds = np.log(f.chances / (1 - f.chances))
    return _covariate(rng, lambda t: replace(f, chances=_chance(odds + t * toward)))


def _one_column(f: Clustered, rng: np.random.Generator) -> Clustered:
    toward = _spread(f.domains, rng, (1,)) * np.eye(1, f.centres.shape[1], f.centres.shape[1] - 1)
    return _covariate(rng, lambda t: replace(f, offsets=t * toward))


def _gaps(f: Clustered, rng: np.random.Generator) -> Clustered:
    """Make cells missing more often in some domains, and let one more column have gaps."""
    gone = f.gone.copy()
    gone[:, -1] = np.maximum(gone[:, -1], 0.2)
    slopes = f.slopes.copy()
    slopes[:, -1] = 0.0
    f = replace(f, gone=gone, slopes=slopes)
    toward = _spread(f.domains, rng, ())[:, None] * (gone > 0)
    odds = np.log(np.maximum(gone, 1e-12) / (1 - gone))
    return _covariate(
        rng, lambda t: replace(f, gone=np.where(gone > 0, _chance(odds + t * toward), 0))
    )


def _threshold(f: Clustered, rng: np.random.Generator) -> Clustered:
    toward = _spread(f.domains, rng, (f.classes,))
    return _concept(rng, lambda t: replace(f, levels=t * toward))


def _flip(f: Clustered, rng: np.random.Generator) -> Clustered:
    """Let the effect of the first column on the label differ between domains."""
    toward = _spread(f.domains, rng, (f.classes,))[:, None] * np.eye(1, f.columns).T
    return _concept(rng, lambda t: replace(f, slopes=f.slopes + t * toward))


def _noise(f: Clustered, rng: np.random.Generator) -> Clustered:
    """Draw labels at random, more often in some domains than in others."""
    lean = rng.permutation(np.linspace(0, 1, f.domains))
    f = replace(f, slopes=3 * f.slopes)
    return reaching(
        "concept",
        "uncertainty",
        rng.uniform(0.04, 0.12),
        lambda t: replace(f, blur=0.02 + 0.97 * t * lean),
        1.0,
    )


def _shares(f: Clustered, rng: np.random.Generator) -> Clustered:
    toward = _spread(f.domains, rng, (f.classes,))
    return reaching(
        "label",
        "label_entropy",
        rng.uniform(0.05, 0.3),
        lambda t: replace(f, shares=softmax(t * toward, axis=1)),
        6.0,
    )


_BUILD: dict[str, Callable[[Clustered, np.random.Generator], Clustered]] = {
    "same": lambda f, rng: f,
    "clusters": _clusters,
    "codes": _codes,
    "one column": _one_column,
    "gaps": _gaps,
    "threshold": _threshold,
    "flip": _flip,
    "noise": _noise,
    "shares": _shares,
    "clusters + flip": lambda f, rng: _flip(_clusters(f, rng), rng),
}
