"""The simulations of regression: their truth, and what their page says."""

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.regression_coverage import MEAN_ABSOLUTE, _errors, expectations, intervals, pooled
from benchmarks.regression_coverage_page import interval_lines, shift_lines
from benchmarks.regression_families import KINDS, Family, family


def line(**changed):
    """Two domains of one column: X ~ N(0, 1), Y = a + bX + s ε."""
    own = {
        "mean": np.zeros((2, 1)),
        "scale": np.ones((2, 1)),
        "level": np.zeros(2),
        "slope": np.ones((2, 1)),
        "noise": np.ones(2),
    }
    return Family("made", **{**own, **changed}, curve=0.0, tails=False)


def gap(apart):
    """I(D; N(μ_d, 1)) of two means that are so far apart, by quadrature."""

    def at(value):
        p = stats.norm.pdf(value, [0.0, apart])
        return float(np.mean(p * np.log(p / p.mean() + 1e-300)))

    return integrate.quad(at, -10, 12)[0]


def test_the_truth_of_a_family_is_the_integral():
    moved = line(mean=np.array([[0.0], [1.5]])).truth()
    assert moved["covariate"] == pytest.approx(gap(1.5), abs=0.01)
    assert moved["concept"] == pytest.approx(0, abs=1e-9)
    # Y = X + ε has means 0 and 1.5, and variance 2.
    assert moved["label"] == pytest.approx(gap(1.5 / 2**0.5), abs=0.01)
    raised = line(level=np.array([0.0, 1.0])).truth()
    assert raised["covariate"] == pytest.approx(0, abs=1e-9)
    assert raised["concept"] == pytest.approx(gap(1.0), abs=0.01)


def test_label_shift_alone_leaves_inputs_of_a_label_alike():
    made, _ = family("label", 3)
    truth = made.truth()
    assert truth["within_label"] == pytest.approx(0, abs=0.01)
    assert truth["joint"] == pytest.approx(truth["label"], abs=0.01)


@pytest.mark.parametrize("shape", MEAN_ABSOLUTE)
def test_errors_have_variance_one_and_the_mean_size_that_is_said(shape):
    errors = _errors(shape, np.random.default_rng(0), 400_000)
    assert errors.var() == pytest.approx(1, rel=0.03)
    assert np.abs(errors).mean() == pytest.approx(MEAN_ABSOLUTE[shape], rel=0.01)


@pytest.mark.parametrize("metric", ["mae", "r2"])
def test_estimates_are_those_of_the_figures(metric, monkeypatch):
    monkeypatch.setattr("benchmarks.regression_coverage.POOL", 60)
    figure, estimate, variance = pooled(metric, "normal", 0.2, 500).T
    assert np.mean((estimate - figure) ** 2 / variance) == pytest.approx(1, abs=0.45)


def test_the_page_has_a_row_a_case(monkeypatch):
    monkeypatch.setattr("benchmarks.regression_coverage.INTERVAL_DOMAINS", (4, 9))
    lines = interval_lines(intervals(3))
    assert sum(line.startswith("| errors drawn") for line in lines) == 2
    assert "| yes |" in lines[-1]


def test_coverage_is_near_its_level(monkeypatch):
    for name, value in {
        "POOL": 150, "TAUS": (0.2,), "SIZES": (200,), "DOMAINS": (10,), "SHOWN": ("rmse",),
    }.items():  # fmt: skip
        monkeypatch.setattr(f"benchmarks.regression_coverage.{name}", value)
    monkeypatch.setattr("benchmarks.regression_coverage.MEAN_ABSOLUTE", {"normal": 0.8})
    (found,) = expectations(300)
    assert 0.9 < found["true"] < 0.99


def test_what_was_read_wrong_is_marked():
    amounts = dict.fromkeys(("covariate", "label", "concept", "joint", "within_label"), [0.0] * 4)
    each = {
        "kind": "none", "seed": 1, "domains": 2, "rows": 100, "columns": 3, "curved": False,
        "tails": False, "seconds": 1.0, "most": float(np.log(2)), "amounts": amounts,
        "states": {"concept": "found"}, "said": ["concept"],
    }  # fmt: skip
    lines = shift_lines([each])
    assert "concept for none" in lines[-1]
    assert any("| concept | 1 of 1 | 1 of 1 | 1 of 1 |" in line for line in lines)
    assert set(KINDS) >= {"none", "slope"}
