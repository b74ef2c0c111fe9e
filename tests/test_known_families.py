"""The families against values known by hand, by enumeration, by integration and by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from _internals import InvalidValue
from known_families import DiscreteFamily, GaussianMeanShift, Learning, colored_digits
from scipy import integrate, stats

from shiftproof.information import mutual_information

SHAPE_ALONE = [0, 0, 1, 1]
COLOUR_ALONE = [0, 1, 0, 1]


def random_family(seed: int, domains: int = 3, inputs: int = 4, labels: int = 3) -> DiscreteFamily:
    rng = np.random.default_rng(seed)
    joint = rng.gamma(0.5, size=(domains, inputs, labels))
    return DiscreteFamily(joint / joint.sum())


# --- information of tables --------------------------------------------------------------------


def test_information_of_an_exclusive_or() -> None:
    """Each bit alone says nothing about the sum; both together, or one given the other, all."""
    joint = np.zeros((2, 2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        joint[a, b, a ^ b] = 0.25
    assert mutual_information(joint, [0], [2]) == pytest.approx(0, abs=1e-15)
    assert mutual_information(joint, [0], [2], given=[1]) == pytest.approx(math.log(2))
    assert mutual_information(joint, [0, 1], [2]) == pytest.approx(math.log(2))


def test_information_is_the_divergence_from_independence() -> None:
    joint = random_family(0).joint
    apart = joint.sum(axis=(1, 2))[:, None, None] * joint.sum(axis=0)
    assert mutual_information(joint, [0], [1, 2]) == pytest.approx(
        stats.entropy(joint.ravel(), apart.ravel()), rel=1e-12
    )


# --- Colored MNIST ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agreements", "covariate", "concept", "joint"),
    [((0.9, 0.8), 0.001426, 0.008541, 0.009966), ((0.9, 0.8, 0.1), 0.065080, 0.224408, 0.289489)],
)
def test_colored_digits_have_the_known_shifts(
    agreements: tuple[float, ...], covariate: float, concept: float, joint: float
) -> None:
    family = colored_digits(agreements)
    assert family.covariate_shift == pytest.approx(covariate, abs=5e-7)
    assert family.concept_shift == pytest.approx(concept, abs=5e-7)
    assert family.distribution_shift == pytest.approx(joint, abs=5e-7)
    assert family.label_shift == pytest.approx(0, abs=1e-14)


def test_colored_digits_have_the_known_risks() -> None:
    family = colored_digits()
    assert family.risks(SHAPE_ALONE) == pytest.approx([0.25, 0.25, 0.25])
    assert family.risks(COLOUR_ALONE) == pytest.approx([0.1, 0.2, 0.9])
    assert family.encode(SHAPE_ALONE).distribution_shift == pytest.approx(0, abs=1e-14)


def test_colored_digits_agree_with_a_simulation() -> None:
    """Drawn as the data set is built: shape, noisy label, then colour."""
    rng = np.random.default_rng(0)
    n = 200_000
    d, shape = rng.integers(3, size=n), rng.integers(2, size=n)
    label = shape ^ (rng.random(n) < 0.25)
    colour = label ^ (rng.random(n) < np.array([0.1, 0.2, 0.9])[d])
    counts = np.zeros((3, 4, 2))
    np.add.at(counts, (d, 2 * shape + colour, label), 1 / n)
    assert counts == pytest.approx(colored_digits().joint, abs=2e-3)
    drawn = np.zeros((3, 4, 2))
    np.add.at(drawn, colored_digits().sample(n, seed=1), 1 / n)
    assert drawn == pytest.approx(colored_digits().joint, abs=2e-3)


# --- discrete families ------------------------------------------------------------------------


def test_best_predictor_is_the_best_of_all() -> None:
    loss = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    for seed, costs in itertools.product(range(3), (None, loss)):
        family = random_family(seed)
        averages = [
            family.risks(predictor, costs) @ family.weights
            for predictor in itertools.product(range(3), repeat=4)
        ]
        best = family.risks(family.best_predictor(costs), costs) @ family.weights
        assert best == pytest.approx(min(averages), rel=1e-12)


def test_risk_shift_is_that_of_the_loss_values() -> None:
    """0-1 loss is a bit with the domain's risk as probability."""
    family = random_family(3)
    predictor = [0, 2, 1, 1]
    bits = np.stack([1 - family.risks(predictor), family.risks(predictor)], axis=1)
    expected = mutual_information(family.weights[:, None] * bits, [0], [1])
    assert family.risk_shift(predictor) == pytest.approx(expected, rel=1e-12)
    assert family.risk_shift(predictor) <= family.distribution_shift


