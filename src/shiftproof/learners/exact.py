"""Algorithms that are fitted at once: no steps, no gradients.

They go through the same runs, checkpoints, model files, sweeps and reports as the others.  A run
of one has a single step, which fits it to all samples of the training domains.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.late_buffers import LateBuffers
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms.base import Algorithm, Family, Losses
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.judging import MOST_FOLDS
from shiftproof.learners.samples import Samples, held_out_folds

# Called with what is done now, and how many parts of how many are done; may raise to stop.
Progress = Callable[[str, int, int], None]
# The smallest probability that becomes a logit: log 0 is not a number that can be averaged.
SMALLEST = 1e-7


def silent(what: str, done: int, total: int) -> None:
    """Report no progress."""


class HeldOutPredictions(LateBuffers):
    """Predictions for the training rows, each by models that were not trained on its domain.

    ``predicted`` [n, k], the classes ``y`` [n] or numbers [n] or [n, k], the positions ``domain``
    [n] of the domains, and ``fold`` [n]: the model of a row was trained on the rows of the other
    folds.  None where no domain was held out.  They are in the checkpoint, and never in a model's
    file: they tell of single rows.
    """

    late = ("predicted", "y", "domain", "fold")
    predicted: Tensor | None
    y: Tensor | None
    domain: Tensor | None
    fold: Tensor | None

    def take(self, ensemble: Ensemble, samples: Samples, seed: int) -> None:
        """Hold the predictions of an ensemble for its training samples, if there are any."""
        if ensemble.held_out is not None:
            self.predicted = torch.from_numpy(ensemble.held_out).float()
            self.y = torch.from_numpy(samples.y)
            self.domain = torch.from_numpy(samples.domain).long()
            self.fold = torch.from_numpy(held_out_folds(samples, MOST_FOLDS, seed)).long()


class EnsembleHead(nn.Module):
    """A fitted ensemble as a module: rows [n, d] → log-probabilities [n, c], or numbers [n, k].

    The ensemble's file is a buffer, so it is saved and loaded with the module.
    """

    stored: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("stored", None)
        self._ensemble: Ensemble | None = None

    def take(self, ensemble: Ensemble) -> None:
        """Hold a fitted ensemble."""
        self.stored = torch.frombuffer(bytearray(ensemble.to_bytes()), dtype=torch.uint8)
        self._ensemble = ensemble

    @property
    def ensemble(self) -> Ensemble:
        """The ensemble, read from its file when first used."""
        if self._ensemble is None:
            if self.stored is None:
                raise InvalidValue("the model has not been fitted yet")
            self._ensemble = Ensemble.from_bytes(self.stored.cpu().numpy().tobytes())
        return self._ensemble

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities, which are logits: softmax gives the probabilities back.

        Of numbers, return them in standard units.
        """
        rows = x.flatten(1).double().cpu().numpy()
        if self.ensemble.classes == 0:
            return torch.from_numpy(self.ensemble.predict(rows)).to(x.device)
        predicted = np.log(np.maximum(self.ensemble.predict_proba(rows), SMALLEST))
        return torch.from_numpy(predicted).float().to(x.device)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # The buffer takes its size from the file, so a new module has none to load into.
        saved = state_dict.get(prefix + "stored")
        self.stored = None if saved is None else torch.empty_like(saved)
        self._ensemble = None
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class Exact(Algorithm):
    """An algorithm that is fitted at once to the samples of all training domains.

    Rows come raw: missing values as NaN, categories as codes.  Randomness comes from the seed
    alone, so the same samples and seed give the same model.
    """

    family: ClassVar[Family] = "exact"
    paper: ClassVar[str] = ""
    exact = True
    full_batches = True
    weighs_samples = True
    predicts_with = ("head",)

    @dataclass(frozen=True)
    class Hparams:
        """No learning rate, no batches."""

    hparams: Hparams  # type: ignore[assignment]
    head: EnsembleHead

    def __init__(
        self,
        task: Task,
        featurizer: nn.Module,
        head: nn.Module,
        hparams: Hparams,
        generator: torch.Generator,
    ) -> None:
        # The network that a run builds is not used: a fitted ensemble takes its place.
        super().__init__(task, nn.Flatten(), EnsembleHead(), hparams, generator)  # type: ignore[arg-type]
        self.held_out = HeldOutPredictions()

    @abstractmethod
    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return a model of all samples, its settings chosen by held-out training domains."""

    def fit(self, samples: Samples, progress: Progress = silent) -> dict[str, Tensor]:
        """Fit to all samples; return the loss."""
        seed = int(torch.randint(2**31 - 1, (), generator=self.generator))
        ensemble = self.fitted(samples, seed, progress)
        self.head.take(ensemble)
        self.held_out.take(ensemble, samples, seed)
        self.updates += 1
        return {"loss": self.loss(ensemble, samples)}

    def loss(self, ensemble: Ensemble, samples: Samples) -> Tensor:
        """Return the loss on held-out training domains, averaged over members by weight."""
        return torch.tensor(sum(m.weight * m.risk for m in ensemble.members if m.risk is not None))

    def objective(self, batch: Batch) -> Losses:
        """Refuse: there is no loss of a batch."""
        raise InvalidValue("this algorithm is fitted at once, not by batches")

    def reset_optimizer(self) -> None:
        """Do nothing: there is no optimiser."""
