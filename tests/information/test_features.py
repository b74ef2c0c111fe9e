"""Functions of many columns: what they do not change, and what they show."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    checked,
    covariate_p,
    functions_to_test as functions,
    normal_scores,
    second_order,
)
from scipy.stats import ortho_group


def test_normal_scores_do_not_depend_on_the_scale_of_a_column():
    x = np.random.default_rng(0).normal(size=(200, 3))
    assert normal_scores(x) == pytest.approx(normal_scores(np.exp(3 * x)))
    assert normal_scores(x).std(axis=0) == pytest.approx(1)
    # Scores of normal values are close to the values.
    assert np.abs(normal_scores(x)[:, 0] - x[:, 0]).mean() < 0.15
    ties = normal_scores(np.repeat([[0.0], [1.0]], 50, axis=0))
    assert np.unique(ties.round(9)).tolist() == [-1, 1]


@pytest.mark.parametrize("columns", [5, 30])
def test_second_order_functions_are_standardised_and_begin_with_the_columns(columns):
    z = np.random.default_rng(0).normal(size=(100, columns))
    found = second_order(z)
    assert (found[:, :columns] == z).all()
    assert found[:, columns:].mean(axis=0) == pytest.approx(0, abs=1e-9)
    assert found[:, columns:].std(axis=0) == pytest.approx(1)


@pytest.mark.parametrize("moved", ["gain", "axes", "nothing"])
def test_the_exact_test_sees_more_than_means_of_many_columns(moved):
    rng = np.random.default_rng(2)
    x, d = rng.normal(size=(600, 20)), np.repeat([0, 1], 300)
    if moved == "gain":
        x[d == 1] *= 1.25
    if moved == "axes":
        x *= np.geomspace(0.4, 2.5, 20)
        x[d == 1] = x[d == 1] @ ortho_group.rvs(20, random_state=0)
    sample = checked(x, None, d, True)
    p = covariate_p(functions(sample.x), sample, 99, 0)
    assert (p <= 0.02) == (moved != "nothing")
