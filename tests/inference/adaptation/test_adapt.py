"""When class shares are corrected, and that it helps where it is done."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from _internals import (
    LEVEL,
    MEAN_TOLERANCE,
    NO_RECORD,
    NONE,
    PAIRS,
    InvalidValue,
    Record,
    Site,
    TypicalInputs,
    TypicalRows,
    adapted,
    checked_adapt,
    held_out_HeldOut as HeldOut,
    label_shift_p,
    learnt,
    record_of,
    when_TOLERANCE as TOLERANCE,
    with_shares,
)
from scipy.stats import t as student  # type: ignore[import-untyped]
from simulated_sites import new_site, training_sites

SHARES = [0.2, 0.3, 0.5, 0.6, 0.7, 0.4]
ALIKE = [0.5] * 6


def record(shares: list[float] = SHARES, drift: float = 0.0) -> Record:
    return _record(tuple(shares), drift)


@cache
def _record(shares: tuple[float, ...], drift: float) -> Record:
    found = record_of(training_sites(list(shares), 300, 0, drift)[0])
    assert found is not None
    return found


@pytest.mark.parametrize("training", [SHARES, ALIKE])
@pytest.mark.parametrize("how", ["auto", "labels"])
def test_label_shift_is_recovered_from_500_rows(training: list[float], how: str) -> None:
    """Shares within 3 points on average, accuracy within 1 point of knowing them, five sites."""
    known = record(training)
    errors, lost = [], []
    for seed, share in enumerate((0.05, 0.2, 0.5, 0.8, 0.9)):
        p, y = new_site(share, known.calibration.shares, 500, 100 + seed)
        found = adapted(known, p, checked_adapt(how))
        assert found.shares is not None
        errors.append(abs(found.shares.em[1] - y.mean()))
        oracle = with_shares(p, np.array([1 - y.mean(), y.mean()]))
        right = [(q.argmax(axis=1) == y).mean() for q in (oracle, found.probabilities)]
        lost.append(right[0] - right[1])
        assert found.shares.low[1] <= y.mean() <= found.shares.high[1]
    assert np.mean(errors) < 0.03
    assert np.mean(lost) < 0.01


def test_auto_refuses_rows_that_are_no_mixture_of_the_classes() -> None:
    known = record()
    p, _ = new_site(0.5, known.calibration.shares, 500, 7)
    squeezed = with_shares(p**0.25 / (p**0.25).sum(axis=1, keepdims=True), np.array([0.3, 0.7]))
    found = adapted(known, squeezed, "auto")
    assert not found.corrected
    assert "more than their class shares" in found.reason
    assert found.probabilities is squeezed
    assert adapted(known, squeezed, "labels").corrected


def test_auto_says_which_condition_fails() -> None:
    known = record()
    p, _ = new_site(0.9, known.calibration.shares, 300, 8)
    assert adapted(known, p, "auto").corrected
    gains = known.gains
    for changed, words in (
        ({"slope": 3.0, "slope_error": 0.1}, "calibration slope"),
        ({"gains": replace(gains, log_loss=-0.1)}, "log loss by 0.1 "),
        ({"gains": replace(gains, accuracy=-0.02, accuracy_error=0.001)}, "2 points of accuracy"),
        ({"gains": replace(gains, worst=TOLERANCE + 0.02)}, "7 points"),
    ):
        found = adapted(replace(known, **changed), p, "auto")
        assert not found.corrected
        assert words in found.reason
        np.testing.assert_array_equal(found.probabilities, p)
    # A slope that is not surely outside is no reason, nor is a loss of accuracy within tolerance.
    assert adapted(replace(known, slope=2.1, slope_error=0.2), p, "auto").corrected
    little = replace(gains, accuracy=-MEAN_TOLERANCE, accuracy_error=0.0)
    assert adapted(replace(known, gains=little), p, "auto").corrected


def test_the_tests_of_a_new_site_share_their_level() -> None:
    """A site that only one of two tests finds unlikely, at 3%, is corrected; at 2% it is not."""
    known = record()
    p, _ = new_site(0.9, known.calibration.shares, 300, 8)
    assert known.inputs is None
    for wanted, corrected in ((0.03, True), (0.02, False)):
        mean = 0.5 + 0.1 * student.ppf(wanted, 5) * np.sqrt(1 + 1 / 6)
        inputs = TypicalInputs(np.array([0.5, 0.5]), 0.1, 6)
        typicality = np.full(300, mean)
        assert inputs.p_value(typicality, np.array([0.5, 0.5])) == pytest.approx(wanted)
        found = adapted(replace(known, inputs=inputs), p, "auto", typicality=typicality)
        assert found.corrected is corrected
        assert ("less typical of" in found.reason) is not corrected


def test_without_a_record_nothing_is_corrected() -> None:
    p = np.full((50, 2), 0.5)
    for how in ("auto", "labels"):
        found = adapted(None, p, checked_adapt(how))
        assert (found.corrected, found.reason) == (False, NO_RECORD)
    few = adapted(record(), p[:3], "auto")
    assert "3 rows are too few" in few.reason
    assert adapted(record(), p, "none").reason == "not asked for"
    with pytest.raises(InvalidValue, match="auto, labels or none, not 'on'"):
        checked_adapt("on")


def test_a_held_out_domain_with_atypical_rows_is_not_corrected_as_a_new_site_is_not() -> None:
    """Without domain d the mean gain L lacks a sixth of d's own gain, so Σ_d (L − L_d) = L."""
    held_out = training_sites(SHARES, 300, 0)[0]
    rng = np.random.default_rng(3)
    typical = {
        number: TypicalRows(rng.uniform(size=300), rng.integers(2, size=300)) for number in range(6)
    }
    known = record_of(held_out, rows=typical)
    assert known is not None
    assert known.inputs is not None
    assert known.gains.log_loss == record().gains.log_loss
    left_out = []
    for number in range(6):
        atypical = TypicalRows(np.full(300, 0.001), typical[number].y)
        found = record_of(held_out, rows=typical | {number: atypical})
        assert found is not None
        left_out.append(known.gains.log_loss - found.gains.log_loss)
    assert np.ptp(left_out) > 0
    assert sum(left_out) == pytest.approx(known.gains.log_loss)


