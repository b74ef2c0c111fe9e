"""Diagnoses against shifts that are known: by enumeration, by quadrature, by construction."""

from itertools import combinations

import numpy as np
import pytest
from _internals import (
    DataError,
    InvalidValue,
    ModelView,
    checked,
    diagnose,
    findings,
    moved_features,
    posteriors,
)
from known_families import colored_digits
from scipy import integrate
from scipy.special import entr
from scipy.stats import norm

from shiftproof.information import Matching, mutual_information

NAMES = ("a", "b", "c")
CLASSES = ("no", "yes")


def states(diagnosis):
    return {finding.shift: finding.state for finding in findings(diagnosis)}


def two_classes(n, seed, *, domains=2, columns=3):
    """Return features that know their label, and neither knows its domain."""
    rng = np.random.default_rng(seed)
    d = np.repeat(np.arange(domains), n)
    y = rng.integers(0, 2, len(d))
    x = rng.normal(size=(len(d), columns))
    x[:, 0] += 1.5 * y
    return x, y, d


@pytest.fixture(scope="module")
def family():
    return colored_digits((0.9, 0.8, 0.1))


@pytest.fixture(scope="module")
def coloured(family):
    d, x, y = family.sample(3000, seed=0)
    return diagnose(
        np.stack([x // 2, x % 2], axis=1),
        y,
        d,
        domains=("90%", "80%", "10%"),
        classes=CLASSES,
        features=("shape", "colour"),
        seed=0,
    )


def test_all_five_amounts_of_coloured_digits(family, coloured):
    truth = {
        "covariate": family.covariate_shift,
        "label": family.label_shift,
        "concept": family.concept_shift,
        "joint": family.distribution_shift,
        "within_label": family.conditional_shift,
    }
    for name, value in truth.items():
        low, high = getattr(coloured.shift, name).interval
        assert low <= value <= high, name
        assert high - low < 0.08, name
    assert coloured.shift.concept.method == "counts"
    assert states(coloured) == {
        "covariate": "found", "label": "none", "concept": "found", "within_label": "found",
    }  # fmt: skip


def test_pairs_are_told_apart_as_well_as_can_be(family, coloured):
    within = family.within
    for pair, (a, b) in zip(coloured.pairs, combinations(range(3), 2), strict=True):
        by_both = np.maximum(within[a], within[b]).sum() / 2
        x_of = within.sum(axis=2)
        by_input = np.maximum(x_of[a], x_of[b]).sum() / 2
        information = mutual_information(x_of[[a, b]] / 2, [0], [1])
        assert (pair.first, pair.second) == (coloured.domains[a], coloured.domains[b])
        assert pair.told_apart == pytest.approx(by_input, abs=0.03)
        assert pair.told_apart_with_label == pytest.approx(by_both, abs=0.03)
        assert pair.information == pytest.approx(information, abs=0.02)
        assert pair.labels < 0.05


def test_the_shift_within_each_class(family, coloured):
    for label, moved in enumerate(coloured.moved_classes):
        table = family.joint[:, :, label] / family.joint[:, :, label].sum()
        truth = mutual_information(table, [0], [1])
        assert moved.information == pytest.approx(truth, abs=0.03)
        assert moved.within == pytest.approx(truth / np.log(3), abs=0.03)
        assert moved.shares == pytest.approx((0.5, 0.5, 0.5), abs=0.04)


def test_how_well_labels_and_domains_are_predicted(family, coloured):
    p = coloured.prediction
    joint = family.joint
    assert p.label == pytest.approx(joint.sum(axis=0).max(axis=1).sum(), abs=0.03)
    assert p.label_knowing_domain == pytest.approx(joint.max(axis=2).sum(), abs=0.02)
    assert p.domain == pytest.approx(joint.sum(axis=2).max(axis=0).sum(), abs=0.03)
    assert p.commonest_label == pytest.approx(0.5, abs=0.02)
    h_y_given_x = entr(joint.sum(axis=0)).sum() - entr(joint.sum(axis=(0, 2))).sum()
    assert p.uncertainty == pytest.approx(h_y_given_x, abs=0.02)
    assert coloured.domain_entropy == pytest.approx(np.log(3))


def test_no_single_feature_of_coloured_digits_moves(coloured):
    """Half of all digits are of either colour, in every domain: it is what they mean that moves."""
    assert all(feature.p_value > 0.05 for feature in coloured.features)


@pytest.fixture(scope="module")
def moved():
    """Return the diagnosis of a shifted feature that a model does not use, and its view."""
    x, y, d = two_classes(200, seed=0)
    x[:, 2] += 0.8 * d
    wrong = (y == 0) == (d == 0)
    view = ModelView("erm", x[:, :1], np.where(wrong, 2.0, 0.1) + 0.5 * d, ~wrong)
    found = diagnose(
        x, y, d, domains=NAMES[:2], classes=CLASSES, features=("p", "q", "moved"), seed=0,
        model=view,
    )  # fmt: skip
    return found, view, d


def test_the_feature_that_was_moved_comes_first(moved):
    found, _, _ = moved
    first, *others = found.features
    assert first.name == "moved"
    assert first.farthest == ("a", "b")
    # W1 of two normals is the distance of their means; the deviation pools both domains.
    assert first.w1 == first.most == pytest.approx(0.8 / np.sqrt(1 + 0.16), abs=0.15)
    assert first.p_value <= 0.05
    assert all(other.p_value > 0.05 for other in others)


def test_the_shift_of_a_normal_variable(moved):
    found, _, _ = moved

    def integrand(v):
        one, other = norm.pdf(v), norm.pdf(v, loc=0.8)
        return 0.5 * sum(p * np.log(2 * p / (one + other)) for p in (one, other))

    truth = integrate.quad(integrand, -8, 9)[0]
    low, high = found.shift.covariate.interval
    assert low <= truth <= high
    assert found.pairs[0].told_apart == pytest.approx(norm.cdf(0.4), abs=0.05)
    assert found.pairs[0].information == pytest.approx(truth, abs=0.03)
    assert states(found)["covariate"] == "found"
    assert states(found)["label"] != "found"
    assert states(found)["concept"] != "found"


def test_a_model_is_measured_beside_the_inputs(moved):
    found, view, d = moved
    model = found.model
    assert [estimate.symbol for estimate in model.shift] == [
        "I(R;D)", "I(Y;D)", "I(Y;D|R)", "I(R,Y;D)", "I(R;D|Y)",
    ]  # fmt: skip
    assert model.shift.covariate.value < 0.01 < found.shift.covariate.interval[0]
    assert model.shift.label.value == found.shift.label.value
    # The risk tells the domain: 0.1 and 2 in one, 0.6 and 2.5 in the other.
    assert model.risk_shift.symbol == "I(L;D)"
    assert model.risk_shift.value == pytest.approx(np.log(2), abs=0.02)
    assert model.risks == pytest.approx([view.risks[d == k].mean() for k in (0, 1)])
    assert model.accuracies == pytest.approx([view.right[d == k].mean() for k in (0, 1)])


def test_label_shift_alone():
    rng = np.random.default_rng(2)
    d = np.repeat([0, 1], 300)
    y = (rng.random(600) < np.where(d == 0, 0.2, 0.7)).astype(int)
    x = rng.normal(size=(600, 2)) + 3 * y[:, None]
    found = diagnose(x, y, d, domains=NAMES[:2], classes=CLASSES, seed=0)
    table = np.array([[0.4, 0.1], [0.15, 0.35]])
    low, high = found.shift.label.interval
    assert low <= mutual_information(table, [0], [1]) <= high
    assert states(found)["label"] == "found"
    assert states(found)["within_label"] != "found"
    assert found.pairs[0].labels == pytest.approx(0.5, abs=0.06)
    assert found.moved_classes[1].shares == pytest.approx((0.2, 0.7), abs=0.06)
    assert found.moved_classes[1].within < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_no_shift_no_alarm(seed):
    x, y, d = two_classes(120, seed)
    found = diagnose(x, y, d, domains=NAMES[:2], classes=CLASSES, seed=seed)
    assert not {"found", "small", "overlap"} & set(states(found).values())
    assert all(estimate.interval[0] == 0 for estimate in found.shift)
    # Two standard errors: √(2 · ¼ / 240), since folds share what is chance.
    assert found.pairs[0].told_apart == pytest.approx(0.5, abs=0.1)


def test_identical_domains_of_finite_samples_raise_no_alarm():
    """The same rows in every domain: nothing differs, not even by chance."""
    rng = np.random.default_rng(0)
    x = np.tile(rng.standard_t(3, (60, 4)), (3, 1))
    y = np.tile(rng.integers(0, 2, 60), 3)
    found = diagnose(x, y, np.repeat([0, 1, 2], 60), domains=NAMES, classes=CLASSES, seed=0)
    assert set(states(found).values()) <= {"none", "untold"}
    assert all(estimate.interval[0] == 0 for estimate in found.shift)
    assert all(drop.accuracy.lost.interval[0] <= 0 for drop in found.drops)
    assert not any(trial.helps for trial in found.trials)


def test_covariate_shift_that_linear_classifiers_miss_is_not_called_concept_shift():
    """The label is a function of the input, and so is most of the domain: the same one.

    To a linear classifier both are noise, until it is told the one that tells the other.
    """
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (600, 2))
    y = (signs.prod(axis=1) > 0).astype(int)
    d = y ^ (rng.random(600) < 0.1)
    x = np.concatenate([signs + rng.normal(0, 0.1, signs.shape), rng.normal(size=(600, 11))], 1)
    found = diagnose(x, y, d, domains=NAMES[:2], classes=CLASSES, seed=0)
    truth = np.log(2) - entr([0.1, 0.9]).sum()
    low, _ = found.shift.covariate.interval
    assert 0.05 < low < truth
    assert found.shift.concept.interval[0] == 0
    assert states(found)["concept"] != "found"


def test_domains_that_hardly_overlap_cannot_be_compared():
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1], 150)
    x = rng.normal(size=(300, 2))
    x[:, 0] += 12 * d
    y = (x[:, 1] + rng.normal(size=300) > 0).astype(int)
    found = diagnose(x, y, d, domains=NAMES[:2], classes=CLASSES, seed=0)
    concept = findings(found)[2]
    assert concept.state == "overlap"
    assert "because the domains hardly overlap" in concept.text


