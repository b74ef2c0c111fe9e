"""IDM that sets its own strength: it matches gradients only if outputs mean different things.

Let z be the logits of held-out samples, y their labels and h = log softmax z.  In each training
domain d, one calibration with intercepts a_dk and a slope b_d is fitted to all held-out samples,

    q_k ∝ exp(a_dk + b_d h_k).

The slope says how much an output of the model means in domain d.  The intercepts take up the
domain's class shares, so label shift does not change the slope.  A model that uses a feature whose
meaning changes has slopes b_d ~ N(μ, τ²) with τ > 0.  Such a model is kept as it is if the outputs
still mean something in a new domain, whose slope is μ ± τ.

References: DerSimonian and Laird (1986), *Meta-analysis in clinical trials*; Higgins, Thompson and
Spiegelhalter (2009), *A re-evaluation of random-effects meta-analysis* (the interval of a new
domain); White (1980), *A heteroskedasticity-consistent covariance matrix estimator*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import chi2, t as student
from torch import Tensor, nn

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, HeldOut, Losses, memory, steps, weight
from shiftproof.learners.algorithms.base import overwrite
from shiftproof.learners.algorithms.lp_ft import interpolate, state_of
from shiftproof.matching.head_gradients import LinearGradients, gradients_of
from shiftproof.matching.pdm import MovingMatch, pdm
from shiftproof.models.risk import per_sample_risk

Floats = NDArray[np.float64]

# The usual level, of the test and of the bound.  A run tests once.
LEVEL = 0.05
# The penalty is `gradient_weight` times the risk, so that a step moves the weights along a noisy
# gradient.  A third of the learning rate, with the mean of the weights, averages this noise out.
SLOWER = 3.0
# Precision of the normal prior of the calibration, so weak that it only makes the solution finite.
RIDGE = 0.01
# Keeps gradients of 0 from becoming NaN.
TINY = 1e-24


class Slopes(NamedTuple):
    """The random-effects summary of the domains' slopes."""

    p: float  # of Cochran's Q test that all slopes are equal
    mean: float  # |μ|, the size of the mean slope
    deviation: float  # √(τ² + var μ), that of the slope in a new domain
    domains: int

    @property
    def lower(self) -> float:
        """The lower bound of the slope in a new domain (one-sided prediction interval)."""
        return self.mean - float(student.isf(LEVEL, self.domains - 1)) * self.deviation

    @property
    def lose_their_meaning(self) -> bool:
        """Whether slopes differ, and so much that in a new domain the slope could be 0."""
        return self.domains > 1 and self.p < LEVEL and self.lower < 0


class Calibration(NamedTuple):
    """A fit of q_k ∝ exp(a_k + b h_k): the intercepts a [c], the slope b and its variance."""

    intercepts: Floats
    slope: float
    variance: float


def slopes_of(held_out: HeldOut) -> Slopes:
    """Return the summary of the slopes in all domains (DerSimonian and Laird)."""
    fits = [calibration(logits, labels) for logits, labels in held_out]
    b, v = (np.array([getattr(fit, name) for fit in fits]) for name in ("slope", "variance"))
    freedom, weights = len(b) - 1, 1 / v
    q = float((weights * (b - np.average(b, weights=weights)) ** 2).sum())
    excess = weights.sum() - (weights**2).sum() / weights.sum()
    tau2 = max(0.0, (q - freedom) / excess) if freedom else 0.0
    mean = float(np.average(b, weights=1 / (v + tau2)))
    deviation = math.sqrt(tau2 + 1 / (1 / (v + tau2)).sum())
    return Slopes(float(chi2.sf(q, freedom)), abs(mean), deviation, len(b))


