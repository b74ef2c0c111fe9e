"""Replay recorded training steps with our algorithms and compare every weight.

`python -m shiftproof.testing.traces FILE…` prints the largest absolute deviation of any weight for
each file, and exits with code 1 if one exceeds 1e-8.

A trace is an `.npz` file: `meta` (JSON: algorithm, sizes, hyper-parameters, under DomainBed's
names), minibatches `x` [steps, domains, batch, inputs] and `y` [steps, domains, batch],
`init/NAME` the initial weights and `stepNN/NAME` those after step NN.  The network is
Linear(inputs, 24) → ReLU → Linear(24, 10) → ReLU (`feat0`, `feat1`) → Linear(10, classes)
(`head`), with the widths of the recorded weights.  Any other NAME is a module, parameter or buffer
of the algorithm itself.  `draws/NAME` [steps, …] are the random numbers that the original drew;
`REPLAYS` says how our algorithm uses them, and what it does differently on purpose.  If an
algorithm's docstring names a deviation from DomainBed, the replay uses DomainBed's version of that
part.  All other parts are ours.
"""

from __future__ import annotations

import json
import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.errors import DataError, ShiftproofError
from shiftproof.core.space import resolve
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm, adrmx, cad, mixup, selfreg, trm
from shiftproof.learners.algorithms.cad import BASE_TEMPERATURE, domain_bottleneck, log_sum
from shiftproof.learners.algorithms.trm import neumann_inverse
from shiftproof.sweeps.domainbed.names import translate


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


REPLAYS: dict[str, Replay] = {
    "ADRMX": Replay(draws=("pairs",), differences=_adrmx),
    # Recorded with 4 context channels; DomainBed's network has 64.
    "ARM": Replay(settings=lambda hparams: {"match_upstream": True, "context_width": 4}),
    "CAD": Replay(differences=_cad),
    "CausIRL_CORAL": Replay(draws=("places",)),
    "CausIRL_MMD": Replay(draws=("places",)),
    "ERMPlusPlus": Replay(
        # DomainBed's counters are off by one.
        settings=lambda hparams: {
            "head_warmup": hparams["linear_steps"] + 1,
            "average_warmup": hparams["sma_start_iter"] - 1,
        },
        names={
            "trained.0.": "",
            "trained.1.": "head.",
            "featurizer.": "average.",
            "head.": "average.head.",
        },
    ),
    "MLDG": Replay(draws=("order",), differences=_mldg),
    "MTL": Replay(
        settings=lambda hparams: {"match_upstream": True},
        names={"featurizer.": "", "embeddings.average": "embeddings"},
        draws=("noise",),
    ),
    "Mixup": Replay(draws=("ring", "weights")),
    "SagNet": Replay(draws=("weights", "style_partners", "content_partners", "adversary_partners")),
    "SelfReg": Replay(
        settings=lambda hparams: {"match_upstream": True}, draws=("first", "second", "weight")
    ),
    "TRM": Replay(differences=_trm),
    "URM": Replay(names={"featurizer.0.": ""}, draws=("noise", "ones", "zeros")),
}


TOLERANCE = 1e-8
NETWORK = {f"{layer}.{part}" for layer in ("feat0", "feat1", "head") for part in ("weight", "bias")}


class Trace(NamedTuple):
    """The contents of a trace file, as float64 tensors."""

    algorithm: str
    hparams: dict[str, object]
    x: Tensor
    y: Tensor
    init: dict[str, Tensor]
    steps: list[dict[str, Tensor]]
    draws: dict[str, Tensor]