def test_networks_that_have_nothing_to_learn_say_so():
    x, y, d = two_classes(300, seed=6, columns=60)
    sample = checked(x, y, d, balanced=True)
    found = posteriors(sample, seed=0)
    own = np.arange(len(d))
    assert found.domain[own, sample.d].mean() == pytest.approx(np.log(0.5), abs=0.01)
    for probabilities in (found.domain, found.label, found.mixed_label):
        assert np.exp(probabilities).sum(axis=-1) == pytest.approx(1)
    assert np.exp(found.domain_given_label).sum(axis=1) == pytest.approx(1)


def test_networks_that_see_nothing_say_so():
    """A model may have collapsed: its representation is the same for all."""
    _, y, d = two_classes(30, seed=6)
    sample = checked(np.ones((60, 2)), y, d, balanced=True)
    domain = posteriors(sample, seed=0).domain
    assert np.ptp(domain[sample.folds(5, 0) == 0], axis=0) == pytest.approx(0, abs=1e-9)


def test_fewer_rows_than_columns_are_measured_by_their_components():
    """The columns that move are those of the table, not of the components."""
    rng = np.random.default_rng(0)
    d, y = np.arange(60) % 2, np.arange(60) // 2 % 2
    x = rng.normal(size=(60, 200)) + 0.5 * y[:, None]
    x[:, 170] += 8 * d
    found = diagnose(x, y, d, domains=NAMES[:2], classes=CLASSES, seed=0)
    assert found.features[0].name == "feature 170"
    assert found.features[0].p_value <= 0.05
    assert found.trials == ()
    assert len(found.drops) == 2


