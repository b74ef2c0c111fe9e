"""Differences in standard errors, by hand and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from _internals import (
    Cell,
    Measured,
    Published,
    _deviation,
    comparison_Comparison as Comparison,
    comparison_Row as Row,
    measured,
)
from scipy import stats


def test_the_difference_is_over_both_standard_errors():
    paper = Published(70.0, 1.4, deviation=1.5, runs=9)
    ours = Measured((71.0, 72.0, 73.0))  # deviation 1
    cell = Cell(paper, ours)
    assert cell.difference == pytest.approx(2.0)
    rounding = 0.1**2 / 12
    assert cell.in_standard_errors == pytest.approx(2 / math.sqrt(1.5**2 / 9 + 1 / 3 + rounding))


def test_a_single_run_is_taken_to_spread_as_the_papers_do():
    cell = Cell(Published(70.0, 1.4, deviation=1.5, runs=9), Measured((72.0,)))
    expected = 2 / math.sqrt(1.5**2 * (1 + 1 / 9) + 0.1**2 / 12)
    assert cell.in_standard_errors == pytest.approx(expected)


def by_chance(rng, published, runs):
    """Two means of the same experiment."""
    theirs, own = rng.normal(70, 2, published), rng.normal(70, 2, runs)
    paper = Published(theirs.mean(), 0.0, theirs.std(ddof=1), published)
    return Cell(paper, Measured(tuple(own)))


@pytest.mark.parametrize(("published", "runs"), [(10, 1), (10, 3), (3, 1), (3, 3), (10, 10)])
def test_chance_alone_passes_two_standard_errors_as_often_as_tables_say(published, runs):
    rng = np.random.default_rng(0)
    cells = [by_chance(rng, published, runs) for _ in range(2000)]
    far = np.mean([abs(cell.in_standard_errors) > 2 for cell in cells])
    said = np.mean([cell.beyond_by_chance(2) for cell in cells])
    # Of three runs each, Welch's approximation is known to be careful; 0.02 is three of its errors.
    assert said - (0.05 if published == runs == 3 else 0.02) < far < said + 0.02


def test_the_chance_is_that_of_students_distribution():
    paper = Published(70.0, 1.4, deviation=1.5, runs=10)
    one = Cell(paper, Measured((72.0,)))
    assert one.beyond_by_chance(2) == pytest.approx(2 * stats.t.sf(2, 9))
    alike = Cell(paper._replace(deviation=math.sqrt(2.5), runs=5), Measured((1.0, 2, 3, 4, 5)))
    assert alike.beyond_by_chance(3) == pytest.approx(2 * stats.t.sf(3, 8))


@pytest.mark.parametrize(("published", "runs"), [(10, 3), (10, 10), (3, 3)])
def test_it_is_welchs_statistic_from_what_the_paper_prints(published, runs):
    """Of the same numbers; printed are the deviation of a population, or its standard error."""
    rng = np.random.default_rng(published + runs)
    # In thousands, so that the allowance for printed decimals does not count.
    theirs, own = rng.normal(7e4, 2e3, published), rng.normal(7e4, 3e3, runs)
    welch = stats.ttest_ind(own, theirs, equal_var=False).statistic
    spread = theirs.std()
    for error, printed in (
        ("standard deviation", spread),
        ("standard error", spread / math.sqrt(published)),
    ):
        deviation = _deviation(printed, error, published)
        paper = Published(theirs.mean(), printed, deviation, published)
        assert Cell(paper, Measured(tuple(own))).in_standard_errors == pytest.approx(welch)


@pytest.mark.parametrize(
    "cell",
    [
        Cell(),
        Cell(Published(70.0, 1.0, 1.0, 3)),
        Cell(None, Measured((70.0,))),
        Cell(Published(70.0), Measured((70.0, 71.0))),
    ],
)
def test_what_is_not_known_is_not_invented(cell):
    assert cell.in_standard_errors is None


def test_no_runs_are_no_measurement():
    assert measured([]) is None
    assert measured([1.0, 3.0]) == Measured((1.0, 3.0))
    assert Measured((5.0,)).deviation is None
    assert Measured((1.0, 3.0)).standard_error == pytest.approx(1.0)


def test_a_table_that_does_not_fit_its_headings_cannot_be_made():
    with pytest.raises(ValueError, match="row ERM of t does not fit"):
        Comparison("t", "T", ("a", "b"), (Row("ERM", (), (Cell(),)),))
    with pytest.raises(ValueError, match="not range"):
        Comparison("t", "T", (), (), error="range")
