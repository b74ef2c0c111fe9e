"""Ranks over test domains, against Demšar's tables and worked example (JMLR 7, 2006)."""

import math

import numpy as np
import pytest
from _internals import (
    SELECTORS,
    CellResults,
    DataError,
    DatasetResults,
    InvalidValue,
    Run,
    Selection,
    SelectionResults,
    compare_ranks,
    compare_selected,
    critical_difference,
)
from scipy.stats import friedmanchisquare

# His Table 6: AUC of four variants of C4.5 on 14 datasets.  On the last but one he prints 0.975
# twice, with the ranks 2 and 3: it was rounded.
NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
AREAS = (
    (0.763, 0.768, 0.771, 0.798), (0.599, 0.591, 0.590, 0.569), (0.954, 0.971, 0.968, 0.967),
    (0.628, 0.661, 0.654, 0.657), (0.882, 0.888, 0.886, 0.898), (0.936, 0.931, 0.916, 0.931),
    (0.661, 0.668, 0.609, 0.685), (0.583, 0.583, 0.563, 0.625), (0.775, 0.838, 0.866, 0.875),
    (1.000, 1.000, 1.000, 1.000), (0.940, 0.962, 0.965, 0.962), (0.619, 0.666, 0.614, 0.669),
    (0.972, 0.981, 0.9751, 0.975), (0.957, 0.978, 0.946, 0.970),
)  # fmt: skip
DEMSAR = {name: {n: row[at] for n, row in enumerate(AREAS)} for at, name in enumerate(NAMES)}


def test_critical_differences_are_those_of_demsars_table():
    # q at 5% of his Table 5(a), for 2 to 10 classifiers.
    table = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
    for count, q in enumerate(table, 2):
        expected = q * math.sqrt(count * (count + 1) / (6 * 14))
        assert critical_difference(count, 14) == pytest.approx(expected, rel=5e-4)


def test_demsars_example():
    found = compare_ranks(DEMSAR)
    assert list(found.mean_ranks) == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    printed = {"C4.5": 3.143, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    assert found.mean_ranks == pytest.approx(printed, abs=5e-4)
    assert round(found.difference, 2) == 1.25
    # His 9.28 is without the correction for ties: one of four, and one of two on three datasets.
    ties = (4**3 - 4) + 3 * (2**3 - 2)
    assert found.statistic * (1 - ties / (14 * (4**3 - 4))) == pytest.approx(9.28, abs=5e-3)
    # He finds no two of all four apart: the extremes differ by 1.18.
    assert found.groups == (tuple(found.mean_ranks),)


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_accuracies_that_are_not_finite_are_refused(odd):
    with pytest.raises(InvalidValue, match="finite accuracies"):
        compare_ranks(DEMSAR | {"C4.5": DEMSAR["C4.5"] | {3: odd}})


def test_friedmans_statistic_is_scipys():
    values = np.random.default_rng(0).normal(size=(9, 5)) + np.arange(5) / 2
    found = compare_ranks({f"a{k}": dict(enumerate(values[:, k])) for k in range(5)})
    expected = friedmanchisquare(*values.T)
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.blocks == 9
    assert sum(found.mean_ranks.values()) == pytest.approx(5 * 6 / 2)


def test_groups_are_the_largest_within_the_difference_and_none_is_part_of_another():
    # Ranks 1, 2, 3, 4 in all 30 blocks: a difference of 0.86 separates all.
    ordered = {name: dict.fromkeys(range(30), -float(k)) for k, name in enumerate("abcd")}
    assert compare_ranks(ordered).groups == ()
    # In 10 of them it is 1.48: neighbours are together.
    few = {name: dict.fromkeys(range(10), -float(k)) for k, name in enumerate("abcd")}
    assert compare_ranks(few).groups == (("a", "b"), ("b", "c"), ("c", "d"))


def test_equal_accuracies_share_ranks_even_if_summed_in_another_order():
    unequal = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    assert unequal[0] != unequal[1]
    found = compare_ranks({"a": {0: unequal[0], 1: 0.5}, "b": {0: unequal[1], 1: 0.5},
                           "c": {0: 0.1, 1: 0.1}})  # fmt: skip
    assert found.mean_ranks == {"a": 1.5, "b": 1.5, "c": 3.0}
    same = compare_ranks({name: {0: 0.5, 1: 0.6} for name in "abc"})
    assert (same.statistic, same.p_value, same.groups) == (0.0, 1.0, (("a", "b", "c"),))


def test_two_algorithms_or_one_test_domain_are_refused():
    with pytest.raises(DataError, match="here 2 have results on all 14"):
        compare_ranks({name: DEMSAR[name] for name in NAMES[:2]})
    with pytest.raises(DataError, match=r"here 3 have results on all 1$"):
        compare_ranks({name: {0: 0.5} for name in "abc"})


def test_blocks_are_test_domains_and_accuracies_means_over_common_trials():
    def cell(*accuracies):
        run = Run("set", "x", ("p", "q"), (0,), 0, 0, "finished", ())
        chosen = {t: Selection(run, 1, a, a) for t, a in enumerate(accuracies) if a is not None}
        return CellResults(chosen, (0, 1), ())

    cells = {
        # Over its own two trials `a` would be last on the first domain.
        ("a", 0): cell(0.9, 0.1), ("a", 1): cell(0.9, 0.9),
        ("b", 0): cell(0.8, None), ("b", 1): cell(0.2, 0.4),
        ("c", 0): cell(0.7, 0.8), ("c", 1): cell(0.4, 0.1),
        ("lacks", 0): cell(1.0, 1.0), ("lacks", 1): cell(None, None),
    }  # fmt: skip
    names = ("a", "b", "c", "lacks")
    data = DatasetResults("set", ("p", "q"), names, (0, 1), (0,), cells)
    found = compare_selected(SelectionResults(SELECTORS.get("oracle")(), names, (data,)))
    assert found.mean_ranks == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert found.blocks == 2
