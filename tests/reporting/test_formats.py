"""The formats of a sweep's tables."""

import csv
import io
import re
from pathlib import Path

import pytest
from _internals import (
    SELECTORS,
    Evaluation,
    Report,
    Run,
    aggregate,
    report_FORMATS as FORMATS,
    table_Row as Row,
)

NAMES = ("50% & $x_1$", r"c:\#{~^}|*")


def sweep(accuracies, gone=()):
    return [
        Run(
            "own_data", algorithm, NAMES, (position,), 0, trial, "finished",
            (Evaluation(1, (accuracy,) * 2, (accuracy,) * 2),),
        )
        for algorithm, accuracy in accuracies.items()
        for position in range(2)
        for trial in (0, 1)
        if (algorithm, position, trial) not in gone
    ]  # fmt: skip


def printed(format_, runs, baseline="erm"):
    results = [aggregate(runs, SELECTORS.get(name)()) for name in ("training-domain", "oracle")]
    return Report(tuple(runs), tuple(results), baseline).render(format_)


FOUR = {"erm": 0.5, "irm": 0.25, "coral": 0.75, "idm": 0.8}


def test_text_keeps_to_the_columns_of_domainbed():
    text = printed("text", sweep(FOUR))
    assert text.startswith("Total records: 16\n\n-------- Dataset: own_data, model selection ")
    header, erm = text.splitlines()[3:5]
    assert header == "  ".join(f"{c:<20}" for c in ("Algorithm", *NAMES, "Avg")) + " "
    cells = ("ERM", "50.0 +/- 0.0", "50.0 +/- 0.0", "50.0")
    assert erm == "  ".join(f"{c:<20}" for c in cells) + " "
    assert "-------- Averages, model selection method: test-domain validation set" in text


def test_text_widens_its_columns_rather_than_cut_a_name():
    long = "an-algorithm-with-a-rather-long-name"
    text = printed("text", sweep({"erm": 0.5, long: 0.25}))
    rows = [line for line in text.splitlines() if line.startswith((long, "ERM"))]
    assert len({line.index(" +/-") for line in rows[:2]}) == 1


def test_latex_marks_as_the_paper_does_and_escapes_names():
    latex = printed("latex", sweep({**FOUR, "sd": 0.75}, gone={("sd", 1, 0)}))
    rows = {line.split(" & ")[0]: line for line in latex.splitlines() if line.endswith(r"\\")}
    first = latex.split(r"\end{table}")[0]
    row = {line.split(" & ")[0]: line.split(" & ") for line in first.splitlines() if "&" in line}
    assert row["IDM"][1] == r"\textbf{80.0} \scriptsize{$\pm$ 0.0}"
    assert row["CORAL"][1] == r"\underline{75.0} \scriptsize{$\pm$ 0.0}"
    assert row["SD"][1] == r"\underline{75.0} \scriptsize{$\pm$ 0.0}"
    assert row["SD"][2].endswith(r"(1/2)")
    assert row["ERM"][1] == r"50.0 \scriptsize{$\pm$ 0.0}"
    assert row["IRM"][1] == r"\textcolor{gray}{25.0} \scriptsize{$\pm$ 0.0}"
    assert r"\textbf{50\% \& \$x\_1\$}" in first
    signs = r"\textbackslash{}\#\{\textasciitilde{}\textasciicircum{}\}\textbar{}{*}"
    assert rf"\textbf{{c:{signs}}}" in first
    assert r"own\_data" in latex
    assert rows


def test_latex_is_well_formed():
    latex = printed("latex", sweep(FOUR, gone={("erm", 0, 0), ("idm", 1, 0), ("idm", 1, 1)}))
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == latex.count(r"\begin{table}")
    plain = re.sub(r"%.*", "", latex.replace(r"\%", ""))
    plain = re.sub(r"\\[\\{}$&#_]", "", plain)  # escaped signs; what is left has a meaning
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert not re.search(r"[#_~^√–]", plain)
    opened = re.findall(r"\\begin\{(\w+)\}", latex)
    assert sorted(opened) == sorted(re.findall(r"\\end\{(\w+)\}", latex))
    for block in latex.split(r"\begin{tabular}")[1:]:
        columns = re.match(r"\{(l(c+))\}", block)[1]
        body = block.split(r"\end{tabular}")[0].replace(r"\&", "")
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(rows) >= 2
        assert {line.count("&") for line in rows} == {len(columns) - 1}


