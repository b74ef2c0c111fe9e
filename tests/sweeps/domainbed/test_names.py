"""Defaults and draws of every algorithm equal those that DomainBed's protocol recorded."""

import json
from pathlib import Path

import pytest
from _internals import (
    ALGORITHM_NAMES,
    DATASET_NAMES,
    UnknownName,
    draw,
    resolve,
    seed_hash,
    specs,
    translate,
)

from shiftproof import ALGORITHMS, DATASETS
from shiftproof.models import MODELS

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

RECORDED = list(dict.fromkeys(key.split("/")[0] for key in GOLDEN["defaults"]))


def ours(algorithm, recorded):
    """Return recorded hyper-parameters under our names, and check that none is passed over."""
    names = ALGORITHM_NAMES[algorithm].hparams
    left_out = recorded.keys() - names.keys()
    assert left_out == NOT_OF_THE_ALGORITHM | UNUSED.get(algorithm, set())
    translated = translate(algorithm, recorded)[1]
    assert len(translated) == len(names)
    return translated


def test_the_table_names_the_algorithms_of_the_protocol_in_front():
    assert set(RECORDED) == set(list(ALGORITHM_NAMES)[: len(RECORDED)])


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


def test_every_dataset_of_domainbed_is_one_of_ours_with_its_domains_in_order():
    """Positions of domains seed the splits, and logs know domains by position alone."""
    assert len(DATASET_NAMES) == 16  # all of DomainBed's but two of noise
    for published in DATASET_NAMES.values():
        card = DATASETS.get(published.ours).card
        assert [*published.domains.values()] == [*card.counts]


def test_the_order_of_environments_where_it_is_not_that_of_the_names():
    """`ENVIRONMENTS` in DomainBed's datasets.py; of its regions, issue 142 has the names."""
    for kind in ("O2O", "M2M"):
        for level in ("easy", "medium", "hard"):
            published = DATASET_NAMES[f"Spawrious{kind}_{level}"]
            assert [*published.domains] == ["Test", "SC_group_1", "SC_group_2"]
    regions = ["Asia", "Europe", "Africa", "Americas", "Oceania", "Other"]
    assert [*DATASET_NAMES["WILDSFMoW"].domains.values()] == regions


def test_an_unknown_algorithm_gets_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'IRM'"):
        translate("IRMM", {})
