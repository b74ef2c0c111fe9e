"""Posterior probabilities of the domain and of the label, for each sample, by networks.

Two cross-fitted networks give q(d|x) and q(y|x,d) for samples that they were not trained on;
q(y|x) = Σ_d q(d|x) q(y|x,d).  From these come the shifts between two domains and within a class,
and a second estimate of all five amounts, by the same log ratios as `CrossFitted`, whose
classifiers are linear where there are many features.

Why two estimates: that of I(X;D) is never too large, whatever the classifier, but that of I(Y;D|X)
may be, if q(d|x) misses something.  By the chain rule of KL and its convexity,

    estimate of I(Y;D|X)  ≤  I(Y;D|X) + E KL(p(d|x) ‖ q(d|x)),

and the last term is what the estimate of I(X;D) is short of.

So where one kind of classifier finds more covariate shift than the other, that much of what shows
as concept shift may in truth be covariate shift.  On pixels of Rotated MNIST, where no label
depends on the domain, linear classifiers show 0.12 nats of concept shift; they are 0.4 short of
the network's I(X;D).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]
from scipy.special import log_softmax, logsumexp  # type: ignore[import-untyped]
from torch import Tensor, nn

from shiftproof.core.seeding import seed_hash
from shiftproof.information.base import Estimator, Parts
from shiftproof.information.classifiers import mixture
from shiftproof.information.experts import COMPONENTS, principal_components
from shiftproof.information.no_shift import concept_p
from shiftproof.information.sample import Floats, Ints, LogRatio, Sample

FOLDS = 5
HIDDEN = 128
DROPOUT = 0.2
SMALLEST_BATCH, LARGEST_BATCH, FEWEST_STEPS = 16, 256, 20
MOST_EPOCHS, PATIENCE = 30, 4


@dataclass(frozen=True)
class Posteriors:
    """Log probabilities by networks that have not seen the sample, in the order of a Sample.

    `domain` [n, D] is log q(d|x), `label` [n, D, C] is log q(y|x,d) for every d.
    """

    domain: Floats
    label: Floats

    @property
    def mixed_label(self) -> Floats:
        """Return log q(y|x): [n, C]."""
        return mixture(self.domain[:, None], self.label)

    def domain_given_label(self, y: Ints) -> Floats:
        """Return log q(d|x,y) ∝ q(d|x) q(y|x,d) at the labels y [n]: [n, D]."""
        both = self.domain + self.label[np.arange(len(y)), :, y]
        return np.asarray(both - logsumexp(both, axis=1, keepdims=True))


def posteriors(sample: Sample, *, seed: int, tick: Callable[[], None] = lambda: None) -> Posteriors:
    """Return the networks' posteriors of every sample; `tick` is called 2 · `FOLDS` times."""
    x = torch.from_numpy(_inputs(sample.x))
    d, y = torch.from_numpy(sample.d), torch.from_numpy(sample.y)
    known = torch.eye(sample.domains)
    domain = _CrossFit(
        lambda rows, _: x[rows], d, torch.zeros_like(d), sample, sample.shares, seed, tick
    )
    label = _CrossFit(
        lambda rows, where: torch.cat([x[rows], known[where]], dim=1),
        y,
        d,
        sample,
        np.asarray(np.bincount(sample.y, sample.weights), dtype=np.float64),
        seed,
        tick,
    )
    return Posteriors(domain.posterior(1)[:, 0], label.posterior(sample.domains))


@dataclass(frozen=True, kw_only=True)
class ByNetwork(Estimator):
    """The five amounts from a network's posteriors of the same samples."""

    found: Posteriors

    method = "cross-fitted networks"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """State what the numbers rest on."""
        return (
            "the networks have learnt how domains and labels depend on the features; what they"
            " miss makes I(X;D) and I(X,Y;D) too small",
        )

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        own = np.arange(len(sample.d))
        return LogRatio(self.found.domain[own, sample.d] - np.log(sample.shares)[sample.d])

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios, and the p-value of "no concept shift"."""
        own = np.arange(len(sample.d))
        mixed = self.found.mixed_label
        covariate = self.covariate_part(sample)
        concept = LogRatio(self.found.label[own, sample.d, sample.y] - mixed[own, sample.y])
        p_values = {}
        if self.permutations:  # the only p-value that depends on the classifiers
            phi, draws = self.functions(sample.x), (self.permutations, self.seed)
            q_domain, q_label = np.exp(self.found.domain), np.exp(mixed)
            p_values["concept"] = concept_p(phi, q_domain, q_label, sample, *draws)
        return Parts(covariate, concept, covariate + concept, p_values)


def _inputs(x: Floats) -> np.ndarray:
    """Return what the networks see of standardised features: [n, ≤ COMPONENTS] of about unit size.

    Leading components keep their own sizes: whitened, the last of them would be mostly noise.
    """
    if x.shape[1] == 0:  # nothing varies: they see nothing
        x = np.zeros((len(x), 1))
    if x.shape[1] > COMPONENTS:
        x = principal_components(x, COMPONENTS, whiten=False)
        x = x / np.sqrt((x**2).mean())
    return x.astype(np.float32)


class _Network(nn.Module):
    """A perceptron beside a linear path: logits = A h(x) + B x."""

    def __init__(self, columns: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs in (columns, HIDDEN):
            layers += [nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(HIDDEN + columns, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [n, classes]."""
        logits: Tensor = self.head(torch.cat([self.body(x), x], dim=1))
        return logits