@pytest.mark.parametrize(
    "joint", [np.full((2, 2), 0.25), np.full((2, 2, 2), 0.1), np.eye(2)[:, :, None] - 0.25]
)
def test_a_table_that_is_no_distribution_is_refused(joint: np.ndarray) -> None:
    with pytest.raises(InvalidValue, match="sum to 1"):
        DiscreteFamily(joint)


def test_a_domain_without_samples_is_refused() -> None:
    with pytest.raises(InvalidValue, match="above 0"):
        DiscreteFamily(np.array([[[1.0]], [[0.0]]]))


# --- Gaussian means ---------------------------------------------------------------------------

GAUSSIANS = [
    GaussianMeanShift(0.5),
    GaussianMeanShift(2.0, 0.5, 0.1),
    GaussianMeanShift(1.0, 1.0, 0.2, follow=0.5),
    GaussianMeanShift(0.7, 1.5, 0.0, follow=-1.0),
]


@pytest.mark.parametrize("family", GAUSSIANS)
def test_gaussian_quantities_agree_with_a_simulation(family: GaussianMeanShift) -> None:
    rng = np.random.default_rng(0)
    n, threshold = 160_000, 0.3
    d = rng.normal(0, family.spread, n)
    x = rng.normal(d, family.scale)
    y = (x > family.follow * d) ^ (rng.random(n) < family.noise)
    wrong = (x > threshold) != y
    assert family.average_risk(threshold) == pytest.approx(wrong.mean(), abs=4e-3)
    risks = family.risks(d, threshold)
    assert risks.mean() == pytest.approx(wrong.mean(), abs=4e-3)
    # The risks are calibrated domain by domain: cut by risk, the share of errors is that risk.
    order = np.argsort(risks).reshape(8, -1)
    assert risks[order].mean(axis=1) == pytest.approx(wrong[order].mean(axis=1), abs=0.01)
    gap = np.abs(risks - family.average_risk(threshold)).mean()
    assert family.expected_gap(threshold) == pytest.approx(gap, abs=2e-3)


@pytest.mark.parametrize("family", GAUSSIANS)
def test_gaussian_samples_have_the_risks_of_their_domains(family: GaussianMeanShift) -> None:
    means, x, y = family.sample(domains=20, each=5_000, seed=1)
    wrong = ((x > 0.3) != y).mean(axis=1)
    assert wrong == pytest.approx(family.risks(means, 0.3), abs=0.03)
    assert x.mean(axis=1) == pytest.approx(means, abs=0.1)


@pytest.mark.parametrize("family", GAUSSIANS)
def test_gaussian_informations_agree_with_integration(family: GaussianMeanShift) -> None:
    """I(X,Y;D) = H(X,Y) − H(X,Y|D) by a double integral over D and X."""
    d, step = np.linspace(-7, 7, 301, retstep=True)
    weights = stats.norm.pdf(d) * step
    d = d * family.spread
    reach = 9 * math.hypot(family.spread, family.scale)
    x = np.linspace(-reach, reach, 2001)
    density = stats.norm.pdf(x, d[:, None], family.scale)
    above = family.noise + (1 - 2 * family.noise) * (x > family.follow * d[:, None])

    def entropy(p: np.ndarray) -> float:
        terms = -p * np.log(p, where=p > 0, out=np.zeros_like(p))
        return float(integrate.trapezoid(terms, x))

    joint = [density * above, density * (1 - above)]
    pooled = [np.tensordot(weights, part, 1) for part in joint]
    noise = family.noise
    inside = 0.5 * math.log(2 * math.pi * math.e * family.scale**2)
    inside += stats.entropy([noise, 1 - noise])
    assert family.covariate_shift == pytest.approx(
        entropy(pooled[0] + pooled[1]) - 0.5 * math.log(2 * math.pi * math.e * family.scale**2),
        abs=1e-5,
    )
    assert family.distribution_shift == pytest.approx(sum(map(entropy, pooled)) - inside, abs=5e-4)
    labels = integrate.trapezoid(joint[0], x, axis=1)
    by_domain = stats.entropy([labels, 1 - labels], axis=0) @ weights
    label_shift = stats.entropy([labels @ weights, 1 - labels @ weights]) - by_domain
    assert family.label_shift == pytest.approx(label_shift, abs=5e-4)
    assert family.risk_shift(0.3) <= family.distribution_shift


