"""`python -m benchmarks.weights_of_best DATA [--out FOLDER]`: how to weight the members of `best`.

`DATA` is the folder of shared tables.  The members' predictions for each held-out domain of each
table are computed once and stored in `--out`, one file each; called again, what is there is not
computed again.  Then all combinations of weights and temperatures of `results/best.md` are
evaluated from these files, and the table of the page is printed.  The learned weights are those of
the commit that added this file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import shiftproof
from shiftproof.learners.best import LEAST_WEIGHT, planned, portfolio
from shiftproof.learners.candidate import MOST_FOLDS
from shiftproof.learners.criterion import criterion_of, tempered
from shiftproof.learners.number_stacking import least_squares
from shiftproof.learners.samples import Samples, held_out_folds
from shiftproof.learners.stacking import mixture_proportions
from shiftproof.learners.weighting import LOG_LOSS, metric_weights
from shiftproof.training.configure import configure
from shiftproof.training.features import freeze
from shiftproof.training.fitting import Fitting

MOST_ROWS, MOST_HELD_OUT, SEED = 4_000, 8, 0
BUDGET = 200.0  # of `best`: leaves out boosting for the images only
NUMBERS = ("opt_birthweight", "pisa_math", "beijing_pm25")
CLASSES = ("crc_microbiome", "impact_tbi", "wisdm_activity", "gas_drift")
IMAGES = "office-caltech10"
# Tables with 50 rows of each domain: shown, and not part of the decision.
SMALL = {"impact_tbi, 50 rows a domain": "impact_tbi", "pisa_math, 50 rows a domain": "pisa_math"}
ROWS_OF_SMALL = 50
TABLES = ("heart", "opt_birthweight", *SMALL, *CLASSES[:2], *NUMBERS[1:], *CLASSES[2:], IMAGES)
FAMILIES = ("linear", "boosting", "forest")
WEIGHTS, TEMPERATURES = ("equal", "shrunk", "learned"), ("0", "1", "2")
CLIP = 1e-7


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute what is missing, and print the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("/tmp/weights-of-best"))
    parser.add_argument("--tables", nargs="*", default=TABLES)
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    for table in asked.tables:
        stored = asked.out / f"{table}.names"
        if stored.exists():
            continue
        dataset = _load(asked.data, table)
        count = min(MOST_HELD_OUT, len(dataset.domains))
        held_out = np.random.default_rng(SEED).choice(dataset.domain_names, count, replace=False)
        for number, domain in enumerate(sorted(held_out)):
            path = asked.out / f"{table}-{number}.npz"
            if not path.exists():
                started = time.process_time()
                arrays = _predicted(dataset, domain)
                np.savez(path.with_suffix(".part.npz"), **arrays)
                path.with_suffix(".part.npz").rename(path)
                print(table, domain, f"{time.process_time() - started:.0f} s", file=sys.stderr)
        stored.write_text("\n".join(sorted(held_out)))
    print(page(asked.out, asked.tables))
    return 0


def _load(data: Path, table: str) -> Any:
    if table == IMAGES:
        images = shiftproof.load(data / IMAGES)
        weights = data / "weights" / "tf_efficientnet_lite0.safetensors"
        return freeze(images, "tf_efficientnet_lite0", str(weights))
    if table == "heart":
        path, names = data / "heart-disease" / "heart.csv", ("disease", "hospital")
    else:
        path, names = data / "tables" / f"{SMALL.get(table, table)}.csv.gz", ("label", "domain")
    rows = pd.read_csv(path, low_memory=False)
    shuffled = rows.sample(frac=1, random_state=SEED)
    if table in SMALL:
        rows = shuffled.groupby(names[1]).head(ROWS_OF_SMALL)
    elif len(rows) > MOST_ROWS:
        rows = shuffled.head(MOST_ROWS)
    task = "regression" if SMALL.get(table, table) in NUMBERS else "classification"
    rows = rows.sort_index().reset_index(drop=True)
    return shiftproof.load(rows, label=names[0], domain=names[1], task=task)


def _predicted(dataset: Any, domain: str) -> dict[str, Any]:
    """Return the predictions of all members, for training rows held out and for the test rows."""
    fitting = Fitting(configure(dataset, "best", test_domains=(domain,), seed=SEED), dataset)
    samples = fitting.samples
    (test,) = (each for each in fitting.dataset.domains if each.name == domain)
    x = np.asarray(test.rows(), dtype=np.float32).reshape(len(test), -1).astype(np.float64)
    folds, criterion = held_out_folds(samples, MOST_FOLDS, SEED), criterion_of(samples)
    held, tested, temperatures, names, seconds = [], [], [], [], []
    for candidate in planned(portfolio(samples), samples, BUDGET)[0]:
        started = time.process_time()
        with threadpool_limits(1):
            of_variants = candidate.held_out(samples, folds, SEED)
            risks = [criterion.calibrated_risk(own, samples) for own in of_variants]
            chosen = int(np.argmin(risks))
            model = candidate.fit(samples, candidate.variants[chosen], SEED)
            if samples.classes:
                out = np.zeros((len(x), samples.classes))
                out[:, model.classes_] = model.predict_proba(x)
            else:
                out = np.asarray(model.predict(x)).reshape(len(x), -1)
        held.append(of_variants[chosen])
        tested.append(out)
        temperatures.append(criterion.temperature(of_variants[chosen], samples))
        names.append(candidate.name)
        seconds.append(time.process_time() - started)
    return {
        "held": np.array(held, np.float32), "tested": np.array(tested, np.float32),
        "temperatures": np.array(temperatures), "names": np.array(names),
        "seconds": np.array(seconds), "y": samples.y, "domain": samples.domain,
        "classes": np.array(samples.classes), "test_y": test.label_array,
        "shape": np.array(samples.x.shape),
    }  # fmt: skip


def _scores(arrays: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Return the loss and the AUROC (NaN for numbers) of each combination on one domain."""
    held, tested = (arrays[name].astype(np.float64) for name in ("held", "tested"))
    classes, labels = int(arrays["classes"]), arrays["test_y"]
    samples = Samples(
        np.zeros((len(arrays["y"]), 0)), arrays["y"], arrays["domain"], classes,
        np.zeros(0, bool), loss="cross_entropy" if classes else "squared",
    )  # fmt: skip
    criterion = criterion_of(samples)
    families = [_family(name) for name in arrays["names"]]
    found = {}
    for amount in TEMPERATURES if classes else TEMPERATURES[:1]:
        inner, outer = held, tested
        if amount == "2":
            pairs = list(zip(held, tested, arrays["temperatures"], strict=True))
            inner = np.stack([tempered(own, t) for own, _, t in pairs])
            outer = np.stack([tempered(own, t) for _, own, t in pairs])
        for name, weights in _weights(inner, samples, families).items():
            mixture = np.tensordot(weights, outer, 1)
            if amount != "0":
                temperature = criterion.temperature(np.tensordot(weights, inner, 1), samples)
                mixture = criterion.calibrated(mixture, temperature)
            found[f"{name} {amount}"] = _score(mixture, labels, classes)
    for name in () if classes else WEIGHTS:
        found |= {f"{name} {amount}": found[f"{name} 0"] for amount in TEMPERATURES[1:]}
    return found


