"""ERM and IDM against recorded steps and against Algorithm 2 as an explicit loop."""

from __future__ import annotations

import copy
import io
import itertools
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from _internals import InvalidValue, resolve
from torch import Tensor, nn

from shiftproof import ALGORITHMS, Algorithm, Batch, Task

TRACES = Path(__file__).parents[2] / "golden" / "traces"
INPUTS, FEATURES = 5, 4


def build(
    name: str, featurizer: nn.Module, head: nn.Module, domains: int, classes: int, **hparams: object
) -> Algorithm:
    cls = ALGORITHMS.get(name)
    task = Task((INPUTS,), classes, domains, "table")
    generator = torch.Generator().manual_seed(0)
    return cls(task, featurizer, head, resolve(cls.Hparams, "table", hparams), generator)


def make_featurizer(seed: int) -> nn.Module:
    return randomised(nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.Tanh()), seed)


def make_head(kind: str, outputs: int, seed: int) -> nn.Module:
    if kind == "linear":
        return randomised(nn.Linear(FEATURES, outputs), seed)
    return randomised(nn.Sequential(nn.Linear(FEATURES, 3), nn.ReLU(), nn.Linear(3, outputs)), seed)


def randomised(module: nn.Module, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return module


def make_batches(steps: int, domains: int, classes: int, size: int = 6) -> list[Batch]:
    generator = torch.Generator().manual_seed(steps)
    batches = []
    for _ in range(steps):
        x = torch.randn(domains, size, INPUTS, dtype=torch.float64, generator=generator)
        x += torch.arange(domains)[:, None, None] / 2
        batches.append(Batch(x, torch.randint(classes, (domains, size), generator=generator)))
    return batches


def weights(algorithm: Algorithm) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in algorithm.named_parameters()}


# --- recorded steps ---------------------------------------------------------------------------

TRACE_NAMES = {
    "feat_lambda": "representation_weight",
    "grad_lambda": "gradient_weight",
    "grad_penalty_anneal_iters": "gradient_warmup",
    "ema": "gradient_ema",
    "lr": "lr",
    "weight_decay": "weight_decay",
}
RETURNED = {
    "loss": "loss",
    "nll": "risk",
    "feat_penalty": "representation_penalty",
    "grad_penalty": "gradient_penalty",
}


@pytest.mark.parametrize("file", ["erm_1", "erm_2", "idm_1", "idm_2"])
def test_recorded_steps_are_reproduced(file: str) -> None:
    with np.load(TRACES / f"{file}.npz") as trace:
        meta = json.loads(str(trace["meta"]))
        recorded = {key: torch.from_numpy(trace[key]) for key in trace.files if key != "meta"}
    widths = [meta["inputs"], meta["hidden"], meta["features"], meta["classes"]]
    first, second, head = (nn.Linear(n, k).double() for n, k in itertools.pairwise(widths))
    layers = {"feat0": first, "feat1": second, "head": head}
    with torch.no_grad():
        for name, layer in layers.items():
            layer.weight.copy_(recorded[f"init/{name}.weight"])
            layer.bias.copy_(recorded[f"init/{name}.bias"])
    algorithm = build(
        meta["algorithm"].lower(),
        nn.Sequential(first, nn.ReLU(), second, nn.ReLU()),
        head,
        meta["domains"],
        meta["classes"],
        **{TRACE_NAMES[k]: v for k, v in meta["hparams"].items() if k in TRACE_NAMES},
    )
    for step in range(meta["steps"]):
        measured = algorithm.update(Batch(recorded["x"][step], recorded["y"][step]))
        for name, layer in layers.items():
            for kind in ("weight", "bias"):
                expected = recorded[f"step{step + 1:02d}/{name}.{kind}"]
                deviation = (getattr(layer, kind) - expected).abs().max().item()
                assert deviation <= 1e-8, (step, name, kind)
        for theirs, value in meta["returned"][step].items():
            assert measured[RETURNED[theirs]].item() == pytest.approx(value, rel=1e-8)
    assert meta["steps"] == 6


