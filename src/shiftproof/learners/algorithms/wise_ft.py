"""WiSE-FT: predict with interpolated weights from before and after fine-tuning."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from shiftproof.core.space import Float
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, share, steps
from shiftproof.learners.algorithms.lp_ft import LPFT, TrainedCopy, interpolate, state_of


@ALGORITHMS.register("wise-ft")
class WiSEFT(TrainedCopy):
    """Predict with θ_α = (1 − α) θ₀ + α θ, between the weights before and after fine-tuning.

    θ is trained as in LP-FT, and θ₀ are its weights when fine-tuning starts.  If the featurizer is
    pretrained, both lie in one basin of the loss; the weights between them keep more of what θ₀
    knows about other domains.  α = 1 is LP-FT, and α = 0 trains the head alone.  Training is the
    same for every α, and `interpolate` sets a trained network to another α.

    The authors start from a zero-shot head (CLIP).  A new head is untrained, so it is trained alone
    for the first `head_warmup` steps, as in LP-FT, and θ₀ are the weights after that.

    Paper: Wortsman et al. (2022), *Robust Fine-Tuning of Zero-Shot Models*.
    """

    paper = "Wortsman et al. (2022)"

    @dataclass(frozen=True)
    class Hparams(LPFT.Hparams):
        """α, and when fine-tuning starts."""

        alpha: float = share(0.5, Float(0, 1), help="α, share of the trained weights")
        head_warmup: int = steps(500, help="first steps, which train only the head and give θ₀")

    hparams: Hparams

    def setup(self) -> None:
        """Copy the weights θ₀."""
        super().setup()
        self.start = copy.deepcopy(self.trained).requires_grad_(False)

    def follow(self, batch: Batch) -> None:
        """Interpolate the weights; until fine-tuning starts, update θ₀ too."""
        if self.updates <= self.hparams.head_warmup:
            interpolate(state_of(self.start), state_of(self.start), state_of(self.trained), 1)
        self.interpolate(self.hparams.alpha)

    def interpolate(self, alpha: float) -> None:
        """Set the predicting weights to θ_α, until the next step."""
        network = state_of(self.featurizer, self.head)
        interpolate(network, state_of(self.start), state_of(self.trained), alpha)
