"""Every table in LaTeX compiles, on a machine that has LaTeX."""

import shutil
import subprocess

import pytest
from _internals import (
    SELECTORS,
    Cell,
    Evaluation,
    Measured,
    Published,
    Run,
    aggregate,
    as_aligned_latex,
    comparison_Comparison as Comparison,
    comparison_Row as Row,
    comparison_table,
    sweep_tables,
    tables_as_latex,
)

AWKWARD = r"50% & $x_1$ c:\#{~^}|* <é> – ± λ₁² 15° √ × −"
TEX = shutil.which("pdflatex")


def has_adjustbox():
    found = shutil.which("kpsewhich")
    return found and subprocess.run([found, "adjustbox.sty"], capture_output=True).returncode == 0


def of_sweep():
    runs = [
        Run(
            AWKWARD, name, (AWKWARD, "b"), (position,), 0, 0, "finished",
            (Evaluation(1, (accuracy,) * 2, (accuracy,) * 2),),
        )
        for name, accuracy in (("erm", 0.5), ("idm[a_b=1.0]", 0.25))
        for position in range(2)
    ]  # fmt: skip
    return tables_as_latex([*sweep_tables(aggregate(runs, SELECTORS.get("oracle")()))], 4)


def of_paper():
    cell = Cell(Published(70.2, 1.4, 0.4), Measured((71.7, 72.6, 79.5)))
    rows = tuple(Row(f"{AWKWARD} {i}", ("yes",), (cell,) * 8) for i in range(22))
    columns = tuple(f"{AWKWARD} {i}" for i in range(8))
    comparison = Comparison("table", AWKWARD, columns, rows, ("GA",), notes=(AWKWARD,))
    return as_aligned_latex(comparison_table(comparison))


@pytest.mark.skipif(not (TEX and has_adjustbox()), reason="needs pdflatex and adjustbox")
@pytest.mark.parametrize("made", [of_sweep, of_paper])
def test_a_table_compiles_on_the_packages_it_names(made, tmp_path):
    table = made()
    needed = table.splitlines()[0].partition(" ")[2].partition("  %")[0]
    assert needed.startswith(r"\usepackage{")
    text = rf"\documentclass{{article}}{needed}\begin{{document}}{table}\end{{document}}"
    (tmp_path / "table.tex").write_text(text, "utf-8")
    command = [TEX, "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