def read_trace(path: Path) -> Trace:
    """Read a trace file and check that its parts fit; no code from the file is run."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            meta = json.loads(str(arrays["meta"]))
            weights: dict[str, dict[str, Tensor]] = {}
            for key in arrays.files:
                group, slash, name = key.partition("/")
                if slash:
                    weights.setdefault(group, {})[name] = torch.from_numpy(arrays[key]).double()
            trace = Trace(
                algorithm=str(meta["algorithm"]),
                hparams=dict(meta["hparams"]),
                x=torch.from_numpy(arrays["x"]).double(),
                y=torch.from_numpy(arrays["y"]).long(),
                init=weights.pop("init"),
                draws=weights.pop("draws", {}),
                steps=[weights[group] for group in sorted(weights)],
            )
    except Exception as error:  # NumPy and zipfile raise errors of many kinds on a damaged file
        raise DataError(f"{path} is not a readable trace: {error}") from error
    if problem := _problem(trace):
        raise DataError(f"{path} is not a complete trace: {problem}")
    return trace


def _problem(trace: Trace) -> str | None:
    """Return what is missing or does not fit, or None."""
    missing = NETWORK - trace.init.keys()
    if missing:
        return f"init/{min(missing)} is missing"
    if not trace.steps or not len(trace.steps) == len(trace.x) == len(trace.y):
        return f"{len(trace.steps)} steps for {len(trace.x)} inputs and {len(trace.y)} labels"
    for name, drawn in trace.draws.items():
        if drawn.shape[:1] != trace.x.shape[:1]:
            return f"{len(trace.steps)} steps and draws/{name} of shape {tuple(drawn.shape)}"
    for layer in ("feat0", "feat1", "head"):
        if trace.init[f"{layer}.weight"].dim() != 2:
            return f"init/{layer}.weight is not a matrix"
    for number, step in enumerate(trace.steps, start=1):
        if missing := NETWORK - step.keys():
            return f"step{number:02}/{min(missing)} is missing"
        for name, weight in step.items():
            if name not in trace.init or trace.init[name].shape != weight.shape:
                return f"step{number:02}/{name} does not fit init/"
    return None


def build_algorithm(trace: Trace) -> Algorithm:
    """Return the trace's algorithm with its initial weights, in float64."""
    name, given = translate(trace.algorithm, trace.hparams)
    cls, replay = ALGORITHMS.get(name), REPLAYS.get(trace.algorithm, Replay())
    hidden, features, classes = (
        len(trace.init[f"{layer}.weight"]) for layer in ("feat0", "feat1", "head")
    )
    _, domains, _, *input_shape = trace.x.shape
    task = Task((*input_shape,), classes, num_domains=domains, regime="table")
    inputs = cls.network_task(task).input_shape
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        feat0=nn.Linear(math.prod(inputs), hidden), relu0=nn.ReLU(),
        feat1=nn.Linear(hidden, features), relu1=nn.ReLU(),
    )  # fmt: skip
    if len(inputs) > 1:
        layers = OrderedDict(flat=nn.Flatten(), **layers)
    hparams = resolve(cls.Hparams, task.regime, given | replay.settings(trace.hparams))
    generator = torch.Generator().manual_seed(0)
    built = cls(task, nn.Sequential(layers), nn.Linear(features, classes), hparams, generator)
    algorithm: Algorithm = built.double()
    with torch.no_grad():
        for name, parameter in algorithm.named_parameters():
            name = replay.name_of(name)
            recorded = trace.init.get(name, trace.init.get(name.removesuffix(".weight")))
            if recorded is None:
                raise DataError(f"the trace of {trace.algorithm} lacks init/{name}")
            if recorded.shape != parameter.shape:
                raise DataError(
                    f"init/{name} has shape {tuple(recorded.shape)}, not {tuple(parameter.shape)}"
                )
            parameter.copy_(recorded)
    return algorithm


def largest_deviation(trace: Trace) -> float:
    """Replay the trace and return the largest |ours − recorded| over all weights and steps."""
    algorithm, replay = build_algorithm(trace), REPLAYS.get(trace.algorithm, Replay())
    algorithm.train()
    worst = 0.0
    for step, (x, y, recorded) in enumerate(zip(trace.x, trace.y, trace.steps, strict=True)):
        with replay.step(algorithm, {name: drawn[step] for name, drawn in trace.draws.items()}):
            algorithm.update(Batch(x, y))
        state = (*algorithm.named_parameters(), *algorithm.named_buffers())
        ours = {replay.name_of(name): value.detach() for name, value in state}
        for name, expected in recorded.items():
            deviation = (ours[name if name in ours else f"{name}.weight"] - expected).abs().max()
            # A comparison with NaN is false.
            worst = max(worst, deviation.item()) if deviation == deviation else float("inf")
    return worst


def main(arguments: Sequence[str]) -> int:
    """Replay every file and return the exit code."""
    if not arguments:
        print("usage: python -m shiftproof.testing.traces FILE…", file=sys.stderr)
        return 2
    failed = False
    for argument in arguments:
        try:
            deviation = largest_deviation(read_trace(Path(argument)))
        except ShiftproofError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        good = deviation <= TOLERANCE
        failed |= not good
        print(f"{'ok  ' if good else 'FAIL'}  {deviation:9.2e}  {Path(argument).name}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