def test_a_moving_mean_alone_moves_no_concept() -> None:
    assert GaussianMeanShift(1.0, noise=0.3).concept_shift == pytest.approx(0, abs=1e-12)
    assert GaussianMeanShift(1.0, noise=0.3, follow=0.5).concept_shift > 0.005


def test_target_gaps_average_domains() -> None:
    family = GaussianMeanShift(1.0, noise=0.1)
    one = family.target_gaps(0.5, 1, 40_000, seed=0)
    four = family.target_gaps(0.5, 4, 40_000, seed=1)
    assert one.mean() == pytest.approx(0, abs=0.005)
    assert four.std() == pytest.approx(one.std() / 2, rel=0.03)


@pytest.mark.parametrize("settings", [{"spread": 0.0}, {"spread": 1.0, "noise": 0.6}])
def test_impossible_gaussian_families_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match="not"):
        GaussianMeanShift(**settings)


# --- learners ---------------------------------------------------------------------------------


def majority(samples: np.ndarray) -> np.ndarray:
    """Two constant hypotheses; the commoner label of the samples, half and half on a tie."""
    ones = (samples % 2).mean()
    return np.array([0.5, 0.5]) if ones == 0.5 else np.array([ones < 0.5, ones > 0.5], dtype=float)


def test_a_learner_is_enumerated_exactly() -> None:
    family = random_family(5, domains=2, inputs=2, labels=2)
    learning = Learning(family, np.array([[0, 0], [1, 1]]), majority, domains=2, samples=1)
    assert learning.joint.shape == (2, 2, 4, 4, 2)
    assert learning.joint.sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    n = 200_000
    d = rng.choice(2, size=(n, 2), p=family.weights)
    cumulated = family.within.reshape(2, 4).cumsum(axis=1)
    z = (rng.random((n, 2, 1)) > cumulated[d]).sum(axis=2)
    ones = (z % 2).mean(axis=1)
    w = np.where(ones == 0.5, rng.integers(2, size=n), ones > 0.5)
    source = learning.risks[w[:, None], d].mean(axis=1)
    chance, source_risks, average_risks = learning.source_risks()
    assert chance @ source_risks == pytest.approx(source.mean(), abs=4e-3)
    assert chance @ average_risks == pytest.approx(learning.average_risks[w].mean(), abs=4e-3)
    chance, empirical, _, _ = learning.empirical_risks()
    assert chance @ empirical == pytest.approx((w[:, None] != z % 2).mean(), abs=4e-3)
    assert learning.given_domain(0)[1] == pytest.approx(
        np.bincount(w[d[:, 0] == 1], minlength=2) / (d[:, 0] == 1).sum(), abs=6e-3
    )


def test_dependent_domains_keep_their_table() -> None:
    family = random_family(6, domains=2, inputs=1, labels=2)
    table = np.diag(family.weights)
    learning = Learning(
        family, np.array([[0], [1]]), majority, domains=2, samples=2, domain_table=table
    )
    assert learning.joint.sum(axis=tuple(range(2, 7))) == pytest.approx(table)
    apart = family.within[:, 0, :]
    expected = np.einsum("d,da,db,dc,de->abce", family.weights, apart, apart, apart, apart)
    assert learning.joint.sum(axis=(0, 1, 6)) == pytest.approx(expected)


def test_too_large_a_table_is_refused() -> None:
    learning = Learning(random_family(0), np.zeros((2, 4), dtype=int), majority, 4, 4)
    with pytest.raises(InvalidValue, match="too large"):
        _ = learning.joint
