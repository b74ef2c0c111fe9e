"""Families with a number to predict, whose shifts are known from their densities.

A family draws X given the domain, and Y given X and the domain:

    X ~ N(μ_d, diag σ_d²),   Y = a_d + b_d·X + c·f(X) + s_d ε,   ε normal or Student's t (3),

or, for label shift, Y ~ N(m_d, 1) and X = Y·w + noise, the same in all domains.  All domains are
equally likely.  True amounts are means of log ratios of the true densities over `ROWS` draws; the
density of Y in a domain is the mean of p(y|x,d) over draws of x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, t as student

KINDS = (
    "none", "mean", "spread", "level", "slope", "noise", "label", "mean + slope", "curved mean",
)  # fmt: skip
ROWS, DRAWS, GRID = 60_000, 10_000, 300


@dataclass(frozen=True)
class Family:
    """The parameters of each domain: `mean`, `scale`, `slope` [D, k]; `level`, `noise` [D]."""

    kind: str
    mean: np.ndarray
    scale: np.ndarray
    level: np.ndarray
    slope: np.ndarray
    noise: np.ndarray
    curve: float
    tails: bool
    label: np.ndarray | None = None

    @property
    def domains(self) -> int:
        """The number of domains."""
        return len(self.level)

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Return x [n, k], y [n] and d [n], with `rows` rows per domain."""
        d = np.repeat(np.arange(self.domains), rows)
        shape = (len(d), self.mean.shape[1])
        if self.label is not None:
            y = self.label[d] + rng.standard_normal(len(d))
            return y[:, None] * self.slope[0] + rng.standard_normal(shape), y, d
        x = self.mean[d] + self.scale[d] * rng.standard_normal(shape)
        e = rng.standard_t(3, len(d)) / 3**0.5 if self.tails else rng.standard_normal(len(d))
        return x, self._centre(x)[np.arange(len(d)), d] + self.noise[d] * e, d

    def _centre(self, x: np.ndarray) -> np.ndarray:
        curved = self.curve * np.sin(2 * x[:, 0]) + self.curve * x[:, -1] ** 2 / 2
        return np.asarray(self.level + x @ self.slope.T + curved[:, None])

    def log_x(self, x: np.ndarray) -> np.ndarray:
        """Return log p(x|d): [n, D]."""
        if self.label is None:
            z = (x[:, None] - self.mean) / self.scale
            return np.asarray(norm.logpdf(z).sum(axis=2) - np.log(self.scale).sum(axis=1))
        # X given d is normal with mean m_d w and covariance I + w wᵀ.
        w = self.slope[0]
        inverse = np.eye(len(w)) - np.outer(w, w) / (1 + w @ w)
        z = x[:, None] - self.label[:, None] * w
        return np.asarray(-np.einsum("ndi,ij,ndj->nd", z, inverse, z) / 2)

    def log_y(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return log p(y|x,d): [n, D]."""
        if self.label is None:
            z = (y[:, None] - self._centre(x)) / self.noise
            logs = student.logpdf(z * 3**0.5, 3) if self.tails else norm.logpdf(z)
            return np.asarray(logs - np.log(self.noise))
        # Y given x and d is normal: the prior N(m_d, 1), updated by k columns.
        w = self.slope[0]
        variance = 1 / (1 + w @ w)
        centre = variance * (self.label + (x @ w)[:, None])
        return np.asarray(norm.logpdf(y[:, None], centre, variance**0.5))

    def _log_density(self, grid: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return log p(y|d) at the values of a grid: [·, D]."""
        if self.label is not None:
            return np.asarray(norm.logpdf(grid[:, None], self.label))
        x, _, d = self.draw(DRAWS, rng)
        centre = self._centre(x)[np.arange(len(d)), d].reshape(self.domains, DRAWS)
        z = (grid[:, None, None] - centre) / self.noise[:, None]
        logs = student.logpdf(z * 3**0.5, 3) if self.tails else norm.logpdf(z)
        return np.asarray(logsumexp(logs, axis=2) - np.log(DRAWS * self.noise))

    def truth(self) -> dict[str, float]:
        """Return the amounts in nats."""
        rng = np.random.default_rng(0)
        x, y, d = self.draw(ROWS // self.domains, rng)
        own, log_d = np.arange(len(d)), np.log(self.domains)
        by_x = self.log_x(x)
        by_both = by_x + self.log_y(y, x)

        def amount(logs: np.ndarray) -> float:
            return float((logs[own, d] - logsumexp(logs, axis=1)).mean() + log_d)

        grid = np.quantile(y, np.linspace(0, 1, GRID))
        density = self._log_density(grid, rng)
        by_y = np.stack([np.interp(y, grid, column) for column in density.T], axis=1)
        covariate, joint = amount(by_x), amount(by_both)
        label = amount(by_y)
        return {
            "covariate": covariate,
            "label": max(label, 0.0),
            "concept": max(joint - covariate, 0.0),
            "joint": joint,
            "within_label": max(joint - label, 0.0),
        }


def family(kind: str, seed: int) -> tuple[Family, int]:
    """Return a family of a kind, with random parameters, and its number of rows per domain."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    domains, columns = int(rng.integers(2, 7)), int(rng.integers(1, 21))
    rows = int(np.exp(rng.uniform(np.log(100), np.log(1500))))
    shape = (domains, columns)
    mean, scale, level = np.zeros(shape), np.ones(shape), np.zeros(domains)
    slope = np.tile(rng.standard_normal(columns) / columns**0.5, (domains, 1))
    noise, label = np.full(domains, rng.uniform(0.3, 1.0)), None
    curve = float(rng.choice([0.0, 1.0]))
    if kind in ("mean", "mean + slope", "curved mean"):
        mean = rng.standard_normal(shape) * 0.8 / columns**0.5
    if kind == "curved mean":
        # The mean of the column on which Y depends nonlinearly differs between domains.
        mean, curve = np.zeros(shape), 2.0
        mean[:, 0] = rng.uniform(-1.5, 1.5, domains)
    if kind == "spread":
        scale = np.exp(0.4 * rng.standard_normal((domains, 1))) * np.ones(shape)
    if kind == "level":
        level = noise[0] * rng.uniform(0.3, 1.0) * rng.standard_normal(domains)
    if kind in ("slope", "mean + slope"):
        slope = slope + noise[0] * rng.uniform(0.3, 1.0) * rng.standard_normal(shape) / columns**0.5
    if kind == "noise":
        noise = noise * np.exp(0.4 * rng.standard_normal(domains))
    if kind == "label":
        label = 0.8 * rng.standard_normal(domains)
    tails = bool(rng.random() < 0.3) and label is None
    return Family(kind, mean, scale, level, slope, noise, curve, tails, label), rows
