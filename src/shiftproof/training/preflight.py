"""What a user should know before the first step, one sentence each: nothing here stops a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from shiftproof.core.space import specs
from shiftproof.data import DomainDataset
from shiftproof.data.splits import Split
from shiftproof.learners.algorithms import Algorithm
from shiftproof.training.config import RunConfig


def concerns(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split], algorithm: Algorithm
) -> Iterator[str]:
    """Yield what was noticed of the data and of the settings."""
    yield from dataset.notes
    yield from _late_parts(config, algorithm)
    yield from _thin_domains(config, dataset, splits, algorithm.hparams.batch_size)
    yield from _unseen_labels(config, dataset, splits)


def _late_parts(config: RunConfig, algorithm: Algorithm) -> Iterator[str]:
    for start in sorted(algorithm.optimizer_restarts | algorithm.late_starts):
        if start >= config.steps:
            waits = [
                name
                for name, spec in specs(type(algorithm.hparams)).items()
                if spec.unit == "steps" and getattr(algorithm.hparams, name) == start
            ]
            shorter = f" (--hparam {waits[0]}=…)" if waits else ""
            yield (
                f"a part of {config.algorithm} waits for step {start} and never acts in"
                f" {config.steps} steps; shorten its warm-up{shorter} or take more steps"
            )


def _thin_domains(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split], batch_size: int
) -> Iterator[str]:
    for domain, split in zip(dataset.domains, splits, strict=True):
        if domain.name in config.test_domains:
            continue
        if len(split.in_) < batch_size:
            yield (
                f"domain {domain.name!r} has {len(split.in_)} samples to train on, fewer than"
                f" batch_size {batch_size}: they repeat within a batch; lower it or --holdout"
            )
        present = torch.unique(domain.labels(split.in_))
        if len(present) == 1:
            (label,) = present.tolist()
            yield (
                f"domain {domain.name!r} has one class only to train on"
                f" ({dataset.classes[label]!r}, {len(split.in_)} samples): a method that"
                " matches domains will match classes there; merge it with another domain or hold"
                " it out"
            )


def _unseen_labels(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split]
) -> Iterator[str]:
    pairs = list(zip(dataset.domains, splits, strict=True))
    seen = torch.cat([d.labels(s.in_) for d, s in pairs if d.name not in config.test_domains])
    for domain, _ in pairs:
        unseen = domain.y[~torch.isin(domain.y, seen)]
        if len(unseen) == 0:
            continue
        names = [dataset.classes[label] for label in torch.unique(unseen).tolist()]
        shown = ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
        yield (
            f"domain {domain.name!r}: {len(unseen)} samples have a label never seen in training"
            f" ({shown}) and can only count as wrong; add such samples to a training domain or"
            " remove them"
        )
