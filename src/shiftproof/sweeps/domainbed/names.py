"""DomainBed's names and ours, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shiftproof.core.errors import UnknownName
from shiftproof.core.space import specs
from shiftproof.learners.algorithms import ALGORITHMS


class Published(NamedTuple):
    """Our name of a DomainBed algorithm, and of its hyper-parameters: theirs mapped to ours."""

    ours: str
    hparams: Mapping[str, str]


# Hyper-parameters that DomainBed draws for every algorithm.
_COMMON = {"lr": "lr", "weight_decay": "weight_decay", "batch_size": "batch_size"}
_IRM = {"irm_lambda": "penalty_weight", "irm_penalty_anneal_iters": "anneal_steps"}
_IB = {"ib_lambda": "bottleneck_weight", "ib_penalty_anneal_iters": "bottleneck_anneal_steps"}
_MMD = {"mmd_gamma": "penalty_weight"}
# The adversarial methods draw "lr" and "weight_decay" too, but train with these in their place.
_ADVERSARIAL = {
    "lr_g": "lr",
    "weight_decay_g": "weight_decay",
    "batch_size": "batch_size",
    "lr_d": "discriminator_lr",
    "weight_decay_d": "discriminator_weight_decay",
    "d_steps_per_g_step": "discriminator_steps",
    "grad_penalty": "discriminator_gradient_penalty",
    "lambda": "adversarial_weight",
    "beta1": "adam_beta1",
    "mlp_width": "discriminator_width",
    "mlp_depth": "discriminator_depth",
    "mlp_dropout": "discriminator_dropout",
}

ALGORITHM_NAMES: dict[str, Published] = {
    theirs: Published(ours, {**({} if theirs in ("DANN", "CDANN") else _COMMON), **hparams})
    for theirs, ours, hparams in [
        ("ERM", "erm", {}),
        ("IRM", "irm", _IRM),
        ("GroupDRO", "groupdro", {"groupdro_eta": "eta"}),
        ("Mixup", "mixup", {"mixup_alpha": "alpha"}),
        ("MLDG", "mldg", {"mldg_beta": "beta", "n_meta_test": "meta_test_domains"}),
        ("CORAL", "coral", _MMD),
        ("MMD", "mmd", _MMD),
        ("DANN", "dann", _ADVERSARIAL),
        ("CDANN", "cdann", _ADVERSARIAL),
        ("MTL", "mtl", {"mtl_ema": "ema"}),
        ("SagNet", "sagnet", {"sag_w_adv": "adversarial_weight"}),
        ("ARM", "arm", {}),
        (
            "VREx",
            "vrex",
            {"vrex_lambda": "penalty_weight", "vrex_penalty_anneal_iters": "anneal_steps"},
        ),
        (
            "RSC",
            "rsc",
            {"rsc_f_drop_factor": "feature_drop", "rsc_b_drop_factor": "batch_drop"},
        ),
        ("ANDMask", "andmask", {"tau": "tau"}),
        ("SANDMask", "sandmask", {"tau": "tau", "k": "k"}),
        ("Fish", "fish", {"meta_lr": "meta_lr"}),
        (
            "Fishr",
            "fishr",
            {"lambda": "penalty_weight", "penalty_anneal_iters": "anneal_steps", "ema": "ema"},
        ),
        ("SelfReg", "selfreg", {}),
        ("CausIRL_CORAL", "causirl-coral", _MMD),
        ("CausIRL_MMD", "causirl-mmd", _MMD),
        ("IGA", "iga", {"penalty": "penalty_weight"}),
        (
            "IDM",
            "idm",
            {
                "feat_lambda": "representation_weight",
                "grad_lambda": "gradient_weight",
                "grad_penalty_anneal_iters": "gradient_warmup",
                "ema": "gradient_ema",
            },
        ),
        ("SD", "sd", {"sd_reg": "penalty_weight"}),
        (
            "EQRM",
            "eqrm",
            {
                "eqrm_quantile": "quantile",
                "eqrm_burnin_iters": "burn_in_steps",
                "eqrm_lr": "burnt_in_lr",
            },
        ),
        ("IB_ERM", "ib-erm", _IB),
        ("IB_IRM", "ib-irm", {**_IRM, **_IB}),
    ]
}


def translate(algorithm: str, hparams: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return our name of DomainBed's ``algorithm`` and its hyper-parameters under our names.

    What concerns DomainBed's networks and loaders, not the algorithm, is left out.  A fraction
    where we count steps (EQRM's burn-in) is rounded down.
    """
    if algorithm not in ALGORITHM_NAMES:
        raise UnknownName("DomainBed algorithm", algorithm, ALGORITHM_NAMES)
    ours, names = ALGORITHM_NAMES[algorithm]
    declared = specs(ALGORITHMS.get(ours).Hparams)
    known = {names[key]: value for key, value in hparams.items() if key in names}
    return ours, {k: int(v) if declared[k].type is int else v for k, v in known.items()}