def test_markdown_tables_have_as_many_cells_in_every_row():
    text = printed("markdown", sweep(FOUR, gone={("erm", 0, 0)}))
    for block in text.split("### ")[1:]:
        rows = [line.replace(r"\|", "") for line in block.splitlines() if line.startswith("|")]
        assert len(rows) >= 3
        assert len({line.count("|") for line in rows}) == 1
    assert "| IDM | **80.0** ± 0.0 | **80.0** ± 0.0 | **80.0** |" in text
    assert r"| 50.0 (1/2) |" in text
    assert r"50% & $x\_1$" in text
    assert "- missing: ERM on own\\_data, test domain" in text


def test_csv_has_a_row_for_every_cell():
    runs = sweep(FOUR, gone={("erm", 0, 0), ("idm", 1, 0), ("idm", 1, 1)})
    rows = list(csv.DictReader(io.StringIO(printed("csv", runs))))
    keys = {(r["dataset"], r["algorithm"], r["test_domain"], r["selector"]) for r in rows}
    assert len(keys) == len(rows) == 4 * 2 * 2
    found = {(r["algorithm"], r["test_domain"]): r for r in rows if r["selector"] == "oracle"}
    whole = found["coral", NAMES[0]]
    assert float(whole["mean"]) == 75
    assert float(whole["error"]) == 0
    assert (whole["trials"], whole["trial_seeds"], whole["missing"]) == ("2", "0-1", "")
    assert (whole["split"], whole["hparams_seeds"]) == ("test-in", "0")
    assert whole["error_bar"].startswith("population standard deviation")
    partly = found["erm", NAMES[0]]
    assert (partly["trials"], partly["trials_expected"], partly["trial_seeds"]) == ("1", "2", "1")
    assert partly["missing"].startswith("missing: ERM on own_data, test domain 50% & $x_1$")
    empty = found["idm", NAMES[1]]
    assert (empty["mean"], empty["error"], empty["trials"]) == ("", "", "0")
    assert "trials 0-1" in empty["missing"]


def test_chosen_says_which_draw_and_step_stand_behind_a_number():
    """Of two draws the better out part wins, in each trial by itself."""
    outs = {(0, 0): 0.25, (1, 0): 0.5, (0, 1): 0.75, (1, 1): 0.5}  # by draw and trial
    runs = [
        Run(
            "own", "idm", ("a", "b"), (1,), draw, trial, "finished",
            (Evaluation(300, (0.5, accuracy - 0.125), (0.5, accuracy)),),
            folder=Path(f"run{draw}{trial}"),
            config={"hparams": {"lr": 0.1 * (draw + 1), "order": 2}},
        )
        for (draw, trial), accuracy in outs.items()
    ]  # fmt: skip
    text = Report((), (aggregate(runs, SELECTORS.get("oracle")()),)).selected_to_csv()
    assert [list(row.values()) for row in csv.DictReader(io.StringIO(text))] == [
        ["own", "idm", "b", "oracle", "0", "1", "300", "37.500000", '{"lr": 0.2, "order": 2}',
         "run10"],
        ["own", "idm", "b", "oracle", "1", "0", "300", "62.500000", '{"lr": 0.1, "order": 2}',
         "run01"],
    ]  # fmt: skip


# Those with the figures of every cell; ranks need several algorithms.
OF_CELLS = [name for name in FORMATS if name not in ("chosen", "html", "ranks")]


@pytest.mark.parametrize("format_", OF_CELLS)
def test_every_format_prints_a_single_algorithm_and_a_selector_without_numbers(format_):
    runs = sweep({"erm": 0.5})
    results = [aggregate(runs, SELECTORS.get(n)()) for n in ("oracle", "leave-one-domain-out")]
    text = Report(tuple(runs), tuple(results)).render(format_)
    assert "50.0" in text
    assert "missing" in text
    assert r"\textbf{50.0}" not in text  # the best of one is no news


@pytest.mark.parametrize("cell", [[], None, 3, {}])
def test_a_cell_that_is_no_text_is_refused(cell):
    with pytest.raises(TypeError, match="a cell is a text"):
        Row.of("a", "1.0", cell)
