"""Which runs, with which seeds and hyper-parameters: the protocol's, to the last bit."""

import json
from pathlib import Path

import pytest
import torch
from _internals import (
    PRESETS,
    SELECTORS,
    Block,
    DataRequest,
    InvalidValue,
    Needs,
    SweepData,
    UnknownName,
    Variant,
    choose_hparams,
    job_seed,
    plan,
    plan_combined as combined,
    preset_named,
    seed_hash,
    translate,
)

from shiftproof import Domain, DomainDataset

PROTOCOL = json.loads((Path(__file__).parents[1] / "golden/domainbed_protocol.json").read_text())
DATA = SweepData("toy", DataRequest("toy"))


def dataset(domains=4, seed=0, sizes=None, classes=("no", "yes")):
    generator = torch.Generator().manual_seed(seed)
    parts = tuple(
        Domain(f"d{k}", torch.rand(n, 3, generator=generator), torch.arange(n) % len(classes))
        for k, n in enumerate(sizes or [20] * domains)
    )
    return DomainDataset("toy", parts, classes, "table", "mlp", 100)


def planned(
    needs, algorithms=("erm",), domains=4, draws=2, trials=1, preset="lite", test_domains=(),
    variants=None, data=None,
):  # fmt: skip
    loaded = {trial: data or dataset(domains, trial) for trial in range(trials)}
    rows = variants or [*map(Variant.plain, algorithms)]
    return list(
        plan(Block(DATA, rows, needs, range(draws), trials, test_domains), loaded, PRESETS[preset])
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
    with pytest.raises(InvalidValue, match="toy has 2 domains; this `selection` holds out 2"):
        planned(leave_out, domains=2)


def test_seeds_are_the_protocol_s():
    job = planned(Needs(("test-in",)), trials=2)[-1]
    assert job.config.seed == seed_hash("toy", "ERM", [3], 1, 1)
    assert job.config.data_seed == 1
    assert job_seed("colored-mnist", "idm", [2], 0, 1) == seed_hash(
        "ColoredMNIST", "IDM", [2], 0, 1
    )


# Those of later algorithms are tested in `domainbed/test_later_algorithms.py`.
@pytest.mark.parametrize("algorithm", sorted({case["algorithm"] for case in PROTOCOL["random"]}))
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
    assert changed == {"gradient_warmup", "hidden"}


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


# --- rows of fixed hyper-parameters, and some test domains -------------------------------------

TEST_IN = Needs(("test-in",))


def test_fixed_hyper_parameters_take_the_place_of_the_draws_and_of_nothing_else():
    fixed = Variant("two-stage[penalty=iga,anneal_steps=7]", "two-stage",
                    {"penalty": "iga", "anneal_steps": 7})  # fmt: skip
    plain = planned(TEST_IN, ("two-stage",), draws=4)
    jobs = planned(TEST_IN, variants=[fixed], draws=4)
    assert {job.variant for job in jobs} == {fixed.name}
    for job, without in zip(jobs, plain, strict=True):
        assert job.config.hparams == {**without.config.hparams, "penalty": "iga", "anneal_steps": 7}
        assert job.config.seed == without.config.seed  # the same start: a paired comparison
        assert job.title.startswith(fixed.name)
    assert len({job.config.hparams["lr"] for job in jobs}) == 4


def test_a_row_of_its_own_name_is_written_down_and_an_algorithm_s_is_not():
    variants = [Variant.plain("erm"), Variant("erm[lr=0.1]", "erm", {"lr": 0.1})]
    plain, named = planned(TEST_IN, variants=variants, draws=1)[::4]
    assert "variant" not in plain.to_json()
    assert named.to_json() == {**plain.to_json(), "variant": "erm[lr=0.1]"}


def test_only_the_test_domains_that_were_asked_for():
    jobs = planned(TEST_IN, test_domains=["d2", "d0"], draws=1)
    assert [job.config.test_domains for job in jobs] == [("d0",), ("d2",)]
    pairs = planned(SELECTORS.get("leave-one-domain-out").needs, test_domains=["d2"], draws=1)
    assert {job.config.test_domains for job in pairs} == {
        ("d2",), ("d0", "d2"), ("d1", "d2"), ("d2", "d3"),
    }  # fmt: skip
    with pytest.raises(UnknownName, match="unknown domain of toy 'd9'"):
        planned(TEST_IN, test_domains=["d9"])


def test_one_run_under_two_names_is_refused():
    """Each run has one folder, which belongs to one row."""
    same = [Variant.plain("erm"), Variant("erm[lr=0.001]", "erm", {"lr": 0.001})]
    with pytest.raises(InvalidValue, match=r"erm and erm\[lr=0.001\] on toy without d0.* same run"):
        planned(TEST_IN, variants=same, draws=1)


# --- the search of the paper's Table 1 ---------------------------------------------------------


def test_the_search_of_table_1_is_the_paper_s():
    """Its ranges, as printed in the paper's appendix; everything else is fixed."""
    seeds = range(200)
    draws = [
        choose_hparams("two-stage", "mlp", "small-image", PRESETS["table1"], seed, 0)
        for seed in seeds[1:]
    ]
    searched = {
        "hidden": (2**6, 2**9),
        "norm_weight": (1e-5, 1e-2),
        "lr": (10**-3.5, 10**-2.5),
        "anneal_steps": (50, 250),
        "penalty_weight": (1e4, 1e8),
    }
    for name, (low, high) in searched.items():
        values = [draw[name] for draw in draws]
        middle = (low + high) / 2 if name == "anneal_steps" else (low * high) ** 0.5
        assert low <= min(values) < middle < max(values) <= high
    constant = {name for name in draws[0] if len({draw[name] for draw in draws}) == 1}
    assert constant == draws[0].keys() - searched
    fixed = {"batch_size": 0, "single_logit": True, "dropout": 0.0, "depth": 2, "weight_decay": 0.0}
    assert {name: draws[0][name] for name in fixed} == fixed
    defaults = choose_hparams("two-stage", "mlp", "small-image", PRESETS["table1"], 0, 0)
    chosen_for_idm = {"lr": 0.000449, "norm_weight": 0.00034, "anneal_steps": 154}
    assert {name: defaults[name] for name in chosen_for_idm} == chosen_for_idm


def test_nothing_is_held_out_of_full_batches():
    jobs = planned(TEST_IN, ("two-stage", "idm"), preset="table1")
    assert {job.config.holdout for job in jobs} == {0.0}
    assert {job.config.hparams["batch_size"] for job in jobs} == {0}
    assert {job.config.steps for job in jobs} == {500}


def test_one_logit_is_for_two_classes():
    three = dataset(classes=("a", "b", "c"))
    with pytest.raises(InvalidValue, match=r"preset table1 .* two classes, and toy has 3"):
        planned(TEST_IN, preset="table1", data=three)
    several = [Variant("erm[single_logit=False]", "erm", {"single_logit": False})]
    assert planned(TEST_IN, preset="table1", data=three, variants=several)
    assert planned(TEST_IN, data=three)


def test_full_batches_are_for_training_domains_of_one_size():
    uneven = dataset(sizes=[20, 20, 12])
    with pytest.raises(InvalidValue, match="d0 held out, those of toy have 20 and 12 samples"):
        planned(TEST_IN, preset="table1", data=uneven)
    jobs = planned(TEST_IN, preset="table1", data=uneven, test_domains=["d2"])
    assert {job.config.test_domains for job in jobs} == {("d2",)}
    batches = [Variant("erm[batch_size=4]", "erm", {"batch_size": 4})]
    assert planned(TEST_IN, preset="table1", data=uneven, variants=batches)
    assert planned(TEST_IN, data=uneven)