@dataclass(frozen=True)
class _CrossFit:
    """Networks that predict a target: `view(rows, asked)` is their input.

    In training, `asked` of row i is `own`[i]; afterwards it takes every value.  `prior` holds the
    shares of the target.
    """

    view: Callable[[Tensor, Tensor], Tensor]
    target: Tensor
    own: Tensor
    sample: Sample
    prior: Floats
    seed: int
    tick: Callable[[], None]

    def posterior(self, ways: int) -> Floats:
        """Return log q of the target, asked in each of so many ways, out of fold: [n, ways, C]."""
        fold = torch.from_numpy(self.sample.folds(FOLDS, self.seed))
        found = np.empty((len(fold), ways, len(self.prior)))
        for k in range(FOLDS):
            rows = (fold == k).nonzero()[:, 0]
            judge = (fold == (k + 1) % FOLDS).nonzero()[:, 0]
            train = ((fold != k) & (fold != (k + 1) % FOLDS)).nonzero()[:, 0]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed_hash("posteriors", self.seed, ways, k))
                found[rows.numpy()] = self._fitted(train, judge, rows, ways)
            self.tick()
        return found

    def _fitted(self, train: Tensor, judge: Tensor, rows: Tensor, ways: int) -> Floats:
        """Train until the loss on the rows `judge` rises; return log probabilities of `rows`."""
        weights = torch.from_numpy(self.sample.weights * len(self.target)).float()
        columns = self.view(train[:1], self.own[train[:1]]).shape[1]
        network = _Network(columns, len(self.prior))
        optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2, fused=True)
        best, waited = np.inf, 0
        judged = told = np.empty(0)
        for _ in range(MOST_EPOCHS):
            network.train()
            for batch in _batches(train):
                logits = network(self.view(batch, self.own[batch]))
                risks = F.cross_entropy(logits, self.target[batch], reduction="none")
                optimizer.zero_grad()
                (risks * weights[batch]).mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            network.eval()
            with torch.no_grad():
                logits = network(self.view(judge, self.own[judge]))
                risks = F.cross_entropy(logits, self.target[judge], reduction="none")
                loss = float((risks * weights[judge]).mean())
                waited += 1
                if loss < best:
                    best, waited = loss, 0
                    judged = logits.double().numpy()
                    asked = (torch.full_like(rows, way) for way in range(ways))
                    answers = [network(self.view(rows, way)) for way in asked]
                    told = torch.stack(answers, dim=1).double().numpy()
            if waited == PATIENCE:
                break
        belief = self._belief(judged, judge)
        return self._believed(told, belief)

    def _believed(self, logits: Floats, belief: float) -> Floats:
        """Return log q ∝ log prior + belief · (log q₀ − log prior): no belief leaves the prior."""
        prior = np.log(self.prior)
        believed: Floats = log_softmax((1 - belief) * prior + belief * logits, axis=-1)
        return believed

    def _belief(self, logits: Floats, rows: Tensor) -> float:
        """Return the belief that predicts best on rows that the network was not trained on."""
        target, weights = self.target[rows].numpy(), self.sample.weights[rows.numpy()]
        own = np.arange(len(rows))

        def loss(belief: float) -> float:
            return float(-(weights @ self._believed(logits, belief)[own, target]))

        return float(minimize_scalar(loss, bounds=(0, 1.5), method="bounded").x)


def _batches(rows: Tensor) -> Iterator[Tensor]:
    """Split rows into random batches, small enough for 20 steps if possible."""
    size = max(SMALLEST_BATCH, min(LARGEST_BATCH, len(rows) // FEWEST_STEPS))
    return iter(torch.split(rows[torch.randperm(len(rows))], size))