def calibration(logits: Tensor, labels: Tensor) -> Calibration:
    """Return the fit to some samples: logits [n, c] or [n, 1], labels [n].

    The variance of the slope is the larger of the sandwich estimate, which holds for any model, and
    of the inverse information, which does not vanish if the outputs separate the classes.
    """
    z = logits.double().numpy()
    h = log_softmax(z if z.shape[1] > 1 else np.hstack([0 * z, z]), axis=1)
    scale = float(np.std(h)) or 1.0  # at which the prior is weak
    h = h / scale
    classes = h.shape[1]
    one_hot = np.eye(classes)[labels.numpy()]

    def loss(v: Floats) -> tuple[float, Floats]:
        log_q = log_softmax(v[:-1] + v[-1] * h, axis=1)
        error = one_hot - np.exp(log_q)
        gradient = np.append(error.sum(axis=0), (error * h).sum())
        return -(one_hot * log_q).sum() + RIDGE / 2 * v @ v, RIDGE * v - gradient

    start = np.append(np.zeros(classes), scale)
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-4}).x
    q = softmax(fitted[:-1] + fitted[-1] * h, axis=1)
    scores = np.hstack([one_hot - q, ((one_hot - q) * h).sum(axis=1, keepdims=True)])
    by_slope = q * (h - (q * h).sum(axis=1, keepdims=True))
    information = RIDGE * np.eye(classes + 1)
    information[:-1, :-1] += np.diag(q.sum(axis=0)) - q.T @ q
    information[-1, :-1] += by_slope.sum(axis=0)
    information[:-1, -1] += by_slope.sum(axis=0)
    information[-1, -1] += (by_slope * h).sum()
    inverse = np.linalg.inv(information)[-1]
    variance = max(inverse[-1], ((scores @ inverse) ** 2).sum())
    return Calibration(fitted[:-1], fitted[-1] / scale, variance / scale**2)


def better_than_shares(held_out: HeldOut) -> bool:
    """Return whether the log score beats that of the class shares of all domains, in each domain.

    The class shares need no feature at all, so their meaning cannot change.
    """
    count = np.bincount(torch.cat([labels for _, labels in held_out]).numpy())
    log_shares = torch.as_tensor(np.log(np.maximum(count, 1) / count.sum()))
    return all(
        per_sample_risk(logits, labels).mean() < -log_shares[labels].mean()
        for logits, labels in held_out
    )


@torch.no_grad()
def calibrate(head: nn.Module, held_out: HeldOut) -> None:
    """Multiply the outputs of a head by the slope fitted to all samples, and add the intercepts."""
    logits, labels = (torch.cat(parts) for parts in zip(*held_out, strict=True))
    fit = calibration(logits, labels)
    intercepts = torch.as_tensor(fit.intercepts)
    last = [layer for layer in head.modules() if isinstance(layer, nn.Linear)][-1]
    last.weight.mul_(fit.slope)
    if last.bias is not None:
        shift = intercepts.diff() if logits.shape[1] == 1 else intercepts
        last.bias.mul_(fit.slope).add_(shift.to(last.bias))


def standardized(gradients: Tensor | LinearGradients) -> Tensor | LinearGradients:
    """Return per-sample gradients divided by their standard deviation, pooled over dimensions.

    PDM then is the share of their variance that lies between domains.  Neither small gradients
    (confident predictions) nor a common part of all gradients (a bias of the predictions) lower it.
    """
    if isinstance(gradients, Tensor):
        variance = gradients.flatten(0, 1).var(dim=0, correction=0).mean()
        return gradients * (variance + TINY).rsqrt()
    features, residual, _, bias = gradients
    squares = residual.square().sum(dim=1) * (features.square().sum(dim=1) + bias)
    mean = residual.T @ features / len(features)
    means = mean.square().sum() + bias * residual.mean(dim=0).square().sum()
    variance = (squares.mean() - means) / gradients.dims
    return gradients._replace(residual=residual * (variance + TINY).rsqrt())


