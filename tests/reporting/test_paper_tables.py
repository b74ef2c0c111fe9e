"""The paper's tables with ours beside them, in every format, from values made by hand."""

import math
import re

import pytest
from _internals import (
    Cell,
    Measured,
    Published,
    comparison_Comparison as Comparison,
    comparison_Row as Row,
    comparison_table,
    far_note,
    reporting_formats as formats,
)


def as_text(comparison, width=None):
    return formats.as_aligned_text(comparison_table(comparison), width)


def as_markdown(comparison):
    return formats.as_markdown(comparison_table(comparison))


def as_latex(comparison):
    return formats.as_aligned_latex(comparison_table(comparison))


FORMATS = {"text": as_text, "markdown": as_markdown, "latex": as_latex}


def published(value, deviation, runs=10):
    """A figure of Table 1: what is printed is the deviation of so many runs."""
    return Published(value, deviation, deviation / math.sqrt(runs))


# Mean 72.6, deviation 0.9, standard error 0.9 / √3 = 0.52.  The paper's standard error is
# 1.4 / √10 = 0.443, the difference 2.4 / √(0.52² + 0.443²) = 3.52 of both.
HIGHER = Cell(published(70.2, 1.4), Measured((71.7, 72.6, 73.5)))
# Mean 9.8, deviation 0.42, standard error 0.3; 0.7 / √10 = 0.221; -0.2 / √(0.3² + 0.221²) = -0.54.
LOWER = Cell(published(10.0, 0.7), Measured((9.5, 10.1)))
ALONE = Cell(published(70.5, 1.0), Measured((70.4,)))
AVERAGE = Cell(Published(72.0), Measured((70.0, 71.4)))
UNPUBLISHED, UNMEASURED = Cell(None, Measured((50.0, 51.0))), Cell(published(86.4, 0.2))


def table(rows, columns, **others):
    return Comparison("table1", "Colored MNIST", columns, rows, **others)


def two_by_three(error="standard deviation", **others):
    rows = (
        Row("IDM", (), (HIGHER, LOWER, AVERAGE)),
        Row("ERM", (), (ALONE, UNPUBLISHED, UNMEASURED)),
    )
    return table(rows, ("Train Acc", "Test Acc", "Average"), error=error, **others)


def wide(rows=22, columns=8):
    """As large as Table 2, every figure another one."""
    cells = [
        [
            Cell(Published(value, 0.3, 0.3), Measured((value - 0.5, value, value + 0.6)))
            for value in (10 + row + 0.1 * column for column in range(columns))
        ]
        for row in range(rows)
    ]
    rows = tuple(Row(f"algorithm {i}", ("yes", "no"), tuple(row)) for i, row in enumerate(cells))
    return table(rows, tuple(f"data {i}" for i in range(columns)), marks=("GA", "RA"))


def lines_of(text, row):
    """The row's lines as lists of cells, by whose they are."""
    lines = text if isinstance(text, list) else text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == [row])
    parts = [re.split(r"\s{2,}", line.strip()) for line in lines[start : start + 3]]
    return {part[part[0] == row :][0]: part[(part[0] == row) + 1 :] for part in parts}


def test_paper_ours_and_difference_stand_below_each_other():
    text = as_text(two_by_three())
    assert lines_of(text, "IDM") == {
        "paper": ["70.2 ± 1.4", "10.0 ± 0.7", "72.0"],
        "ours": ["72.6 ± 0.9 (3)", "9.8 ± 0.4 (2)", "70.7 ± 1.0 (2)"],
        "diff": ["+3.5 s.e.*", "-0.5 s.e.", "-1.3"],
    }


def test_what_is_missing_is_said_to_be():
    found = lines_of(as_text(two_by_three()), "ERM")
    assert found["paper"] == ["70.5 ± 1.0", "–", "86.4 ± 0.2"]
    assert found["ours"] == ["70.4 (1)", "50.5 ± 0.7 (2)", "–"]
    assert found["diff"][1:] == ["–", "–"]
    assert found["diff"][0].endswith("s.e.")


def test_a_row_with_no_difference_has_no_line_for_it():
    rows = (Row("IRM", (), (UNMEASURED,)), Row("own", (), (UNPUBLISHED,)))
    text = as_text(table(rows, ("Acc",)))
    assert "diff" not in text
    assert "s.e." not in text
    assert lines_of(text, "IRM")["ours"] == ["–"]
    assert lines_of(text, "own")["paper"] == ["–"]


def test_the_error_is_of_the_kind_that_the_paper_prints():
    assert "72.6 ± 0.9 (3)" in as_text(two_by_three("standard deviation"))
    text = as_text(two_by_three("standard error"))
    assert "72.6 ± 0.5 (3)" in text
    assert "± standard error of the paper's runs and of our runs;" in " ".join(text.split())
    with pytest.raises(ValueError, match="not range"):
        two_by_three("range")


