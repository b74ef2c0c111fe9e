"""`python -m benchmarks.adapt PATH[:LABEL:DOMAIN] …`: adaptation to sites without labels.

*Real sites.*  Each domain of a table, at most ten, is held out of `best`.  Its predictions are then
adapted to it without its labels, and scored before and after.

*Simulated sites.*  Half of the rows of a table, at random, are a new site, and the others are dealt
to five training sites, so that nothing shifts.  Label shift: 500 rows of the new site are drawn,
without replacement, with class shares from a uniform distribution; fewer if a class has too few.
Concept shift: the values of half of its columns are permuted among its rows, so
that they no longer tell the class; or half of its numeric columns are shifted by a standard
deviation.

Each outcome is appended to a file as soon as it is there; called again, what is there is not run
again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

import shiftproof
from benchmarks.tables import _commit, _held_out, read
from shiftproof.data.tables.cell_types import text_of
from shiftproof.data.tables.read_file import read_frame
from shiftproof.inference.adaptation.adapt import adapted, checked_adapt
from shiftproof.inference.adaptation.held_out import class_shares
from shiftproof.inference.adaptation.matching_shares import with_shares
from shiftproof.learners.scores import scores
from shiftproof.paper.measure import machine
from shiftproof.training.outputs import of_classes

HOWS = ("none", "auto", "labels")
SITES, ROWS, DRAWS = 5, 500, 20
LARGE = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapt", description=__doc__)
    parser.add_argument("data", nargs="*", metavar="PATH[:LABEL:DOMAIN]")
    parser.add_argument("--budget", type=float, default=10.0, help="estimated seconds of `best`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/adapt.jsonl"))
    asked = parser.parse_args(arguments)
    done = read(asked.out)

    def once(key: dict[str, Any], work: Callable[[], dict[str, Any]]) -> None:
        if not any(key.items() <= each.items() for each in done):
            started = time.perf_counter()
            found = {**key, **work(), "seconds": round(time.perf_counter() - started, 1)}
            done.append(found | {"commit": _commit(), "machine": machine()})
            with open(asked.out, "a") as file:
                file.write(json.dumps(done[-1]) + "\n")
            asked.out.with_suffix(".md").write_text(page(done))
            print(*key.values(), f"{found['seconds']} s", file=sys.stderr)

    for spec in asked.data:
        path, label, domain = (*spec.split(":"), "label", "domain")[:3]
        name = Path(path).name.split(".")[0]
        key = {"data": name, "seed": asked.seed, "budget": asked.budget}
        domains = shiftproof.load(path, label=label, domain=domain).domain_names
        for held in _held_out(domains):
            once(
                {"kind": "real", **key, "domain": held},
                partial(real_site, path, label, domain, held, asked),
            )
        once({"kind": "simulated", **key}, partial(simulated, path, label, domain, asked))
    asked.out.with_suffix(".md").write_text(page(done))
    return 0


def real_site(path: str, label: str, domain: str, held: str, asked: Any) -> dict[str, Any]:
    """Return the scores of a held-out domain with and without adaptation."""
    given: dict[str, Any] = {"label": label, "domain": domain, "seed": asked.seed}
    given["hparams"] = {"budget": asked.budget}
    with tempfile.TemporaryDirectory() as folder:
        run = shiftproof.train(path, "best", test_domains=held, out=folder, **given)
        own = of_classes(run.outputs, "`adapt`")[held]
        record = run.model.adaptation
        rows = read_frame(Path(path))
        there = rows[rows[domain].map(text_of) == held]
        typicality = run.model.predict(there[there[label].notna()]).typicality.numpy()
    if len(typicality) != len(own.labels):
        raise ValueError(f"{held} has {len(own.labels)} outputs and {len(typicality)} rows")
    classes = own.probabilities.shape[1]
    true = class_shares(own.labels, classes)
    training = true if record is None else record.calibration.shares
    found: dict[str, Any] = {
        "rows": len(own.labels), "difference": float(np.abs(true - training).max()),
    }  # fmt: skip
    for how in HOWS:
        done = adapted(record, own.probabilities, checked_adapt(how), typicality=typicality)
        kept = scores(done.probabilities, own.labels)
        found[how] = {
            "accuracy": kept["accuracy"], "log_loss": kept["log_loss"],
            "corrected": done.corrected, "reason": done.reason,
        }  # fmt: skip
        if done.shares is not None:
            value, low, high = done.shares.value, done.shares.low, done.shares.high
            found[how]["share_error"] = float(np.abs(value - true).max())
            found[how]["covered"] = float(((low <= true) & (true <= high)).mean())
    return found


def simulated(path: str, label: str, domain: str, asked: Any) -> dict[str, Any]:
    """Return how well label shift is recovered, and how often concept shift is refused."""
    rng = np.random.default_rng(asked.seed)
    frame = read_frame(Path(path))
    order = rng.permutation(len(frame))
    frame[domain] = (order % SITES).astype(str)
    new = order < len(frame) // 2
    with tempfile.TemporaryDirectory() as folder:
        run = shiftproof.train(
            frame[~new], "best", label=label, domain=domain, out=folder, seed=asked.seed,
            hparams={"budget": asked.budget},
        )  # fmt: skip
        model = run.model
    if model.adaptation is None:
        return {}
    site = frame[new].reset_index(drop=True)
    y = np.array([model.classes.index(str(value)) for value in site[label]])

    def predicted(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        found = model.predict(model.form.read(rows))
        return found.probabilities.double().numpy(), found.typicality.numpy()

    p, typicality = predicted(site)
    found: dict[str, Any] = {"label shift": [], "half of the columns permuted": [], "drift": []}
    present = [np.flatnonzero(y == k) for k in range(len(model.classes))]
    for _ in range(DRAWS):
        wanted = rng.dirichlet(np.ones(len(present)))
        most = min(len(own) / share for own, share in zip(present, wanted, strict=True))
        counts = np.floor(min(ROWS, most) * wanted).astype(int)
        drawn = np.concatenate(
            [rng.choice(own, n, replace=False) for own, n in zip(present, counts, strict=True)]
        )
        true = class_shares(y[drawn], len(model.classes))
        knowing = with_shares(p[drawn], true)
        outcome: dict[str, Any] = {"rows": len(drawn), "none": _accuracy(p[drawn], y[drawn])}
        outcome["knowing"] = _accuracy(knowing, y[drawn])
        for how in ("auto", "labels"):
            done = adapted(
                model.adaptation, p[drawn], checked_adapt(how), typicality=typicality[drawn]
            )
            outcome[how] = _accuracy(done.probabilities, y[drawn])
            outcome[f"{how} corrected"] = done.corrected
            outcome[f"{how} reason"] = done.reason
            if done.shares is not None:
                outcome[f"{how} error"] = float(np.abs(done.shares.value - true).max())
        found["label shift"].append(outcome)
    features = [column for column in frame.columns if column not in (label, domain)]
    for _ in range(DRAWS):
        changed = site.sample(min(ROWS, len(site)), random_state=int(rng.integers(2**31)))
        drifted = changed.copy()
        for column in rng.permutation(features)[: max(len(features) // 2, 1)]:
            if pd.api.types.is_numeric_dtype(drifted[column]):
                drifted[column] = drifted[column] + frame[~new][column].std()
            changed[column] = rng.permutation(changed[column].to_numpy())
        for name, rows in {"half of the columns permuted": changed, "drift": drifted}.items():
            before, typical = predicted(rows)
            done = adapted(model.adaptation, before, "auto", typicality=typical)
            labels = y[rows.index]
            found[name].append(
                {
                    "corrected": done.corrected,
                    "reason": done.reason,
                    "p_value": done.p_value,
                    "none": _accuracy(before, labels),
                    "auto": _accuracy(done.probabilities, labels),
                }
            )
    return found


def _accuracy(p: np.ndarray, y: np.ndarray) -> float:
    return float((p.argmax(axis=1) == y).mean())


def page(outcomes: Sequence[dict[str, Any]]) -> str:
    """Return the outcomes as Markdown."""
    real = [each for each in outcomes if each["kind"] == "real"]
    cut = [each for each in outcomes if each["kind"] == "cut"]
    budget = real[-1]["budget"] if real else 0
    lines = [
        "# Adaptation to a new site without its labels",
        "",
        "Written by `python -m benchmarks.adapt`. **These are results of adaptation: the rows of"
        " the new site are used. They must not be compared with generalization results.** Each"
        f" domain (at most ten of a table) is held out of `best` ({budget:g} seconds of"
        " candidates). *none* is no adaptation, *auto* corrects where held-out training domains say"
        " that it helps, and *labels* is bias-corrected EM, applied in any case. *Shares differ*"
        " counts domains whose class shares differ from those of training by more than 10 points in"
        " a class, and how many of them auto corrected. *Error* is the mean largest error of a"
        " share; *covered* is how many true shares are in their 95% interval.",
        "",
        "## Real sites",
        "",
        *_table_lines(real),
        *_domain_lines(real),
    ]
    if cut:
        lines += [
            "",
            "## Real sites of other tables",
            "",
            "Tables of numbers, cut into two classes (above the median of all rows, above 75 µg/m³,"
            " in the lowest quarter). They were not used to choose any rule.",
            "",
            *_table_lines(cut),
            *_domain_lines(cut),
        ]
    lines += [*_simulated_lines(outcomes), *_standardized_lines(outcomes), ""]
    if outcomes:
        about = outcomes[-1]
        total = sum(each["seconds"] for each in outcomes)
        seeds = sorted({each["seed"] for each in outcomes})
        commits = ", ".join(dict.fromkeys(each["commit"] for each in outcomes))
        lines += [
            f"Command: `python -m benchmarks.adapt` with the tables' paths; seeds {seeds}; at"
            f" {commits}; {total:.0f} seconds in all; {about['machine']}.",
            "",
        ]
    if kept := sum(each.get("kept", False) for each in outcomes):
        lines += [
            f"{kept} of the domains were trained earlier with the same settings, and no candidate"
            " was left out for time that other programs took; their predictions were kept, and"
            " adapted later.",
            "",
        ]
    return "\n".join(lines)


def _table_lines(real: Sequence[dict[str, Any]]) -> list[str]:
    """Return one row per table, and their mean."""
    lines = [
        "| table | domains | accuracy: none | auto | labels | log loss: none | auto | labels |"
        " corrected | shares differ | error: auto | covered |",
        "|---|" + "--:|" * 11,
    ]
    means: list[list[float]] = []
    large = [0, 0]
    for table in dict.fromkeys(each["data"] for each in real):
        own = [each for each in real if each["data"] == table]
        values = [fmean(each[how]["accuracy"] for each in own) for how in HOWS]
        losses = [fmean(each[how]["log_loss"] for each in own) for how in HOWS]
        means.append([*values, *losses])
        differ = [each for each in own if each["difference"] > LARGE]
        corrected = sum(each["auto"]["corrected"] for each in own)
        both = sum(each["auto"]["corrected"] for each in differ)
        large = [large[0] + both, large[1] + len(differ)]
        known = [each["auto"] for each in own if "share_error" in each["auto"]]
        errors = [f"{fmean(each[key] for each in known):.0%}" if known else "–"
                  for key in ("share_error", "covered")]  # fmt: skip
        cells = [f"{100 * value:.1f}" for value in values] + [f"{value:.3f}" for value in losses]
        lines.append(
            f"| {table} | {len(own)} | {' | '.join(cells)} | {corrected} | {both} of {len(differ)}"
            f" | {' | '.join(errors)} |"
        )
    if means:
        mean = np.mean(means, axis=0)
        cells = [f"**{100 * v:.1f}**" for v in mean[:3]] + [f"**{v:.3f}**" for v in mean[3:]]
        lines.append(
            f"| **mean over tables** | | {' | '.join(cells)} | | {large[0]} of {large[1]} | | |"
        )
    return lines


def _domain_lines(real: Sequence[dict[str, Any]]) -> list[str]:
    """Return one row per domain."""
    rows = [
        f"| {each['data']} | {each['domain']} | {each['rows']} | {each['difference']:.0%} |"
        f" {100 * each['none']['accuracy']:.1f} | {100 * each['auto']['accuracy']:.1f} |"
        f" {'yes' if each['auto']['corrected'] else 'no'} | {each['auto']['reason']} |"
        for each in real
    ]
    return [
        "",
        "### Every domain",
        "",
        "| table | domain | rows | shares differ by | accuracy: none | auto | corrected | why |",
        "|---|---|--:|--:|--:|--:|---|---|",
        *rows,
    ]


def _standardized_lines(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    found = [each for each in outcomes if each["kind"] == "standardize"]
    if not found:
        return []
    lines = [
        "",
        "## Standardized by domain, where held-out training domains say so",
        "",
        "`best` with `standardize='auto'`, which has been removed since: each candidate takes the"
        " rows as they are, and another one standardised by their domain; held-out training"
        " domains decide what counts."
        f" *none* had {found[-1]['budget']:g} seconds of candidates, *auto* twice as many for twice"
        " the candidates. *Weight*: share of the ensemble that takes standardised rows, mean over"
        " domains. *Worst*: largest loss of accuracy of a domain, in points.",
        "",
        "| table | domains | accuracy: none | auto | log loss: none | auto | AUROC: none | auto |"
        " weight | worst |",
        "|---|" + "--:|" * 9,
    ]
    for table in dict.fromkeys(each["data"] for each in found):
        own = [each for each in found if each["data"] == table]
        cells = [
            f"{scale * fmean(each[how][name] for each in own):.{digits}f}"
            for name, scale, digits in (("accuracy", 100, 1), ("log_loss", 1, 3), ("auroc", 1, 3))
            for how in ("none", "auto")
        ]
        weight = fmean(each["auto"]["weight"] for each in own)
        worst = min(each["auto"]["accuracy"] - each["none"]["accuracy"] for each in own)
        lines.append(
            f"| {table} | {len(own)} | {' | '.join(cells)} | {weight:.0%} | {100 * worst:+.1f} |"
        )
    return lines


def _simulated_lines(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    found = [each for each in outcomes if each["kind"] == "simulated" and "drift" in each]
    lines = [
        "",
        "## Simulated label shift",
        "",
        f"Half of the rows, at random, are a new site, and the others are dealt to {SITES} training"
        f" sites. {ROWS} rows of the new site, fewer where a class has too few, with class shares"
        f" from a uniform distribution, {DRAWS} times. *Error*: largest error of a share, mean and"
        " 90% quantile. *Knowing*: with the true shares.",
        "",
        "| table | rows | error: auto | labels | accuracy: none | auto | labels | knowing |"
        " corrected |",
        "|---|" + "--:|" * 8,
    ]
    for each in found:
        own = each["label shift"]
        errors = [
            f"{np.mean(e):.1%} ({np.quantile(e, 0.9):.1%})" if (e := _known(own, key)) else "–"
            for key in ("auto error", "labels error")
        ]
        cells = [
            f"{100 * fmean(_known(own, key)):.1f}" for key in ("none", "auto", "labels", "knowing")
        ]
        corrected = sum(_known(own, "auto corrected"))
        lines.append(
            f"| {each['data']} | {fmean(_known(own, 'rows')):.0f} |"
            f" {' | '.join([*errors, *cells])} | {corrected} of {len(own)} |"
        )
    lines += [
        "",
        "## Simulated concept shift",
        "",
        f"{ROWS} rows of the new site with the values of half of its columns permuted among"
        " rows, or half of its numeric columns shifted by one standard deviation (drift): how often"
        " auto refuses, and mean accuracy.",
        "",
        "| table | permuted: refused | accuracy: none | auto | drift: refused | accuracy: none |"
        " auto |",
        "|---|" + "--:|" * 6,
    ]
    for each in found:
        cells = []
        for kind in ("half of the columns permuted", "drift"):
            own = each[kind]
            cells.append(f"{sum(not one['corrected'] for one in own)} of {len(own)}")
            cells += [f"{100 * fmean(_known(own, how)):.1f}" for how in ("none", "auto")]
        lines.append(f"| {each['data']} | {' | '.join(cells)} |")
    return lines


def _known(outcomes: Sequence[dict[str, Any]], key: str) -> list[Any]:
    return [each[key] for each in outcomes if key in each]


if __name__ == "__main__":
    sys.exit(main())
