"""IDM that sets its own strength: the slopes and their summary, the decision, the matching."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from _internals import (
    SLOWER,
    Calibration,
    InvalidValue,
    LinearGradients,
    Slopes,
    Trainer,
    better_than_shares,
    calibrate,
    calibration,
    configure,
    first_difference,
    idm_auto_standardized as standardized,
    linear_head_gradients,
    preflight_notes,
    problem,
    resolve,
    slopes_of,
)
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from shiftproof import ALGORITHMS, Batch, Domain, DomainDataset, Task, pdm

HeldOut = list[tuple[Tensor, Tensor]]


def outputs(
    *slopes: float, n: int = 4000, seed: int = 0, intercepts: tuple[float, ...] = ()
) -> HeldOut:
    """One domain for each slope, in which a logit z means the log odds slope · z + intercept."""
    rng = np.random.default_rng(seed)
    domains = []
    for d, slope in enumerate(slopes):
        z = rng.normal(0, 2, n)
        odds = slope * z + (intercepts[d] if intercepts else 0)
        y = rng.random(n) < 1 / (1 + np.exp(-odds))
        domains.append((torch.tensor(z[:, None]).float(), torch.tensor(y).long()))
    return domains


SHIFT, SAME, EMPTY = outputs(1.5, 0.5), outputs(1.0, 1.0), outputs(0.02, -0.02)


def given(held_out: HeldOut) -> Callable[[], HeldOut]:
    """Held-out outputs, whatever the weights."""
    return lambda: held_out


# --- the slopes -------------------------------------------------------------------------------


def test_the_slope_of_two_classes_is_that_of_a_logistic_regression():
    logits, labels = outputs(0.7, n=3000)[0]
    fit = calibration(logits, labels)
    model = LogisticRegression(C=1e6, tol=1e-8).fit(logits.numpy(), labels.numpy())
    assert fit.slope == pytest.approx(model.coef_.item(), rel=1e-3)
    assert np.diff(fit.intercepts).item() == pytest.approx(model.intercept_.item(), abs=1e-3)
    two = calibration(torch.cat([torch.zeros_like(logits), logits], dim=1), labels)
    assert two[1:] == fit[1:]


def test_the_variance_is_that_of_the_slope_over_samples():
    drawn = [calibration(*outputs(1.0, n=500, seed=seed)[0])[1:] for seed in range(200)]
    slopes, variances = np.array(drawn).T
    assert np.mean(variances) == pytest.approx(slopes.var(ddof=1), rel=0.3)
    assert slopes.mean() == pytest.approx(1, abs=0.05)


def test_a_network_that_is_overconfident_twice_has_half_the_slope():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, (3000, 4))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = torch.tensor([rng.choice(4, p=row) for row in p])
    one, two = (calibration(torch.tensor(factor * z), labels)[1:] for factor in (1, 2))
    assert one[0] == pytest.approx(1, abs=0.1)
    assert two[0] == pytest.approx(one[0] / 2, rel=1e-3)
    assert two[1] == pytest.approx(one[1] / 4, rel=1e-2)


def test_outputs_that_separate_the_classes_have_an_uncertain_slope():
    """A tiny sandwich alone would make any two such domains look different."""
    logits = torch.tensor([[-3.0], [-2.0], [2.0], [3.0]])
    fit = calibration(logits, torch.tensor([0, 0, 1, 1]))
    assert fit.variance > fit.slope**2 / 4
    alone = calibration(logits, torch.ones(4, dtype=torch.long))
    assert alone.variance > 1  # one class tells nothing


def test_the_summary_is_that_of_dersimonian_and_laird(monkeypatch):
    """Three slopes with variances 1, 1 and 4, by hand."""
    fits = iter([Calibration(np.zeros(2), *fit) for fit in ((1, 1), (5, 1), (9, 4))])
    monkeypatch.setitem(slopes_of.__globals__, "calibration", lambda *_: next(fits))
    found = slopes_of([(Tensor(), Tensor())] * 3)
    q = (1 - 11 / 3) ** 2 + (5 - 11 / 3) ** 2 + (9 - 11 / 3) ** 2 / 4
    tau2 = (q - 2) / (2.25 - 2.0625 / 2.25)
    weights = np.array([1 / (1 + tau2), 1 / (1 + tau2), 1 / (4 + tau2)])
    assert found.p == pytest.approx(np.exp(-q / 2))
    assert found.mean == pytest.approx((weights * [1, 5, 9]).sum() / weights.sum())
    assert found.deviation == pytest.approx(np.sqrt(tau2 + 1 / weights.sum()))
    assert found.lower == pytest.approx(found.mean - 2.919986 * found.deviation, rel=1e-5)


def test_outputs_lose_their_meaning_if_slopes_differ_by_much():
    assert slopes_of(SHIFT).lose_their_meaning
    assert not slopes_of(SAME).lose_their_meaning
    assert not slopes_of(SHIFT[:1]).lose_their_meaning
    little = slopes_of(outputs(1.05, 0.95, 1.0, 1.0, 1.0, n=40_000))
    assert little.p < 0.05 < little.lower
    assert not little.lose_their_meaning


@pytest.mark.parametrize("shift", ["none", "label", "covariate"])
@pytest.mark.parametrize("domains", [2, 5])
@pytest.mark.parametrize(("n", "runs"), [(200, 150), (2000, 50)])
def test_domains_without_concept_shift_are_matched_at_most_at_the_level(shift, domains, n, runs):
    """The outputs are those of a logistic regression, which is correct, fitted to other samples."""
    rng = np.random.default_rng([n, domains])
    begun = 0
    for _ in range(runs):

        def drawn(d: int) -> tuple[np.ndarray, np.ndarray]:
            prior = 0.5 + (0.3 * (d - (domains - 1) / 2) / (domains - 1) * (shift == "label"))
            y = rng.random(n) < prior
            x = rng.standard_normal((n, 5))
            x[:, :2] += y[:, None]
            if shift == "covariate":
                x = rng.standard_normal((n, 5)) * (1 + 0.5 * d)
                y = rng.random(n) < 1 / (1 + np.exp(-x[:, 0] - x[:, 1]))
            return x, y

        train = [drawn(d) for d in range(domains)]
        model = LogisticRegression(C=1e3, solver="newton-cholesky")
        model.fit(np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train]))
        held_out = []
        for d in range(domains):
            x, y = drawn(d)
            z = 2 * model.decision_function(x)  # too sure, as a network trained for long
            held_out.append((torch.tensor(z[:, None]), torch.tensor(y).long()))
        begun += slopes_of(held_out).lose_their_meaning
    assert begun <= binom.ppf(0.999, runs, 0.05)


# --- the matching -----------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
def test_standardized_gradients_have_unit_variance_whatever_their_scale(bias):
    """The factors of a linear head and all gradients agree."""
    torch.manual_seed(0)
    features, residual = torch.randn(12, 5) + 3, torch.randn(12, 3) + 1
    whole = linear_head_gradients(features, residual, bias=bias).view(2, 6, -1)
    expected = standardized(whole)
    assert expected.flatten(0, 1).var(dim=0, correction=0).mean().item() == pytest.approx(1)
    for scale in (1.0, 1e-4):
        factors = standardized(LinearGradients.of(features, scale * residual, (6, 6), bias=bias))
        product = linear_head_gradients(factors.features, factors.residual, bias=bias)
        torch.testing.assert_close(product.view_as(expected), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pdm(standardized(whole + 1)), pdm(expected))
    assert not standardized(torch.zeros(2, 3, 4)).isnan().any()


def test_a_head_is_calibrated_on_held_out_samples():
    """A bias of 2 and a slope of 3 are found and removed, for one logit and for three classes."""
    z, labels = outputs(1.0, n=5000)[0]
    one = nn.Linear(1, 1)
    with torch.no_grad():
        one.weight.fill_(3), one.bias.fill_(2)
        calibrate(one, [(one(z), labels)])
    assert one.weight.item() == pytest.approx(1, abs=0.1)
    assert one.bias.item() == pytest.approx(0, abs=0.1)
    several = nn.Linear(2, 3)
    x = torch.randn(3000, 2)
    labels = torch.distributions.Categorical(logits=several(x)).sample()
    several.bias.data += torch.tensor([2.0, 0.0, -1.0])
    before = [(several(x[i::2]).detach(), labels[i::2]) for i in range(2)]
    calibrate(several, before)
    fit = calibration(several(x).detach(), labels)
    assert fit.slope == pytest.approx(1, abs=1e-2)
    assert np.ptp(fit.intercepts) < 1e-2


def test_outputs_that_do_not_beat_the_class_shares():
    assert better_than_shares(SAME)
    assert not better_than_shares(EMPTY)
    assert not better_than_shares([(logits + 9, labels) for logits, labels in SAME])


def build(name: str, **hparams: object) -> nn.Module:
    cls = ALGORITHMS.get(name)
    torch.manual_seed(0)
    return cls(
        Task((3,), 2, 2, "table"),
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)),
        nn.Linear(4, 2),
        resolve(cls.Hparams, "table", hparams),
        torch.Generator().manual_seed(0),
    )


def batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (2, 64), generator=generator)
    x = torch.randn(2, 64, 3, generator=generator) + y.unsqueeze(-1)
    return Batch(x + torch.arange(2).view(-1, 1, 1), y)


def begun(**hparams: object) -> nn.Module:
    """An algorithm that has found a shift after its first step."""
    auto = build("idm-auto", gradient_warmup=1, **hparams)
    auto.update(batch(0))
    auto.look(given(SHIFT), last=False)
    return auto


def test_without_shift_it_is_erm_to_the_last_bit():
    erm, auto = build("erm"), build("idm-auto", gradient_warmup=2)
    for seed in range(6):
        one, other = erm.update(batch(seed)), auto.update(batch(seed))
        assert torch.equal(one["loss"], other["loss"])
        assert "gradient_penalty" not in other
        if auto.updates in auto.looks(6):
            # Only the step t₁ tests.
            auto.look(given(SAME if auto.updates == 2 else SHIFT), last=auto.updates == 6)
    assert auto.looks(6) == (2, 4, 6)
    assert auto.looks(2) == ()
    for mine, theirs in zip(erm.parameters(), auto.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_it_begins_with_a_new_slower_adam():
    auto = begun()
    assert isinstance(auto.before, Slopes)
    adam = auto.optimizers["main"]
    assert not adam.state
    assert [group["lr"] for group in adam.param_groups] == [auto.hparams.lr / SLOWER]


def test_the_loss_is_the_risk_over_lambda_and_the_penalty_of_gradients_of_unit_size():
    auto = begun(gradient_weight=50.0, gradient_ema=0.5)
    auto.update(batch(1))
    losses = auto.objective(batch(2))
    torch.testing.assert_close(
        losses.total, losses.parts["risk"] / 50 + losses.parts["gradient_penalty"]
    )


def test_the_penalty_compares_a_batch_with_earlier_ones_only():
    """The first batch has none; of two batches with memory γ remain γ² ‖Δ‖² and their product."""
    auto = begun(gradient_ema=0.5)

    def ranked(seed: int) -> Tensor:
        features = auto.features(batch(seed))
        residual = auto.sample_loss.residual(auto.head(features), batch(seed).y)
        points = standardized(linear_head_gradients(features, residual)).sort(dim=1).values
        return points - points.mean(dim=0)

    torch.testing.assert_close(
        auto.objective(batch(1)).parts["gradient_penalty"], torch.tensor(0.0)
    )
    old, new = ranked(1), ranked(2)
    expected = (new * old + 0.25 * old.square()).mean()
    torch.testing.assert_close(auto.objective(batch(2)).parts["gradient_penalty"], expected)


def test_it_ends_with_the_mean_of_the_weights_since_the_middle():
    auto = begun()
    history = []
    auto.update(batch(1))
    auto.look(given(SHIFT), last=False)
    for seed in range(2, 6):
        auto.update(batch(seed))
        history.append([value.clone() for value in auto.weights])
    auto.look(given(SAME), last=True)
    means = [torch.stack(values).mean(dim=0) for values in zip(*history, strict=True)]
    pairs = list(zip(means, auto.weights, strict=True))
    for mean, value in pairs[:-2]:
        torch.testing.assert_close(value, mean)
    fit = calibration(*map(torch.cat, zip(*SAME, strict=True)))
    torch.testing.assert_close(pairs[-2][1], fit.slope * pairs[-2][0])


@pytest.mark.parametrize("after", [SHIFT, EMPTY], ids=["as different as before", "nothing left"])
def test_matching_that_does_not_help_is_undone(after):
    auto = begun()
    start = [value.clone() for value in auto.weights]
    auto.look(given(SHIFT), last=False)
    auto.update(batch(1))
    auto.look(given(after), last=True)
    assert all(map(torch.equal, start, auto.weights))


def test_the_last_step_is_too_late_to_begin():
    auto = build("idm-auto", gradient_warmup=1)
    auto.update(batch(0))
    auto.look(given(SHIFT), last=True)
    assert auto.before is None


@pytest.mark.parametrize("stop", range(1, 6))
def test_all_of_it_is_state(stop):
    """Saved after any step, before or after the mean begins, a run ends with the same weights."""

    def advanced(auto: nn.Module, first: int, last: int) -> nn.Module:
        for step in range(first, last + 1):
            auto.update(batch(step))
            if step in auto.looks(6):
                auto.look(given(SAME if step == 6 else SHIFT), last=step == 6)
        return auto

    whole = advanced(build("idm-auto", gradient_warmup=2), 1, 6)
    assert whole.averaged == 2
    state = copy.deepcopy(advanced(build("idm-auto", gradient_warmup=2), 1, stop).training_state())
    resumed = build("idm-auto", gradient_warmup=2)
    resumed.load_training_state(state)
    advanced(resumed, stop + 1, 6)
    assert first_difference(whole.training_state(), resumed.training_state()) is None


# --- in a run ---------------------------------------------------------------------------------


def coloured(n: int = 5000) -> DomainDataset:
    """A feature agrees with the label in 95%, 70% and 5% of the samples; another in 75%."""
    rng = np.random.default_rng(0)
    domains = []
    for name, agreement in (("95%", 0.95), ("70%", 0.7), ("5%", 0.05)):
        y = rng.random(n) < 0.5
        cells = [np.where(rng.random(n) < a, y, ~y) for a in (agreement, 0.75)]
        x = torch.tensor(np.stack(cells, axis=1), dtype=torch.float32)
        domains.append(Domain(name, x, torch.tensor(y).long()))
    return DomainDataset("coloured", tuple(domains), ("0", "1"), "table", "mlp", eval_every=0)


def trained(algorithm: str, data: DomainDataset, **settings: object) -> Trainer:
    late = {} if algorithm == "erm" else {"gradient_warmup": 100}
    config = configure(
        data, algorithm, test_domains=[data.domain_names[-1]], steps=400, device="cpu",
        hparams={"hidden": 8, "lr": 0.01, "batch_size": 512, **late},
        **settings,
    )  # fmt: skip
    trainer = Trainer(config, data)
    for _ in range(config.steps):
        trainer.advance()
    return trainer


def test_a_run_tests_on_all_held_out_samples_and_unlearns_the_colour():
    data = coloured()
    erm, auto = trained("erm", data), trained("idm-auto", data)
    assert auto.algorithm.before is not None
    held_out = [split.out for split in auto.splits[:2]]
    assert all(map(np.array_equal, held_out, [subset.index for subset in auto.looked_at]))

    def accuracy(trainer: Trainer) -> float:
        domain = data.domains[-1]
        with torch.no_grad():
            return float((trainer.algorithm.predict(domain.x).argmax(1) == domain.y).float().mean())

    assert accuracy(erm) < 0.3
    assert accuracy(auto) > 0.6


def test_identical_domains_train_as_erm():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((900, 4)), dtype=torch.float32)
    y = (x[:, 0] + torch.randn(900, generator=torch.Generator().manual_seed(0)) > 0).long()
    parts = [Domain(str(i), x[i::3], y[i::3]) for i in range(3)]
    data = DomainDataset("same", tuple(parts), ("0", "1"), "table", "mlp", eval_every=0)
    erm, auto = trained("erm", data), trained("idm-auto", data)
    assert auto.algorithm.before is None
    assert all(map(torch.equal, erm.algorithm.parameters(), auto.algorithm.parameters()))


def test_without_held_out_samples_it_says_what_to_do():
    with pytest.raises(InvalidValue, match="set `holdout` above 0"):
        trained("idm-auto", coloured(60), holdout=0.0, evaluate=["test-in"])


def test_a_test_that_is_never_reached_is_said():
    data = problem()
    config = configure(
        data, "idm-auto", test_domains=["domain 2"], steps=50, device="cpu",
        hparams={"hidden": 8, "batch_size": 4},
    )  # fmt: skip
    trainer = Trainer(config, data)
    notes = list(preflight_notes(config, trainer.dataset, trainer.splits, trainer.algorithm))
    assert any("starts at step 1500, which is never reached in 50 steps" in note for note in notes)
