"""DomainBed's names and ours, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shiftproof.errors import UnknownName

# Hyper-parameters that DomainBed draws for every algorithm.
_COMMON = {"lr": "lr", "weight_decay": "weight_decay", "batch_size": "batch_size"}


class Published(NamedTuple):
    """How DomainBed calls an algorithm's hyper-parameters: its names mapped to ours."""

    ours: str
    hparams: Mapping[str, str]


ALGORITHM_NAMES: dict[str, Published] = {
    "ERM": Published("erm", _COMMON),
    "IDM": Published(
        "idm",
        {
            **_COMMON,
            "feat_lambda": "representation_weight",
            "grad_lambda": "gradient_weight",
            "grad_penalty_anneal_iters": "gradient_warmup",
            "ema": "gradient_ema",
        },
    ),
}


def translate(algorithm: str, hparams: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return our name of DomainBed's ``algorithm`` and its hyper-parameters under our names.

    What concerns DomainBed's networks and loaders, not the algorithm, is left out.
    """
    if algorithm not in ALGORITHM_NAMES:
        raise UnknownName("DomainBed algorithm", algorithm, ALGORITHM_NAMES)
    ours, names = ALGORITHM_NAMES[algorithm]
    return ours, {names[key]: value for key, value in hparams.items() if key in names}
