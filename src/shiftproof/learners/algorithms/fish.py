"""Fish: take one step per domain in sequence, then keep part of the total move."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Choice
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, overwrite, share


@ALGORITHMS.register("fish")
class Fish(ERM):
    """Align domains' gradients by θ ← θ + ε (θ̃ − θ), θ̃ reached by one Adam step on each domain.

    To first order this maximises the inner products ⟨gⁱ, gʲ⟩ of the domains' gradients while it
    minimises their mean risk.  As in the published code, the inner Adam keeps its moments from one
    update to the next, although its weights start from θ each time.

    Paper: Shi et al. (2022), *Gradient Matching for Domain Generalization*.
    """

    family = "gradient"
    paper = "Shi et al. (2022)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """ε."""

        meta_lr: float = share(
            0.5, Choice((0.05, 0.1, 0.5)), help="ε, share of the inner steps to keep"
        )

    hparams: Hparams

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one Adam step per domain, in order, then move back part of the way."""
        groups = self.optimizers["main"].param_groups
        weights = [p for p in groups[0]["params"] if p.requires_grad]
        starts = [weight.detach().clone() for weight in weights]
        risks = []
        for part in batch.by_domain():
            risk = part.weighted(self.sample_loss.risk(self.predict(part.x), part.y)).mean()
            self.descend(risk)
            risks.append(risk.detach())
        share = self.hparams.meta_lr
        moved = [start.lerp(w, share) for start, w in zip(starts, weights, strict=True)]
        overwrite(weights, moved)
        self.updates += 1
        return {"loss": torch.stack(risks).mean()}
