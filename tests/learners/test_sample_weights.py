"""Weights of samples: a row of weight 2 is the row given twice, one of weight 0 is left out."""

import numpy as np
import pytest
import torch
from _internals import (
    ERM,
    SQUARED,
    BoostingCandidate,
    Encoder,
    ForestCandidate,
    InvalidValue,
    LinearCandidate,
    Samples,
    best_combined as combined,
    build,
    harness_BATCH as BATCH,
    held_out_scores,
    judge,
    problem,
    shrunk_weights,
    weighted_median,
    weights_for,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftproof import ALGORITHMS, Batch, Losses

rng = np.random.default_rng(0)
N = 120
X = rng.normal(size=(N, 4)) * [1, 10, 0.1, 1]
X[::7, 1] = np.nan
X[:, 3] = rng.integers(3, size=N)
DOMAIN = np.arange(N) % 3
SIGNAL = X[:, 0] + X[:, 2] * 3 + 0.5 * rng.normal(size=N)
COUNTS = rng.integers(1, 4, size=N)
CATEGORICAL = np.array([False, False, False, True])


def rows(kind: str) -> Samples:
    if kind == "classes":
        return Samples(X, (SIGNAL > 0).astype(int), DOMAIN, 2, CATEGORICAL)
    return Samples(X, SIGNAL, DOMAIN, 0, CATEGORICAL, loss=SQUARED)


def weighted(kind: str) -> Samples:
    return rows(kind).weighted([COUNTS.astype(float)])


def repeated(kind: str) -> Samples:
    return rows(kind).only(np.repeat(np.arange(N), COUNTS))


# --- exact learners ---


@pytest.mark.parametrize("kind", ["classes", "numbers"])
@pytest.mark.parametrize("balance_domains", [False, True])
def test_integer_weights_are_repeated_rows_for_a_linear_model(kind, balance_domains):
    candidate = LinearCandidate(variants=(0.01, 0.3), balance_domains=balance_domains)
    found, wanted = (
        candidate.predictions(samples, X, seed=0) for samples in (weighted(kind), repeated(kind))
    )
    np.testing.assert_allclose(found, wanted, atol=1e-8, rtol=0)
    plain = candidate.predictions(rows(kind), X, seed=0)
    assert np.abs(plain - wanted).max() > 1e-4  # the test could fail


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_integer_weights_are_repeated_rows_where_domains_are_held_out(kind):
    """Which penalty is chosen, its temperature and its risk depend on the weights alike."""
    own, wanted = (judge(LinearCandidate(), each(kind), seed=0) for each in (weighted, repeated))
    assert own.variant == wanted.variant
    assert own.temperature == pytest.approx(wanted.temperature, rel=1e-4)
    assert own.risk == pytest.approx(wanted.risk, rel=1e-5)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_the_fitted_model_is_that_of_repeated_rows(kind):
    own, wanted = (LinearCandidate().fit(each(kind), 0.1, 0) for each in (weighted, repeated))
    np.testing.assert_allclose(own.coefficients, wanted.coefficients, atol=1e-8)
    np.testing.assert_allclose(own.intercepts, wanted.intercepts, atol=1e-8)


def test_the_scale_of_weights_does_not_matter():
    once = weighted("classes")
    thrice = rows("classes").weighted([3.0 * COUNTS])
    for candidate in (LinearCandidate(variants=(0.1,)), BoostingCandidate(variants=(25,))):
        own, other = (candidate.predictions(each, X, seed=0) for each in (once, thrice))
        np.testing.assert_allclose(own, other, atol=1e-12)


@pytest.mark.parametrize(
    "candidate",
    [
        BoostingCandidate(variants=(25,)),
        # Before scikit-learn 1.9, weights do not change leaves that hold rows of one label only.
        ForestCandidate(variants=(5,), trees=20),
    ],
    ids=lambda candidate: candidate.name,
)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_heavy_row_pulls_the_prediction_to_its_label(candidate, kind):
    """Trees draw and cut at random, so they are not equal; but they follow weights."""
    samples = rows(kind)
    towards = 1 if kind == "classes" else SIGNAL.max()
    heavy = np.where(np.median(SIGNAL) < SIGNAL, 20.0, 1.0)
    fitted = [candidate.predictions(s, X, 0)[0] for s in (samples, samples.weighted([heavy]))]
    plain, pulled = (p[:, 1] if kind == "classes" else p[:, 0] for p in fitted)
    assert np.abs(pulled - towards).mean() < np.abs(plain - towards).mean()


def test_the_median_of_repeated_values():
    for seed in range(20):
        own = np.random.default_rng(seed)
        values, counts = own.normal(size=7).round(1), own.integers(1, 5, size=7)
        found = weighted_median(values, counts.astype(float))
        assert found == pytest.approx(np.median(np.repeat(values, counts)))


def test_the_encoder_of_repeated_rows():
    own, wanted = (Encoder.fit(each("classes")).transform(X) for each in (weighted, repeated))
    np.testing.assert_allclose(own, wanted, atol=1e-12)


def test_the_weights_of_an_ensemble_are_those_of_repeated_rows():
    again = np.repeat(np.arange(N), COUNTS)
    chances = rng.uniform(0.05, 1, size=(3, N))
    for kind in ("classes", "numbers"):
        if kind == "classes":
            predicted = np.stack([1 - chances, chances], axis=-1)
        else:
            predicted = rng.normal(size=(3, N, 1))
        one, other, unweighted = (make(kind) for make in (weighted, repeated, rows))
        families = ["linear"] * 3
        own = shrunk_weights(predicted, one, families)
        wanted = shrunk_weights(predicted[:, again], other, families)
        np.testing.assert_allclose(own, wanted, atol=1e-5)
        assert np.abs(shrunk_weights(predicted, unweighted, families) - wanted).max() > 1e-4


def test_the_weights_of_best_are_those_of_repeated_rows():
    """The members are exact here, so only the weights of the ensemble could differ."""
    found = []
    for samples in (weighted("classes"), repeated("classes")):
        portfolio = [LinearCandidate(), LinearCandidate("strong", (3.0,))]
        ensemble = combined([judge(each, samples, 0) for each in portfolio], samples, 0)
        found.append([member.weight for member in ensemble.members])
    np.testing.assert_allclose(*found, atol=1e-4)


def test_the_score_counts_rows_alike_and_the_risk_by_weight():
    y = np.array([0, 1, 0, 1])
    predicted = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]])
    samples = Samples(np.zeros((4, 1)), y, np.array([0, 0, 1, 1]), 2, np.array([False]))
    risk, score = held_out_scores(predicted, samples.weighted([np.array([3.0, 1.0, 1.0, 1.0])]))
    assert score == 0.75
    first = -(3 * np.log(0.9) + np.log(0.1)) / 4
    assert risk == pytest.approx((first - np.log(0.6)) / 2)


