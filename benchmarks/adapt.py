"""`python -m benchmarks.adapt PATH[:LABEL:DOMAIN] …`: adaptation to sites without labels.

Each domain of a table, at most ten, is held out of `linear` and of `boosting`.  Their predictions
for its rows are adapted without its labels, and scored before and after:

- *real*: the rows as they are;
- *strong*: rows drawn without replacement so that the classes have the shares 0.1 and 0.9, ten
  times, either way in turn; of more than two classes, a random half has 0.9 together;
- *permuted*: the values of half of the columns are permuted among the rows;
- *drift*: half of the columns, if numeric, are moved by one standard deviation.

Labels that are numbers are cut into two classes (`CUTS`).  Models are trained once; their
predictions are kept in a folder (``--cache``).  Each outcome is appended to a file as soon as it is
there, under the name of the rule; called again, what is there is not run again.  The outcomes of
the previous rule were recorded in the same way, from the same predictions, before it was removed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

import shiftproof
from benchmarks.tables import _commit, _held_out, read
from shiftproof.data.tables.cell_types import text_of
from shiftproof.data.tables.read import read_table
from shiftproof.inference.adaptation.label_shift import HeldOut, LabelShift, adapted, label_shift
from shiftproof.metrics import Outputs
from shiftproof.metrics.base import scores
from shiftproof.paper.measure import machine
from shiftproof.training.load_run import read_arrays

LEARNERS = ("linear", "boosting")
KINDS = ("real", "strong", "permuted", "drift")
DRAWS, MOST_ROWS, FEWEST_ROWS, LARGE_SHARE = 10, 500, 20, 0.9
# Quantile, or number, above which a label is of the first class.
CUTS = {"pisa_math": ("quantile", 0.5), "beijing_pm25": ("number", 75.0),
        "opt_birthweight": ("quantile", 0.25)}  # fmt: skip
# The rules that can be run now: with and without the typicality of the rows.
RULES = {"beyond": False, "typical": True}
HELD_OUT = ("predicted", "y", "domain", "fold")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapt", description=__doc__)
    parser.add_argument("data", nargs="*", metavar="PATH[:LABEL:DOMAIN]")
    parser.add_argument("--cache", type=Path, default=Path("build/adapt"))
    parser.add_argument("--out", type=Path, default=Path("results/adapt.jsonl"))
    asked = parser.parse_args(arguments)
    asked.cache.mkdir(parents=True, exist_ok=True)
    done = read(asked.out)
    for spec in asked.data:
        path, label, domain = (*spec.split(":"), "label", "domain")[:3]
        name = Path(path).name.split(".")[0]
        frame = _frame(path, name, label)
        names = shiftproof.load(frame, label=label, domain=domain).domain_names
        for learner, held in product(LEARNERS, _held_out(names)):
            for rule in RULES:
                key = {"rule": rule, "data": name, "learner": learner, "domain": held}
                if any(key.items() <= outcome.items() for outcome in done):
                    continue
                started = time.process_time()
                file = asked.cache / f"{name}-{learner}-{names.index(held)}.npz"
                if not file.exists():
                    _predict(frame, learner, label, domain, held, file)
                outcome = {**key, **outcomes(dict(np.load(file)), typical=RULES[rule])}
                outcome["seconds"] = round(time.process_time() - started, 1)
                done.append(outcome | {"commit": _commit(), "machine": machine()})
                with open(asked.out, "a") as appended:
                    appended.write(json.dumps(done[-1]) + "\n")
                print(*key.values(), f"{outcome['seconds']} s", file=sys.stderr, flush=True)
    asked.out.with_suffix(".md").write_text(page(done))
    return 0


def _frame(path: str, name: str, label: str) -> pd.DataFrame:
    """Return a table whose label is a class."""
    frame = read_table(Path(path)).to_pandas()
    if name in CUTS:
        kind, value = CUTS[name]
        limit = frame[label].quantile(value) if kind == "quantile" else value
        frame = frame[frame[label].notna()].reset_index(drop=True)
        frame[label] = np.where(frame[label] > limit, "above", "below")
    return frame


def _predict(
    frame: pd.DataFrame, learner: str, label: str, domain: str, held: str, file: Path
) -> None:
    """Train without a domain; write the predictions for it and for held-out training domains."""
    with tempfile.TemporaryDirectory() as folder:
        run = shiftproof.train(
            frame, learner, label=label, domain=domain, test_domains=held, out=folder, seed=0
        )
        model = run.model
        modules = read_arrays(Path(folder))["algorithm"]["modules"]
    stored: dict[str, Any] = {name: np.asarray(modules[f"held_out.{name}"]) for name in HELD_OUT}
    rows = frame[(frame[domain].map(text_of) == held) & frame[label].notna()]
    rows = rows.reset_index(drop=True)
    stored["labels"] = np.array([model.classes.index(text_of(value)) for value in rows[label]])
    features = [column for column in frame.columns if column not in (label, domain)]
    rng = np.random.default_rng(0)
    permuted, drift = rows.copy(), rows.copy()
    for column in rng.permutation(features)[: max(len(features) // 2, 1)]:
        permuted[column] = rng.permutation(permuted[column].to_numpy())
        if pd.api.types.is_numeric_dtype(drift[column]):
            drift[column] = drift[column] + frame[column].std()
    for kind, changed in {"real": rows, "permuted": permuted, "drift": drift}.items():
        predictions = model.predict(model.form.read(changed))
        stored[f"{kind}.p"] = predictions.probabilities
        stored[f"{kind}.typicality"] = predictions.typicality
    np.savez_compressed(file, **stored)


def outcomes(stored: Mapping[str, np.ndarray], *, typical: bool) -> dict[str, Any]:
    """Return the mean scores of one held-out domain by kind of shift and of adaptation."""
    held_out = HeldOut(*(stored[name] for name in HELD_OUT))
    known, y = label_shift(held_out), stored["labels"]
    drawn = {kind: [np.arange(len(y))] for kind in ("real", "permuted", "drift")}
    drawn["strong"] = _strongly_shifted(y, held_out.classes)
    scored: dict[str, Any] = {"rows": len(y)}
    for kind in KINDS:
        source = "real" if kind == "strong" else kind
        p, typicality = (stored[f"{source}.{part}"] for part in ("p", "typicality"))
        samples = [
            _scores(known, p[rows], typicality[rows] if typical else None, y[rows])
            for rows in drawn[kind]
        ]
        if samples:
            scored[kind] = {
                how: {
                    name: fmean(sample[how][name] for sample in samples)
                    for name in ("accuracy", "log_loss", "corrected")
                }
                for how in ("none", "auto")
            }
    return scored


def _strongly_shifted(y: np.ndarray, classes: int) -> list[np.ndarray]:
    """Return rows drawn so that some classes have 0.9 of them together."""
    rng = np.random.default_rng(1)
    present = [np.flatnonzero(y == k) for k in range(classes) if (y == k).any()]
    drawn = []
    order = rng.permutation(len(present))
    for draw in range(DRAWS if len(present) > 1 else 0):
        if draw % 2 == 0:
            order = rng.permutation(len(present))
        halves = np.array_split(order, 2)[:: 1 if draw % 2 else -1]
        sizes = [sum(len(present[k]) for k in half) for half in halves]
        n = min(MOST_ROWS, sizes[0] / LARGE_SHARE, sizes[1] / (1 - LARGE_SHARE))
        if n < FEWEST_ROWS:
            continue
        shares = (LARGE_SHARE, 1 - LARGE_SHARE)
        rows = [
            rng.choice(present[k], int(n * share * len(present[k]) / size), replace=False)
            for half, size, share in zip(halves, sizes, shares, strict=True)
            for k in half
        ]
        drawn.append(np.concatenate(rows))
    return drawn


def _scores(
    known: LabelShift | None, p: np.ndarray, typicality: np.ndarray | None, y: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Return accuracy and log loss before and after, and whether a site was corrected."""
    done = adapted(known, p.astype(np.float64), typicality)
    return {
        how: {**scores(Outputs(own, y)), "corrected": float(corrected)}
        for how, own, corrected in (
            ("none", p.astype(np.float64), False),
            ("auto", done.probabilities, done.corrected),
        )
    }


