"""Notes on the data and settings of a run before its first step, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from shiftproof.core.space import specs
from shiftproof.core.text import counted, listed
from shiftproof.core.types import CLASSIFICATION
from shiftproof.data import DomainDataset
from shiftproof.data.splits import Split
from shiftproof.training.config import RunConfig


def preflight_notes(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split], algorithm: Any
) -> Iterator[str]:
    """Yield notes on the data and the settings."""
    yield from dataset.notes
    batch_size = 0
    if not algorithm.exact:
        yield from _late_parts(config, algorithm)
        batch_size = algorithm.hparams.batch_size
    yield from _thin_domains(config, dataset, splits, batch_size)
    if dataset.kind == CLASSIFICATION:
        yield from _unseen_labels(config, dataset, splits)


def _late_parts(config: RunConfig, algorithm: Any) -> Iterator[str]:
    for start in sorted(algorithm.optimizer_restarts | algorithm.late_starts):
        if start >= config.steps:
            waits = [
                name
                for name, spec in specs(type(algorithm.hparams)).items()
                if spec.unit == "steps" and getattr(algorithm.hparams, name) == start
            ]
            shorter = f"lower `{waits[0]}` or " if waits else ""
            yield (
                f"a part of {config.algorithm} starts at step {start}, which is never reached in"
                f" {config.steps} steps; {shorter}train for more `steps`"
            )


def _thin_domains(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split], batch_size: int
) -> Iterator[str]:
    for domain, split in zip(dataset.domains, splits, strict=True):
        if domain.name in config.test_domains:
            continue
        if len(split.in_) < batch_size:
            yield (
                f"domain {domain.name!r} has {counted(len(split.in_), 'training sample')}, fewer"
                f" than the batch size of {batch_size}, so they repeat within a batch; lower"
                " `batch_size` or `holdout`"
            )
        present = np.unique(domain.label_array[split.in_], axis=0)
        if len(present) == 1 and dataset.target:
            yield (
                f"domain {domain.name!r} has training samples of one value only"
                f" ({counted(len(split.in_), 'sample')}); check its labels"
            )
        elif len(present) == 1:
            (label,) = present.tolist()
            yield (
                f"domain {domain.name!r} has training samples of one class only"
                f" ({dataset.classes[label]!r}, {counted(len(split.in_), 'sample')}): a method that"
                " matches domains will match classes there; merge it with another domain or hold"
                " it out"
            )


def _unseen_labels(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split]
) -> Iterator[str]:
    pairs = list(zip(dataset.domains, splits, strict=True))
    trained_on = [d.label_array[s.in_] for d, s in pairs if d.name not in config.test_domains]
    seen = np.concatenate(trained_on)
    for domain, _ in pairs:
        unseen = domain.label_array[~np.isin(domain.label_array, seen)]
        if len(unseen) == 0:
            continue
        names = [dataset.classes[label] for label in np.unique(unseen).tolist()]
        yield (
            f"domain {domain.name!r} has {counted(len(unseen), 'sample')} with labels never seen in"
            f" training ({listed(names, most=3)}), which count as wrong; add such samples to a"
            " training domain or remove them"
        )
