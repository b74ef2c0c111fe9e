"""Choose one of several backbones by its loss on held-out training domains.

SIMPLE (Li, Ren, Zhao, Zhang, Xie, Yu and Li, 2023, *SIMPLE: Specialized Model-Sample Matching for
Domain Generalization*, ICLR) finds that no pretrained network is best on every domain, and selects
from a pool of frozen ones.  Here a linear model on each network's features is scored on training
domains that it was not trained on (`learners.candidate`), and the network with the lowest loss is
chosen.  Test domains are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.seeding import seed_hash
from shiftproof.core.types import CROSS_ENTROPY, SQUARED
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.data.tables.vectors import vectors_in
from shiftproof.learners.candidate import judge
from shiftproof.learners.linear import LinearCandidate
from shiftproof.training.frozen_features import FrozenFeatures
from shiftproof.training.rows import samples_of
from shiftproof.training.settings import ALL, BEST

# The most rows of each domain to use: enough to rank a few networks by a linear model.
MOST_ROWS = 1000


def pooled(
    dataset: DomainDataset,
    pool: str,
    test_domains: Sequence[str],
    seed: int,
    progress: Progress = silent,
) -> tuple[DomainDataset, tuple[str, ...]]:
    """Return the data with all its vectors or the best one, and a note on the choice.

    `pool` is `all` or `best`.  The choice uses the training domains only, including the parts of
    them that a run holds out.
    """
    if pool == ALL:
        return dataset, ()
    names = [column.name for column in _columns(dataset)]
    vectors = {vector: parts for vector, parts in vectors_in(names).items() if len(parts) > 1}
    if len(vectors) < 2:
        raise InvalidValue(
            f"`pool={BEST!r}` needs at least two backbones or vectors to choose from, but"
            f" {dataset.name} has {len(vectors) or 'none'}"
        )
    positions = {vector: [names.index(part) for part in parts] for vector, parts in vectors.items()}
    risks: dict[str, float] = {}
    for done, (vector, at) in enumerate(positions.items()):
        progress("choosing a backbone", done, len(positions))
        risks[vector] = _risk(_only(dataset, at), test_domains, seed)
    best = min(risks, key=risks.__getitem__)
    listed = ", ".join(f"{vector} {risk:.3f}" for vector, risk in risks.items())
    note = f"{best} has the lowest loss on held-out training domains: {listed}"
    if isinstance(dataset, FrozenFeatures):
        return next(part for part in dataset.parts if part.frozen["backbone"] == best), (note,)
    others = {i for vector, at in positions.items() if vector != best for i in at}
    return _only(dataset, [i for i in range(len(names)) if i not in others]), (note,)


def _columns(dataset: DomainDataset) -> Sequence[Column]:
    return dataset.preparation.columns if isinstance(dataset.preparation, Columns) else ()


def _only(dataset: DomainDataset, positions: Sequence[int]) -> DomainDataset:
    """Return a table with only the columns at `positions`."""
    columns: Any = dataset.preparation

    def cut(domain: Domain) -> Domain:
        return domain.having(x=domain.rows()[:, list(positions)])

    chosen = replace(columns, columns=tuple(columns.columns[position] for position in positions))
    return replace(dataset.with_domains(cut), preparation=chosen, identity="")


def _risk(dataset: DomainDataset, test_domains: Sequence[str], seed: int) -> float:
    """Return the loss of linear models on training domains that they were not trained on."""
    rng = np.random.default_rng(seed_hash("pool", seed))
    domains = [domain for domain in dataset.domains if domain.name not in test_domains]
    rows = [np.sort(rng.permutation(len(domain))[:MOST_ROWS]) for domain in domains]
    loss = SQUARED if dataset.target else CROSS_ENTROPY
    samples = samples_of(dataset, domains, rows, loss=loss)
    return judge(LinearCandidate(), samples, seed).risk
