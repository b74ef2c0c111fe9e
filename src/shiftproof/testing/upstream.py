"""How our algorithms replay DomainBed's recorded steps: settings, names, draws, differences.

If an algorithm's docstring names a deviation from DomainBed, the replay uses DomainBed's version of
that part.  All other parts are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.learners.algorithms import Algorithm, adrmx, cad, mixup, selfreg, trm
from shiftproof.learners.algorithms.trm import neumann_inverse
from shiftproof.penalties.domain_bottleneck import BASE_TEMPERATURE, domain_bottleneck, log_sum


class Draws:
    """The recorded random numbers of one step, in the order in which our algorithm draws them."""

    def __init__(self, values: Sequence[Tensor]) -> None:
        self._values = list(values)

    def __len__(self) -> int:
        return len(self._values)

    def take(self, *shape: int) -> Tensor:
        """Return the next draws in this shape."""
        if not self._values or self._values[0].numel() != torch.Size(shape).numel():
            raise DataError(f"the trace has no draws of shape {shape} here")
        return self._values.pop(0).reshape(shape)


class Replay(NamedTuple):
    """How one algorithm is replayed.

    `settings` returns our additional hyper-parameters, which have no name in DomainBed.  `names`
    maps prefixes of our weight names to those in a trace.  `draws` are the names of the recorded
    draws, in the order in which our algorithm draws them; a setting may leave out the last ones.
    `differences` replaces the parts of an algorithm that differ on purpose during an update.
    """

    settings: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda hparams: {}
    names: Mapping[str, str] = {"featurizer.": ""}
    draws: tuple[str, ...] = ()
    differences: Callable[[Algorithm, Draws], AbstractContextManager[Any]] = (
        lambda algorithm, draws: nullcontext()
    )

    @contextmanager
    def step(self, algorithm: Algorithm, drawn: Mapping[str, Tensor]) -> Iterator[None]:
        """Let `algorithm` take a step with the recorded draws, and check that it uses them all."""
        if unknown := drawn.keys() - set(self.draws):
            raise DataError(f"draws/{min(unknown)} is not a draw of this algorithm")
        draws = Draws([drawn[name] for name in self.draws if name in drawn])
        with ExitStack() as stack:
            for name, draw in _draw_functions(draws).items():
                stack.enter_context(mock.patch.object(torch, name, draw))
            for module in (mixup, selfreg):
                weights = lambda alpha, size, generator: draws.take(size)  # noqa: E731
                stack.enter_context(mock.patch.object(module, "beta_weights", weights))
            stack.enter_context(self.differences(algorithm, draws))
            yield
        if draws:
            raise DataError(f"the step left {len(draws)} of the trace's draws unused")

    def name_of(self, ours: str) -> str:
        """Return the name in a trace of one of our weights or buffers."""
        for beginning, theirs in self.names.items():
            if ours.startswith(beginning):
                return theirs + ours.removeprefix(beginning)
        return ours


def _draw_functions(draws: Draws) -> dict[str, Callable[..., Tensor]]:
    """Return replacements for torch's functions of the same names."""

    def of_shape(*size: Any, **_: Any) -> Tensor:
        return draws.take(*(size if isinstance(size[0], int) else size[0]))

    return {
        "rand": of_shape,
        "randn": of_shape,
        "randperm": lambda n, **_: draws.take(n).long(),
        "randint": lambda high, size, **_: draws.take(*size).long(),
    }


# --- DomainBed's versions of parts that differ here -------------------------------------------


