"""`python -m benchmarks.expect PATH[:LABEL:DOMAIN] …`: does the next domain fall inside?

Each domain of a table in turn plays the next one.  `expect` sees the other domains only: each of
them is scored by a model that was trained without it and without the next one.  The model of all
others gives the score of the next domain, and the 95% prediction interval either holds it or not.
Of more than `MOST_NESTED` domains, models of pairs would be too many: there each domain is held out
once, so that the next domain is among those that the scores of the others were trained on.

The scores are kept in a file, so that the page can be written again without training.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import shiftproof
from benchmarks.expect_simulated_page import section
from benchmarks.random_effects import random_effects
from shiftproof.inference.conformal import domain_sets
from shiftproof.metrics import METRICS
from shiftproof.metrics.outputs import Outputs, of_classes
from shiftproof.metrics.regression import domains_needed
from shiftproof.statistics.meta_analysis import predictive

SHOWN = ("auroc", "accuracy")
LEVEL = 0.95
NORMAL = 1.959964
SETS = 0.9
# For tables with more domains, models hold out one domain, not each pair of domains.
MOST_NESTED = 15
# scikit-learn's logistic regression with its defaults on scaled columns: for tables of numbers with
# many domains, where choosing the penalty of `linear` by held-out domains takes long.
LOGISTIC = "logistic"
METHODS = {
    "prediction interval": "for the observed score: with the sampling error of the next domain",
    "of the true score": "without that error, as `expect` prints it",
    "t interval": "takes the REML τ² for the truth, as is usual; for the observed score",
    "mean ± 1.96 s.e.": "the plain mean over domains and its standard error",
    "oracle": "knows the mean and the spread of all domains, the next one included",
}


class Outcome(NamedTuple):
    """Whether an interval contained the score of a domain, and its width."""

    inside: bool
    width: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expect", description=__doc__)
    parser.add_argument("data", nargs="*", metavar="PATH[:LABEL:DOMAIN]")
    parser.add_argument("--algorithm", default="linear")
    parser.add_argument("--out", type=Path, default=Path("results/expect.jsonl"))
    asked = parser.parse_args(arguments)
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    tables = [json.loads(line) for line in lines]
    for spec in asked.data:
        name = Path(spec.split(":")[0]).name.split(".")[0]
        if (name, asked.algorithm) not in {(each["data"], each["algorithm"]) for each in tables}:
            tables.append(_run(spec, name, asked.algorithm))
            with open(asked.out, "a") as file:
                file.write(json.dumps(tables[-1]) + "\n")
            print(name, len(tables[-1]["domains"]), "domains", file=sys.stderr)
    stored = asked.out.with_name("expect-simulated.json")
    simulated = json.loads(stored.read_text()) if stored.exists() else None
    asked.out.with_suffix(".md").write_text(page(tables, simulated))
    return 0


def _run(spec: str, name: str, algorithm: str) -> dict[str, Any]:
    """Return the scores on each held-out domain, and the coverage of its prediction sets."""
    path, label, domain = (*spec.split(":"), "label", "domain")[:3]
    learner = _logistic() if algorithm == LOGISTIC else algorithm
    data = shiftproof.load(path, label=label, domain=domain)
    with tempfile.TemporaryDirectory() as folder:
        runs = shiftproof.train_each(data, learner, out=folder)
        outputs = of_classes(runs.outputs, "`expect`")
    # [next domain][other domain]: outputs on the other domain of a model trained on neither.
    others = {
        held_out: {other: kept for other, kept in outputs.items() if other != held_out}
        for held_out in outputs
    }
    nested = len(outputs) <= MOST_NESTED
    for pair in combinations(outputs, 2) if nested else ():
        with tempfile.TemporaryDirectory() as folder:
            both = shiftproof.train(data, learner, test_domains=pair, out=folder)
            answers = of_classes(both.outputs, "`expect`")
        for held_out, other in (pair, pair[::-1]):
            others[held_out][other] = answers[other]
    domains = []
    for held_out, own in outputs.items():
        sets = domain_sets(list(others[held_out].values()), own.probabilities, SETS)
        members = sets.members
        domains.append(
            {
                "domain": held_out,
                "samples": len(own.labels),
                **_scores(own),
                "others": {other: _scores(kept) for other, kept in others[held_out].items()}
                if nested
                else None,
                "covered": float(members[np.arange(len(members)), own.labels].mean()),
                "size": float(members.sum(axis=1).mean()),
                "promised": sets.promised,
            }
        )
    return {
        "data": name,
        "algorithm": algorithm,
        "classes": len(data.classes),
        "nested": nested,
        "domains": domains,
    }


def _scores(own: Outputs) -> dict[str, list[float] | None]:
    """Return value, additive value and variance of each score; None if it is undefined."""
    scores = {metric: METRICS.get(metric).estimate(own) for metric in SHOWN}
    return {
        metric: None if found is None else [found.value, found.additive, found.variance]
        for metric, found in scores.items()
    }


def _logistic() -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=300))


def t_interval(
    estimates: np.ndarray, variances: np.ndarray, level: float = 0.95
) -> tuple[float, float]:
    """Return the prediction interval μ̂ ± t √(τ² + s.e.²), with the REML estimate plugged in for τ².

    Student's t has k − 1 degrees of freedom.  (Higgins et al. use k − 2, undefined for k = 2.)
    """
    from scipy.stats import t as student

    found = random_effects(estimates, variances)
    tail = float(student.ppf((1 + level) / 2, len(estimates) - 1))
    reach = tail * math.hypot(found.tau, found.standard_error)
    return found.mean - reach, found.mean + reach


def outcomes(table: dict[str, Any], metric: str) -> dict[str, list[Outcome]]:
    """Return how each method predicts each domain of a table from all others."""
    known = [each for each in table["domains"] if each[metric] is not None]
    scale = METRICS.get(metric).scale
    whole = random_effects(*_columns([each[metric] for each in known])[1:])
    found: dict[str, list[Outcome]] = {method: [] for method in METHODS}
    for each in known:
        value, corrected, variance = each[metric]
        values, additive, variances = _columns(_others(known, each, metric))
        mixture = predictive(additive, variances)
        usual = t_interval(additive, variances, LEVEL)
        own = float(np.std(values, ddof=1) / math.sqrt(len(values)))
        middle, half = (sum(usual) / 2, (usual[1] - usual[0]) / 2)
        # The t interval is for the true score; the sampling error of this domain adds to it.
        half = math.hypot(half, NORMAL * math.sqrt(variance))
        spread = NORMAL * math.sqrt(whole.tau**2 + variance)
        intervals = {
            "prediction interval": mixture.interval(LEVEL, variance),
            "of the true score": mixture.interval(LEVEL),
            "t interval": (middle - half, middle + half),
            "oracle": (whole.mean - spread, whole.mean + spread),
        }
        back = {
            name: (scale.back(low), scale.back(high)) for name, (low, high) in intervals.items()
        }
        mean = float(values.mean())
        back["mean ± 1.96 s.e."] = (mean - NORMAL * own, mean + NORMAL * own)
        finite = scale.back(corrected)  # an accuracy of 1 has finite log odds
        for name, (low, high) in back.items():
            held = low <= (value if name.startswith("mean") else finite) <= high
            found[name].append(Outcome(bool(held), high - low))
    return found


def _others(known: Sequence[dict[str, Any]], own: dict[str, Any], metric: str) -> list[list[float]]:
    """Return the scores of the other domains, as `expect` sees them without this domain."""
    if own.get("others") is not None:
        found = [scores[metric] for scores in own["others"].values()]
        return [score for score in found if score is not None]
    return [each[metric] for each in known if each is not own]


def _columns(rows: Sequence[Sequence[float]]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*rows, strict=True)]


def page(tables: Sequence[dict[str, Any]], simulated: dict[str, Any] | None = None) -> str:
    """Return the outcomes as Markdown."""
    lines = [
        "# What to expect at the next domain: does it hold?",
        "",
        "Written by `python -m benchmarks.expect`. Each domain of a table plays the next one in"
        " turn: intervals of 95% come from the scores of all other domains. Each cell has the"
        " coverage (the share of domains whose score is inside) and the mean width of the interval."
        " The learner is named after the table: with each pair of domains held out, `best` would"
        " take hours.",
        "",
        "The scores of the other domains are by models that were trained neither on the domain they"
        f" are scored on nor on the next one. Tables marked † have more than {MOST_NESTED} domains:"
        " there the models that score the other domains were trained on the next one too.",
        "",
        *(f"- *{method}*: {text}." for method, text in METHODS.items()),
    ]
    for metric in SHOWN:
        name = "AUROC" if metric == "auroc" else metric.capitalize()
        lines += ["", f"## {name}", "", f"| table | domains | {' | '.join(METHODS)} |"]
        lines.append("|---|---:|" + "---:|" * len(METHODS))
        every: dict[str, list[Outcome]] = {method: [] for method in METHODS}
        for table in tables:
            found = outcomes(table, metric)
            lines.append(_row(_name(table), found))
            for method, own in found.items():
                every[method] += own
        lines.append(_row("**all**", every))
    lines += [
        "",
        f"## Sets of {SETS:.0%}",
        "",
        "Conformal sets for each domain from all others: share of rows whose class is in the set,"
        " mean over domains, and mean number of classes in a set. The coverage is promised from"
        f" {domains_needed(SETS)} other domains on.",
        "",
        "| table | domains | classes | promised | covered | lowest domain | classes in a set |",
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    means = []
    for table in tables:
        covered, size = ([each[key] for each in table["domains"]] for key in ("covered", "size"))
        means.append(np.mean(covered))
        promised = "yes" if len(covered) - 1 >= domains_needed(SETS) else "no"
        lines.append(
            f"| {_name(table)} | {len(covered)} | {table['classes']} | {promised} |"
            f" {means[-1]:.1%} | {min(covered):.1%} | {np.mean(size):.2f} |"
        )
    lines.append(f"| **mean over tables** | | | | {np.mean(means):.1%} | | |")
    if simulated is not None:
        lines += ["", *section(simulated)]
    return "\n".join(lines) + "\n"


def _name(table: dict[str, Any]) -> str:
    return f"{table['data']}, {table['algorithm']}" + ("" if table["nested"] else " †")


def _row(name: str, found: dict[str, list[Outcome]]) -> str:
    cells = []
    for own in found.values():
        inside = np.mean([each.inside for each in own])
        cells.append(f"{inside:.1%}, {np.mean([each.width for each in own]):.3f}")
    count = len(next(iter(found.values())))
    return f"| {name} | {count} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