def _weights(
    predicted: np.ndarray, samples: Samples, families: Sequence[str]
) -> dict[str, np.ndarray]:
    counts = [families.count(family) for family in families]
    equal = 1 / (len(set(families)) * np.array(counts))
    shares = samples.balanced()
    if samples.classes:
        chances = np.maximum(predicted[:, np.arange(len(samples)), samples.y], 1e-6)
        best = mixture_proportions(chances, shares)
    else:
        errors = (predicted - samples.y[:, None]).reshape(len(predicted), -1)
        best = least_squares((errors * shares) @ errors.T)
    domains, prior = len(np.unique(samples.domain)), len(FAMILIES)
    learned = metric_weights(predicted, samples, SEED, LOG_LOSS).mean
    learned = np.where(learned < LEAST_WEIGHT, 0, learned)
    return {
        "equal": equal,
        "shrunk": (domains * best + prior * equal) / (domains + prior),
        "learned": learned / learned.sum(),
    }


def _family(name: str) -> str:
    return "forest" if name == "extra trees" else name.split()[0].rstrip(",")


def _score(predicted: np.ndarray, labels: np.ndarray, classes: int) -> tuple[float, float]:
    if not classes:
        return float(np.square(predicted - labels.reshape(len(labels), -1)).mean() / 2), np.nan
    chances = np.maximum(predicted[np.arange(len(labels)), labels], CLIP)
    present = np.unique(labels)
    areas = [roc_auc_score(labels == k, predicted[:, k]) for k in present if len(present) > 1]
    return float(-np.log(chances).mean()), 100 * float(np.mean(areas)) if areas else np.nan


