"""Domains from dates, numbers and several columns; small ones put together; questions."""

import numpy as np
import pandas as pd
import pytest
from _internals import DataError, DataRequest, InvalidValue, as_table, domain_series


def table(n=60, **columns):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=n), "ill": np.arange(n) % 2, **columns})


def domains(frame, **request):
    return DataRequest("t.csv", label="ill", **request).table(frame, "t.csv")


DATES = ["2020-01-31", "2020-04-01", "2021-07-04"] * 20


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("year", ["2020", "2021"]),
        ("quarter", ["2020-Q1", "2020-Q2", "2021-Q3"]),
        ("month", ["2020-01", "2020-04", "2021-07"]),
    ],
)
@pytest.mark.parametrize("kind", [list, pd.to_datetime])
def test_dates_by_period(by, expected, kind):
    found = domains(table(date=kind(DATES)), domain="date", by=by)
    assert list(found.domain_names) == expected
    assert found.columns == {"label": "ill", "domain": "date", "by": by}
    assert [column.name for column in found.preparation.columns] == ["x"]


def test_days_come_first_where_dots_separate():
    dated = as_table(table(date=["03.01.2020"] * 60), "t.csv")
    cells, _ = domain_series(dated, "t.csv", ["date"], "month")
    assert set(cells.text_list) == {"2020-01"}


def test_numbers_by_bins_of_as_many_rows():
    ages = np.arange(60)
    found = domains(table(age=ages), domain="age", by="3")
    assert [len(domain) for domain in found.domains] == [20, 20, 20]
    edges = np.quantile(ages, [0, 1 / 3, 2 / 3, 1])
    first = f"{edges[0]:g} to below {edges[1]:g}"
    assert first in found.domain_names
    assert f"{edges[2]:g} to {edges[3]:g}" in found.domain_names


def test_two_columns_are_joined():
    frame = table(site=["a", "b"] * 30, date=["2020-01-01"] * 30 + ["2021-01-01"] * 30)
    found = domains(frame, domain="site, date", by="year")
    assert found.domain_names == ("a · 2020", "a · 2021", "b · 2020", "b · 2021")
    comma = frame.rename(columns={"site": "site,old"})
    assert domains(comma, domain="site,old").domain_names == ("a", "b")


def test_small_domains_are_put_together_and_it_is_said():
    sites = ["a"] * 25 + ["b"] * 25 + ["c"] * 6 + ["d"] * 4
    found = domains(table(site=sites), domain="site", pool_below=10)
    assert found.domain_names == ("a", "b", "other (2)")
    assert found.notes[0] == (
        "pooled the 2 smallest domains (10 rows) as 'other (2)', because some have fewer than 10"
        " rows"
    )
    # Three and four rows are too few even together: the next one joins them.
    sites = ["a"] * 25 + ["b"] * 28 + ["c"] * 3 + ["d"] * 4
    found = domains(table(site=sites), domain="site", pool_below=10)
    assert found.domain_names == ("b", "other (3)")


def test_a_row_without_a_value_has_no_domain():
    dates = [None if i == 0 else d for i, d in enumerate(DATES)]
    found = domains(table(date=dates), domain="date", by="year")
    assert sum(map(len, found.domains)) == 59
    assert "left out 1 row without a domain" in found.notes


def test_many_rare_numbers_are_a_question():
    frame = table(age=np.arange(60) // 2)
    with pytest.raises(
        DataError, match=r"30 distinct numbers, 0 to 29.* if each number is a domain"
    ):
        domains(frame, domain="age")
    assert len(domains(frame, domain="age", by="value").domains) == 30
    # Numbers of sites that have their rows are none.
    sites = table(n=600, site=np.arange(600) % 30)
    assert len(domains(sites, domain="site").domains) == 30


@pytest.mark.parametrize(
    ("column", "by", "message"),
    [
        (["x"] * 60, "year", "holds 'x' in row 1, not a date; `by='year'` is for dates"),
        (np.arange(60), "month", "not a date"),
        (["x"] * 60, "3", "holds no numbers; `by=3` is for numbers"),
        (DATES, "yaer", "`by` 'yaer' is unknown; did you mean 'year'"),
        (np.arange(60), "1", "`by` must be at least 2 bins, not 1"),
        (np.zeros(60), "4", "too few distinct numbers for 4 bins"),
    ],
)
def test_mistakes(column, by, message):
    with pytest.raises((DataError, InvalidValue), match=message):
        domains(table(d=column), domain="d", by=by)