# --- ERM is IDM switched off ------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["authors", "paper"])
def test_without_both_matchings_it_is_erm_bit_for_bit(variant: str) -> None:
    off = {"match_gradients": False, "match_representations": False}
    erm, idm = (
        build(name, make_featurizer(1), make_head("linear", 3, 2), 3, 3, lr=0.05, **hparams)
        for name, hparams in [
            ("erm", {}),
            ("idm", {**off, "gradient_warmup": 2, "variant": variant}),
        ]
    )
    for batch in make_batches(5, 3, 3):
        assert torch.equal(erm.update(batch)["loss"], idm.update(batch)["loss"])
        for ours, theirs in zip(idm.parameters(), erm.parameters(), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("switch", ["match_gradients", "match_representations"])
def test_each_switch_alone_makes_a_difference(switch: str) -> None:
    both = {"match_gradients": False, "match_representations": False}
    ends = []
    for hparams in (both, both | {switch: True}):
        algorithm = build(
            "idm", make_featurizer(1), make_head("linear", 3, 2), 2, 3, gradient_warmup=0, **hparams
        )
        for batch in make_batches(2, 2, 3):
            algorithm.update(batch)
        ends.append(weights(algorithm)["featurizer.0.weight"])
    assert not torch.allclose(ends[0], ends[1], rtol=0, atol=1e-9)


def test_a_weight_of_zero_is_no_penalty() -> None:
    zero = {"gradient_weight": 0, "representation_weight": 0, "variant": "paper"}
    erm, idm = (
        build(name, make_featurizer(1), make_head("linear", 3, 2), 2, 3, **hparams)
        for name, hparams in [("erm", {}), ("idm", {**zero, "gradient_warmup": 0})]
    )
    for batch in make_batches(3, 2, 3):
        erm.update(batch)
        idm.update(batch)
    for ours, theirs in zip(idm.parameters(), erm.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)


# --- Algorithm 2 as an explicit loop ----------------------------------------------------------


@dataclass
class Settings:
    """The symbols of Algorithm 2, and what the two variants do differently."""

    lambda_1: float = 3.0
    lambda_2: float = 2.0
    t_1: int = 0
    t_2: int = 0
    gamma_1: float = 0.0
    gamma_2: float = 0.0
    order: int = 2
    trim: int = 0
    variant: str = "paper"
    lr: float = 0.05
    weight_decay: float = 0.0

    def as_hparams(self) -> dict[str, object]:
        return {
            "gradient_weight": self.lambda_1,
            "representation_weight": self.lambda_2,
            "gradient_warmup": self.t_1,
            "representation_warmup": self.t_2,
            "gradient_ema": self.gamma_1,
            "representation_ema": self.gamma_2,
            "order": self.order,
            "trim": self.trim,
            "variant": self.variant,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
        }


@dataclass
class Matcher:
    """Algorithm 1, one column at a time; X_ma starts with 0 and its past has no gradient."""

    gamma: float
    order: int
    trim: int
    divide: bool
    past: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def __call__(self, points: list[list[Tensor]]) -> Tensor:
        """``points[i][j]``: sample j of domain i, a vector."""
        dims = len(points[0][0])
        total, count = torch.zeros((), dtype=torch.float64), 0
        for column in range(dims):
            averages = []
            for i, samples in enumerate(points):
                ascending = torch.stack(sorted((s[column] for s in samples), key=Tensor.item))
                old = self.past.get((i, column), torch.zeros(len(samples), dtype=torch.float64))
                new = self.gamma * old + (1 - self.gamma) * ascending
                self.past[i, column] = new.detach()
                averages.append(new / (1 - self.gamma) if self.divide else new)
            for row in range(self.trim, len(points[0]) - self.trim):
                mean = sum(average[row] for average in averages) / len(averages)
                for average in averages:
                    gap = (mean - average[row]).abs()
                    total = total + (gap * gap if self.order == 2 else gap)
                    count += 1
        return total / count


def explicit_loop(
    featurizer: nn.Module, head: nn.Module, batches: list[Batch], s: Settings
) -> tuple[list[dict[str, float]], list[list[Tensor]]]:
    """Train by Algorithm 2, sample by sample; return what each step measured, and the weights."""
    parameters = [*featurizer.parameters(), *head.parameters()]

    def fresh_adam() -> torch.optim.Adam:
        return torch.optim.Adam(parameters, lr=s.lr, weight_decay=s.weight_decay)

    authors = s.variant == "authors"
    adam = fresh_adam()
    pdm_g = Matcher(s.gamma_1, s.order, s.trim, divide=authors)
    pdm_r = Matcher(s.gamma_2, s.order, 0, divide=authors)
    measured, weights = [], []
    for t, batch in enumerate(batches, start=1):
        # The authors match first at step t₁ + 1, on moving averages that run from step 1 on.
        match_g = t >= s.t_1 + 1 if authors else t >= s.t_1
        match_r = t >= s.t_2 + 1 if authors else t >= s.t_2
        if authors and t == s.t_1 + 1:
            adam = fresh_adam()
        gradients: list[list[Tensor]] = []
        representations: list[list[Tensor]] = []
        risks = []
        for xs, ys in zip(batch.x, batch.y, strict=True):  # line 3
            gradients.append([])
            representations.append([])
            for x, y in zip(xs, ys, strict=True):
                r = featurizer(x.unsqueeze(0)).squeeze(0)  # line 5
                logits = head(r)
                if len(logits) == 1:
                    logits = torch.cat([torch.zeros_like(logits), logits])
                risk = torch.logsumexp(logits, 0) - logits[y]  # line 6
                parts = torch.autograd.grad(risk, list(head.parameters()), create_graph=True)
                representations[-1].append(r)
                gradients[-1].append(torch.cat([part.flatten() for part in parts]))  # line 7
                risks.append(risk)
        loss = sum(risks) / len(risks)  # line 9
        seen = {"risk": loss.item()}
        if match_g or authors:  # line 10
            penalty = pdm_g(gradients)  # line 11
            seen["gradient_penalty"] = penalty.item()
            loss = loss + s.lambda_1 * penalty if match_g else loss  # line 12
        if match_r or authors:  # line 14
            penalty = pdm_r(representations)  # line 15
            seen["representation_penalty"] = penalty.item()
            loss = loss + s.lambda_2 * penalty if match_r else loss  # line 16
        adam.zero_grad()
        loss.backward()  # line 18
        adam.step()
        measured.append({"loss": loss.item(), **seen})
        weights.append([parameter.detach().clone() for parameter in parameters])
    return measured, weights


def assert_same_as_explicit_loop(
    s: Settings,
    *,
    domains: int,
    classes: int = 3,
    outputs: int | None = None,
    head: str = "linear",
    steps: int = 5,
) -> list[dict[str, Tensor]]:
    featurizer, psi = make_featurizer(1), make_head(head, outputs or classes, 2)
    batches = make_batches(steps, domains, classes)
    expected, weights = explicit_loop(*copy.deepcopy((featurizer, psi)), batches, s)
    algorithm = build("idm", featurizer, psi, domains, classes, **s.as_hparams())
    returned = []
    for batch, numbers, after in zip(batches, expected, weights, strict=True):
        measured = algorithm.update(batch)
        returned.append(measured)
        for ours, theirs in zip(algorithm.parameters(), after, strict=True):
            torch.testing.assert_close(ours.detach(), theirs, rtol=0, atol=1e-10)
        for part, value in measured.items():
            assert value.item() == pytest.approx(numbers[part], rel=1e-9), part
    return returned


PAPER = {
    "plain": Settings(),
    "warm-ups": Settings(t_1=3, t_2=4),
    "warm-ups of one step": Settings(t_1=1, t_2=2),
    "memory of gradients": Settings(gamma_1=0.9, lambda_1=40.0),
    "memory of representations": Settings(gamma_2=0.6),
    "all at once": Settings(
        t_1=2, t_2=3, gamma_1=0.8, gamma_2=0.5, lambda_1=30.0, lambda_2=5.0, weight_decay=0.01
    ),
    "Wasserstein": Settings(order=1, t_1=2, t_2=3, gamma_1=0.8, gamma_2=0.5),
    "trimmed": Settings(trim=2, gamma_1=0.5),
}


@pytest.mark.parametrize("case", PAPER)
@pytest.mark.parametrize("domains", [2, 3])
def test_the_papers_variant_follows_algorithm_2(case: str, domains: int) -> None:
    s = PAPER[case]
    returned = assert_same_as_explicit_loop(s, domains=domains)
    for t, measured in enumerate(returned, start=1):
        assert ("gradient_penalty" in measured) == (t >= s.t_1)
        assert ("representation_penalty" in measured) == (t >= s.t_2)


AUTHORS = {
    "annealed early": Settings(t_1=1, gamma_1=0.9, lambda_1=40.0),
    "annealed late": Settings(t_1=4, gamma_1=0.9, lambda_1=40.0),
    "from the start": Settings(gamma_1=0.5),
    "weight decay": Settings(t_1=2, gamma_1=0.9, weight_decay=0.05, lr=0.02),
    "both averages and warm-ups": Settings(t_1=2, t_2=3, gamma_1=0.8, gamma_2=0.7, lambda_1=20.0),
    "Wasserstein": Settings(order=1, t_1=2, gamma_1=0.8, gamma_2=0.3),
    "no memory": Settings(t_1=2, t_2=1),
    "never": Settings(t_1=100, t_2=100, gamma_1=0.9),
}


@pytest.mark.parametrize("case", AUTHORS)
def test_the_authors_variant_follows_its_rules_on_four_domains(case: str) -> None:
    s = replace(AUTHORS[case], variant="authors")
    returned = assert_same_as_explicit_loop(s, domains=4)
    for t, measured in enumerate(returned, start=1):
        total = measured["risk"]
        if t >= s.t_1 + 1:
            total = total + s.lambda_1 * measured["gradient_penalty"]
        if t >= s.t_2 + 1:
            total = total + s.lambda_2 * measured["representation_penalty"]
        torch.testing.assert_close(measured["loss"], total, rtol=1e-12, atol=0)


@pytest.mark.parametrize("variant", ["paper", "authors"])
@pytest.mark.parametrize(("head", "outputs"), [("linear", 1), ("mlp", 1), ("mlp", 2)])
def test_other_heads(head: str, outputs: int, variant: str) -> None:
    s = Settings(t_1=2, t_2=1, gamma_1=0.8, gamma_2=0.4, variant=variant)
    assert_same_as_explicit_loop(s, domains=3, classes=2, outputs=outputs, head=head)


def test_representations_of_several_axes_are_flattened() -> None:
    """A featurizer [b, 2, 2] counts as one of 4 dimensions."""
    batches = make_batches(2, 2, 3)
    ends = []
    for tail in ([], [nn.Unflatten(1, (2, 2))]):
        head = make_head("linear", 3, 2)
        psi = nn.Sequential(nn.Flatten(-2), head) if tail else head
        featurizer = nn.Sequential(make_featurizer(1), *tail)
        algorithm = build(
            "idm", featurizer, psi, 2, 3, match_gradients=False, representation_weight=5.0
        )
        ends.append([algorithm.update(batch)["representation_penalty"] for batch in batches])
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-12, atol=0)