@contextmanager
def _trm(algorithm: Algorithm, draws: Draws) -> Iterator[None]:
    """Patch TRM: Hessians without biases, another series, and the next weights α in gradients."""
    assert isinstance(algorithm, trm.TRM)
    transfer_risk = algorithm.transfer_risk
    heads = algorithm.predictors[0].named_parameters()
    counted = torch.cat([torch.full((w.numel(),), name == "weight") for name, w in heads])

    def series(product: Callable[[Tensor], Tensor], v: Tensor, terms: int) -> Tensor:
        def without_bias(v: Tensor) -> Tensor:
            return torch.where(counted, product(v), 0)

        v = torch.where(counted, v, 0)
        # Not v + v₁ + v₂ + …, but v₁ + v₁ + v₂ + … with v₁ = v − H v.
        return neumann_inverse(without_bias, v, terms) - without_bias(v)

    def with_next_weights(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        alpha = algorithm.alpha
        elsewhere, matching = transfer_risk(features, labels)
        risks = algorithm.predictor_risks(algorithm.predictor_weights(), features, labels)
        grown = alpha * (algorithm.hparams.eta * alpha * risks.detach()).exp()
        slope = (grown * risks).sum() / len(labels)
        return elsewhere.detach() + slope - slope.detach(), matching

    with (
        mock.patch.object(trm, "neumann_inverse", series),
        mock.patch.object(algorithm, "transfer_risk", with_next_weights),
    ):
        yield


def _cad(algorithm: Algorithm, draws: Draws) -> AbstractContextManager[Any]:
    """Patch CAD, not flipped: a sample counts in its own domain too, with similarity 0."""

    def bottleneck(
        groups: Tensor, labels: None, *, temperature: float, normalized: bool, flipped: bool
    ) -> Tensor:
        if flipped:
            return domain_bottleneck(groups, temperature=temperature, normalized=normalized)
        z = groups.flatten(0, 1)
        z = F.normalize(z, dim=1) if normalized else z
        itself = torch.eye(len(z), dtype=torch.bool)
        similar = (z @ z.T / temperature).masked_fill(itself, 0)
        domain = torch.arange(len(groups)).repeat_interleave(groups.shape[1])
        logs = log_sum(similar, domain.unsqueeze(1) == domain) - log_sum(similar, ~itself)
        return logs.mean() * temperature / BASE_TEMPERATURE

    return mock.patch.object(cad, "domain_bottleneck", bottleneck)


@contextmanager
def _adrmx(algorithm: Algorithm, draws: Draws) -> Iterator[None]:
    """Patch ADRMX: the contrast, and a remix per class of two samples of any class."""
    assert isinstance(algorithm, adrmx.ADRMX)
    pairs = draws.take(algorithm.task.num_classes, 2).long()

    def remix_risk(parts: adrmx.Parts) -> Tensor:
        first, second = pairs[(pairs >= 0).all(dim=1)].T
        outputs = algorithm.head(parts.invariant[first] + parts.of_domain[second])
        risks = algorithm.sample_loss.risk(outputs, parts.labels[first])
        return risks.sum() / algorithm.task.num_classes

    with (
        mock.patch.object(algorithm, "remix_risk", remix_risk),
        mock.patch.object(adrmx, "supervised_contrast", contrast_of_adrmx),
    ):
        yield


def contrast_of_adrmx(features: Tensor, labels: Tensor, small: float = 1e-5) -> Tensor:
    """Return the contrast with small constants, divided by one more than the samples that count."""
    u = F.normalize(features, dim=1)
    others = ~torch.eye(len(u), dtype=torch.bool)
    odds = torch.where(others, (u @ u.T / BASE_TEMPERATURE).exp() / 2, 0)
    positive = others & (labels.unsqueeze(1) == labels)
    logs = (odds / (odds.sum(dim=1, keepdim=True) + small) + small).log()
    counts = positive.sum(dim=1)
    per_sample = torch.where(positive, logs, 0).sum(dim=1) / counts.clamp_min(1)
    return -per_sample.sum() / ((counts > 0).sum() + 1)


def _mldg(algorithm: Algorithm, draws: Draws) -> AbstractContextManager[Any]:
    """Patch MLDG: the inner step is the first step of a new Adam, and carries no gradient."""
    h = algorithm.hparams

    def descended(weights: Mapping[str, Tensor], risk: Tensor) -> dict[str, Tensor]:
        slopes = torch.autograd.grad(risk, list(weights.values()), retain_graph=True)
        moved = {}
        for (name, weight), slope in zip(weights.items(), slopes, strict=True):
            g = slope + h.weight_decay * weight.detach()
            moved[name] = weight - h.lr * g / (g.abs() + 1e-8)
        return moved

    return mock.patch.object(algorithm, "descended", descended)


# --- the algorithms ---------------------------------------------------------------------------


def _as_upstream(hparams: Mapping[str, Any]) -> dict[str, Any]:
    return {"match_upstream": True}


def _arm(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with 4 context channels, as recorded; DomainBed's network has 64."""
    return {"match_upstream": True, "context_width": 4}


def _erm_plus_plus(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that correct for DomainBed's counters, which are off by one."""
    return {
        "head_warmup": hparams["linear_steps"] + 1,
        "average_warmup": hparams["sma_start_iter"] - 1,
    }


REPLAYS: dict[str, Replay] = {
    "ADRMX": Replay(draws=("pairs",), differences=_adrmx),
    "ARM": Replay(settings=_arm),
    "CAD": Replay(differences=_cad),
    "CausIRL_CORAL": Replay(draws=("places",)),
    "CausIRL_MMD": Replay(draws=("places",)),
    "ERMPlusPlus": Replay(
        settings=_erm_plus_plus,
        names={
            "trained.0.": "",
            "trained.1.": "head.",
            "featurizer.": "average.",
            "head.": "average.head.",
        },
    ),
    "MLDG": Replay(draws=("order",), differences=_mldg),
    "MTL": Replay(
        settings=_as_upstream,
        names={"featurizer.": "", "embeddings.average": "embeddings"},
        draws=("noise",),
    ),
    "Mixup": Replay(draws=("ring", "weights")),
    "SagNet": Replay(draws=("weights", "style_partners", "content_partners", "adversary_partners")),
    "SelfReg": Replay(settings=_as_upstream, draws=("first", "second", "weight")),
    "TRM": Replay(differences=_trm),
    "URM": Replay(names={"featurizer.0.": ""}, draws=("noise", "ones", "zeros")),
}
