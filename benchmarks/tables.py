"""`python -m benchmarks.tables PATH[:LABEL:DOMAIN] …`: learners on tables and frozen features.

The same for numbers is `benchmarks.regression`.  Each domain is held out in turn, at most ten of a
table, or `--most` of it.  A folder of images is turned into frozen features.  Each outcome is
appended to a file as soon as it is there; called again, what is there is not run again.  The page
shows for every table the mean over held-out domains and seeds, and how far `best` is from the best
of the single learners, chosen in hindsight by the test domains themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

import shiftproof
from shiftproof.core.text import counted
from shiftproof.paper.measure import machine

SINGLE = ("linear", "boosting", "forest")
ALGORITHMS = (*SINGLE, "best")
MOST_HELD_OUT = 10


class Metric(NamedTuple):
    """How to show a score: the sign of better, a factor, and the number of digits."""

    sign: int
    scale: float
    digits: int


@dataclass(frozen=True)
class Study:
    """What to measure, and where to write it."""

    def __hash__(self) -> int:
        return hash(self.name)

    name: str
    title: str
    metrics: Mapping[str, Metric]
    # Settings of `shiftproof.train`, besides those of the data.
    settings: tuple[tuple[str, Any], ...] = ()
    # Whether to hold out one domain of every table first, then the next, for partial results.
    domain_by_domain: bool = False


TABLES = Study(
    "tables",
    "Tables: every domain held out in turn",
    {"accuracy": Metric(1, 100.0, 1), "auroc": Metric(1, 100.0, 1), "log_loss": Metric(-1, 1.0, 3)},
)


def main(arguments: Sequence[str] | None = None, study: Study = TABLES) -> int:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{study.name}", description=__doc__)
    parser.add_argument("data", nargs="+", metavar="PATH[:LABEL:DOMAIN]")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--backbone", default="tf_efficientnet_lite0", help="for images")
    parser.add_argument("--weights", default="pretrained", help="of the backbone: a file")
    parser.add_argument("--most", type=int, default=MOST_HELD_OUT, help="domains held out")
    parser.add_argument("--by-domain", action="store_true", help="one domain of every table first")
    parser.add_argument("--skip", nargs="*", default=[], metavar="NAME:ALGORITHM")
    parser.add_argument("--out", type=Path, default=Path(f"results/{study.name}.jsonl"))
    asked = parser.parse_args(arguments)
    study = replace(study, domain_by_domain=study.domain_by_domain or asked.by_domain)
    images = {"freeze": True, "backbone": asked.backbone, "weights": asked.weights}
    done = read(asked.out)
    parts = asked.most if study.domain_by_domain else 1
    for seed, part, spec, algorithm in product(asked.seeds, range(parts), asked.data, ALGORITHMS):
        name = Path(spec.split(":")[0]).name.split(".")[0]
        held_out = _held_out(_load(spec, study).domain_names, asked.most)
        if study.domain_by_domain:
            held_out = held_out[part : part + 1]
        key = (name, algorithm, seed, tuple(held_out))
        skipped = f"{name}:{algorithm}" in asked.skip or not held_out
        if not skipped and key not in {_key(each) for each in done}:
            outcome = _run(spec, name, algorithm, seed, images, study, held_out)
            with open(asked.out, "a") as file:
                file.write(json.dumps(outcome) + "\n")
            done = read(asked.out)  # another process may have added others
            asked.out.with_suffix(".md").write_text(page(done, study, asked.most))
    return 0


@cache
def _load(spec: str, study: Study) -> Any:
    path, label, domain = (*spec.split(":"), "label", "domain")[:3]
    given: dict[str, Any] = {"label": label, "domain": domain} if Path(path).is_file() else {}
    return shiftproof.load(path, **given, **dict(study.settings))


def _run(
    spec: str,
    name: str,
    algorithm: str,
    seed: int,
    images: dict[str, Any],
    study: Study,
    held_out: Sequence[str],
) -> dict[str, Any]:
    path, label, domain = (*spec.split(":"), "label", "domain")[:3]
    is_table = Path(path).is_file()
    given: dict[str, Any] = {"label": label, "domain": domain} if is_table else {}
    given |= dict(study.settings)
    started = time.perf_counter()
    data = _load(spec, study)
    runs: list[dict[str, Any]] = []
    members: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for place, held in enumerate(held_out):
            settings = {**given, **({} if is_table else images), "out": Path(folder, str(place))}
            run = shiftproof.train(path, algorithm, test_domains=held, seed=seed, **settings)
            found = run.scores[held]
            runs.append({"domain": held, **found, **_in_deviations(data, found)})
            for member in run.metrics["members"]:
                weight = members.get(member["name"], 0.0) + member["weight"] / len(held_out)
                members[member["name"]] = round(weight, 4)
    seconds = round(time.perf_counter() - started, 1)
    print(name, algorithm, seed, f"{seconds} s", file=sys.stderr)
    return {
        "data": name, "algorithm": algorithm, "seed": seed, "seconds": seconds, "runs": runs,
        "members": members, "commit": _commit(), "machine": machine(),
    }  # fmt: skip


def _in_deviations(data: Any, scores: Mapping[str, float | None]) -> dict[str, float]:
    """Return regression errors in standard deviations of the label, to compare tables."""
    if not data.target:
        return {}
    spread = float(np.concatenate([domain.y.numpy() for domain in data.domains]).std())
    return {f"{name}_sd": (scores[name] or 0.0) / spread for name in ("mae", "rmse")}


def _held_out(domains: Sequence[str], most: int = MOST_HELD_OUT) -> list[str]:
    """Return at most `most` domains in their order, chosen independently of any result."""
    count = min(most, len(domains))
    chosen = np.random.default_rng(0).choice(len(domains), count, replace=False)
    return [domains[place] for place in sorted(chosen)]


def page(
    outcomes: Sequence[dict[str, Any]], study: Study = TABLES, most: int = MOST_HELD_OUT
) -> str:
    """Return the outcomes as Markdown."""
    if study.domain_by_domain:
        outcomes = _complete(outcomes)
    lines = [
        f"# {study.title}",
        "",
        f"Written by `python -m benchmarks.{study.name}`."
        " Each figure is the mean over held-out domains"
        f" (at most {most}, chosen at random once),"
        " then over seeds. Settings of all learners come from held-out training domains."
        " *Hindsight* is the best of the single learners on this table, chosen by the test domains:"
        " no user could. Means are over tables on which all were run.",
        "",
        "| table | seeds | " + " | ".join(ALGORITHMS) + " | hindsight | best − hindsight |",
        "|---|--:|" + "--:|" * (len(ALGORITHMS) + 2),
    ]
    tables = list(dict.fromkeys(each["data"] for each in outcomes))
    if study.domain_by_domain:
        ran = {(each["data"], run["domain"]) for each in outcomes for run in each["runs"]}
        counts = ", ".join(f"{table} {sum(own == table for own, _ in ran)}" for table in tables)
        lines[4:4] = [f"Domains held out so far: {counts}.", ""]
    means: dict[str, dict[str, list[float]]] = {}
    for metric, (sign, scale, digits) in study.metrics.items():
        for table in tables:
            own = {a: _mean(outcomes, table, a, metric) for a in ALGORITHMS}
            values = {a: scale * v for a, v in own.items() if v is not None}
            if "best" not in values or len(values) < 3:
                continue
            for algorithm, value in values.items():
                if len(values) == len(ALGORITHMS):
                    means.setdefault(metric, {}).setdefault(algorithm, []).append(value)
            single = [value for algorithm, value in values.items() if algorithm != "best"]
            hindsight = max(single, key=lambda value: sign * value)
            seeds = _seeds(outcomes, table)
            shown = [f"{values[a]:.{digits}f}" if a in values else "–" for a in ALGORITHMS]
            shown.append(f"{hindsight:.{digits}f}")
            shown.append(f"{values['best'] - hindsight:+.{digits}f}")
            lines.append(f"| {table}, {metric} | {seeds} | " + " | ".join(shown) + " |")
        if metric in means:
            cells = [f"**{fmean(means[metric][a]):.{digits}f}**" for a in ALGORITHMS]
            lines.append(f"| **mean, {metric}** | | " + " | ".join(cells) + " | | |")
    lines += ["", "## Time", "", "| table | " + " | ".join(ALGORITHMS) + " |"]
    lines += ["|---|" + "--:|" * len(ALGORITHMS)]
    for table in tables:
        seconds = [
            [o["seconds"] for o in outcomes if (o["data"], o["algorithm"]) == (table, a)]
            for a in ALGORITHMS
        ]
        lines.append(
            f"| {table} | " + " | ".join(f"{fmean(s):.0f} s" if s else "–" for s in seconds) + " |"
        )
    lines += ["", "## Weights of the members of `best`, mean over domains and seeds", ""]
    for table in tables:
        found = [o["members"] for o in outcomes if (o["data"], o["algorithm"]) == (table, "best")]
        names = dict.fromkeys(name for each in found for name in each)
        weights = {n: fmean(each.get(n, 0.0) for each in found) for n in names}
        told = ", ".join(f"{n} {w:.0%}" for n, w in sorted(weights.items(), key=lambda i: -i[1]))
        if told:
            lines.append(f"- {table}: {told}")
    if not outcomes:
        return "\n".join([*lines, ""])
    commits = Counter(each["commit"] for each in outcomes).most_common()
    told = ", ".join(f"{commit} ({counted(count, 'record')})" for commit, count in commits)
    lines += ["", f"Commits: {told}. Machine of the last: {outcomes[-1]['machine']}.", ""]
    return "\n".join(lines)


def _seeds(outcomes: Iterable[dict[str, Any]], table: str) -> str:
    """Return the number of seeds of the learners on a table: `3`, or `2 to 3` if they differ."""
    own = {(each["algorithm"], each["seed"]) for each in outcomes if each["data"] == table}
    counts = Counter(algorithm for algorithm, _ in own).values()
    low, high = min(counts), max(counts)
    return str(high) if low == high else f"{low} to {high}"


def _mean(
    outcomes: Iterable[dict[str, Any]], table: str, algorithm: str, metric: str
) -> float | None:
    # A domain with a single class has no AUROC.
    values = [
        fmean(known)
        for each in outcomes
        if (each["data"], each["algorithm"]) == (table, algorithm)
        and (known := [run[metric] for run in each["runs"] if run[metric] is not None])
    ]
    return fmean(values) if values else None


def read(path: Path) -> list[dict[str, Any]]:
    """Return the outcomes in a file; empty if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _key(outcome: dict[str, Any]) -> tuple[str, str, int, tuple[str, ...]]:
    held_out = tuple(run["domain"] for run in outcome["runs"])
    return outcome["data"], outcome["algorithm"], outcome["seed"], held_out


def _complete(outcomes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outcomes of cases that all learners were run on."""
    ran: dict[tuple[Any, ...], set[str]] = {}
    for each in outcomes:
        name, algorithm, *rest = _key(each)
        ran.setdefault((name, *rest), set()).add(algorithm)
    whole = {key for key, algorithms in ran.items() if len(algorithms) == len(ALGORITHMS)}
    return [each for each in outcomes if (each["data"], *_key(each)[2:]) in whole]


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