def test_trimming_more_than_the_batch_is_refused() -> None:
    algorithm = build("idm", make_featurizer(1), make_head("linear", 3, 2), 2, 3, trim=3)
    with pytest.raises(InvalidValue, match="trim 3 values from each end of 6"):
        algorithm.update(make_batches(1, 2, 3)[0])


@pytest.mark.parametrize("hparams", [{"variant": "author"}, {"order": 3}, {"gradient_ema": 1.0}])
def test_settings_outside_their_rules_are_refused(hparams: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(hparams))):
        build("idm", make_featurizer(1), make_head("linear", 3, 2), 2, 3, **hparams)


# --- state and records ------------------------------------------------------------------------


def through_a_file(state: dict[str, object]) -> dict[str, object]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", ["idm", "erm"])
@pytest.mark.parametrize("variant", ["paper", "authors"])
@pytest.mark.parametrize("k", [1, 3, 4])
def test_interrupted_training_continues_bit_for_bit(name: str, variant: str, k: int) -> None:
    """The stop falls before, at and after the end of the warm-up, where Adam starts afresh."""
    s = Settings(t_1=3, t_2=2, gamma_1=0.9, gamma_2=0.5, lambda_1=20.0, variant=variant)
    hparams = s.as_hparams() if name == "idm" else {"lr": s.lr}
    batches = make_batches(6, 3, 3)

    def new(seed: int) -> Algorithm:
        modules = make_featurizer(seed), make_head("linear", 3, seed + 1)
        return build(name, *modules, 3, 3, **hparams)

    through = new(1)
    uninterrupted = [through.update(batch) for batch in batches]

    first = new(1)
    for batch in batches[:k]:
        first.update(batch)
    torch.rand(3, generator=first.generator)
    state = through_a_file(first.training_state())
    upcoming = torch.rand(3, generator=first.generator)

    resumed = new(50)
    for batch in batches[:2]:
        resumed.update(batch)  # a used one must forget what it did
    resumed.load_training_state(state)
    assert resumed.updates == k
    assert torch.equal(torch.rand(3, generator=resumed.generator), upcoming)
    for batch, expected in zip(batches[k:], uninterrupted[k:], strict=True):
        measured = resumed.update(batch)
        assert measured.keys() == expected.keys()
        for part in expected:
            assert torch.equal(measured[part], expected[part]), part
    for ours, theirs in zip(resumed.parameters(), through.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_what_a_step_measured_is_returned_as_detached_scalars() -> None:
    algorithm = build("idm", make_featurizer(1), make_head("linear", 3, 2), 2, 3, gradient_warmup=0)
    for batch in make_batches(2, 2, 3):
        measured = algorithm.update(batch)
        assert set(measured) == {"loss", "risk", "gradient_penalty", "representation_penalty"}
        for part in measured.values():
            assert part.shape == ()
            assert not part.requires_grad
            assert part > 0
    assert algorithm.updates == 2


def test_predictions_are_the_heads_logits() -> None:
    featurizer, head = make_featurizer(1), make_head("mlp", 3, 2)
    algorithm = build("idm", featurizer, head, 2, 3)
    x = make_batches(1, 2, 3)[0].x[0]
    assert torch.equal(algorithm.predict(x), head(featurizer(x)))


def test_training_draws_nothing_from_the_global_generator() -> None:
    algorithm = build("idm", make_featurizer(1), make_head("mlp", 3, 2), 2, 3, gradient_warmup=0)
    before = torch.get_rng_state()
    algorithm.update(make_batches(1, 2, 3)[0])
    assert torch.equal(torch.get_rng_state(), before)
