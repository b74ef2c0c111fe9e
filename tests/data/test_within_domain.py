"""Standardisation within a domain: against scikit-learn, by exact properties, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    DataError,
    InvalidValue,
    from_arrays,
    standardized,
    standardized_by_site,
    within_domains,
)
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.preprocessing import StandardScaler

from shiftproof import ShiftproofError

NUMBERS = np.zeros(4, dtype=bool)


def rows_with_gaps(seed: int = 0, n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(0, 100, 4), rng.uniform(0.01, 50, 4), (n, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


def test_it_equals_scikit_learns_scaler_site_by_site():
    x, sites = rows_with_gaps(), ["a", "b", "c"] * 20
    found = standardized_by_site(x, sites, NUMBERS, "domain")
    for site in "abc":
        own = np.array(sites) == site
        expected = StandardScaler().fit_transform(x[own])
        np.testing.assert_allclose(found[own], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))


def test_units_and_offsets_of_a_site_do_not_matter():
    x = rows_with_gaps()
    moved = x * np.array([4.0, 0.5, 1e6, 3.0]) + np.array([0.0, 7.0, -1e5, 0.1])
    np.testing.assert_allclose(
        standardized(moved, NUMBERS, "domain"), standardized(x, NUMBERS, "domain"), atol=1e-9
    )


def test_categories_stay_and_one_value_becomes_zero():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=12), np.arange(12.0) % 3, np.full(12, 0.1)], axis=1)
    x[0, 1:] = np.nan
    found = standardized(x, np.array([False, True, False]), "domain")
    np.testing.assert_array_equal(found[:, 1], x[:, 1])
    assert np.isnan(found[0, 2])
    assert (found[1:, 2] == 0).all()


def test_very_large_numbers_do_not_overflow():
    x = 1.7e308 * np.linspace(-1, 1, 11)[:, None]
    found = standardized(x, np.zeros(1, dtype=bool), "domain")
    expected = np.linspace(-1, 1, 11) / np.linspace(-1, 1, 11).std()
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-12)


def test_whitening_leaves_the_covariance_that_shrinkage_implies():
    """With Σ = (1 − a) S + a m I, eigenvalues s of S become s / ((1 − a) s + a m)."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4)) + 5
    found = standardized(x, NUMBERS, "whiten")
    sample = np.cov(x.T, bias=True)
    a, m = ledoit_wolf_shrinkage(x), np.trace(sample) / 4
    s = np.linalg.eigvalsh(sample)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(np.cov(found.T, bias=True)), np.sort(s / ((1 - a) * s + a * m))
    )
    # Σ^(−1/2) is symmetric: rows turn as little as they can, so columns keep their meaning.
    assert (np.diag(np.corrcoef(x.T, found.T)[:4, 4:]) > 0.3).all()


def test_equal_rows_are_zero_when_whitened():
    assert (standardized(np.full((12, 4), 3.0), NUMBERS, "whiten") == 0).all()


@pytest.mark.parametrize("gap", [True, False])
def test_whitening_refuses_gaps_and_categories_in_one_line(gap):
    x = rows_with_gaps() if gap else np.ones((12, 4))
    categorical = np.array([False, False, False, not gap])
    with pytest.raises(
        DataError, match=r"needs numeric columns without missing values.*standardize='domain'"
    ):
        standardized(x, categorical, "whiten")


def test_too_few_rows_of_a_site_are_refused_with_what_to_do():
    x = np.ones((19, 4))
    with pytest.raises(DataError, match=r"small: 9 rows.* at least 10; pass all rows"):
        standardized_by_site(x, ["large"] * 10 + ["small"] * 9, NUMBERS, "domain")
    with pytest.raises(DataError, match="infinite"):
        standardized(np.full((12, 4), np.inf), NUMBERS, "domain")


def dataset():
    x = rows_with_gaps()
    return from_arrays(x, np.arange(60) % 2, np.array(["a", "b", "c"])[np.arange(60) % 3])


def test_a_standardized_dataset_has_another_fingerprint_and_says_how():
    plain = dataset()
    made = within_domains(plain, "domain")
    assert made.fingerprint != plain.fingerprint
    assert made.standardize == "domain"
    assert within_domains(plain, "none") is plain
    own = made.domains[1].x.numpy()
    expected = StandardScaler().fit_transform(plain.domains[1].x.numpy())
    np.testing.assert_allclose(own, expected, atol=1e-12)
    with pytest.raises(InvalidValue, match="standardized by domain already"):
        within_domains(made, "whiten")
    with pytest.raises(ShiftproofError, match="did you mean 'domain'"):
        within_domains(plain, "domains")


def test_images_are_refused():
    images = from_arrays(np.zeros((40, 3, 8, 8)), np.arange(40) % 2, np.arange(40) % 4 // 2)
    with pytest.raises(InvalidValue, match="images; use `freeze`"):
        within_domains(images, "domain")