@pytest.mark.parametrize("comparison", [two_by_three(), wide()])
def test_points_of_numbers_are_in_line(comparison):
    text = as_text(comparison)
    body = [line for line in text.splitlines() if re.search(r"  (paper|ours|diff)  ", line)]
    assert len(body) == 3 * len(comparison.rows)
    header = next(line for line in text.splitlines() if comparison.columns[0] in line)
    starts = [header.index(name) for name in comparison.columns]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        cells = [line[start:end] for line in body]
        assert len({cell.index(".") for cell in cells if "–" not in cell}) == 1
        assert all(cell.strip() == "–" for cell in cells if "–" in cell)
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_decimals_are_those_of_the_paper_column_by_column():
    paper = [(0.076, 14.6), (0.11, 5.0)]
    ours = Measured((0.0801, 0.0803))
    rows = tuple(
        Row(f"set{i}", (), (Cell(Published(h), ours), Cell(Published(p), Measured((15.26,)))))
        for i, (h, p) in enumerate(paper)
    )
    text = as_text(table(rows, ("ERM (h)", "overhead"), unit=""))
    assert lines_of(text, "set1") == {
        "paper": ["0.110", "5.0"],
        "ours": ["0.080 ± 0.000 (2)", "15.3 (1)"],
        "diff": ["-0.030", "+10.3"],
    }


def test_a_difference_that_rounds_to_nothing_has_no_sign():
    rows = (Row("IDM", (), (Cell(published(70.0, 1.0), Measured((69.99, 70.0))),)),)
    assert lines_of(as_text(table(rows, ("Acc",))), "IDM")["diff"] == ["0.0 s.e."]


@pytest.mark.parametrize(
    ("ours", "marked"), [(71.9, False), (72.1, True), (68.1, False), (67.9, True)]
)
def test_more_than_two_standard_errors_are_marked(ours, marked):
    # Both standard errors are √½ so that a point is a standard error of the difference.
    half = math.sqrt(0.5)
    cell = Cell(Published(70.0, half, half), Measured((ours - half, ours + half)))
    assert cell.in_standard_errors == pytest.approx(ours - 70, abs=0.002)  # and its rounding
    comparison = table((Row("IDM", (), (cell,)),), ("Acc",))
    text = as_text(comparison)
    assert ("s.e.*" in text) == marked
    assert ("where chance alone puts" in " ".join(text.split())) == marked
    assert (r"\mathbf" in as_latex(comparison)) == marked
    assert ("**" in as_markdown(comparison)) == marked