@ALGORITHMS.register("idm-auto")
class IDMAuto(ERM):
    """ERM that matches gradients from step t₁ on, if its outputs could lose their meaning.

    At step t₁ the slopes b_d on all held-out samples of the training domains are compared.
    Training goes on as ERM, bit for bit, unless Cochran's Q test rejects equal slopes at 5% and the
    lower bound of the slope in a new domain, |μ| − t₉₅ √(τ² + var μ), is below 0.  Otherwise a new
    Adam with a third of the learning rate minimises

        L_E / λ + PDM(G¹ … Gᵐ; γ) − PDM(G¹ … Gᵐ; 0),

    with Gⁱ the per-sample gradients of IDM divided by their standard deviation.  The second PDM, of
    the newest batch alone, takes away what is due to chance: batches of identical domains differ,
    and a strong penalty would remove whatever makes them differ, first of all the signal.  What
    remains are products of a batch with earlier ones, which are independent of it.

    The run ends with the mean of the weights over the second half of matching.  So strong a penalty
    leaves scale and bias of the outputs to chance, so the head is calibrated on held-out samples.

    The run ends with the weights of step t₁ instead if matching removed too much: if the held-out
    log score of some domain no longer beats the class shares, or if |μ| / √(τ² + var μ) has not
    risen.

    Paper: Dong et al. (2024), for the matching.
    """

    family = "gradient"
    paper = "Dong et al. (2024)"
    starts_at = ("gradient_warmup",)
    weighs_samples = True
    classes_only = "its test of concept shift compares what outputs mean in each domain"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, t₁ and γ."""

        # Large enough that the risk only keeps the network from a constant.
        gradient_weight: float = weight(300.0, help="λ, strength of gradient matching")
        gradient_warmup: int = steps(1500, help="t₁, steps before the test of concept shift")
        # A longer memory lags behind the network, which then overshoots.
        gradient_ema: float = memory(0.8, help="γ, moving-average decay of gradient matching")

    hparams: Hparams
    # The slopes at the start of matching; None while it trains as ERM.
    before: Slopes | None = None

    def setup(self) -> None:
        """Add the matching, and what `look` stores."""
        self.match = MovingMatch(self.hparams.gradient_ema, corrected=True)
        self.averaged = 0  # updates in the mean
        # The weights at the start of matching, and their mean over its second half.
        self.stored: dict[str, list[Tensor]] = {}

    def looks(self, steps: int) -> tuple[int, ...]:
        """Return where to test, where the mean of the weights begins, and the last step."""
        start = max(1, self.hparams.gradient_warmup)
        return tuple(sorted({start, (start + steps) // 2, steps})) if start < steps else ()

    def look(self, held_out: Callable[[], HeldOut], *, last: bool) -> None:
        """Decide whether to match, begin the mean of the weights, or end with it."""
        if self.before is None:
            if self.updates == max(1, self.hparams.gradient_warmup) and not last:
                slopes = slopes_of(held_out())
                if slopes.lose_their_meaning:
                    self.before = slopes
                    self.stored["start"] = [value.clone() for value in self.weights]
                    self.reset_optimizer()
        elif not last:
            self.stored["mean"] = [value.clone() for value in self.weights]
        elif "mean" in self.stored:
            overwrite(self.weights, self.stored["mean"])
            outputs = held_out()
            after = slopes_of(outputs)
            steadier = after.mean * self.before.deviation > self.before.mean * after.deviation
            calibrate(self.head, outputs)
            if not (steadier and better_than_shares(held_out())):
                overwrite(self.weights, self.stored["start"])

    @property
    def weights(self) -> list[Tensor]:
        """The weights and running statistics that `predict` uses."""
        return state_of(self.featurizer, self.head)

    def objective(self, batch: Batch) -> Losses:
        """Return L_E, or, once domains are matched, L_E / λ + PDM."""
        outputs = self.outputs(batch)
        risk = outputs.losses.mean()
        if self.before is None:
            return Losses(risk, {"risk": risk})
        gradients = gradients_of(
            self.head, outputs.representations, outputs.labels, outputs.logits, self.sample_loss
        )
        points = standardized(gradients)
        penalty = self.match(points) - pdm(points)
        total = risk / self.hparams.gradient_weight + penalty
        return Losses(total, {"risk": risk, "gradient_penalty": penalty})

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step, and add the weights to their mean."""
        measured = super().update(batch)
        if "mean" in self.stored:
            self.averaged += 1
            mean = self.stored["mean"]
            interpolate(mean, mean, self.weights, 1 / self.averaged)
        return measured

    @property
    def learning_rate(self) -> float:
        """The learning rate, which is lower once domains are matched."""
        return self.hparams.lr if self.before is None else self.hparams.lr / SLOWER

    def training_state(self) -> dict[str, Any]:
        """Return everything that changes."""
        before = None if self.before is None else list(self.before)
        matching = {"before": before, "averaged": self.averaged, "stored": dict(self.stored)}
        return super().training_state() | {"matching": matching}

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Restore what `training_state` returned."""
        super().load_training_state(state)
        matching = state["matching"]
        self.before = None if matching["before"] is None else Slopes(*matching["before"])
        self.averaged = matching["averaged"]
        self.stored = {  # a checkpoint is loaded on the CPU
            name: [value.to(like) for value, like in zip(values, self.weights, strict=True)]
            for name, values in matching["stored"].items()
        }
