"""Which runs, with which seeds and hyper-parameters: the protocol's, to the last bit."""

import json
from pathlib import Path

import pytest
import torch

from shiftproof.benchmark.domainbed_logs import ALGORITHM_NAMES, translate
from shiftproof.benchmark.jobs import SweepData, Variant
from shiftproof.benchmark.plan import choose_hparams, combined, job_seed, plan
from shiftproof.benchmark.presets import PRESETS, preset_named
from shiftproof.benchmark.selection import SELECTORS
from shiftproof.benchmark.selection.base import Needs
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.requests import DataRequest
from shiftproof.errors import InvalidValue, UnknownName
from shiftproof.seeding import seed_hash

PROTOCOL = json.loads((Path(__file__).parents[1] / "golden/domainbed_protocol.json").read_text())
DATA = SweepData("toy", DataRequest("toy"))


def dataset(domains=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    parts = tuple(
        Domain(f"d{k}", torch.rand(20, 3, generator=generator), torch.arange(20) % 2)
        for k in range(domains)
    )
    return DomainDataset("toy", parts, ("no", "yes"), "table", "mlp", 100)


def planned(needs, algorithms=("erm",), domains=4, draws=2, trials=1, preset="lite"):
    loaded = {trial: dataset(domains, trial) for trial in range(trials)}
    return list(
        plan(
            DATA,
            loaded,
            [*map(Variant.plain, algorithms)],
            PRESETS[preset],
            hparams_seeds=range(draws),
            needs=needs,
        )
    )


def test_every_algorithm_trial_test_domain_and_draw_has_one_run():
    jobs = planned(Needs(("test-in",)), ("erm", "idm"), draws=3, trials=2)
    assert len(jobs) == 2 * 2 * 4 * 3 == len({job.id for job in jobs})
    places = {
        (j.config.algorithm, j.trial_seed, j.config.test_domains, j.hparams_seed) for j in jobs
    }
    assert places == {
        (a, t, (f"d{k}",), h) for a in ("erm", "idm") for t in (0, 1) for k in range(4)
        for h in range(3)
    }  # fmt: skip


def test_a_plan_is_the_same_each_time():
    needs = Needs(("test-in",))
    assert [j.id for j in planned(needs)] == [j.id for j in planned(needs)]


def test_only_what_the_selectors_read_is_run_and_evaluated():
    oracle, training, leave_out = (
        SELECTORS.get(name).needs for name in ("oracle", "training-domain", "leave-one-domain-out")
    )
    alone = planned(combined([oracle]))
    assert len(alone) == 8
    assert {job.config.evaluate for job in alone} == {("test-in", "test-out")}
    assert {job.config.eval_every for job in alone} == {0}
    both = planned(combined([oracle, training]))
    assert len(both) == 8
    assert {job.config.evaluate for job in both} == {("train-out", "test-in", "test-out")}
    assert {job.config.eval_every for job in both} == {101}
    pairs = planned(combined([leave_out]))
    assert sorted(len(job.config.test_domains) for job in pairs) == [1] * 8 + [2] * 12
    fewer = planned(combined([leave_out]), domains=3)
    assert sorted(len(job.config.test_domains) for job in fewer) == [1] * 6 + [2] * 6
    with pytest.raises(InvalidValue, match="toy has 2 domains; this --selection holds out 2"):
        planned(leave_out, domains=2)


def test_seeds_are_the_protocol_s():
    job = planned(Needs(("test-in",)), trials=2)[-1]
    assert job.config.seed == seed_hash("toy", "ERM", [3], 1, 1)
    assert job.config.data_seed == 1
    assert job_seed("colored-mnist", "idm", [2], 0, 1) == seed_hash(
        "ColoredMNIST", "IDM", [2], 0, 1
    )


@pytest.mark.parametrize("algorithm", sorted(ALGORITHM_NAMES))
def test_draws_of_the_published_preset_are_the_recorded_ones(algorithm):
    cases = [
        case
        for case in PROTOCOL["random"]
        if (case["algorithm"], case["dataset"]) == (algorithm, "ColoredMNIST")
    ]
    assert cases
    for case in cases:
        ours, recorded = translate(algorithm, case["hparams"])
        seeds = case["hparams_seed"], case["trial_seed"]
        drawn = choose_hparams(ours, "mnist-cnn", "small-image", PRESETS["domainbed"], *seeds)
        assert {name: drawn[name] for name in recorded} == recorded
        assert drawn["dropout"] == case["hparams"]["resnet_dropout"]


def test_steps_are_scaled_with_the_preset():
    full = choose_hparams("idm", "mlp", "small-image", PRESETS["domainbed"], 0, 0)
    lite = choose_hparams("idm", "mlp", "small-image", PRESETS["lite"], 0, 0)
    assert (full["gradient_warmup"], lite["gradient_warmup"]) == (1500, 300)
    changed = {name for name in full if full[name] != lite[name]}
    assert changed == {"gradient_warmup", "risk_warmup", "hidden"}


def test_a_small_preset_cuts_what_makes_a_run_large_and_nothing_else():
    for seed in range(1, 6):
        full = choose_hparams("arm", "mlp", "small-image", PRESETS["domainbed"], seed, 0)
        lite = choose_hparams("arm", "mlp", "small-image", PRESETS["lite"], seed, 0)
        largest = {"batch_size": 64, "hidden": 128, "context_width": 8}
        assert lite == {k: min(v, largest.get(k, v)) for k, v in full.items()}
    assert any(
        choose_hparams("erm", "mlp", "small-image", PRESETS["lite"], seed, 0)["batch_size"] < 64
        for seed in range(10)
    )


def test_an_unknown_preset_or_algorithm():
    with pytest.raises(UnknownName, match="did you mean 'lite'"):
        preset_named("light")
    with pytest.raises(UnknownName, match="did you mean 'idm'"):
        planned(Needs(("test-in",)), ("imd",))
