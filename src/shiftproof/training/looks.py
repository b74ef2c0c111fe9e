"""The held-out samples that an algorithm looks at while it trains (`Algorithm.looks`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.seeding import seed_hash
from shiftproof.data import DomainDataset
from shiftproof.data.splits import Split
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import EvaluationSet

# Until matching starts, all looks together process at most this share of the samples that training
# processes, or a batch each if that is more.  They need only forward passes, a third of the work of
# a step: a fifth adds 7%, and the test itself some more (`results/auto.md`).  After that, a look
# evaluates four sets of weights.
SHARE = 0.2


def held_out_sets(
    config: RunConfig, dataset: DomainDataset, splits: Sequence[Split], batch: int, looks: int
) -> list[EvaluationSet]:
    """Return samples of each training domain's held-out part, the same ones for every look.

    `batch` is the number of samples in a step, over all domains.  Every domain contributes the same
    share of its samples; a look uses at least a batch of samples, if there are that many.
    """
    if config.holdout == 0:
        raise InvalidValue(
            f"{config.algorithm} with automatic strength decides on the held-out parts of the"
            " training domains: set `holdout` above 0"
        )
    pairs = [
        (domain, split.out)
        for domain, split in zip(dataset.domains, splits, strict=True)
        if domain.name not in config.test_domains and len(split.out) > 0
    ]
    total = sum(len(out) for _, out in pairs)
    most = max(batch, int(SHARE * config.steps * batch / looks))
    sets = []
    for domain, out in pairs:
        count = len(out) if total <= most else max(1, len(out) * most // total)
        rng = np.random.default_rng(seed_hash("looks", config.data_seed, domain.name))
        chosen = np.sort(rng.permutation(out)[:count])
        sets.append(EvaluationSet(f"{domain.name}/out", domain, chosen, "train-out"))
    return sets