def test_two_domains_teach_nothing() -> None:
    assert record_of(training_sites([0.3, 0.6], 100, 0)[0]) is None


def test_domains_without_a_class_of_ten_rows_teach_nothing() -> None:
    y, domain = np.arange(30) % 5, np.repeat(np.arange(3), 10)
    assert record_of(HeldOut(np.full((30, 5), 0.2), y, domain, domain)) is None


def test_learnt_factors_are_those_that_were_best_and_go_to_none_for_few_domains() -> None:
    """A site whose mean prediction is its true share, and EM stays at training: none is best."""
    p, y = new_site(0.5, np.array([0.5, 0.5]), 400, 9)
    training = np.array([0.9, 0.1])
    site = Site(p, y, training, training, np.eye(2) * 1e-9, 1.0, None)
    assert abs(PAIRS[site.losses.argmin()][0] - 1) <= 0.25
    best = np.zeros(len(PAIRS)) + 1
    best[[tuple(pair) == (0.0, 1.0) for pair in PAIRS]] = 0
    factors, noise = learnt([with_losses(site, best)])
    np.testing.assert_allclose(factors, NONE + (np.array([0.0, 1.0]) - NONE) / 2)
    assert noise == pytest.approx(2 * (y.mean() - 0.1) ** 2, rel=1e-5)


def with_losses(site: Site, losses: np.ndarray) -> Site:
    """A copy of a site whose losses are given."""
    found = replace(site)
    vars(found)["losses"] = losses
    return found