# What the columns of the tables show: a rule, and how it adapts.
COLUMNS = {
    "none": ("record", "none"),
    "previous": ("record", "auto"),
    "new": ("beyond", "auto"),
    "final": ("typical", "auto"),
    "labels": ("record", "labels"),
}
TITLES = {
    "real": "Held-out domains as they are",
    "strong": "Strong label shift: shares of 0.1 and 0.9",
    "permuted": "Half of the columns permuted",
    "drift": "Half of the columns moved by one standard deviation",
}


def page(done: Sequence[dict[str, Any]]) -> str:
    """Return the outcomes as Markdown."""
    decision = Path(__file__).with_name("adapt_decision.md").read_text()
    lines = [decision.rstrip(), "", "## Figures", "", *_verdict(done), ""]
    for kind, title in TITLES.items():
        lines += [f"### {title}", "", *_kind_lines(done, kind), ""]
    if done:
        total = sum(outcome["seconds"] for outcome in done) / 60
        commits = ", ".join(dict.fromkeys(outcome["commit"] for outcome in done))
        lines += [
            f"Command: `python -m benchmarks.adapt` with the tables' paths; at {commits};"
            f" {total:.0f} minutes of one processor in all; {done[-1]['machine']}.",
            "",
        ]
    return "\n".join(lines)


