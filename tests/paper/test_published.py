"""The paper's numbers in the package: those that it prints, and what they say of each other."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _internals import SELECTORS, Published, UnknownName, paper_table, paper_tables, rank_algorithms

from shiftproof import ALGORITHMS, DATASETS

SHARED = Path(__file__).parents[3] / "shared/paper/tables.json"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the paper's tables are not here")

LABELS = {
    "table1": "tbl:cmnist",
    "table2": "tbl:domainbed_oracle",
    "ablation-components-colored-mnist": "tbl:abla_cmnist",
    "ablation-components-office-home": "tbl:abla_officehome",
    "ablation-gradient-vlcs": "tbl:abla_ga1",
    "ablation-gradient-pacs": "tbl:abla_ga2",
    "ablation-representation": "tbl:abla_ra1",
    "ablation-pdm": "tbl:abla_pdm",
    "running-time": "tbl:running_time",
    "detail-colored-mnist": "tbl:domainbed_cmnist",
    "detail-rotated-mnist": "tbl:domainbed_rmnist",
    "detail-vlcs": "tbl:domainbed_vlcs",
    "detail-pacs": "tbl:domainbed_pacs",
    "detail-office-home": "tbl:domainbed_officehome",
    "detail-terra-incognita": "tbl:domainbed_terra",
    "detail-domain-net": "tbl:domainbed_domainnet",
}
DETAILS = [name for name in LABELS if name.startswith("detail-")]
ABLATIONS = [name for name in LABELS if name.startswith("ablation-")]
WITH_AVERAGE = ["table2", *ABLATIONS, *DETAILS]

# The numbers of the tables in the order of their captions; 3 and 4 are of hyper-parameters.
NUMBERS = dict(zip(LABELS, [1, 2, *range(5, 19)], strict=True))


def row_of(table, name, marks=None):
    """Return the only row with a printed name or one of ours, and with these marks."""
    (row,) = (
        row for row in table.rows if name in (row.name, row.ours) and marks in (None, row.marks)
    )
    return row


def tenths(printed: Published) -> int:
    """Return a number of one decimal as a whole one, so that sums are exact."""
    assert printed.value == round(printed.value, 1)
    return round(10 * printed.value)


def as_printed(label):
    """Return a table's rows as the paper prints them: (name, marks, numbers with their ±)."""
    printed = json.loads(SHARED.read_text())[label]["rows"]
    rows, name = [], None
    for cells in printed:
        numbers = [re.fullmatch(r"(\d+(?:\.\d+)?)(?: ± (\d+\.\d+)|%)?", cell) for cell in cells[1:]]
        marks = tuple(cell for cell in cells[1:] if cell in ("yes", "no", "-"))
        if len(cells) == 1 or sum(map(bool, numbers)) + len(marks) < len(cells) - 1:
            continue  # headings, and the end of the table
        name = cells[0] or name
        found = [(float(m[1]), m[2] and float(m[2])) for m in numbers if m]
        rows.append((name, marks, found))
    return rows


# -- against the paper


@needs_shared
@pytest.mark.parametrize("name", LABELS)
def test_every_number_is_the_papers(name):
    table = paper_table(name)
    ours = []
    for row in table.rows:
        cells = [*row.values, *([row.average] if row.average else [])]
        numbers = [(cell.value, cell.error) for cell in cells]
        numbers += [(float(rank), None) for rank in row.ranking or ()]
        # A dash for all of the marks is printed once.
        marks = ("-",) if set(row.marks) == {"-"} else row.marks
        ours.append((row.name, marks, numbers))
    assert ours == as_printed(LABELS[name])


@needs_shared
def test_the_sizes_of_the_tables_are_the_papers():
    sizes = {name: len(as_printed(label)) for name, label in LABELS.items()}
    assert sizes["table1"] == 6
    assert sizes["table2"] == 22
    assert [sizes[name] for name in ABLATIONS] == [6, 6, 3, 3, 3, 5]
    assert sizes["running-time"] == 7
    assert {sizes[name] for name in DETAILS} == {19}


@needs_shared
@pytest.mark.parametrize("name", LABELS)
def test_headings_and_titles_are_the_papers(name):
    table = paper_table(name)
    shared = json.loads(SHARED.read_text())[LABELS[name]]
    printed = shared["rows"][1 if name in ("table2", "running-time") else 0]
    columns = [column.name for column in table.columns]
    if name == "ablation-gradient-vlcs":
        assert printed[2:6] == ["A", "C", "P", "S"]
        assert "A, C, P and S" in " ".join(table.notes)
        columns = printed[2:6]
    average = [table.average] if table.average else []
    assert [*table.marks, *columns, *average, *table.ranking] == printed[1:]
    assert shared["caption"].startswith(table.title)
    assert table.source == f"Table {NUMBERS[name]}"
    assert table.label == LABELS[name]


@needs_shared
def test_the_groups_of_the_running_time_are_the_papers():
    shared = json.loads(SHARED.read_text())["tbl:running_time"]["rows"]
    groups = [column.group for column in paper_table("running-time").columns]
    assert groups == [group for group in shared[0][1:] for _ in range(3)]