# --- a user's own estimator ---


def test_weights_go_to_the_last_step_of_a_pipeline():
    given = weights_for(make_pipeline(StandardScaler(), LogisticRegression()), weighted("classes"))
    assert list(given) == ["logisticregression__sample_weight"]
    np.testing.assert_array_equal(given["logisticregression__sample_weight"], COUNTS)
    assert weights_for(LogisticRegression(), rows("classes")) == {}


def test_an_estimator_without_weights_says_so():
    with pytest.raises(InvalidValue, match="takes no `sample_weight`"):
        weights_for(KNeighborsClassifier(), weighted("classes"))


# --- networks ---

# Their loss is a function of the domains' mean losses alone.
OF_MEANS = ["erm", "groupdro", "vrex", "eqrm", "iga", "fish", "andmask", "mldg"]


@pytest.mark.parametrize("name", OF_MEANS)
def test_a_step_on_weighted_samples_is_that_on_repeated_ones(name):
    """The gradient of the weighted mean loss of a full batch is that of repeated rows."""
    data = problem()
    size = 12
    x = torch.stack([domain.x[:size] for domain in data.domains]).double()
    y = torch.stack([domain.y[:size] for domain in data.domains])
    counts = torch.tensor([1, 3, 1, 2] * (size // 4))
    weight = (counts / counts.double().mean()).expand(y.shape)
    again = torch.repeat_interleave(torch.arange(size), counts)
    moved = []
    for batch in (Batch(x, y, weight), Batch(x[:, again], y[:, again]), Batch(x, y)):
        algorithm = build(name, data, {"lr": 0.01}).double()
        algorithm.train()
        algorithm.update(batch)
        moved.append(torch.cat([p.detach().flatten() for p in algorithm.parameters()]))
    torch.testing.assert_close(moved[0], moved[1], atol=1e-9, rtol=0)
    assert (moved[2] - moved[1]).abs().max() > 1e-6


def test_the_gradient_of_the_mean_loss_is_that_of_repeated_rows():
    data = problem()
    x = torch.stack([domain.x[:8] for domain in data.domains]).double()
    y = torch.stack([domain.y[:8] for domain in data.domains])
    counts = torch.tensor([2, 1, 1, 4, 1, 1, 1, 1])
    again = torch.repeat_interleave(torch.arange(8), counts)
    gradients = []
    for batch in (
        Batch(x, y, counts.double().expand(y.shape) * 8 / 12),
        Batch(x[:, again], y[:, again]),
    ):
        algorithm = build("erm", data, {}).double()
        loss = algorithm.objective(batch).total
        gradients.append(torch.autograd.grad(loss, list(algorithm.parameters())))
    for own, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(own, wanted, atol=1e-12, rtol=1e-10)


def test_matching_sees_the_samples_as_they_are():
    """Weights count in IDM's mean loss; what is matched are the samples."""
    data = problem()
    hparams = {"gradient_warmup": 0, "gradient_weight": 1.0}
    x = torch.stack([domain.x[:BATCH] for domain in data.domains])
    y = torch.stack([domain.y[:BATCH] for domain in data.domains])
    weight = 2.0 * (torch.arange(BATCH) % 2).expand(y.shape)
    own, plain = (
        build("idm", data, hparams).objective(batch).parts
        for batch in (Batch(x, y, weight), Batch(x, y))
    )
    assert own["gradient_penalty"] == plain["gradient_penalty"]
    assert own["risk"] != plain["risk"]


def test_an_algorithm_that_changes_its_loss_must_say_that_it_weighs_samples():
    class Changed(ERM):
        def objective(self, batch: Batch) -> Losses:
            return super().objective(batch)

    class Declared(ERM):
        weighs_samples = True

        def objective(self, batch: Batch) -> Losses:
            return super().objective(batch)

    class Named(Declared):
        pass

    assert (Changed.weighs_samples, Declared.weighs_samples) == (False, True)
    assert Named.weighs_samples


def test_all_but_a_few_weigh_samples():
    found = [name for name, kind in ALGORITHMS.items() if not kind.weighs_samples]
    assert found == ["adrmx", "mixup", "rdm", "transfer", "trm"]
