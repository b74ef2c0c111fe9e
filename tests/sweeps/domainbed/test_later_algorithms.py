"""Defaults and draws of algorithms that DomainBed got after its protocol was recorded.

The registry is written out here: DomainBed's names, each with its default and how it is drawn.  As
there, a hyper-parameter is drawn by a generator of its own, seeded by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _internals import ALGORITHM_NAMES, draw, resolve, seed_hash

from shiftproof import ALGORITHMS

Draw = Callable[[np.random.RandomState], Any]
Registry = dict[str, tuple[Any, Draw]]


def uniform(low: float, high: float) -> Draw:
    return lambda rng: rng.uniform(low, high)


def power(base: int, low: float, high: float) -> Draw:
    return lambda rng: base ** rng.uniform(low, high)


def floor(of: Draw) -> Draw:
    return lambda rng: int(of(rng))


def one_of(*values: Any) -> Draw:
    return lambda rng: values[rng.choice(len(values))]


def always(value: Any) -> tuple[Any, Draw]:
    return value, lambda rng: value


BATCH_SIZES: Registry = {
    "small-image": (64, floor(power(2, 3, 9))),
    "large-image": (32, floor(power(2, 3, 5.5))),
    "huge-image": (32, floor(power(2, 3, 5))),
}
SMALL: Registry = {"lr": (1e-3, power(10, -4.5, -2.5)), "weight_decay": always(0.0)}
LARGE: Registry = {"lr": (5e-5, power(10, -5, -3.5)), "weight_decay": (0.0, power(10, -6, -2))}
COMMON: dict[str, Registry] = {
    regime: {**(SMALL if regime == "small-image" else LARGE), "batch_size": size}
    for regime, size in BATCH_SIZES.items()
}

CAD: Registry = {
    "lmbda": (0.1, one_of(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)),
    "temperature": (0.1, one_of(0.05, 0.1)),
    "is_normalized": always(False),
    "is_flipped": always(True),
}
# Of every regime; below, those that are not the same in all of them.
OWN: dict[str, Registry] = {
    "TRM": {
        "cos_lambda": (1e-4, power(10, -5, 0)),
        "iters": (200, floor(power(10, 0, 4))),
        "groupdro_eta": (1e-2, power(10, -3, -1)),
    },
    "CAD": CAD,
    "CondCAD": CAD,
    "Transfer": {
        "t_lambda": (1.0, power(10, -2, 1)),
        "delta": (2.0, uniform(0.1, 3.0)),
        "d_steps_per_g": (10, one_of(1, 2, 5)),
        "lr_d": (1e-3, power(10, -4.5, -2.5)),
    },
    "RDM": {
        "rdm_lambda": (5.0, uniform(0.1, 10.0)),
        "rdm_penalty_anneal_iters": (1500, floor(uniform(800, 2700))),
        "variance_weight": (0.004, uniform(0.001, 0.007)),
        "rdm_lr": (1.5e-5, uniform(8e-6, 2e-5)),
    },
    "ADRMX": {
        "cnt_lambda": always(1.0),
        "dclf_lambda": always(1.0),
        "disc_lambda": always(0.75),
        "rmxd_lambda": always(1.0),
        "d_steps_per_g_step": always(2),
        "beta1": always(0.5),
        "mlp_width": always(256),
        "mlp_depth": (9, one_of(8, 9, 10)),
        "mlp_dropout": always(0.0),
    },
    "ERMPlusPlus": {
        "linear_lr": (5e-5, power(10, -5, -3.5)),
        "linear_steps": always(500),
        "freeze_bn": always(False),
    },
    "URM": {
        "urm_adv_lambda": (0.1, uniform(0, 0.2)),
        "urm_generator_output": ("tanh", one_of("tanh", "relu")),
        "urm_discriminator_hidden_layers": (1, one_of(1, 2, 3)),
        "urm_discriminator_lr": (5e-5, power(10, -6, -4.5)),
        "urm_discriminator_label_smoothing": always(0.0),
    },
}
LARGE_ADRMX: Registry = {"lr": (3e-5, one_of(2e-5, 3e-5, 4e-5, 5e-5))}
OF_REGIME: dict[tuple[str, str], Registry] = {
    ("RDM", "large-image"): {"batch_size": (88, floor(uniform(70, 100)))},
    ("RDM", "huge-image"): {
        "batch_size": (40, floor(uniform(30, 60))),
        "rdm_lambda": (0.5, uniform(0.1, 1.0)),
        "rdm_penalty_anneal_iters": (2400, floor(uniform(1500, 3000))),
        "variance_weight": always(0.0),
    },
    ("ADRMX", "small-image"): {"lr": (3e-3, one_of(5e-4, 1e-3, 2e-3, 3e-3))},
    ("ADRMX", "large-image"): LARGE_ADRMX,
    ("ADRMX", "huge-image"): LARGE_ADRMX,
    ("URM", "small-image"): {"urm_discriminator_lr": (1e-3, power(10, -5.5, -3.5))},
}
# Drawn there, but not used by the algorithm.
UNUSED = {"ADRMX": {"weight_decay"}}


def test_the_registry_has_every_name_that_the_protocol_lacks() -> None:
    path = Path(__file__).parents[2] / "golden/domainbed_protocol.json"
    recorded = {key.split("/")[0] for key in json.loads(path.read_text())["defaults"]}
    assert set(OWN) == set(ALGORITHM_NAMES) - recorded


@pytest.mark.parametrize("regime", COMMON)
@pytest.mark.parametrize("algorithm", OWN)
def test_defaults_and_draws(algorithm: str, regime: Any) -> None:
    published = ALGORITHM_NAMES[algorithm]
    registry = COMMON[regime] | OWN[algorithm] | OF_REGIME.get((algorithm, regime), {})
    registry = {k: v for k, v in registry.items() if k not in UNUSED.get(algorithm, ())}
    assert set(registry) == set(published.hparams)
    ours = {mine: theirs for theirs, mine in published.hparams.items()}
    declared = ALGORITHMS.get(published.ours).Hparams
    defaults = resolve(declared, regime)
    for mine, theirs in ours.items():
        assert getattr(defaults, mine) == registry[theirs][0], theirs
    for seed in range(5):
        drawn = draw(declared, regime, seed, ours)
        for mine, theirs in ours.items():
            generator = np.random.RandomState(seed_hash(seed, theirs))
            assert drawn[mine] == registry[theirs][1](generator), theirs
        if algorithm in UNUSED:
            assert all(drawn[name] == getattr(defaults, name) for name in UNUSED[algorithm])