def drawn_sites(classes: int, spread: float, rng: np.random.Generator) -> list[Site]:
    """Six sites whose EM estimate errs by chance, and by ``spread`` times as much."""
    centring = np.eye(classes) - 1 / classes
    covariance = 1e-3 * centring @ np.diag(np.linspace(1, 3, classes)) @ centring
    y = np.arange(10 * classes) % classes
    errors = spread * rng.multivariate_normal(np.zeros(classes), covariance, size=6)
    equal = np.full(classes, 1 / classes)
    return [Site(np.empty((len(y), classes)), y, equal, equal + e, covariance, 1.0, None)
            for e in errors]  # fmt: skip


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_label_shift_is_contradicted_at_its_level(classes: int) -> None:
    """400 times six sites: errors of chance are called too large in 5%, thrice those nearly always.

    The standard error of the first is 1.1 points.
    """
    rng = np.random.default_rng(3)
    chance, more = (
        np.mean([label_shift_p(drawn_sites(classes, spread, rng)) < LEVEL for _ in range(400)])
        for spread in (1.0, 3.0)
    )
    assert abs(chance - LEVEL) < 0.035
    assert more > 0.9


def test_factors_are_learnt_only_where_held_out_domains_contradict_label_shift() -> None:
    rng, losses = np.random.default_rng(4), np.ones(len(PAIRS))
    losses[0] = 0
    factors, noise = learnt([with_losses(own, losses) for own in drawn_sites(3, 0.5, rng)])
    assert factors.tolist() == NONE.tolist()
    assert noise == 0
    factors, noise = learnt([with_losses(own, losses) for own in drawn_sites(3, 9.0, rng)])
    np.testing.assert_allclose(factors, NONE + 6 / 7 * (PAIRS[0] - NONE))
    assert noise > 0


def test_the_correction_is_judged_without_the_domain_itself() -> None:
    """Where EM errs by much on held-out domains, `auto` follows it less."""
    sure, unsure = record(SHARES), record(SHARES, drift=1.0)
    assert unsure.noise > 10 * max(sure.noise, 1e-4)
    p, _ = new_site(0.9, sure.calibration.shares, 300, 10)
    em = np.array([0.1, 0.9])
    near, far = (own.estimated(p, em, 1e-3) for own in (sure, unsure))
    assert np.abs(near - em).max() < np.abs(far - em).max()


def test_a_record_survives_json_and_refuses_wrong_shapes() -> None:
    known = record()
    stored = json.loads(json.dumps(known.to_json()))
    p, _ = new_site(0.8, known.calibration.shares, 200, 11)
    again = adapted(Record.from_json(stored), p, "auto")
    np.testing.assert_allclose(again.probabilities, adapted(known, p, "auto").probabilities)
    stored["rates"] = [[1.0]]
    with pytest.raises(ValueError, match=r"adaptation\.rates"):
        Record.from_json(stored)


def test_a_record_tells_nothing_of_single_rows() -> None:
    """Its size does not depend on the number of rows."""
    small = record_of(training_sites(SHARES, 50, 0)[0])
    assert small is not None
    for own in (small, record()):
        assert own.bins.shares.shape == (10, 2)
        assert own.bins.edges.shape == (2, 4)
        assert own.rates.shape == (2, 2)


def test_held_out_shares_are_those_of_the_other_folds() -> None:
    y = np.array([0, 0, 1, 1, 1, 0])
    domain = np.array([0, 0, 1, 1, 2, 2])
    fold = np.array([0, 0, 1, 1, 1, 1])
    held_out = HeldOut(np.full((6, 2), 0.5), y, domain, fold)
    np.testing.assert_allclose(held_out.trained_shares[0], [0.25, 0.75])
    np.testing.assert_allclose(held_out.trained_shares[2], [1, 0])
    np.testing.assert_allclose(held_out.mean_shares(np.ones(6, bool)), [0.5, 0.5])
