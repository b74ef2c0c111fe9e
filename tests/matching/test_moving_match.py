"""The matcher against its formula, unrolled over the calls: domains that come and go, any sizes."""

from __future__ import annotations

import copy
import io
import itertools
from dataclasses import dataclass

import pytest
import torch
from _internals import InvalidValue, LinearGradients, MovingMatch, linear_head_gradients
from torch import Tensor

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
ORDERS = pytest.mark.parametrize("order", [1, 2])
CORRECTED = pytest.mark.parametrize("corrected", [True, False])


@dataclass
class Call:
    """The samples that one call holds of some domains: features [n, k] and residuals [n, c]."""

    domains: list[int]
    sizes: list[int]
    features: Tensor
    residual: Tensor

    @classmethod
    def of(cls, sizes: dict[int, int], seed: int) -> Call:
        generator = torch.Generator().manual_seed(seed)
        n = sum(sizes.values())
        r, e = (torch.randn(n, k, dtype=torch.float64, generator=generator) for k in (3, 2))
        return cls(list(sizes), list(sizes.values()), r.requires_grad_(), e.requires_grad_())

    def factors(self, *, bias: bool = True) -> LinearGradients:
        return LinearGradients.of(self.features, self.residual, self.sizes, bias=bias)

    def groups(self, *, bias: bool = True) -> list[Tensor]:
        """The gradients themselves, in the order in which the factors have them."""
        r = self.features
        r = torch.cat([r, torch.ones(len(r), 1, dtype=r.dtype)], dim=1) if bias else r
        held = linear_head_gradients(r, self.residual, bias=False)
        return list(torch.split(held, self.sizes))


# How many samples each call holds of each domain.
CALLS = {
    "all domains, equal sizes": [{0: 6, 1: 6, 2: 6}] * 4,
    "unequal sizes": [{0: 5, 1: 6, 2: 4}, {0: 6, 1: 3, 2: 9}, {0: 4, 1: 4, 2: 4}],
    "absent domains": [{0: 6, 1: 6, 2: 6}, {2: 6, 1: 6}, {0: 6}, {1: 6, 0: 6, 2: 6}],
    "new domains": [{7: 6, -3: 6}, {7: 6, -3: 6, 4: 6}, {5: 6, 7: 6}],
    "all at once": [{1: 4}, {0: 6, 1: 3}, {3: 5}, {0: 7, 3: 4, 1: 4, 2: 5}],
}
calls = pytest.mark.parametrize("case", CALLS)


def by_hand(seen: list[Call], gamma: float, order: int, trim: int, corrected: bool) -> Tensor:
    """Σₖ γᵏ over all calls, one dimension and one level at a time."""
    levels = max(seen[0].sizes)
    known = list(dict.fromkeys(domain for call in seen for domain in call.domains))
    sums = dict.fromkeys(known, 0.0)
    masses = dict.fromkeys(known, 0.0)
    for age, call in enumerate(reversed(seen)):
        groups = call.groups() if age == 0 else [g.detach() for g in call.groups()]
        for domain, group in zip(call.domains, groups, strict=True):
            # Each sample `levels` times over: its quantile function in steps of 1/(size·levels).
            fine = torch.stack([c.sort().values for c in group.T]).repeat_interleave(levels, dim=1)
            ranked = fine.view(len(fine), levels, len(group)).mean(dim=2)
            sums[domain] = sums[domain] + gamma**age * ranked
            masses[domain] += gamma**age
    total, count = torch.zeros((), dtype=torch.float64), 0
    dims = len(sums[known[0]])
    for dim, level in itertools.product(range(dims), range(trim, levels - trim)):
        centre = sum(sums[i][dim, level] for i in known) / sum(masses.values())
        for i in known:
            total = total + (sums[i][dim, level] - masses[i] * centre).abs() ** order
            count += 1
    return total / count * (1 if corrected else (1 - gamma) ** order)


def slopes(penalty: Tensor, call: Call) -> list[Tensor]:
    return list(torch.autograd.grad(penalty, [call.features, call.residual]))


@calls
@ORDERS
@CORRECTED
@pytest.mark.parametrize("trim", [0, 1])
def test_values_and_derivatives_are_the_formulas(
    case: str, order: int, corrected: bool, trim: int
) -> None:
    """By the factors of the gradients, and by the gradients themselves."""
    fast, held = (MovingMatch(0.6, order, trim, corrected=corrected) for _ in range(2))
    seen = []
    for seed, sizes in enumerate(CALLS[case]):
        seen.append(call := Call.of(sizes, seed))
        expected = by_hand(seen, 0.6, order, trim, corrected)
        expected_slopes = slopes(expected, call)
        for match, points in ((fast, call.factors()), (held, call.groups())):
            penalty = match(points, call.domains)
            torch.testing.assert_close(penalty, expected, **CLOSE)
            for ours, theirs in zip(slopes(penalty, call), expected_slopes, strict=True):
                torch.testing.assert_close(ours, theirs, **CLOSE)
    assert fast.state_dict().keys() == held.state_dict().keys()
    for name, value in fast.state_dict().items():
        torch.testing.assert_close(value, held.state_dict()[name], **CLOSE)
    if len(seen[-1].domains) > 1:
        assert penalty > 1e-4  # something was compared