# -- names of ours


@pytest.mark.parametrize("name", LABELS)
def test_names_are_those_of_our_algorithms_datasets_and_domains(name):
    table = paper_table(name)
    rows = DATASETS if name == "running-time" else ALGORITHMS
    assert {row.ours for row in table.rows} <= set(rows)
    columns = tuple(column.ours for column in table.columns)
    if name == "table1":
        assert columns == (None, "10%", "gray")
        assert table.dataset == "colored-mnist-irm"
    elif name == "table2":
        assert columns == tuple(detail.removeprefix("detail-") for detail in DETAILS)
        assert set(columns) <= set(DATASETS)
        assert table.dataset is None
    elif name == "running-time":
        assert columns == ("erm", "idm", None, "erm", "idm", None)
        assert tuple(row.ours for row in table.rows) == tuple(
            detail.removeprefix("detail-") for detail in DETAILS
        )
        assert table.dataset is None
    else:
        assert table.dataset is not None
        assert columns == (*DATASETS.get(table.dataset).card.counts,)
        assert name in (f"detail-{table.dataset}", *ABLATIONS)
    assert table.selection in (None, *SELECTORS)
    assert (table.selection is None) == (name in ("table1", "running-time"))


def test_one_algorithm_has_one_name_of_ours_in_all_tables():
    ours = {}
    for name in LABELS:
        if name != "running-time":
            for row in paper_table(name).rows:
                ours.setdefault(row.ours, set()).add(row.name)
    assert ours.pop("vrex") == {"V-REx", "VREx"}
    assert all(len(names) == 1 for names in ours.values()), ours
    plain = {algorithm: re.sub(r"[^a-z]", "", algorithm) for algorithm in ours}
    assert {a: re.sub(r"[^a-z]", "", name.lower()) for a, (name,) in ours.items()} == plain


@pytest.mark.parametrize("name", LABELS)
def test_the_meaning_of_the_error_is_that_of_the_scripts(name):
    table = paper_table(name)
    cells = [cell for row in table.rows for cell in row.values]
    if name == "running-time":
        assert (table.error, table.runs) == (None, None)
        assert {(cell.error, cell.standard_error) for cell in cells} == {(None, None)}
    elif name == "table1":
        assert (table.error, table.runs) == ("standard deviation", 10)
        # The population's deviation of n over √(n − 1) is the sample's over √n.
        assert all(cell.standard_error == pytest.approx(cell.error / 3) for cell in cells)
        assert row_of(table, "IDM").values[1] == Published(70.6, 0.9, pytest.approx(0.948683), 10)
    else:
        assert (table.error, table.runs) == ("standard error", 3)
        larger = math.sqrt(3 / 2)
        # 0.0 is what is below 0.05.
        expected = [larger * max(cell.error, 0.05) for cell in cells]
        assert [cell.standard_error for cell in cells] == pytest.approx(expected)
    averages = [row.average for row in table.rows]
    if name in WITH_AVERAGE:
        assert all(a.error is None and a.standard_error is None for a in averages)
    else:
        assert set(averages) == {None}


def test_units():
    assert [c.unit for c in paper_table("running-time").columns] == ["h", "h", "%", "GB", "GB", "%"]
    others = {
        c.unit for name in LABELS if name != "running-time" for c in paper_table(name).columns
    }
    assert others == {"%"}


# -- what the paper repeats


@pytest.mark.parametrize("name", ABLATIONS)
def test_ablations_repeat_the_detailed_rows(name):
    table = paper_table(name)
    detail = paper_table(f"detail-{table.dataset}")
    repeated = [row for row in table.rows if set(row.marks) <= {"yes"} or set(row.marks) == {"-"}]
    compared = []
    for row in repeated:
        if row.ours in {other.ours for other in detail.rows}:
            assert row._replace(marks=()) == row_of(detail, row.name)
            compared.append(row.name)
    assert compared == (["ERM", "Fishr", "IDM"] if name == "ablation-pdm" else ["ERM", "IDM"])


@pytest.mark.parametrize("name", DETAILS)
def test_the_columns_of_table_2_repeat_the_detailed_averages(name):
    summary, detail = paper_table("table2"), paper_table(name)
    column = [heading.ours for heading in summary.columns].index(detail.dataset)
    assert {row.ours for row in summary.rows} - {row.ours for row in detail.rows} == {
        "fish",
        "causirl-coral",
        "causirl-mmd",
    }
    for row in detail.rows:
        assert row.average.value == row_of(summary, row.ours).values[column].value, row.name


# Errors of Table 2 that the detailed tables cannot give: (table, row): (error, mean of errors).
TOO_LARGE_ERRORS = {("detail-rotated-mnist", "SelfReg"): (0.7, "0.13")}


def test_an_average_varies_no_more_than_what_it_is_the_average_of():
    """The error of a mean is at most the mean of the errors (Minkowski), each known to 0.05."""
    summary = paper_table("table2")
    found = {}
    for name in DETAILS:
        detail = paper_table(name)
        column = [heading.ours for heading in summary.columns].index(detail.dataset)
        for row in detail.rows:
            error = round(10 * row_of(summary, row.ours).values[column].error)
            errors = [round(10 * cell.error) for cell in row.values]
            if len(errors) * (error - 1) > sum(errors):
                found[name, row.name] = (error / 10, f"{sum(errors) / len(errors) / 10:.2f}")
    assert found == TOO_LARGE_ERRORS


