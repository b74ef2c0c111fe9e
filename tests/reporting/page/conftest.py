"""Runs made up for the tests of the page: their accuracies are given, nothing is trained."""

from types import SimpleNamespace

import numpy as np
import pytest
from _internals import (
    SELECTORS,
    Evaluation,
    Expected,
    LastStep,
    Outputs,
    OutputShift,
    Run,
    aggregate,
    page_HeldOut as HeldOut,
    runs_to_compare,
)

DOMAINS = ("east", "north", "west")
ENVIRONMENT = {"shiftproof": "9.8.7", "torch": "2", "machine": "toaster"}


def run(algorithm, test_domain, accuracy, *, trial=0, draw=0, dataset="wards", **more):
    """A finished run with three evaluations, the second of which is the best by validation."""
    given = {"domains": DOMAINS, "seconds": 2.0, "status": "finished", "shift": None} | more
    domains = given["domains"]
    validation = (0.5, 0.75, 0.625)
    evaluations = tuple(
        Evaluation(
            step,
            tuple(accuracy + off if at == test_domain else None for at in range(len(domains))),
            tuple(share for _ in domains),
            shift=given["shift"],
        )
        for step, share, off in zip((1, 101, 200), validation, (-0.25, 0.0, -0.125), strict=True)
    )
    config = {"dataset": dataset, "backbone": "mlp", "steps": 200, "holdout": 0.2, "device": "cpu"}
    return Run(
        dataset, algorithm, domains, (test_domain,), draw, trial, given["status"], evaluations,
        config=config,
        seconds=given["seconds"],
        environment=ENVIRONMENT,
        standalone=given.get("standalone", False),
    )  # fmt: skip


def grid(accuracies, trials=1, **more):
    """Runs of every algorithm on every test domain; accuracies [algorithm][domain] or per trial."""
    return [
        run(
            name, at, row[at][trial] if isinstance(row[at], tuple) else row[at], trial=trial, **more
        )
        for name, row in accuracies.items()
        for at in range(len(row))
        for trial in range(trials)
    ]


def chosen(outcomes, *names):
    """What selectors choose, or the last step of runs by themselves.

    Expected is every algorithm on each test domain that one was run on.
    """
    selectors = [SELECTORS.get(name)() for name in names or ("training-domain",)]
    if all(outcome.standalone for outcome in outcomes):
        selectors = [LastStep()]
    return [aggregate(outcomes, selector, runs_to_compare(outcomes)) for selector in selectors]


def held_out(wards, classes=2, rows=80, metric="accuracy", seed=0):
    """What a model answered in each ward: the more trust, the more often it is right."""
    rng = np.random.default_rng(seed)
    outputs = {}
    for ward, trust in wards.items():
        labels = np.arange(rows) % classes
        logits = rng.standard_normal((rows, classes)) + trust * np.eye(classes)[labels]
        odds = np.exp(logits)
        outputs[ward] = Outputs(odds / odds.sum(axis=1, keepdims=True), labels, np.arange(rows))
    names = tuple("abcdef"[:classes])
    return HeldOut("ERM on wards", Expected(outputs, metric, classes=names))


SHIFT = OutputShift(2, (0.6, 0.6, None), 0.2, 0.01, 0.005)


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, two):
    """The ratio that WCAG 2 defines."""
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(scope="session")
def made():
    """All of the above, for the tests beside this file."""
    return SimpleNamespace(
        run=run, grid=grid, chosen=chosen, shift=SHIFT, contrast=contrast, held_out=held_out
    )
