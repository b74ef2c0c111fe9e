"""`python -m benchmarks.diagnosis FIRST COUNT`: diagnoses of families whose shifts are known.

Families with the seeds FIRST … FIRST + COUNT − 1 (see `families`) are drawn, diagnosed as a user
would, and compared with the truth.  Each record is appended to a file, so that an interrupted run
continues; the page is written from the records.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

import shiftproof
from benchmarks.families import Family, family
from benchmarks.reported import REPORTED
from shiftproof.shift.advise import advise
from shiftproof.shift.diagnose import diagnose
from shiftproof.shift.interpretation import WORTH, kinds_of
from shiftproof.shift.samples import collect, every_sample

AMOUNTS = {
    "covariate": "domain_entropy",
    "label": "label_entropy",
    "concept": "uncertainty",
    "within_label": "domain_entropy",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Diagnose what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diagnosis", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--out", type=Path, default=Path("results/diagnosis.jsonl"))
    asked = parser.parse_args(arguments)
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    records = [json.loads(line) for line in lines]
    known = {record["made_by"] for record in records}
    wanted: dict[str, Callable[[], Family]] = {f.__name__: f for f in REPORTED}
    wanted |= {
        f"family {seed}": partial(family, seed)
        for seed in range(asked.first, asked.first + asked.count)
    }
    for made_by, make in wanted.items():
        if made_by in known:
            continue
        records.append({"made_by": made_by, **record_of(make())})
        with open(asked.out, "a") as file:
            file.write(json.dumps(records[-1]) + "\n")
        print(line_of(records[-1]), file=sys.stderr, flush=True)
    asked.out.with_suffix(".md").write_text(page(records))
    return 0


def frame_of(x: np.ndarray, y: np.ndarray, d: np.ndarray) -> pd.DataFrame:
    """Return the samples as a table with the columns `label` and `domain`."""
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    return table.assign(label=np.array(["no", "yes"])[y], domain=[f"site {i}" for i in d])


def record_of(one: Family) -> dict[str, Any]:
    """Diagnose one family; return what was said beside the truth."""
    true = one.truth()
    x, y, d = one.draw(one.rows, 0)
    began, worked = time.perf_counter(), time.process_time()
    dataset = shiftproof.load(frame_of(x, y, d), label="label", domain="domain")
    table = collect(dataset, every_sample(dataset, dataset.domain_names))
    found = diagnose(
        table.x, table.y, table.d, domains=table.domains, classes=table.classes,
        features=table.features, seed=0, permutations=1, drops=False,
    )  # fmt: skip
    advice = advise(found)
    seconds = {"wall": time.perf_counter() - began, "cpu": time.process_time() - worked}
    return {
        "name": one.name,
        "kind": one.kind,
        "rows": len(d),
        "columns": one.columns,
        "domains": one.domains,
        "tails": one.tails,
        "rule": one.rule,
        "gaps": one.missing is not None,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "truth": {name: round(value, 5) for name, value in true.items()},
        "said": list(kinds_of(advice.findings)),
        "true": list(true_kinds(true)),
        "states": {each.shift: each.state for each in advice.findings},
        "estimates": {
            name: [round(v, 5) for v in (estimate.value, *estimate.interval)]
            for name in AMOUNTS
            for estimate in [getattr(found.shift, name)]
        },
        "advice": (advice.beside or advice.choice).algorithm,
    }


def true_kinds(true: dict[str, float]) -> tuple[str, ...]:
    """Return the kinds of shift that are worth minding by the true amounts."""
    there = {name for name, of in AMOUNTS.items() if true[name] >= WORTH * true[of]}
    if "label" in there and "within_label" not in there:
        return ("label",)
    return tuple(kind for kind in ("covariate", "label", "concept") if kind in there)


def right(record: dict[str, Any]) -> bool:
    """Return whether the kinds were named right.

    A true amount within a factor of two of the limit may be named or not.
    """
    said, true = set(record["said"]), set(record["true"])
    shares = {name: record["truth"][name] / record["truth"][of] for name, of in AMOUNTS.items()}
    near = {name for name, share in shares.items() if WORTH / 2 <= share <= 2 * WORTH}
    return not (said ^ true) - near


def false_alarm(record: dict[str, Any]) -> bool:
    """Return whether concept shift was named where there is none."""
    return "concept" in record["said"] and record["truth"]["concept"] < 1e-9


def too_high(record: dict[str, Any]) -> list[str]:
    """Return the amounts whose lower end is above the truth."""
    return [n for n in AMOUNTS if record["estimates"][n][1] > record["truth"][n] + 1e-4]


def line_of(record: dict[str, Any]) -> str:
    """Return a record in one line."""
    marks = ["right" if right(record) else "WRONG"]
    marks += ["FALSE ALARM"] * false_alarm(record) + [f"above: {n}" for n in too_high(record)]
    true = "+".join(record["true"]) or "none"
    said = "+".join(record["said"]) or "none"
    return f"{record['name']}: {true} | {said} | {', '.join(marks)} {record['seconds']}"


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the page of results."""
    reported = [r for r in records if r["kind"] == "reported"]
    families = [r for r in records if r["kind"] != "reported"]
    no_concept = [r for r in families if r["truth"]["concept"] < 1e-9]
    bounds = [(r, n) for r in families for n in AMOUNTS]
    above = sum(len(too_high(r)) for r in families)
    alarms = sum(map(false_alarm, no_concept))
    lines = [
        "# Diagnoses of families whose shifts are known",
        "",
        "By `python -m benchmarks.diagnosis` (families and truth: `benchmarks/families.py`;"
        " records: `diagnosis.jsonl`). The families vary the kind of shift, 2–50 columns,"
        " 300–10,000 rows, 2–8 domains, tails and missing cells. True amounts come from the true"
        " densities."
        f" A shift is worth minding from {WORTH:.0%} of what there could be; a true amount within a"
        " factor of two of that may be named or not. Report seeds that were not looked at"
        " while the method was changed.",
        "",
        "| what | result |",
        "|---|---|",
        f"| families | {len(families)} |",
        f"| kinds of shift named right | {sum(map(right, families))} of {len(families)} |",
        f"| false alarms of concept shift | {alarms} of {len(no_concept)} families without any |",
        f"| lower ends below the truth | {len(bounds) - above} of {len(bounds)} |",
        "",
        *_rows("Families that were read wrong before", reported),
        *_rows("All families", families),
        "## By kind",
        "",
        "| kind | right |",
        "|---|---|",
    ]
    good, every = (
        Counter(r["kind"] for r in families if right(r)),
        Counter(r["kind"] for r in families),
    )
    lines += [f"| {kind} | {good[kind]} of {count} |" for kind, count in every.items()]
    return "\n".join(lines) + "\n"


def _rows(title: str, records: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"## {title}",
        "",
        "| family | rows × columns, domains | truth | said | covariate: true, estimate (95%) |"
        " concept: true, estimate (95%) | CPU s | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in records:
        cells = []
        for name in ("covariate", "concept"):
            value, low, high = r["estimates"][name]
            cells.append(f"{r['truth'][name]:.3f}, {value:.3f} ({low:.3f}–{high:.3f})")
        mark = "" if right(r) else "wrong"
        lines.append(
            f"| {r['name']}, {r['tails']}, {r['rule']} | {r['rows']} × {r['columns']},"
            f" {r['domains']} | {', '.join(r['true']) or 'none'} |"
            f" {', '.join(r['said']) or 'none'} | {' | '.join(cells)} | {r['seconds']['cpu']} |"
            f" {mark} |"
        )
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