# (table, row): (the mean of its cells, the average as printed).
WRONG_AVERAGES = {("detail-colored-mnist", "SAND-mask"): ("62.47", 62.3)}


def test_an_average_is_the_mean_of_its_cells():
    """Cells and average are known to 0.05 each, so their difference is 0.1 at most."""
    found, compared = {}, 0
    for name in WITH_AVERAGE:
        for row in paper_table(name).rows:
            cells = [tenths(cell) for cell in row.values]
            compared += 1
            if abs(sum(cells) - len(cells) * tenths(row.average)) > len(cells):
                found[name, row.name] = (f"{sum(cells) / len(cells) / 10:.2f}", row.average.value)
    assert found == WRONG_AVERAGES
    assert compared == 22 + 6 + 6 + 3 + 3 + 3 + 5 + 7 * 19


def test_table_2s_ranks():
    table = paper_table("table2")
    ranks = rank_algorithms(
        {
            row.name: {c.name: v.value for c, v in zip(table.columns, row.values, strict=True)}
            for row in table.rows
        }
    )
    assert len(ranks) == len(table.rows) == 22
    for row in table.rows:
        mean, median, worst = ranks[row.name]
        assert (f"{mean:.1f}", median, worst) == (f"{row.ranking.mean:.1f}", *row.ranking[1:])


def test_the_running_times_overheads():
    """Every time and size is known to 0.0005, every overhead to 0.05 points."""
    impossible, rounded_otherwise = [], []
    for row in paper_table("running-time").rows:
        for first, unit in ((0, "h"), (3, "GB")):
            erm, idm, overhead = (cell.value for cell in row.values[first : first + 3])
            least = 100 * ((idm - 0.0005) / (erm + 0.0005) - 1)
            most = 100 * ((idm + 0.0005) / (erm - 0.0005) - 1)
            if not least - 0.05 <= overhead <= most + 0.05:
                impossible.append((row.name, unit))
            if abs(100 * (idm / erm - 1) - overhead) > 0.05:
                rounded_otherwise.append((row.name, unit))
    assert impossible == []
    # Possible only if the paper divided before it rounded: from the printed times they differ.
    assert rounded_otherwise == [
        ("ColoredMNIST", "h"),
        ("ColoredMNIST", "GB"),
        ("RotatedMNIST", "h"),
        ("RotatedMNIST", "GB"),
        ("VLCS", "h"),
        ("DomainNet", "h"),
    ]


def test_ablation_pdms_idm_is_the_whole_of_it_though_the_text_says_otherwise():
    """The text: "IDM (without representation space alignment)", which its own table has too."""
    components = paper_table("ablation-components-colored-mnist")
    idm = row_of(paper_table("ablation-pdm"), "IDM")
    assert idm.values == row_of(components, "IDM", ("yes",) * 4).values
    assert idm.average.value == 72.0
    assert row_of(components, "IDM", ("yes", "no", "yes", "yes")).average.value == 71.1
    assert "without representation" in " ".join(paper_table("ablation-pdm").notes)


# -- access


def test_tables_are_listed_in_the_order_of_the_file():
    assert list(LABELS) == list(paper_tables())
    assert [paper_table(name).name for name in LABELS] == list(LABELS)


def test_a_row_is_found_by_its_printed_name_or_ours():
    assert row_of(paper_table("table2"), "VREx") is row_of(paper_table("table2"), "vrex")
    assert row_of(paper_table("detail-pacs"), "V-REx") is row_of(paper_table("detail-pacs"), "vrex")
    assert row_of(paper_table("running-time"), "domain-net").name == "DomainNet"
    components = paper_table("ablation-components-office-home")
    assert row_of(components, "ERM").marks == ("-",) * 4
    assert row_of(components, "idm", ("no", "yes", "no", "no")).average == Published(68.4)


def test_wrong_names_are_said_with_the_right_ones():
    with pytest.raises(UnknownName, match=r"unknown table of the paper 'tabel2'.*'table2'"):
        paper_table("tabel2")


def test_tables_are_frozen_and_read_once():
    table = paper_table("table1")
    assert paper_table("table1") is table
    with pytest.raises(AttributeError):
        table.runs = 3
    assert hash(table) == hash(paper_table("table1"))


def test_the_file_is_read_when_a_table_is_asked_for_and_without_torch():
    script = (
        "import sys, importlib.resources as r\n"
        "import shiftproof.paper.published as p\n"
        "assert p.paper_tables.cache_info().currsize == 0\n"
        "assert p.paper_table('table1').runs == 10\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_row_of_the_file_is_a_line_of_its_own():
    text = Path(sys.modules["shiftproof.paper.published"].__file__).with_name("paper.json")
    lines = text.read_text(encoding="utf-8").splitlines()
    rows = sum(len(paper_table(name).rows) for name in LABELS)
    assert sum('"values"' in line for line in lines) == rows
