import itertools
import random

import numpy as np
import pytest
from _internals import (
    InvalidValue,
    UnknownName,
    compare_with_baseline,
    holm,
    sign_flip_p_values,
    sweeps_significance as significance,
)
from scipy import stats


def sign_flip_p_value(differences, **settings):
    return sign_flip_p_values([differences], **settings)[0]


def enumerated(differences):
    """Every assignment, one by one."""
    seen = abs(sum(differences))
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [abs(sum(s * d for s, d in zip(f, differences, strict=True))) for f in flips]
    return sum(total >= seen - 1e-9 for total in sums) / len(flips)


@pytest.mark.parametrize("n", range(1, 10))
def test_exact_against_enumeration(n):
    rng = random.Random(n)
    for differences in (
        [rng.gauss(0.5, 1) for _ in range(n)],
        [rng.randint(-3, 3) / 10 for _ in range(n)],  # ties and zeros, with rounding
    ):
        assert sign_flip_p_value(differences) == pytest.approx(enumerated(differences))


def test_exact_and_random_against_scipy():
    rng = np.random.default_rng(0)
    for n in (12, 30):
        differences = rng.normal(0.3, 1, n)
        wanted = stats.permutation_test(
            (differences,),
            lambda x, axis: np.mean(x, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=20_000 if n > 16 else np.inf,
            rng=np.random.default_rng(1),
        ).pvalue
        # Two estimates of p from 20,000 and 100,000 draws: within four standard deviations.
        tolerance = 4 * (wanted * (1 - wanted) * (1 / 20_000 + 1 / 100_000)) ** 0.5
        assert sign_flip_p_value(differences) == pytest.approx(
            wanted, abs=tolerance if n > 16 else 1e-12
        )


def test_on_signed_ranks_it_is_wilcoxons_test():
    differences = np.random.default_rng(2).normal(0.4, 1, 13)
    ranks = np.sign(differences) * stats.rankdata(np.abs(differences))
    wanted = stats.wilcoxon(differences, method="exact").pvalue
    assert sign_flip_p_value(ranks) == pytest.approx(wanted)


def test_random_signs_agree_with_the_exact_test_and_repeat(monkeypatch):
    differences = np.random.default_rng(3).normal(0.3, 1, 14)
    exact = sign_flip_p_value(differences)
    monkeypatch.setattr(significance, "MOST_ENUMERATED", 0)
    drawn = sign_flip_p_value(differences, seed=5)
    assert drawn == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 100_000) ** 0.5)
    assert drawn == sign_flip_p_value(differences, seed=5)
    assert drawn != sign_flip_p_value(differences, seed=6)
    # Never 0, however extreme: the assignment seen counts.
    assert sign_flip_p_value([1.0] * 60, draws=99) == 1 / 100


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_what_is_not_finite_is_no_evidence_either(n, odd):
    """NaN is at least as large as nothing: without a check, p would be 0."""
    with pytest.raises(InvalidValue, match="finite"):
        sign_flip_p_value([odd, *[0.1] * (n - 1)])


def test_no_difference_is_no_evidence():
    assert sign_flip_p_value([0.0] * 5) == 1.0


def test_holm_by_hand():
    # 4·0.01, 3·0.02, 2·0.03 = 0.06, then at least that; and never above 1.
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = random.Random(0)
    for _ in range(200):
        p_values = [rng.random() ** 3 for _ in range(rng.randint(1, 8))]
        level = rng.choice([0.01, 0.05, 0.2])
        rejected = set()
        for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
            if p_values[i] > level / (len(p_values) - rank):
                break
            rejected.add(i)
        assert {i for i, p in enumerate(holm(p_values)) if p <= level} == rejected


def test_pairs_are_what_both_have():
    accuracies = {
        "erm": {"a": 0.5, "b": 0.5, "c": 0.5},
        "idm": {"c": 0.9, "b": 0.7, "d": 0.0},
        "irm": {"a": 0.25},
        "sd": {"e": 1.0},
    }
    idm, irm = compare_with_baseline(accuracies, "erm")
    assert (idm.algorithm, idm.pairs) == ("idm", 2)
    assert idm.difference == pytest.approx(0.3)
    assert (idm.p_value, idm.corrected) == (0.5, 1.0)
    assert irm == ("irm", 1, -0.25, 1.0, 1.0)
    with pytest.raises(UnknownName, match="did you mean 'erm'"):
        compare_with_baseline(accuracies, "erms")
