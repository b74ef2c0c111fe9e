"""Defaults and draws of every algorithm equal those that DomainBed's protocol recorded."""

import json
from pathlib import Path

import numpy as np
import pytest

from shiftproof.core.errors import UnknownName
from shiftproof.core.seeding import seed_hash
from shiftproof.core.space import draw, resolve, specs
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.models import MODELS
from shiftproof.sweeps.domainbed.names import ALGORITHM_NAMES, translate

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/domainbed_protocol.json").read_text())
REGIMES = {
    "ColoredMNIST": "small-image",
    "RotatedMNIST": "small-image",
    "PACS": "large-image",
    "DomainNet": "huge-image",
}
# What DomainBed draws for its networks and loaders.
NOT_OF_THE_ALGORITHM = {
    "data_augmentation", "resnet18", "resnet_dropout", "class_balanced", "nonlinear_classifier",
}  # fmt: skip
# DANN and CDANN train with lr_g, lr_d, … in place of these.
UNUSED = {"DANN": {"lr", "weight_decay"}, "CDANN": {"lr", "weight_decay"}}

SMALL = ("ColoredMNIST", "RotatedMNIST")


def of_erm_plus_plus(small):
    return {
        "linear_lr": (5e-5, lambda r: 10 ** r.uniform(-5, -3.5)),
        "linear_steps": (500, lambda r: 500),
        "freeze_bn": (False, lambda r: False),
    }


def of_urm(small):
    low, high = (-5.5, -3.5) if small else (-6, -4.5)
    return {
        "urm_adv_lambda": (0.1, lambda r: r.uniform(0, 0.2)),
        "urm_generator_output": ("tanh", lambda r: str(r.choice(["tanh", "relu"]))),
        "urm_discriminator_hidden_layers": (1, lambda r: int(r.choice([1, 2, 3]))),
        "urm_discriminator_lr": (1e-3 if small else 5e-5, lambda r: 10 ** r.uniform(low, high)),
        "urm_discriminator_label_smoothing": (0, lambda r: r.uniform(0, 0)),
    }


# Algorithms that DomainBed got after the record was made: what it declares for each, as defaults
# and draws, for small images or not.
LATER = {"ERMPlusPlus": of_erm_plus_plus, "URM": of_urm}
RECORDED = [name for name in ALGORITHM_NAMES if name not in LATER]


def ours(algorithm, recorded):
    """Return recorded hyper-parameters under our names, and check that none is passed over."""
    names = ALGORITHM_NAMES[algorithm].hparams
    left_out = recorded.keys() - names.keys()
    assert left_out == NOT_OF_THE_ALGORITHM | UNUSED.get(algorithm, set())
    translated = translate(algorithm, recorded)[1]
    assert len(translated) == len(names)
    return translated


def test_the_protocol_knows_the_algorithms_that_the_table_names():
    assert {key.split("/")[0] for key in GOLDEN["defaults"]} == set(RECORDED)
    assert set(LATER) <= set(ALGORITHM_NAMES)


@pytest.mark.parametrize("algorithm", LATER)
@pytest.mark.parametrize("dataset", REGIMES)
def test_defaults_and_draws_of_later_algorithms(algorithm, dataset):
    published = ALGORITHM_NAMES[algorithm]
    declared = ALGORITHMS.get(published.ours).Hparams
    theirs = LATER[algorithm](dataset in SMALL)
    assert theirs.keys() | {"lr", "weight_decay", "batch_size"} == published.hparams.keys()
    defaults = resolve(declared, REGIMES[dataset])
    names = {mine: other for other, mine in published.hparams.items()}
    for seed in (0, 1, 12345):
        drawn = draw(declared, REGIMES[dataset], seed, names)
        for name, (default, random) in theirs.items():
            mine = published.hparams[name]
            assert getattr(defaults, mine) == default
            assert drawn[mine] == random(np.random.RandomState(seed_hash(seed, name)))


@pytest.mark.parametrize("algorithm", RECORDED)
@pytest.mark.parametrize("dataset", REGIMES)
def test_defaults(algorithm, dataset):
    recorded = ours(algorithm, GOLDEN["defaults"][f"{algorithm}/{dataset}"])
    cls = ALGORITHMS.get(ALGORITHM_NAMES[algorithm].ours)
    defaults = resolve(cls.Hparams, REGIMES[dataset])
    assert {name: getattr(defaults, name) for name in recorded} == recorded


@pytest.mark.parametrize("algorithm", RECORDED)
@pytest.mark.parametrize("dataset", REGIMES)
def test_draws(algorithm, dataset):
    cases = [
        case
        for case in GOLDEN["random"]
        if (case["algorithm"], case["dataset"]) == (algorithm, dataset)
    ]
    assert cases
    published = ALGORITHM_NAMES[algorithm]
    cls = ALGORITHMS.get(published.ours)
    for case in cases:
        seed = seed_hash(case["hparams_seed"], case["trial_seed"])
        names = {mine: theirs for theirs, mine in published.hparams.items()}
        drawn = draw(cls.Hparams, REGIMES[dataset], seed, names)
        recorded = ours(algorithm, case["hparams"])
        assert {name: drawn[name] for name in recorded} == recorded
        json.dumps(drawn)
        model = draw(MODELS.get("mnist-cnn"), REGIMES[dataset], seed, {"dropout": "resnet_dropout"})
        assert model["dropout"] == case["hparams"]["resnet_dropout"]


def test_names_on_our_side_exist():
    for published in ALGORITHM_NAMES.values():
        declared = specs(ALGORITHMS.get(published.ours).Hparams)
        assert set(published.hparams.values()) <= declared.keys()


def test_an_unknown_algorithm_gets_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'IRM'"):
        translate("IRMM", {})
