"""Names of classes, domains and columns that try to steer what shows them.

Terminals take escapes for commands, pages take tags, LaTeX takes macros, and spreadsheets compute
cells that begin with an equals sign.
"""

from __future__ import annotations

import csv
import html.parser
import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _internals import Records, _name as _folder_of_domain, csv_text
from stored_runs import write_hashes, write_records

from shiftproof import ShiftproofError, diagnose, report, train_each

TAG = "<img src=x onerror=alert(1)>"
ESCAPE = "\x1b]0;title\x07\x1b[31m"
FORMULA = '=HYPERLINK("http://x","y")'
MACRO = r"\input{secret}^^A"
FORMATS = Path(__file__).parent / "golden" / "formats"


class Tags(html.parser.HTMLParser):
    """The tags that a browser would find with an attribute of the attacker's."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if any(name == "onerror" or value == "x" for name, value in attributes):
            self.found.append(tag)


def assert_neutral(text: str, kind: str) -> None:
    odd = {sign for sign in text if not sign.isprintable() and sign not in "\n\t"}
    assert odd == set(), kind
    if kind == "html":
        assert Tags(text).found == []
    if kind == "markdown":  # a backslash makes a sign of it
        assert not re.search(r"(?<!\\)<img", text)
    if kind == "latex":
        assert r"\input" not in text
        assert "^^A" not in text
    if kind == "csv":
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "@", "+H", "-H"))]
        assert any(cell == csv_text(FORMULA) for cell in cells)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on a table in which every name is hostile, and the predictions of one of them."""
    root = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    names = [TAG, ESCAPE + "b", FORMULA, MACRO]
    frame = pd.DataFrame(
        {
            "where": np.repeat(names, 40),
            FORMULA: rng.normal(size=160),
            TAG: rng.choice([ESCAPE + "x", MACRO], 160),
            ESCAPE + "c": rng.normal(size=160),
            "what": rng.choice([FORMULA, TAG + ESCAPE], 160),
        }
    )
    frame.to_csv(root / "hostile.csv", index=False)
    train_each(frame, "linear", label="what", domain="where", out=root / "each")
    found = diagnose(frame, label="what", domain="where")
    (root / "diagnosis.txt").write_text(str(found))
    (root / "diagnosis.html").write_text(found._repr_html_())
    return root


def test_a_report_in_every_format(trained: Path) -> None:
    found = report(trained / "each")
    for kind in ("text", "markdown", "latex", "csv", "html"):
        assert_neutral(found.render(kind), kind)


def test_a_diagnosis(trained: Path) -> None:
    assert_neutral((trained / "diagnosis.txt").read_text(), "text")
    assert_neutral((trained / "diagnosis.html").read_text(), "html")


def test_predictions(trained: Path, shiftproof: Any) -> None:
    run = min(path.parent for path in trained.glob("each/*/model.safetensors"))
    data = trained / "hostile.csv"
    out = trained / "p.csv"
    code, _, err = shiftproof("predict", run, data, "--keep", "what", "--out", out, "--quiet")
    assert code == 0, err
    assert_neutral(err, "text")
    assert_neutral(out.read_text(), "csv")
    code, shown, err = shiftproof("evaluate", run, data, "--label", "what", "--domain", "where")
    assert code == 0, err
    assert_neutral(shown + err, "text")


@pytest.mark.parametrize("name", [ESCAPE, "a\nb", "\ud800"])
def test_a_run_whose_names_steer_a_terminal_is_refused(tmp_path: Path, name: str) -> None:
    """The file of a stranger, who did not use our tables."""
    shutil.copytree(FORMATS / "2" / "sweep", tmp_path / "sweep")
    path = min((tmp_path / "sweep").rglob("job.json"))
    job = json.loads(path.read_bytes())
    path.write_text(json.dumps({**job, "dataset": name}))
    with pytest.raises(ShiftproofError, match="holds a damaged run") as refused:
        report(tmp_path / "sweep")
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", [TAG, FORMULA, MACRO])
def test_a_run_with_other_hostile_names_is_shown_harmlessly(tmp_path: Path, name: str) -> None:
    shutil.copytree(FORMATS / "2" / "sweep", tmp_path / "sweep")
    for path in (tmp_path / "sweep").rglob("*.json"):
        value = json.loads(path.read_bytes())
        if "dataset" not in value:
            continue
        value["dataset"] = name
        if path.name == "job.json":
            value["variant"] = f"{name} {value['algorithm']}"
        for key in {"domains", "test_domains"} & value.keys():
            value[key] = [name if domain == "north" else domain for domain in value[key]]
        path.write_text(json.dumps(value))
    for path in (tmp_path / "sweep").rglob("records.jsonl"):
        text = json.dumps(Records(path).read()).replace("north", json.dumps(name)[1:-1])
        write_records(path, json.loads(text))
        write_hashes(path.parent)
    found = report(tmp_path / "sweep")
    for kind in ("text", "markdown", "latex", "html"):
        assert_neutral(found.render(kind), kind)
    assert not [line for line in found.to_csv().splitlines() if line.startswith("=")]


@pytest.mark.parametrize("name", [".", "..", "...", "../../x", "/etc/passwd", "é" * 200, "a\nb"])
def test_the_folder_of_a_domain_lies_in_that_of_its_runs(name: str) -> None:
    folder = _folder_of_domain(name)
    assert (Path("/runs") / folder).resolve().parent == Path("/runs")
    assert folder != _folder_of_domain(f"{name}?")
    assert len(os.fsencode(folder)) <= 255
    assert folder.isprintable()
