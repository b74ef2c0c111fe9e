"""Families of domains in which every quantity is known: tables, and Gaussians with moving means.

Tests compare estimates and bounds with these true values.  All information is in nats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from _internals import InvalidValue
from scipy import special

from shiftproof.information import mutual_information

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# The most cells a table of a learner's every possible training set may have.
MOST_CELLS = 20_000_000
# Steps of the quadrature over a normal variable.
_STEPS = 8_000


@dataclass(frozen=True, eq=False)
class DiscreteFamily:
    """Domains, inputs and labels as one table P(d, x, y) [domains, inputs, labels].

    Losses are matrices [predicted, true].  A predictor is a label for each input.
    """

    joint: Array

    def __post_init__(self) -> None:
        table = np.asarray(self.joint, dtype=float)
        if table.ndim != 3 or (table < 0).any() or not math.isclose(table.sum(), 1, rel_tol=1e-9):
            raise InvalidValue(
                "a discrete family is a table [domains, inputs, labels] of probabilities that "
                f"sum to 1, not of shape {table.shape} with sum {table.sum()}"
            )
        if (table.sum(axis=(1, 2)) == 0).any():
            raise InvalidValue("every domain of a discrete family needs a probability above 0")
        object.__setattr__(self, "joint", table)

    @property
    def weights(self) -> Array:
        """Return P(d) [domains]."""
        return np.asarray(self.joint.sum(axis=(1, 2)))

    @property
    def within(self) -> Array:
        """Return P(x, y | d) [domains, inputs, labels]."""
        return np.asarray(self.joint / self.weights[:, None, None])

    @property
    def covariate_shift(self) -> float:
        """Return I(X;D)."""
        return mutual_information(self.joint, [1], [0])

    @property
    def label_shift(self) -> float:
        """Return I(Y;D)."""
        return mutual_information(self.joint, [2], [0])

    @property
    def concept_shift(self) -> float:
        """Return I(Y;D|X)."""
        return mutual_information(self.joint, [2], [0], given=[1])

    @property
    def conditional_shift(self) -> float:
        """Return I(X;D|Y)."""
        return mutual_information(self.joint, [1], [0], given=[2])

    @property
    def distribution_shift(self) -> float:
        """Return I(X,Y;D)."""
        return mutual_information(self.joint, [1, 2], [0])

    def encode(self, codes: npt.ArrayLike) -> DiscreteFamily:
        """Return the family whose inputs are the codes of these inputs [inputs], R = f(X)."""
        codes = np.asarray(codes)
        encoder = np.equal.outer(codes, np.arange(codes.max() + 1)).astype(float)
        return DiscreteFamily(np.einsum("dxy,xr->dry", self.joint, encoder))

    def risks(self, predictor: npt.ArrayLike, loss: npt.ArrayLike | None = None) -> Array:
        """Return the risk of a predictor [inputs] in each domain; 0-1 loss if none is given."""
        costs = self._loss(loss)[np.asarray(predictor)]
        return np.asarray(np.einsum("dxy,xy->d", self.within, costs))

    def best_predictor(self, loss: npt.ArrayLike | None = None) -> Ints:
        """Return the predictor [inputs] of least average risk, that of L*."""
        costs = np.einsum("xy,py->xp", self.joint.sum(axis=0), self._loss(loss))
        return np.asarray(costs.argmin(axis=1), dtype=np.int64)

    def risk_shift(self, predictor: npt.ArrayLike, loss: npt.ArrayLike | None = None) -> float:
        """Return I(L;D) for the loss L of one sample under a predictor [inputs]."""
        costs = self._loss(loss)[np.asarray(predictor)]
        values, place = np.unique(costs, return_inverse=True)
        levels = np.equal.outer(place.reshape(costs.shape), np.arange(len(values))).astype(float)
        return mutual_information(np.einsum("dxy,xyl->dl", self.joint, levels), [1], [0])

    def sample(self, number: int, seed: int) -> tuple[Ints, Ints, Ints]:
        """Draw domains, inputs and labels, `number` of each, as whole numbers."""
        cells = np.random.default_rng(seed).choice(self.joint.size, number, p=self.joint.ravel())
        d, x, y = np.unravel_index(cells, self.joint.shape)
        return np.asarray(d), np.asarray(x), np.asarray(y)

    def _loss(self, loss: npt.ArrayLike | None) -> Array:
        labels = self.joint.shape[2]
        return 1 - np.eye(labels) if loss is None else np.asarray(loss, dtype=float)


def colored_digits(
    agreements: Sequence[float] = (0.9, 0.8, 0.1), noise: float = 0.25
) -> DiscreteFamily:
    """Return Colored MNIST with its shapes perfectly seen, domains equally likely.

    The shape is a fair bit, the label is the shape but for `noise`, and the colour is the label
    with the domain's probability of agreement.  An input is 2 · shape + colour.

    >>> round(colored_digits((0.9, 0.8)).concept_shift, 6)
    0.008541
    """
    joint = np.zeros((len(agreements), 4, 2))
    for d, agreement in enumerate(agreements):
        for shape, colour, label in itertools.product(range(2), repeat=3):
            labelled = 1 - noise if label == shape else noise
            coloured = agreement if colour == label else 1 - agreement
            joint[d, 2 * shape + colour, label] = 0.5 * labelled * coloured / len(agreements)
    return DiscreteFamily(joint)


@dataclass(frozen=True)
class GaussianMeanShift:
    """A mean that moves: D ~ N(0, spread²), X|D ~ N(D, scale²), and a threshold at follow · D.

    The label is 1 where X is above follow · D, and wrong with probability `noise`.  With
    `follow` = 0 the shift is one of covariates alone; otherwise the concept moves as well.  A
    predictor is a threshold t: it says 1 above t.  Risks are those of 0-1 loss.
    """

    spread: float
    scale: float = 1.0
    noise: float = 0.0
    follow: float = 0.0

    def __post_init__(self) -> None:
        if not (self.spread > 0 and self.scale > 0):
            raise InvalidValue(
                f"a spread and a scale above 0 are needed, not {self.spread} and {self.scale}"
            )
        if not 0 <= self.noise <= 0.5:
            raise InvalidValue(f"the label noise must be between 0 and 0.5, not {self.noise}")

    @property
    def covariate_shift(self) -> float:
        """Return I(X;D) = ½ log(1 + spread²/scale²)."""
        return 0.5 * math.log1p((self.spread / self.scale) ** 2)

    @property
    def concept_shift(self) -> float:
        """Return I(Y;D|X) = H(Y|X) − H(Y|X,D), by quadrature over X."""
        deviation = math.hypot(self.spread, self.scale)
        # Given X = x, the mean is N(shrunk · x, (spread · scale / deviation)²).
        x = deviation * self._normal_nodes[0]
        shrunk = (self.spread / deviation) ** 2
        left = x - self.follow * shrunk * x
        if self.follow == 0:
            above = (left > 0).astype(float)
        else:
            posterior = abs(self.follow) * self.spread * self.scale / deviation
            above = special.ndtr(left / posterior)
        return self._mean(_binary_entropy(self._noisy(above))) - _entropy_of(self.noise)

    @property
    def distribution_shift(self) -> float:
        """Return I(X,Y;D)."""
        return self.covariate_shift + self.concept_shift

    @property
    def label_shift(self) -> float:
        """Return I(Y;D), by quadrature over D."""
        return self._information_of_bit(
            self._noisy(special.ndtr((1 - self.follow) * self._means / self.scale))
        )

    def risks(self, means: npt.ArrayLike, threshold: float) -> Array:
        """Return the risk of a threshold in the domains with these means, in closed form."""
        d = np.asarray(means, dtype=float)
        low, high = np.minimum(self.follow * d, threshold), np.maximum(self.follow * d, threshold)
        between = special.ndtr((high - d) / self.scale) - special.ndtr((low - d) / self.scale)
        return self._noisy(between)

    def average_risk(self, threshold: float) -> float:
        """Return L(t), by quadrature over D."""
        return self._mean(self.risks(self._means, threshold))

    def expected_gap(self, threshold: float) -> float:
        """Return E|L_D(t) − L(t)|, by quadrature over D."""
        risks = self.risks(self._means, threshold)
        return self._mean(np.abs(risks - self._mean(risks)))

    def risk_shift(self, threshold: float) -> float:
        """Return I(L;D) for the 0-1 loss L of one sample, by quadrature over D."""
        return self._information_of_bit(self.risks(self._means, threshold))

    def target_gaps(self, threshold: float, domains: int, draws: int, seed: int) -> Array:
        """Return `draws` gaps L_t(t) − L(t), each over `domains` independent test domains."""
        means = np.random.default_rng(seed).normal(0, self.spread, (draws, domains))
        gaps = self.risks(means, threshold).mean(axis=1) - self.average_risk(threshold)
        return np.asarray(gaps)

    def sample(self, domains: int, each: int, seed: int) -> tuple[Array, Array, Ints]:
        """Draw means [domains], and inputs and labels [domains, each]."""
        rng = np.random.default_rng(seed)
        means = rng.normal(0, self.spread, domains)
        x = rng.normal(means[:, None], self.scale, (domains, each))
        turned = rng.random((domains, each)) < self.noise
        return means, x, ((x > self.follow * means[:, None]) ^ turned).astype(np.int64)

    @cached_property
    def _normal_nodes(self) -> tuple[Array, Array]:
        """Return the midpoints of equal steps over ±9 and their weights under N(0, 1)."""
        edges = np.linspace(-9, 9, _STEPS + 1)
        middle = (edges[1:] + edges[:-1]) / 2
        weights = np.exp(-(middle**2) / 2)
        return middle, weights / weights.sum()

    @property
    def _means(self) -> Array:
        return self.spread * self._normal_nodes[0]

    def _mean(self, values: Array) -> float:
        return float(values @ self._normal_nodes[1])

    def _noisy(self, chance: npt.ArrayLike) -> Array:
        return np.asarray(self.noise + (1 - 2 * self.noise) * np.asarray(chance, dtype=float))

    def _information_of_bit(self, chances: Array) -> float:
        return _entropy_of(self._mean(chances)) - self._mean(_binary_entropy(chances))


@dataclass(frozen=True, eq=False)
class Learning:
    """A learner on a discrete family, over every training set it can meet.

    m training domains, n samples each, and a learner that turns the samples into a distribution
    over finitely many hypotheses.  The table of all that can happen has the axes
    D_1 … D_m, Z_1^1 … Z_n^m, W; a sample z is x · labels + y.

    Args:
        family: where domains and samples come from.
        predictors: the hypotheses [hypotheses, inputs], a label for each input.
        learner: samples [m, n] → probabilities [hypotheses].
        domains: m.
        samples: n.
        domain_table: P(d_1, …, d_m), for domains that depend on each other; each must keep the
            family's distribution.
    """

    family: DiscreteFamily
    predictors: Ints
    learner: Callable[[Ints], Array]
    domains: int = 1
    samples: int = 1
    domain_table: Array | None = field(default=None)

    @cached_property
    def joint(self) -> Array:
        """Return the table P(d_1, …, d_m, z_1^1, …, z_n^m, w)."""
        m, n = self.domains, self.samples
        within = self.family.within.reshape(len(self.family.weights), -1)
        shape = (len(within),) * m + (within.shape[1],) * (m * n) + (len(self.predictors),)
        if math.prod(shape) > MOST_CELLS:
            raise InvalidValue(f"a table of {math.prod(shape)} training sets is too large")
        if self.domain_table is None:
            table = np.array(1.0)
            for _ in range(m):
                table = np.multiply.outer(table, self.family.weights)
        else:
            table = np.asarray(self.domain_table, dtype=float)
        for place in range(m * n):
            # Sample j of domain i depends on axis i alone.
            across = np.moveaxis(table, place // n, -1)[..., None] * within
            table = np.moveaxis(across, -2, place // n)
        outputs = np.zeros(shape[m:])
        for drawn in itertools.product(range(within.shape[1]), repeat=m * n):
            outputs[drawn] = self.learner(np.array(drawn, dtype=np.int64).reshape(m, n))
        return np.asarray(table[..., None] * outputs)

    @property
    def hypothesis_axis(self) -> int:
        """Return the axis of W."""
        return self.domains * (1 + self.samples)

    def sample_axis(self, domain: int, sample: int) -> int:
        """Return the axis of one sample."""
        return self.domains + domain * self.samples + sample

    @cached_property
    def risks(self) -> Array:
        """Return L_d(w) under 0-1 loss [hypotheses, domains]."""
        return np.stack([self.family.risks(predictor) for predictor in self.predictors])

    @cached_property
    def average_risks(self) -> Array:
        """Return L(w) [hypotheses]."""
        return np.asarray(self.risks @ self.family.weights)

    @property
    def hypotheses(self) -> Array:
        """Return P(w) [hypotheses]."""
        return np.asarray(self.joint.sum(axis=tuple(range(self.hypothesis_axis))))

    def information_about(self, *axes: int, given: Sequence[int] = ()) -> float:
        """Return I(W; those axes | given)."""
        return mutual_information(self.joint, [self.hypothesis_axis], axes, given)

    def given_domain(self, domain: int) -> Array:
        """Return P(w | d_i) [domains, hypotheses]."""
        axes = tuple(a for a in range(self.hypothesis_axis) if a != domain)
        table = self.joint.sum(axis=axes)
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def source_risks(self) -> tuple[Array, Array, Array]:
        """Return P(d_1, …, d_m, w), L_s and L, flat and cell by cell."""
        table = self.joint.sum(axis=tuple(range(self.domains, self.hypothesis_axis)))
        cells = np.array(list(np.ndindex(table.shape)))
        drawn, w = cells[:, :-1], cells[:, -1]
        return table.ravel(), self.risks[w[:, None], drawn].mean(axis=1), self.average_risks[w]

    def empirical_risks(self) -> tuple[Array, Array, Array, Array]:
        """Return P(everything), L′, L_s and L, cell by cell, without cells of probability 0."""
        labels = self.family.joint.shape[2]
        cells = np.argwhere(self.joint > 0)
        drawn, w = cells[:, : self.domains], cells[:, -1]
        x, y = np.divmod(cells[:, self.domains : -1], labels)
        empirical = (self.predictors[w[:, None], x] != y).mean(axis=1)
        source = self.risks[w[:, None], drawn].mean(axis=1)
        chance = self.joint[tuple(cells.T)]
        return chance, empirical, source, self.average_risks[w]


def _binary_entropy(chance: npt.ArrayLike) -> Array:
    p = np.asarray(chance, dtype=float)
    return np.asarray(special.entr(p) + special.entr(1 - p))


def _entropy_of(chance: float) -> float:
    return float(_binary_entropy(chance))