@calls
@ORDERS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("trim", [0, 1])
def test_without_memory_factors_and_gradients_agree(
    case: str, order: int, bias: bool, trim: int
) -> None:
    """`pdm` of the gradients is tested on its own."""
    match = MovingMatch(0.0, order, trim)
    for seed, sizes in enumerate(CALLS[case]):
        call = Call.of(sizes, seed)
        fast = match(call.factors(bias=bias), call.domains)
        held = match(call.groups(bias=bias), call.domains)
        torch.testing.assert_close(fast, held, **CLOSE)
        for ours, theirs in zip(slopes(fast, call), slopes(held, call), strict=True):
            torch.testing.assert_close(ours, theirs, **CLOSE)
    assert not match.state_dict()


def test_domains_are_0_1_and_so_on_unless_they_are_named() -> None:
    named, plain = MovingMatch(0.5), MovingMatch(0.5)
    for seed in range(3):
        call = Call.of({0: 4, 1: 4}, seed)
        assert torch.equal(named(call.factors(), [0, 1]), plain(call.factors()))
    assert plain.state_dict()["domains"].tolist() == [0, 1]


@calls
def test_a_loaded_state_goes_on_to_the_bit(case: str) -> None:
    """Through a file, over another state; what was saved does not change with what comes after."""
    through = MovingMatch(0.8, corrected=True)
    *early, last = [Call.of(sizes, seed) for seed, sizes in enumerate(CALLS[case])]
    for call in early:
        through(call.factors(), call.domains)
    file = io.BytesIO()
    torch.save(through.state_dict(), file)
    copied = copy.deepcopy(through)
    expected = through(last.factors(), last.domains)
    resumed = MovingMatch(0.8, corrected=True)
    resumed(Call.of({8: 3, 9: 2}, 99).factors(bias=False), [8, 9])
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for each in (resumed, copied):
        assert torch.equal(each(last.factors(), last.domains), expected)
        for name, value in through.state_dict().items():
            assert torch.equal(each.state_dict()[name], value), name


def test_no_derivative_is_computed_where_none_is_asked_for() -> None:
    call = Call.of({0: 4, 1: 4}, 0)
    wanted = MovingMatch(0.9)(call.factors())
    with torch.no_grad():
        found = MovingMatch(0.9)(call.factors())
    constant = LinearGradients.of(call.features.detach(), call.residual.detach(), call.sizes)
    for other in (found, MovingMatch(0.9)(constant)):
        assert not other.requires_grad
        assert torch.equal(other, wanted.detach())
    assert wanted.requires_grad


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["features", "residual"])
@pytest.mark.parametrize("factored", [True, False])
def test_what_is_not_finite_is_not_remembered(bad: float, where: str, factored: bool) -> None:
    match, untouched = MovingMatch(0.5), MovingMatch(0.5)
    for each in (match, untouched):
        each(Call.of({0: 4, 1: 4}, 0).factors())
    call = Call.of({0: 4, 1: 4, 2: 4}, 1)
    with torch.no_grad():
        getattr(call, where)[1, 1] = bad
    penalty = match(call.factors() if factored else call.groups(), call.domains)
    assert not penalty.isfinite()
    for name, value in untouched.state_dict().items():
        assert torch.equal(match.state_dict()[name], value), name


def test_in_evaluation_nothing_is_remembered() -> None:
    match = MovingMatch(0.5)
    first, second = (Call.of({0: 4, 1: 4}, seed) for seed in range(2))
    match.eval()
    match(first.factors())
    assert not match.state_dict()
    match.train()
    match(first.factors())
    before = copy.deepcopy(match.state_dict())
    match.eval()
    measured = match(second.factors())
    assert all(torch.equal(match.state_dict()[name], value) for name, value in before.items())
    match.train()
    assert torch.equal(match(second.factors()), measured)


def test_other_dimensions_than_before_are_refused() -> None:
    match = MovingMatch(0.5)
    call = Call.of({0: 4, 1: 4}, 0)
    match(call.factors())
    with pytest.raises(InvalidValue, match="had 8 dimensions in earlier calls and has 6 now"):
        match(call.factors(bias=False))


def test_more_cannot_be_trimmed_than_there_are_levels() -> None:
    call = Call.of({0: 4, 1: 4}, 0)
    with pytest.raises(InvalidValue, match="cannot trim 2 values from each end of 4"):
        MovingMatch(0.5, trim=2)(call.factors())


def test_on_a_device_that_cannot_be_read_nothing_waits() -> None:
    """On meta tensors, any value that is read raises."""
    match = MovingMatch(0.5)
    for sizes in CALLS["all at once"]:
        call = Call.of(sizes, 0)
        call.features, call.residual = call.features.to("meta"), call.residual.to("meta")
        assert match(call.factors(), call.domains).device.type == "meta"
    assert match.state_dict()["sums"].shape == (4, 8, 4)
