import json
from pathlib import Path

import pytest
from _internals import InvalidValue, Ranks, competition_ranks, rank_algorithms

PAPER = Path(__file__).parents[3] / "shared/paper/tables.json"


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's tables are not here")
def test_all_rows_of_the_papers_table_2():
    printed = json.loads(PAPER.read_text())["tbl:domainbed_oracle"]["rows"]
    (_, *columns), *rows = [row for row in printed if len(row) == 12]
    assert len(rows) == 22
    assert columns[7:] == ["Avg", "Mean", "Median", "Worst"]
    accuracies = {
        row[0]: {c: float(cell.split()[0]) for c, cell in zip(columns[:7], row[1:8], strict=True)}
        for row in rows
    }
    ranks = rank_algorithms(accuracies)
    for name, *cells in rows:
        mean, median, worst = ranks[name]
        assert [f"{mean:.1f}", f"{median:g}", f"{worst}"] == cells[8:], name


def test_ranks_are_those_of_scipy():
    scipy_stats = pytest.importorskip("scipy.stats")
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0]
    wanted = scipy_stats.rankdata([-v for v in values], method="min")
    assert competition_ranks(values) == wanted.tolist()


def test_an_algorithm_that_lacks_a_dataset_has_no_summary_but_counts_where_it_is():
    accuracies = {"a": {"x": 50.0, "y": 60.0}, "b": {"x": 70.0}, "c": {"x": 60.0, "y": 60.0}}
    assert rank_algorithms(accuracies) == {"a": Ranks(2.0, 2.0, 3), "c": Ranks(1.5, 1.5, 2)}
    assert rank_algorithms({"a": {}}) == {}


def test_nan_has_no_rank():
    with pytest.raises(InvalidValue, match="NaN has no rank"):
        competition_ranks([1.0, float("nan")])