def test_a_feature_answers_for_all_pairs():
    matched = Matching(
        pairs=((0, 1), (0, 2), (1, 2)),
        w1=np.array([[0.1, 0.5], [0.2, 0.9], [0.3, 0.1]]),
        pdm=np.zeros((3, 2)),
        p_values=np.zeros(2),
        adjusted=np.array([0.6, 0.03]),
        permutations=99,
    )
    first, second = moved_features(matched, ("p", "q"), NAMES)
    assert (first.name, first.farthest, first.most) == ("q", ("a", "c"), 0.9)
    assert first.w1 == pytest.approx(0.5)
    assert first.p_value == 0.03
    assert (second.farthest, second.p_value) == (("b", "c"), 0.6)


def test_what_is_too_much_is_left_out_domain_by_domain():
    x, y, d = two_classes(60, seed=3)
    x, y, d = (np.concatenate([each, each[:20]]) for each in (x, y, d))
    found = diagnose(x, y, d, domains=NAMES[:2], classes=CLASSES, seed=0, most=100)
    assert found.sizes == (50, 50)
    assert found.left_out == 40
    again = diagnose(x, y, d, domains=NAMES[:2], classes=CLASSES, seed=0, most=100)
    assert again == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"d": np.zeros(40, int)}, "at least two domains, not 1"),
        ({"y": np.ones(40, int)}, "40 samples belong to one class, 'yes'"),
        ({"d": np.repeat([0, 2], [37, 3])}, "domain 'c' has 3 samples, fewer than the 5 folds"),
        ({"d": np.repeat([0, 1], [39, 1])}, "domain 'b' has 1 samples"),
        ({"x": np.full((40, 2), np.nan)}, "40 of 40 rows of features hold NaN"),
        ({"x": np.ones((40, 2))}, "all 2 features are constant"),
        ({"most": 8}, "8 samples are too few for 3 domains"),
        ({"level": 1.0}, "between 0 and 1"),
    ],
)
def test_a_mistake_is_told_in_one_line(change, words):
    rng = np.random.default_rng(0)
    given = {
        "x": rng.normal(size=(40, 2)),
        "y": np.tile([0, 1], 20),
        "d": np.repeat([0, 1], 20),
        "domains": NAMES,
        "classes": CLASSES,
        "seed": 0,
    }
    with pytest.raises((DataError, InvalidValue), match=words) as error:
        diagnose(**{**given, **change})
    assert "\n" not in str(error.value)