def page(folder: Path, tables: Sequence[str]) -> str:
    """Return the losses and AUROCs as Markdown, with the combination that the rule keeps."""
    names = [f"{weights} {amount}" for weights in WEIGHTS for amount in TEMPERATURES]
    scores = {}
    for table in tables:
        paths = sorted(folder.glob(f"{table}-[0-9].npz"))
        own = [_scores(dict(np.load(path))) for path in paths]
        scores[table] = np.array([[one[name] for name in names] for one in own])
    decisive = [table for table in tables if table not in SMALL]
    losses = np.array([scores[table][:, :, 0].mean(axis=0) for table in decisive])
    aurocs = np.array(
        [np.nanmean(scores[t][:, :, 1], axis=0) for t in decisive if t not in NUMBERS]
    )
    best = int(losses.mean(axis=0).argmin())
    gaps = losses - losses[:, [best]]
    verdicts = []
    for place in range(len(names)):
        spread = gaps[:, place].std(ddof=1) / len(gaps) ** 0.5
        mean = gaps[:, place].mean()
        worse = []
        for table, gap in zip(decisive, gaps[:, place], strict=True):
            paired = scores[table][:, place, 0] - scores[table][:, best, 0]
            if gap > 0.01 and gap > paired.std(ddof=1) / len(paired) ** 0.5:
                worse.append(table)
        area = (aurocs[:, place] - aurocs[:, best]).mean()
        kept = mean <= max(0.005, spread) and len(worse) <= 1
        kept = kept and gaps[:, place].max() <= 0.03 and area >= -0.1
        verdicts.append((mean, spread, gaps[:, place].max(), len(worse), area, kept))
    first = next(place for place, verdict in enumerate(verdicts) if verdict[-1])
    lines = ["| loss | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for table in tables:
        values = scores[table][:, :, 0].mean(axis=0)
        lines.append(f"| {table} | " + " | ".join(f"{value:.4f}" for value in values) + " |")
    lines.append("| **mean** | " + " | ".join(f"{v:.4f}" for v in losses.mean(axis=0)) + " |")
    lines += ["", "| AUROC | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for table in tables:
        if SMALL.get(table, table) not in NUMBERS:
            values = np.nanmean(scores[table][:, :, 1], axis=0)
            lines.append(f"| {table} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    lines.append("| **mean** | " + " | ".join(f"{v:.2f}" for v in aurocs.mean(axis=0)) + " |")
    lines += ["", f"R is {names[best]}; kept: {names[first]}.", ""]
    lines += ["| | above R | standard error | most | tables worse | AUROC | passes |"]
    lines += ["|---|--:|--:|--:|--:|--:|---|"]
    for name, (mean, spread, most, lost, area, passes) in zip(names, verdicts, strict=True):
        told = f"{mean:+.4f} | {spread:.4f} | {most:+.4f} | {lost} | {area:+.2f}"
        lines.append(f"| {name} | {told} | {'yes' if passes else 'no'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
