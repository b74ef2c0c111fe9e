"""PDM against the paper's theorems, SciPy, enumeration, and Algorithm 1 as an explicit loop."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from _internals import InvalidValue, MovingMatch
from scipy import integrate, special, stats
from torch import Tensor

from shiftproof import pdm

ORDERS = pytest.mark.parametrize("order", [1, 2])
TIGHT = 1e-12


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def two_domains(x: np.ndarray, y: np.ndarray) -> Tensor:
    """[b] and [b] → [2, b, 1]."""
    return torch.from_numpy(np.stack([x, y])[:, :, None])


def algorithm_1(
    batches: Sequence[Sequence[np.ndarray]], gamma: float, order: int = 2, corrected: bool = False
) -> list[float]:
    """Algorithm 1 over successive calls, entry by entry; the average starts at zero."""
    m, (b, d) = len(batches[0]), batches[0][0].shape
    average = [[[0.0] * d for _ in range(b)] for _ in range(m)]
    penalties = []
    for batch in batches:
        for i in range(m):
            for column in range(d):
                ascending = sorted(float(value) for value in batch[i][:, column])
                for row in range(b):
                    old = average[i][row][column]
                    average[i][row][column] = gamma * old + (1 - gamma) * ascending[row]
        total = 0.0
        scale = 1 / (1 - gamma) if corrected else 1.0
        for column in range(d):
            for row in range(b):
                mean = sum(average[i][row][column] for i in range(m)) / m
                for i in range(m):
                    total += abs(scale * (mean - average[i][row][column])) ** order
        penalties.append(total / (m * d * b))
    return penalties


def quantile_penalty(groups: Sequence[np.ndarray], order: int, cut: float = 0.0) -> float:
    """∫ over [cut, 1 − cut] of the mean over domains and dimensions of |Fᵢ⁻¹ − F̄⁻¹|^p, normalised.

    Quantile functions are constant between multiples of 1/lcm(sizes), so the midpoint rule there
    is exact.
    """
    cells = math.lcm(*[len(group) for group in groups])
    levels = (np.arange(cells) + 0.5) / cells
    levels = levels[(levels > cut) & (levels < 1 - cut)]
    quantiles = np.stack(
        [np.quantile(group, levels, axis=0, method="inverted_cdf") for group in groups]
    )
    return float(np.mean(np.abs(quantiles - quantiles.mean(axis=0)) ** order))


# --- (1) the theorem on bijections ------------------------------------------------------------


def kernel_divergences(x: np.ndarray, y: np.ndarray, sigma: float) -> tuple[float, float]:
    """KL(P̄ ‖ Q̄) and W(P̄, Q̄) of the Gaussian kernel density estimators, by integration."""
    margin = 12 * sigma
    grid = np.linspace(min(x.min(), y.min()) - margin, max(x.max(), y.max()) + margin, 40_001)

    def log_density(centres: np.ndarray) -> np.ndarray:
        logs = stats.norm.logpdf(grid[:, None], centres[None, :], sigma)
        return special.logsumexp(logs, axis=1) - np.log(len(centres))

    def distribution(centres: np.ndarray) -> np.ndarray:
        return stats.norm.cdf(grid[:, None], centres[None, :], sigma).mean(axis=1)

    log_p, log_q = log_density(x), log_density(y)
    kl = integrate.trapezoid(np.exp(log_p) * (log_p - log_q), grid)
    wasserstein = integrate.trapezoid(np.abs(distribution(x) - distribution(y)), grid)
    return float(kl), float(wasserstein)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("b", [2, 5, 16])
def test_pdm_bounds_the_divergence_of_kernel_density_estimators(b: int, sigma: float) -> None:
    rng = np.random.default_rng(b)
    for _ in range(4):
        x, y = rng.normal(size=b), rng.gamma(2.0, size=b) - rng.uniform(0, 2)
        kl, wasserstein = kernel_divergences(x, y, sigma)
        points = two_domains(x, y)
        assert 0 < kl <= 2 / sigma**2 * pdm(points, order=2).item() + 1e-9
        assert 0 < wasserstein <= 2 * pdm(points, order=1).item() + 1e-6


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
def test_the_bounds_are_attained(sigma: float) -> None:
    """One point each: both bounds are equalities.  A shift of many points: the W bound is."""
    x, y = np.array([0.3]), np.array([1.1])
    kl, wasserstein = kernel_divergences(x, y, sigma)
    assert kl == pytest.approx(2 / sigma**2 * pdm(two_domains(x, y), order=2).item(), rel=1e-8)
    assert wasserstein == pytest.approx(2 * pdm(two_domains(x, y), order=1).item(), rel=1e-5)

    x = np.random.default_rng(0).normal(size=9)
    y = np.random.default_rng(1).permutation(x + 0.7)
    _, wasserstein = kernel_divergences(x, y, sigma)
    assert wasserstein == pytest.approx(2 * pdm(two_domains(x, y), order=1).item(), rel=1e-5)


# --- (2) the theorem on the minimiser ---------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("b", range(1, 8))
def test_sorting_is_the_best_of_all_bijections(b: int, order: int) -> None:
    rng = np.random.default_rng(b)
    x, y = rng.normal(size=b), rng.normal(0.3, 2.0, size=b)
    bijections = np.array(list(itertools.permutations(range(b))))
    costs = (np.abs(x[None, :] - y[bijections]) ** order).mean(axis=1)
    # |x − x̄| is half of |x¹ − x²|, and both domains count.
    assert 2**order * pdm(two_domains(x, y), order).item() == pytest.approx(costs.min(), rel=TIGHT)


@ORDERS
def test_no_random_bijection_beats_sorting(order: int) -> None:
    rng = np.random.default_rng(7)
    for b in (20, 100):
        x, y = rng.normal(size=b), rng.standard_t(3, size=b)
        best = 2**order * pdm(two_domains(x, y), order).item()
        for _ in range(300):
            paired = np.mean(np.abs(x - rng.permutation(y)) ** order)
            assert best <= paired * (1 + TIGHT)


def test_sorting_is_the_best_joint_pairing_of_three_domains_in_the_kl_form() -> None:
    x = normal(3, 4, 1, seed=3).numpy()[:, :, 0]
    bijections = list(itertools.permutations(range(4)))
    costs = []
    for f, g in itertools.product(bijections, bijections):
        paired = np.stack([x[0], x[1][list(f)], x[2][list(g)]])
        costs.append(np.mean((paired - paired.mean(axis=0)) ** 2))
    assert pdm(torch.from_numpy(x[:, :, None])).item() == pytest.approx(min(costs), rel=TIGHT)


# --- (3) invariances, (4) zero ----------------------------------------------------------------


@ORDERS
def test_the_order_of_samples_does_not_matter(order: int) -> None:
    x = normal(3, 8, 4, seed=0)
    shuffled = x.clone()
    rng = np.random.default_rng(0)
    for i, column in itertools.product(range(3), range(4)):
        shuffled[i, :, column] = x[i, torch.from_numpy(rng.permutation(8)), column]
    assert not torch.equal(shuffled, x)
    assert torch.equal(pdm(shuffled, order), pdm(x, order))
    groups = [x[0], x[1, :5], x[2, :3]]
    reversed_groups = [group.flip(0) for group in groups]
    assert torch.equal(pdm(reversed_groups, order), pdm(groups, order))


@ORDERS
def test_the_order_of_domains_does_not_matter(order: int) -> None:
    x = normal(4, 6, 3, seed=1)
    groups = [x[0], x[1, :5], x[2, :3], x[3, :2]]
    for order_of_domains in itertools.permutations(range(4)):
        permuted = pdm(x[list(order_of_domains)], order).item()
        assert permuted == pytest.approx(pdm(x, order).item(), rel=TIGHT)
        permuted = pdm([groups[i] for i in order_of_domains], order).item()
        assert permuted == pytest.approx(pdm(groups, order).item(), rel=TIGHT)


@ORDERS
@pytest.mark.parametrize("domains", [2, 3, 5])
def test_zero_where_the_sorted_samples_agree(domains: int, order: int) -> None:
    base = normal(9, 3, seed=2)
    rng = np.random.default_rng(2)
    x = torch.stack([base[torch.from_numpy(rng.permutation(9))] for _ in range(domains)])
    assert pdm(x, order).item() == pytest.approx(0, abs=1e-15)
    assert pdm([x[0], x[1].repeat(2, 1)], order).item() == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_positive_where_one_sorted_value_differs(column: int) -> None:
    """Moving the largest of nine values by δ gives δ²/(4·b·d) and δ/(2·b·d)."""
    base = normal(9, 3, seed=2)
    moved = base.clone()
    moved[base[:, column].argmax(), column] += 1e-4
    x = torch.stack([base, moved.flip(0)])
    assert pdm(x, order=2).item() == pytest.approx(1e-8 / (4 * 9 * 3), rel=1e-8)
    assert pdm(x, order=1).item() == pytest.approx(1e-4 / (2 * 9 * 3), rel=1e-8)


# --- (5) beyond the first two moments ---------------------------------------------------------


def test_pdm_says_nothing_of_correlations() -> None:
    """Two Gaussians with correlations ±ρ: equal marginals, and KL = 2ρ²/(1 − ρ²)."""
    rng = np.random.default_rng(0)
    covariances = [np.array([[1, sign * 0.95], [sign * 0.95, 1]]) for sign in (1, -1)]
    draws = [rng.multivariate_normal([0, 0], c, size=5000) for c in covariances]
    assert pdm(torch.from_numpy(np.stack(draws))).item() < 0.001
    kl = (np.trace(np.linalg.solve(covariances[1], covariances[0])) - 2) / 2
    assert kl == pytest.approx(2 * 0.95**2 / (1 - 0.95**2))
    assert kl == pytest.approx(18.5, abs=0.05)


@ORDERS
def test_gaussian_and_uniform_of_equal_mean_and_variance_are_told_apart(order: int) -> None:
    def standardised(sample: np.ndarray) -> np.ndarray:
        return (sample - sample.mean()) / sample.std()

    rng = np.random.default_rng(5)
    n, limit = 20_000, np.sqrt(3)
    g1, g2 = (standardised(rng.normal(size=n)) for _ in range(2))
    u1, u2 = (standardised(rng.uniform(-limit, limit, size=n)) for _ in range(2))
    across = pdm(two_domains(g1, u1), order).item()
    within = max(pdm(two_domains(g1, g2), order).item(), pdm(two_domains(u1, u2), order).item())
    assert across > 8 * within

    def gap(level: float) -> float:
        return abs(stats.norm.ppf(level) - (2 * level - 1) * limit) ** order

    analytic = 2 * integrate.quad(gap, 0.5, 1, points=[0.95], limit=200)[0] / 2**order
    assert across == pytest.approx(analytic, rel=0.1)


# --- (6) order 1 is half the Wasserstein distance ---------------------------------------------

SIZES = [(1, 1), (8, 8), (7, 11), (5, 10), (1, 6), (6, 9), (123, 200)]


@pytest.mark.parametrize("sizes", SIZES)
def test_order_1_is_half_scipys_wasserstein_distance(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(sizes))
    x, y = rng.normal(size=sizes[0]), rng.exponential(size=sizes[1])
    expected = stats.wasserstein_distance(x, y) / 2
    groups = [torch.from_numpy(x[:, None]), torch.from_numpy(y[:, None])]
    assert pdm(groups, order=1).item() == pytest.approx(expected, rel=1e-11)
    if sizes[0] == sizes[1]:
        assert pdm(two_domains(x, y), order=1).item() == pytest.approx(expected, rel=1e-11)


def test_order_1_is_half_scipys_wasserstein_distance_with_ties() -> None:
    x, y = [0.0, 0.0, 1.0, 1.0, 1.0, 4.0], [1.0, 1.0, 0.0, 2.0]
    groups = [torch.tensor(v, dtype=torch.float64).unsqueeze(1) for v in (x, y)]
    expected = stats.wasserstein_distance(x, y) / 2
    assert pdm(groups, order=1).item() == pytest.approx(expected, rel=TIGHT)


# --- (7) unequal groups -----------------------------------------------------------------------

GROUPS = [(4, 4), (3, 5), (4, 6, 9), (1, 2, 3, 5), (2, 8, 8)]


@ORDERS
@pytest.mark.parametrize("sizes", GROUPS)
def test_unequal_groups_are_matched_by_quantiles(sizes: tuple[int, ...], order: int) -> None:
    groups = [normal(size, 3, seed=i) * (i + 1) for i, size in enumerate(sizes)]
    expected = quantile_penalty([group.numpy() for group in groups], order)
    assert pdm(groups, order).item() == pytest.approx(expected, rel=TIGHT)


@ORDERS
@pytest.mark.parametrize("sizes", GROUPS)
def test_repeating_every_sample_changes_nothing(sizes: tuple[int, ...], order: int) -> None:
    groups = [normal(size, 2, seed=i) for i, size in enumerate(sizes)]
    expected = pdm(groups, order).item()
    for k, which in itertools.product((2, 3), range(len(sizes))):
        repeated = list(groups)
        repeated[which] = groups[which].repeat(k, 1)
        assert pdm(repeated, order).item() == pytest.approx(expected, rel=TIGHT)


@ORDERS
@pytest.mark.parametrize("trim", [0, 1, 2])
def test_a_sequence_of_equal_groups_equals_the_tensor(order: int, trim: int) -> None:
    x = normal(3, 7, 4, seed=4)
    assert pdm(list(x), order, trim).item() == pytest.approx(pdm(x, order, trim).item(), rel=TIGHT)
    assert pdm(tuple(x), order, trim).item() == pytest.approx(pdm(x, order, trim).item(), rel=TIGHT)


# --- (8) gradients ----------------------------------------------------------------------------


def smallest_kink_distance(groups: Sequence[Tensor]) -> float:
    """How far the values are from ties within a group, and from their mean across groups."""
    cells = math.lcm(*[len(group) for group in groups])
    ranked = torch.stack(
        [group.sort(dim=0).values.repeat_interleave(cells // len(group), 0) for group in groups]
    )
    ties = min(group.sort(dim=0).values.diff(dim=0).min().item() for group in groups)
    return min(ties, (ranked - ranked.mean(dim=0)).abs().min().item())


@ORDERS
@pytest.mark.parametrize("trim", [0, 1])
def test_gradients_match_finite_differences(order: int, trim: int) -> None:
    x = (normal(3, 5, 2, seed=9) + torch.tensor([0.0, 1.5, 4.0])[:, None, None]).requires_grad_()
    assert smallest_kink_distance(list(x.detach())) > 1e-3
    assert torch.autograd.gradcheck(lambda x: pdm(x, order, trim), x)
    groups = [
        normal(size, 2, seed=20 + i).add(3 * i).requires_grad_() for i, size in enumerate((3, 4, 6))
    ]
    assert smallest_kink_distance([group.detach() for group in groups]) > 1e-3
    assert torch.autograd.gradcheck(lambda *groups: pdm(groups, order, trim), groups)


# --- (9) trimming -----------------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("trim", [1, 2, 4])
def test_trimming_drops_both_ends_of_every_sorted_column(order: int, trim: int) -> None:
    x = normal(3, 9, 2, seed=6)
    kept = np.sort(x.numpy(), axis=1)[:, trim:-trim]
    expected = np.mean(np.abs(kept - kept.mean(axis=0)) ** order)
    assert pdm(x, order, trim).item() == pytest.approx(expected, rel=TIGHT)


@ORDERS
@pytest.mark.parametrize(("sizes", "trim"), [((4, 6), 1), ((5, 7), 2), ((3, 9), 1), ((6, 6, 8), 2)])
def test_trimming_unequal_groups_drops_the_same_share(
    sizes: tuple[int, ...], trim: int, order: int
) -> None:
    groups = [normal(size, 2, seed=30 + i) * (i + 1) for i, size in enumerate(sizes)]
    cut = trim / min(sizes)
    expected = quantile_penalty([group.numpy() for group in groups], order, cut)
    assert pdm(groups, order, trim).item() == pytest.approx(expected, rel=1e-11)


# --- (10) Algorithm 1, (11) errors ------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("domains", [2, 3, 4, 5])
def test_any_number_of_domains_follows_algorithm_1(domains: int, order: int) -> None:
    x = normal(domains, 6, 3, seed=domains)
    expected = algorithm_1([list(x.numpy())], gamma=0, order=order)[0]
    assert pdm(x, order).item() == pytest.approx(expected, rel=TIGHT)


def test_one_domain_has_nothing_to_match_and_none_is_an_error() -> None:
    for penalty, as_sequence in itertools.product((pdm, MovingMatch(0.5)), (False, True)):
        x = normal(1, 5, 2, seed=0).requires_grad_()
        value = penalty([x[0]] if as_sequence else x)
        (gradient,) = torch.autograd.grad(value, x)
        assert value == 0
        assert torch.equal(gradient, torch.zeros_like(gradient))
    with pytest.raises(InvalidValue, match="at least one domain, not 0"):
        pdm([])


def test_order_3_is_refused() -> None:
    for x in (normal(2, 5, 2, seed=0), [normal(5, 2, seed=0)] * 2):
        with pytest.raises(InvalidValue, match="must be 1 or 2, not 3"):
            pdm(x, order=3)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match="must be 1 or 2, not 3"):
            MovingMatch(order=3)(x)


@pytest.mark.parametrize("trim", [2, 3, 100, -1])
def test_trimming_everything_is_refused(trim: int) -> None:
    for x in (normal(2, 4, 2, seed=0), [normal(4, 2, seed=0), normal(9, 2, seed=0)]):
        with pytest.raises(InvalidValue, match=f"trim {trim} values from each end of 4"):
            pdm(x, trim=trim)
    with pytest.raises(InvalidValue, match=f"trim {trim} values from each end of 4"):
        MovingMatch(trim=trim)(normal(2, 4, 2, seed=0))


@pytest.mark.parametrize("gamma", [1.0, 1.5, -0.1, math.nan])
def test_a_gamma_outside_its_range_is_refused(gamma: float) -> None:
    with pytest.raises(InvalidValue, match="0 ≤ γ < 1"):
        MovingMatch(gamma)


# --- (12) MovingMatch -------------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.95])
def test_moving_match_follows_algorithm_1(gamma: float, corrected: bool, order: int) -> None:
    batches = [normal(3, 5, 2, seed=i) for i in range(6)]
    expected = algorithm_1([list(x.numpy()) for x in batches], gamma, order, corrected)
    match = MovingMatch(gamma, order, corrected=corrected)
    assert [match(x).item() for x in batches] == pytest.approx(expected, rel=1e-11)


@ORDERS
def test_moving_match_trims_the_averaged_points(order: int) -> None:
    batches = [normal(2, 7, 3, seed=i) for i in range(3)]
    match = MovingMatch(0.6, order, trim=2)
    average = np.zeros((2, 7, 3))
    for x in batches:
        average = 0.6 * average + 0.4 * np.sort(x.numpy(), axis=1)
        kept = average[:, 2:5]
        expected = np.mean(np.abs(kept - kept.mean(axis=0)) ** order)
        assert match(x).item() == pytest.approx(expected, rel=TIGHT)


@ORDERS
@pytest.mark.parametrize("corrected", [False, True])
def test_only_the_newest_points_carry_a_gradient(corrected: bool, order: int) -> None:
    first, second = (normal(3, 5, 2, seed=i).requires_grad_() for i in range(2))
    match = MovingMatch(0.7, order, corrected=corrected)
    match(first)
    match(second).backward()
    assert first.grad is None
    assert second.grad is not None

    past = 0.3 * first.detach().sort(dim=1).values

    def penalty(x: Tensor) -> Tensor:
        averaged = (0.7 * past + 0.3 * x.sort(dim=1).values) / (0.3 if corrected else 1.0)
        return ((averaged - averaged.mean(dim=0)).abs() ** order).mean()

    free = second.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(penalty(free), free)
    torch.testing.assert_close(second.grad, expected, rtol=TIGHT, atol=TIGHT)


def saved_and_read(match: MovingMatch) -> dict[str, Tensor]:
    file = io.BytesIO()
    torch.save(match.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_the_memory_is_in_the_state() -> None:
    match = MovingMatch(0.9)
    assert not match.state_dict()
    x = normal(2, 5, 3, seed=0).requires_grad_()
    match(x)
    state = match.state_dict()
    assert not list(match.parameters())
    assert not any(value.requires_grad for value in state.values())
    expected = np.sort(x.detach().numpy(), axis=1).transpose(0, 2, 1)
    torch.testing.assert_close(state["sums"], torch.from_numpy(expected), rtol=TIGHT, atol=0)
    assert state["masses"].tolist() == [1, 1]
    assert state["domains"].tolist() == [0, 1]


@pytest.mark.parametrize("corrected", [False, True])
def test_a_loaded_match_continues_bit_for_bit(corrected: bool) -> None:
    batches = [normal(3, 5, 2, seed=i) for i in range(6)]
    through = MovingMatch(0.9, corrected=corrected)
    uninterrupted = [through(x) for x in batches]

    first = MovingMatch(0.9, corrected=corrected)
    for x in batches[:3]:
        first(x)
    resumed = MovingMatch(0.9, corrected=corrected)
    resumed.load_state_dict(saved_and_read(first))
    for x, expected in zip(batches[3:], uninterrupted[3:], strict=True):
        assert torch.equal(resumed(x), expected)
    fresh = MovingMatch(0.9, corrected=corrected)
    assert not torch.equal(fresh(batches[3]), uninterrupted[3])


def test_loading_a_fresh_state_forgets() -> None:
    used, fresh = MovingMatch(0.9), MovingMatch(0.9)
    used(normal(3, 5, 2, seed=0))
    used.load_state_dict(saved_and_read(fresh))
    other_shape = normal(2, 8, 1, seed=1)
    assert torch.equal(used(other_shape), fresh(other_shape))


def test_loading_does_not_tie_two_modules_together() -> None:
    source, copy = MovingMatch(0.9), MovingMatch(0.9)
    batches = [normal(2, 4, 2, seed=i) for i in range(3)]
    source(batches[0])
    copy.load_state_dict(source.state_dict())
    source(batches[1])
    alone = MovingMatch(0.9)
    alone(batches[0])
    assert torch.equal(copy(batches[2]), alone(batches[2]))


def averaged_over_shares(values: np.ndarray, levels: int) -> np.ndarray:
    """The mean of the quantile function over each of `levels` equal shares, by repetition."""
    size, dims = values.shape
    fine = np.sort(values, axis=0).repeat(levels, axis=0)
    return fine.reshape(levels, size, dims).mean(axis=1)


@ORDERS
def test_group_sizes_may_change_between_calls(order: int) -> None:
    calls: list[list[int]] = [[6, 6], [4, 4], [9, 9], [6, 3], [12, 1], [6, 6]]
    match = MovingMatch(0.5, order)
    average = np.zeros((2, 6, 2))
    for call, sizes in enumerate(calls):
        groups = [normal(size, 2, seed=10 * call + i) for i, size in enumerate(sizes)]
        new = np.stack([averaged_over_shares(group.numpy(), 6) for group in groups])
        average = 0.5 * average + 0.5 * new
        expected = np.mean(np.abs(average - average.mean(axis=0)) ** order)
        given = torch.stack(groups) if sizes[0] == sizes[1] else groups
        assert match(given).item() == pytest.approx(expected, rel=TIGHT)


def test_the_first_call_sets_the_levels_to_its_largest_group() -> None:
    groups = [normal(3, 2, seed=0), normal(7, 2, seed=1), normal(5, 2, seed=2)]
    match = MovingMatch(0.5)
    points = 0.5 * np.stack([averaged_over_shares(group.numpy(), 7) for group in groups])
    expected = np.mean((points - points.mean(axis=0)) ** 2)
    assert match(groups).item() == pytest.approx(expected, rel=TIGHT)
    assert match.state_dict()["sums"].shape == (3, 2, 7)


@ORDERS
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single_precision(half: torch.dtype, order: int) -> None:
    x = (1 + normal(2, 6, 3, seed=0) / 50).to(half)
    y = (1 + normal(2, 6, 3, seed=1) / 50).to(half)
    groups = [x[0], x[1, :4]]
    assert pdm(x, order).dtype == torch.float32
    assert torch.equal(pdm(x, order), pdm(x.float(), order))
    assert torch.equal(pdm(groups, order), pdm([group.float() for group in groups], order))

    narrow, wide = MovingMatch(0.9, order), MovingMatch(0.9, order)
    for batch in (x, y, [x[0], y[1, :4]]):
        single = batch.float() if isinstance(batch, Tensor) else [g.float() for g in batch]
        penalty = narrow(batch)
        assert penalty.dtype == torch.float32
        assert torch.equal(penalty, wide(single))
