"""One run of the DomainBed protocol on Colored MNIST: the original's schedule against ours.

The original evaluates every split at every hundredth step, in fp32.  We evaluate the splits that
the selection methods need, in bf16 if the processor supports it.  Loading is not counted; the
original's loaders would only make it slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.figure import Figure
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.datasets.colored_mnist import ColoredMNIST
from shiftproof.paper.measure import medians, seconds_in_turn
from shiftproof.sweeps.plan import combined
from shiftproof.sweeps.presets import PROTOCOL_STEPS
from shiftproof.sweeps.selection import SELECTORS
from shiftproof.training.config import RunConfig
from shiftproof.training.configure import configure
from shiftproof.training.trainer import Trainer

TEST_DOMAIN = "10%"
EVERYTHING = ("train-in", "train-out", "test-in", "test-out")
EVERY = 100
# Evaluations are timed on this many samples per domain; the time is linear in their number.
SAMPLES = 1200
TARGETS = {("oracle",): 5.0, ("oracle", "training-domain"): 3.0}


def run() -> Iterator[Figure]:
    """Estimate the seconds of a whole run from those of its steps and evaluations."""
    whole = ColoredMNIST().load(0)
    some = _some(whole)
    share = sum(map(len, whole.domains)) / sum(map(len, some.domains))
    precision = "bf16" if has_bf16() else "fp32"
    sides = {"original": _trainer(some, "erm", "fp32", EVERYTHING, EVERY)}
    for selectors in TARGETS:
        needs = combined([SELECTORS.get(name).needs for name in selectors])
        every = EVERY if needs.every_step else 0
        sides["+".join(selectors)] = _trainer(some, "idm", precision, needs.evaluate, every)
    taken_steps = seconds_in_turn({name: side.advance for name, side in sides.items()}, 11, 2)
    taken_evaluations = seconds_in_turn({name: side.measure for name, side in sides.items()}, 3, 1)
    steps, evaluations = medians(taken_steps), medians(taken_evaluations)
    costs = {
        name: PROTOCOL_STEPS * steps[name] + _count(side.config) * share * evaluations[name]
        for name, side in sides.items()
    }
    for selectors, target in TARGETS.items():
        name = "+".join(selectors)
        yield Figure(
            f"run-{name}",
            f"the original's schedule / ours, a whole run of 5,001 steps selected by {name}",
            costs["original"] / costs[name],
            "≥",
            target,
            {
                "precision": precision,
                "seconds of a run": {side: round(costs[side], 1) for side in ("original", name)},
                "of a step": {side: steps[side] for side in ("original", name)},
                "of an evaluation": {
                    side: round(share * evaluations[side], 2) for side in ("original", name)
                },
                "evaluations": {side: _count(sides[side].config) for side in ("original", name)},
            },
        )


def has_bf16() -> bool:
    """Return whether this processor has instructions for bfloat16."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _count(config: RunConfig) -> int:
    return sum(config.evaluates_after(step) for step in range(1, config.steps + 1))


def _some(dataset: DomainDataset) -> DomainDataset:
    def cut(domain: Domain) -> Domain:
        return Domain(domain.name, domain.x[:SAMPLES], domain.y[:SAMPLES])  # type: ignore[index]

    return replace(dataset, domains=tuple(map(cut, dataset.domains)))


def _trainer(
    dataset: DomainDataset, algorithm: str, precision: str, evaluate: tuple[str, ...], every: int
) -> Trainer:
    config = configure(
        dataset,
        algorithm,
        test_domains=[TEST_DOMAIN],
        steps=PROTOCOL_STEPS,
        eval_every=every,
        evaluate=evaluate,
        device="cpu",
        precision=precision,
        hparams={"gradient_warmup": 0} if algorithm == "idm" else {},
    )
    return Trainer(config, dataset)
