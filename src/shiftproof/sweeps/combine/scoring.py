"""Score combined models on the samples of the runs they come from.

Models are chosen by the training domains' out parts (train-out), and reported on the test domain's
in part (test-in), as in all tables.  No choice uses labels of the test domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from shiftproof.core.seeding import stream_seed
from shiftproof.core.types import Batch
from shiftproof.data import DomainDataset
from shiftproof.data.sampling import BatchSampler
from shiftproof.inference.predictor import Predictor
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.learners.exact import Exact
from shiftproof.models.risk import class_probabilities
from shiftproof.sweeps.combine.soup import Soup, Weights, refresh_statistics
from shiftproof.training.checkpoint import read_checkpoint, weights_in_place
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluate import predictions
from shiftproof.training.evaluation_sets import (
    EvaluationSet,
    plan_evaluation,
    reading_threads,
    row_outputs,
)
from shiftproof.training.fitting import fitted_exact
from shiftproof.training.load_run import (
    fitted_preparation,
    read_arrays,
    without_starting_weights,
)
from shiftproof.training.rows import ready_for
from shiftproof.training.trainer import build_algorithm

CHOOSING, REPORTING = "train-out", "test-in"
# The smallest probability of the true class that enters a log loss, as in float32.
SMALLEST = torch.finfo(torch.float32).tiny


class Scorer:
    """Scores models of one cell: one dataset, algorithm, trial and held-out domain.

    ``config`` determines the samples.  ``prepared_by`` is the run whose input preparation is used,
    by default that of ``config`` in ``folder`` (all its runs have the same training samples).
    """

    def __init__(
        self,
        config: RunConfig,
        dataset: DomainDataset,
        folder: Path,
        prepared_by: RunConfig | None = None,
    ) -> None:
        self._config = config
        fitted = fitted_preparation(prepared_by or config, dataset, read_checkpoint(folder))
        dataset = ready_for(config.algorithm, dataset, fitted)
        self._dataset = dataset.in_memory().to(torch.device(config.device))
        self._task = config.task(dataset)
        kinds = (REPORTING, *([CHOOSING] if config.holdout else []))
        # Without augmentation: a choice must not depend on random views.
        plain = replace(config, evaluate=kinds, augment_validation=False)
        sets = plan_evaluation(plain, self._dataset, config.splits(dataset))
        self._sets = {kind: [each for each in sets if each.kind == kind] for kind in kinds}

    def trained(self, config: RunConfig, folder: Path) -> Algorithm | Exact:
        """Return the final model of a run: its average, if it averages its weights."""
        if ALGORITHMS.get(config.algorithm).exact:
            return fitted_exact(config, self._task, folder, read_arrays(folder))
        return self._network(config, folder)

    def _network(self, config: RunConfig, folder: Path) -> Algorithm:
        algorithm = self._built(config)
        with weights_in_place(folder, config, algorithm, read_checkpoint(folder)):
            weights = Predictor(algorithm).weights()
        Predictor(algorithm).load(weights)
        return algorithm

    def cooked(self, soup: Soup) -> Algorithm:
        """Return a soup as a model; statistics of trained batch norms are recomputed."""
        algorithm = self._built(self._config)
        Predictor(algorithm).load(soup.weights())
        if soup.norms:
            refresh_statistics(algorithm, sorted(soup.norms), self._batches())
        return algorithm

    def weights(self, config: RunConfig, folder: Path) -> Weights:
        """Return the weights of a run's final model."""
        return Predictor(self._network(config, folder)).weights()

    def probabilities(self, algorithm: Algorithm | Exact, kind: str) -> list[Tensor]:
        """Return the class probabilities [n, c] on each set of a kind, in float64."""
        return [_probabilities(algorithm, each) for each in self._sets.get(kind, ())]

    @property
    def chooses(self) -> bool:
        """Whether there are samples to choose by."""
        return CHOOSING in self._sets

    def accuracy(self, predicted: list[Tensor], kind: str) -> float:
        """Return the mean accuracy over the sets of a kind."""
        pairs = zip(predicted, self._labels(kind), strict=True)
        return fmean((p.argmax(1) == y).double().mean().item() for p, y in pairs)

    def log_loss(self, predicted: list[Tensor], kind: str) -> float:
        """Return the mean of −log p(y|x) over the sets of a kind."""
        pairs = zip(predicted, self._labels(kind), strict=True)
        true = [p.gather(1, y[:, None]).clamp(min=SMALLEST) for p, y in pairs]
        return fmean(-each.log().mean().item() for each in true)

    def _labels(self, kind: str) -> list[Tensor]:
        return [each.domain.labels(each.index).cpu() for each in self._sets.get(kind, ())]

    def _built(self, config: RunConfig) -> Algorithm:
        return build_algorithm(without_starting_weights(config, config.device), self._task)

    def _batches(self) -> Iterator[Batch]:
        """Yield training batches for one pass over the largest training domain."""
        config = self._config
        splits = config.training_splits(self._dataset)
        domains = [domain for domain in self._dataset.domains if domain.name in splits]
        parts = [split.in_ for split in splits.values()]
        size = config.algorithm_hparams(self._dataset.regime).batch_size
        sampler = BatchSampler(domains, parts, size, stream_seed(config.seed, "sampler"))
        steps = -(-max(map(len, parts)) // size) if size else 1
        device = torch.device(config.device)
        for step in range(steps):
            yield sampler.batch(step).to(device)


def _probabilities(algorithm: Algorithm | Exact, subset: EvaluationSet) -> Tensor:
    if isinstance(algorithm, Exact):
        logits = torch.from_numpy(row_outputs(algorithm, subset))
    else:
        found = predictions(algorithm, subset, reading_threads(None))
        logits = torch.cat([logits.cpu() for logits, _ in found])
    return class_probabilities(logits.double())