def test_the_mark_is_explained_with_its_share_under_chance():
    ten = Published(70.0, 1.0, deviation=1.0, runs=10)
    few, many = Cell(ten, Measured((75.0,))), Cell(ten, Measured((75.0, 75.1) * 500))
    both = table((Row("IDM", (), (few, many)),), ("Acc", "Gray"))
    assert far_note(both).endswith("chance alone puts 8% of figures")  # ν = 9 twice
    alike = Cell(ten, Measured(tuple(75 + 3 * x for x in (-1, 1) * 5)))
    both = table((Row("IDM", (), (few, alike)),), ("Acc", "Gray"))
    assert far_note(both).endswith("chance alone puts 7 to 8% of figures")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_figure_of_a_wide_table_is_readable_on_a_terminal(width):
    comparison = wide()
    text = as_text(comparison, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert len(re.findall(r"\d+\.\d ± 0\.3(?! \()", text)) == 22 * 8  # the paper's
    assert len(re.findall(r"\d+\.\d ± 0\.3 \(3\)", text)) == 22 * 8  # ours
    assert len(re.findall(r"\+0\.\d s\.e\.", text)) == 22 * 8
    blocks = sum("GA" in line for line in lines)
    assert blocks == {80: 3, 100: 2, 200: 1}[width]
    assert sum(line.startswith("algorithm 21") for line in lines) == blocks
    for name in comparison.columns:
        assert sum(name in line for line in lines) == 1


def test_long_headings_are_folded():
    rows = (Row("VLCS", (), (Cell(Published(0.73), Measured((0.8,))),) * 2),)
    comparison = table(rows, ("training time (h) of ERM", "IDM"))
    heading = [line.split() for line in as_text(comparison).splitlines()[2:5]]
    assert heading == [["training"], ["time", "(h)"], ["of", "ERM", "IDM"]]
    assert r"\shortstack{training \\ time (h) \\ of ERM}" in as_latex(comparison)


NASTY = ("50% & $x_1$", r"c:\#{~^}|*", "[10%] ± 1 – λ")


def nasty():
    rows = tuple(Row(name, ("-", "yes"), (HIGHER, LOWER, UNMEASURED)) for name in NASTY)
    return table(rows, NASTY, marks=("G_A", "R&A"), notes=("100% of ±, a_b & [c].", "Next."))


def test_latex_holds_the_figures():
    text = as_latex(two_by_three())
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert rows[1] == r"IDM & paper & $70.2$ & $\pm$ 1.4 & $10.0$ & $\pm$ 0.7 & $72.0$ & \\"
    assert rows[2].startswith(r" & ours & $72.6$ & $\pm$ 0.9 (3) & $9.8$ & $\pm$ 0.4 (2) & $70.7$ ")
    assert rows[3] == (
        r" & diff & $\mathbf{+3.5}$ & \textbf{s.e.{*}} & $-0.5$ & s.e. & $-1.3$ & \\"
    )
    assert rows[5] == (
        r" & ours & $70.4$ & (1) & $50.5$ & $\pm$ 0.7 (2) & \multicolumn{2}{c}{--} \\"
    )
    assert r"\caption{Colored MNIST}" in text
    assert "{*} more than two standard errors from the paper" in text


def test_latex_is_well_formed_whatever_the_names():
    text = as_latex(nasty())
    assert r"50\% \& \$x\_1\$" in text
    assert r"c:\textbackslash{}\#\{\textasciitilde{}\textasciicircum{}\}\textbar{}{*}" in text
    assert r"{[}10\%] $\pm$ 1 -- $\lambda$" in text
    assert r"100\% of $\pm$, a\_b \& {[}c]." in text
    assert r" & G\_A & R\&A & " in text
    plain = re.sub(r"(?m)^%.*|(?<=\{)%$", "", text.replace(r"\%", ""))
    plain = re.sub(r"\\[\\{}$&#_]", lambda m: m[0] if m[0] == r"\\" else "", plain)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert plain.isascii()
    outside = re.sub(r"\$[^$]*\$", "", plain)
    assert not re.search(r"[#_~^%|]", outside)
    assert re.findall(r"\\begin\{(\w+)\}", text) == ["table", "tabular", "minipage"]
    assert re.findall(r"\\end\{(\w+)\}", text) == ["tabular", "minipage", "table"]
    sides = re.search(r"\\begin\{tabular\}\{(.*)\}$", text, re.M)[1]
    columns = len(re.sub(r"@\{[^}]*\}", "", sides))
    assert columns == 1 + 2 + 1 + 2 * 3
    body = plain.split(r"\toprule")[1].split(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 3 * 3
    for row in rows:
        spanned = row.count("&") + 1 + row.count(r"\multicolumn{2}")
        assert spanned == columns
        assert not row.startswith(("[", "*"))  # an option of the end of the row above


def test_markdown_has_as_many_cells_in_every_row():
    rows = [line for line in as_markdown(nasty()).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 3 * 3
    assert len({row.replace(r"\|", "").count("|") for row in rows}) == 1
    text = as_markdown(two_by_three())
    assert "| IDM | paper | 70.2 ± 1.4 | 10.0 ± 0.7 | 72.0 |" in text
    assert "|  | ours | 72.6 ± 0.9 (3) | 9.8 ± 0.4 (2) | 70.7 ± 1.0 (2) |" in text
    assert r"|  | diff | **+3.5 s.e.\*** | -0.5 s.e. | -1.3 |" in text
    assert "|  | ours | 70.4 (1) | 50.5 ± 0.7 (2) | – |" in text
    assert "\n- \\* more than two standard errors from the paper, where chance" in text


def test_marks_are_in_every_format():
    comparison = table((Row("IDM", ("yes", "no"), (HIGHER,)),), ("Acc",), marks=("GA", "RA"))
    assert re.search(r"^IDM +yes +no +paper +70.2", as_text(comparison), re.M)
    assert "| IDM | yes | no | paper | 70.2 ± 1.4 |" in as_markdown(comparison)
    assert r"IDM & yes & no & paper & $70.2$ & $\pm$ 1.4 \\" in as_latex(comparison)
    (header,) = [line for line in as_text(comparison).splitlines() if "GA" in line]
    assert header.split() == ["GA", "RA", "Acc"]


@pytest.mark.parametrize("format_", FORMATS)
def test_notes_and_the_meaning_of_signs_are_below_the_table(format_):
    notes = ("Lite: 3 runs of 10.", "Selected as the paper does.")
    text = " ".join(FORMATS[format_](two_by_three(notes=notes)).split())
    places = [text.index(note) for note in notes]
    assert text.rindex("70.4") < places[0] < places[1]
    for said in (
        "standard deviation of the paper's runs and of our runs",
        "(n) number of our repetitions",
        "in standard errors (s.e.)",
        "where no s.e. follows",
        "a single run of ours is taken to spread as the paper's do",
        "not in the paper, or not measured",
    ):
        assert said in text


def test_signs_that_do_not_occur_are_not_explained():
    text = as_text(table((Row("IDM", (), (AVERAGE,)),), ("Average",), unit=""))
    notes = text.split("\n\n")[-1].replace("\n", " ")
    assert notes == (
        "± standard error of our runs; (n) number of our repetitions; diff: ours less the paper's. "
    )
    assert as_text(two_by_three()).count("Figures in %") == 1
