"""`python -m benchmarks.diagnosis FIRST COUNT`: diagnoses of families whose shifts are known.

Families with the seeds FIRST … FIRST + COUNT − 1 (see `families`) are drawn, diagnosed as a user
would, and compared with the truth; so are those of `reported`, and frozen features of PACS, if
`--data` has its images.  Each record is appended to a file, so that an interrupted run continues;
the page is written from the records.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import shiftproof
from benchmarks.clustered_families import Clustered, clustered
from benchmarks.diagnosis_page import AMOUNTS, line_of, page, true_kinds
from benchmarks.families import Family, family
from benchmarks.reported import REPORTED
from shiftproof.information import Shift
from shiftproof.shift.advise import advise
from shiftproof.shift.diagnose import diagnose
from shiftproof.shift.interpretation import kinds_of, summary
from shiftproof.shift.samples import collect, every_sample

# The images in the folder `--data`, and the network that computes their frozen features.
IMAGES, NETWORK = "pacs-sample", "tf_efficientnet_lite0"


def main(arguments: Sequence[str] | None = None) -> int:
    """Diagnose what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diagnosis", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("results/diagnosis.jsonl"))
    asked = parser.parse_args(arguments)
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    records = [json.loads(line) for line in lines]
    known = {record["made_by"] for record in records}
    makers: dict[str, Callable[[], Family | Clustered]] = {f.__name__: f for f in REPORTED}
    makers |= {
        f"{make.__name__} {seed}": partial(make, seed)
        for make in (family, clustered)
        for seed in range(asked.first, asked.first + asked.count)
    }
    wanted: dict[str, Callable[[], dict[str, Any]]] = {
        made_by: partial(record_of, make) for made_by, make in makers.items()
    }
    if (asked.data / IMAGES).is_dir():
        wanted[IMAGES] = partial(record_of_images, asked.data)
    elif IMAGES not in known:
        print(f"{IMAGES}: skipped, not in {asked.data}", file=sys.stderr)
    for made_by, record in wanted.items():
        if made_by in known:
            continue
        records.append({"made_by": made_by, **record()})
        with open(asked.out, "a") as file:
            file.write(json.dumps(records[-1]) + "\n")
        print(line_of(records[-1]), file=sys.stderr, flush=True)
    asked.out.with_suffix(".md").write_text(page(records))
    return 0


def frame_of(x: np.ndarray, y: np.ndarray, d: np.ndarray) -> pd.DataFrame:
    """Return the samples as a table with the columns `label` and `domain`."""
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    return table.assign(label=[f"class {i}" for i in y], domain=[f"site {i}" for i in d])


def record_of(make: Callable[[], Family | Clustered]) -> dict[str, Any]:
    """Diagnose one family; return the diagnosis and the truth."""
    one = make()
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
        "classes": len(found.classes),
        "gaps": one.missing is not None,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "truth": {name: round(value, 5) for name, value in true.items()},
        "said": list(kinds_of(advice.findings)),
        "true": list(true_kinds(true)),
        "states": {each.shift: each.state for each in advice.findings},
        "estimates": _estimates(found.shift),
        "advice": (advice.beside or advice.choice).algorithm,
    }


def record_of_images(data: Path) -> dict[str, Any]:
    """Diagnose frozen features of PACS, without a known truth; return the diagnosis."""
    began, worked = time.perf_counter(), time.process_time()
    found = shiftproof.diagnose(
        data / IMAGES, backbone=NETWORK, weights=data / "weights" / f"{NETWORK}.safetensors",
        device="cpu",
    )  # fmt: skip
    seconds = {"wall": time.perf_counter() - began, "cpu": time.process_time() - worked}
    return {
        "name": IMAGES,
        "kind": "data",
        "rows": sum(found.measured.sizes),
        "columns": len(found.measured.features),
        "domains": len(found.measured.domains),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "said": list(kinds_of(found.advice.findings)),
        "states": {each.shift: each.state for each in found.advice.findings},
        "words": {each.shift: summary(each) for each in found.advice.findings},
        "estimates": _estimates(found.shifts),
        "advice": found.advice.choice.algorithm,
        "first_remark": found.advice.remarks[0],
    }


def _estimates(shift: Shift) -> dict[str, list[float]]:
    return {
        name: [round(v, 5) for v in (estimate.value, *estimate.interval)]
        for name in AMOUNTS
        for estimate in [getattr(shift, name)]
    }


if __name__ == "__main__":
    sys.exit(main())