def _mean(done: Sequence[dict[str, Any]], data: str, kind: str, column: str, score: str) -> float:
    """Return a score, mean over the domains and learners of a table."""
    rule, how = COLUMNS[column]
    return fmean(
        outcome[kind][how][score]
        for outcome in done
        if outcome["rule"] == rule and outcome["data"] == data and kind in outcome
    )


def _gain(done: Sequence[dict[str, Any]], kind: str, column: str) -> list[float]:
    """Return the log loss that adaptation saves on each table."""
    return [
        _mean(done, data, kind, "none", "log_loss") - _mean(done, data, kind, column, "log_loss")
        for data in _tables(done)
    ]


def _tables(done: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(outcome["data"] for outcome in done))


def _verdict(done: Sequence[dict[str, Any]]) -> list[str]:
    """Return whether the criterion holds."""
    lines = []
    before = fmean(_gain(done, "strong", "previous"))
    for column in ("new", "final", "labels"):
        worst, kept = min(_gain(done, "real", column)), fmean(_gain(done, "strong", column))
        lines.append(
            f"- *{column}*: (a) largest loss of a table {max(-worst, 0):.3f}, at most 0.01 is"
            f" allowed; (b) {kept:+.4f} of log loss against {before:+.4f} of the previous rule,"
            f" {kept / before:.0%}, at least 80% is required."
        )
    return lines


def _kind_lines(done: Sequence[dict[str, Any]], kind: str) -> list[str]:
    """Return one row per table, and their mean."""
    lines = [
        f"| table | domains | log loss: {' | '.join(COLUMNS)} | accuracy: none | previous | final |"
        " corrected: previous | final |",
        "|---|" + "--:|" * (len(COLUMNS) + 6),
    ]
    parts: list[tuple[str, str, Callable[[float], str]]] = [
        *((column, "log_loss", "{:.3f}".format) for column in COLUMNS),
        *((column, "accuracy", "{:.1%}".format) for column in ("none", "previous", "final")),
        *((column, "corrected", "{:.0%}".format) for column in ("previous", "final")),
    ]
    rows = []
    for data in _tables(done):
        rows.append([_mean(done, data, kind, column, score) for column, score, _ in parts])
        domains = {outcome["domain"] for outcome in done if outcome["data"] == data}
        cells = [shown(value) for value, (*_, shown) in zip(rows[-1], parts, strict=True)]
        lines.append(f"| {data} | {len(domains)} | {' | '.join(cells)} |")
    if rows:
        means = np.mean(rows, axis=0).tolist()
        cells = [f"**{shown(value)}**" for value, (*_, shown) in zip(means, parts, strict=True)]
        lines.append(f"| **mean over tables** | | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
