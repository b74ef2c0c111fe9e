"""DomainBed's and our names of algorithms, hyper-parameters, datasets and domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shiftproof.core.errors import UnknownName
from shiftproof.core.space import specs


class Published(NamedTuple):
    """Our name of a DomainBed algorithm, and a map from its hyper-parameter names to ours."""

    ours: str
    hparams: Mapping[str, str]


# Hyper-parameters that DomainBed draws for every algorithm.
_COMMON = {"lr": "lr", "weight_decay": "weight_decay", "batch_size": "batch_size"}
_IRM = {"irm_lambda": "penalty_weight", "irm_penalty_anneal_iters": "anneal_steps"}
_IB = {"ib_lambda": "bottleneck_weight", "ib_penalty_anneal_iters": "bottleneck_anneal_steps"}
_MMD = {"mmd_gamma": "penalty_weight"}
_CAD = {"lmbda": "penalty_weight", "temperature": "temperature", "is_normalized": "normalized",
        "is_flipped": "flipped"}  # fmt: skip
_DISCRIMINATOR = {"beta1": "adam_beta1", "mlp_width": "discriminator_width",
                  "mlp_depth": "discriminator_depth",
                  "mlp_dropout": "discriminator_dropout"}  # fmt: skip
# The adversarial methods draw "lr" and "weight_decay" too, but train with these instead.
_ADVERSARIAL = {
    "lr_g": "lr", "weight_decay_g": "weight_decay", "batch_size": "batch_size",
    "lr_d": "discriminator_lr", "weight_decay_d": "discriminator_weight_decay",
    "d_steps_per_g_step": "discriminator_steps", "grad_penalty": "discriminator_gradient_penalty",
    "lambda": "adversarial_weight", **_DISCRIMINATOR,
}  # fmt: skip
# ADRMX draws "weight_decay" and does not use it.
_OWN_OPTIMISERS = ("DANN", "CDANN", "ADRMX")

ALGORITHM_NAMES: dict[str, Published] = {
    theirs: Published(ours, {**({} if theirs in _OWN_OPTIMISERS else _COMMON), **hparams})
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
        ("VREx", "vrex",
         {"vrex_lambda": "penalty_weight", "vrex_penalty_anneal_iters": "anneal_steps"}),
        ("RSC", "rsc", {"rsc_f_drop_factor": "feature_drop", "rsc_b_drop_factor": "batch_drop"}),
        ("ANDMask", "andmask", {"tau": "tau"}),
        ("SANDMask", "sandmask", {"tau": "tau", "k": "k"}),
        ("Fish", "fish", {"meta_lr": "meta_lr"}),
        ("Fishr", "fishr",
         {"lambda": "penalty_weight", "penalty_anneal_iters": "anneal_steps", "ema": "ema"}),
        ("SelfReg", "selfreg", {}),
        ("CausIRL_CORAL", "causirl-coral", _MMD),
        ("CausIRL_MMD", "causirl-mmd", _MMD),
        ("IGA", "iga", {"penalty": "penalty_weight"}),
        ("IDM", "idm",
         {"feat_lambda": "representation_weight", "grad_lambda": "gradient_weight",
          "grad_penalty_anneal_iters": "gradient_warmup", "ema": "gradient_ema"}),
        ("SD", "sd", {"sd_reg": "penalty_weight"}),
        ("EQRM", "eqrm",
         {"eqrm_quantile": "quantile", "eqrm_burnin_iters": "burn_in_steps",
          "eqrm_lr": "burnt_in_lr"}),
        ("IB_ERM", "ib-erm", _IB),
        ("IB_IRM", "ib-irm", {**_IRM, **_IB}),
        # Added after the paper's table.
        ("TRM", "trm",
         {"cos_lambda": "matching_weight", "iters": "anneal_steps", "groupdro_eta": "eta"}),
        ("CAD", "cad", _CAD),
        ("CondCAD", "condcad", _CAD),
        ("Transfer", "transfer",
         {"t_lambda": "gap_weight", "delta": "adversary_radius",
          "d_steps_per_g": "adversary_steps", "lr_d": "adversary_lr"}),
        ("RDM", "rdm",
         {"rdm_lambda": "penalty_weight", "variance_weight": "variance_weight",
          "rdm_penalty_anneal_iters": "anneal_steps", "rdm_lr": "annealed_lr"}),
        ("ADRMX", "adrmx",
         {"lr": "lr", "batch_size": "batch_size", "cnt_lambda": "contrast_weight",
          "dclf_lambda": "domain_weight", "rmxd_lambda": "remix_weight",
          "disc_lambda": "adversarial_weight", "d_steps_per_g_step": "discriminator_steps",
          **_DISCRIMINATOR}),
        ("ERMPlusPlus", "erm-plus-plus",
         {"linear_lr": "head_lr", "linear_steps": "head_warmup", "freeze_bn": "freeze_norms"}),
        ("URM", "urm",
         {"urm_adv_lambda": "adversarial_weight", "urm_generator_output": "feature_activation",
          "urm_discriminator_hidden_layers": "discriminator_hidden_layers",
          "urm_discriminator_lr": "discriminator_lr",
          "urm_discriminator_label_smoothing": "label_smoothing"}),
    ]
}  # fmt: skip


class PublishedDataset(NamedTuple):
    """Our name of a DomainBed dataset, and an ordered map from its domain names to ours."""

    ours: str
    domains: dict[str, str]


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


# In the order of DomainBed's tables.
DATASET_NAMES: dict[str, PublishedDataset] = {
    theirs: PublishedDataset(ours, domains)
    for theirs, ours, domains in [
        ("ColoredMNIST", "colored-mnist", {"+90%": "90%", "+80%": "80%", "-90%": "10%"}),
        ("RotatedMNIST", "rotated-mnist", _same("0", "15", "30", "45", "60", "75")),
        ("VLCS", "vlcs", {"C": "Caltech101", "L": "LabelMe", "S": "SUN09", "V": "VOC2007"}),
        ("PACS", "pacs", {"A": "art_painting", "C": "cartoon", "P": "photo", "S": "sketch"}),
        ("OfficeHome", "office-home",
         {"A": "Art", "C": "Clipart", "P": "Product", "R": "Real World"}),
        ("TerraIncognita", "terra-incognita",
         {f"L{number}": f"location_{number}" for number in (100, 38, 43, 46)}),
        ("DomainNet", "domain-net",
         {"clip": "clipart", "info": "infograph", "paint": "painting", "quick": "quickdraw",
          "real": "real", "sketch": "sketch"}),
        ("SVIRO", "sviro", _same("aclass", "escape", "hilux", "i3", "lexus", "tesla", "tiguan",
                                 "tucson", "x5", "zoe")),
        ("WILDSCamelyon", "wilds-camelyon", _same(*(f"hospital_{i}" for i in range(5)))),
        # DomainBed numbers them, from region_0 to region_5.
        ("WILDSFMoW", "wilds-fmow",
         _same("Asia", "Europe", "Africa", "Americas", "Oceania", "Other")),
        *(
            (f"Spawrious{kind}_{level}", f"spawrious-{kind.lower()}-{level}",
             _same("Test", "SC_group_1", "SC_group_2"))
            for kind in ("O2O", "M2M")
            for level in ("easy", "medium", "hard")
        ),
    ]
}  # fmt: skip
_DATASETS = {ours: theirs for theirs, (ours, _) in DATASET_NAMES.items()}
_ALGORITHMS = {published.ours: theirs for theirs, published in ALGORITHM_NAMES.items()}


def algorithm_title(ours: str) -> str:
    """Return DomainBed's name of an algorithm, or ours if it has none."""
    return _ALGORITHMS.get(ours, ours)


def dataset_title(ours: str) -> str:
    """Return DomainBed's name of a dataset, or ours if it has none."""
    return _DATASETS.get(ours, ours)


def domain_titles(dataset: str, domains: Sequence[str]) -> tuple[str, ...]:
    """Return DomainBed's short names of the domains, or the names themselves."""
    published = published_dataset(dataset, domains)
    return tuple(published.domains) if published else tuple(domains)


def in_table_order(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return ``names`` in the order of ``known``, followed by the others by name."""
    rank = {name: position for position, name in enumerate(known)}
    return tuple(sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name)))


def algorithms_in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return algorithms in the order of the paper's table, followed by the others by name."""
    return in_table_order(names, _ALGORITHMS)


def datasets_in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return datasets in the order of DomainBed's tables, followed by the others by name."""
    return in_table_order(names, _DATASETS)


def published_dataset(dataset: str, domains: Sequence[str]) -> PublishedDataset | None:
    """Return DomainBed's dataset if name and domains match: a user's dataset may share a name."""
    published = DATASET_NAMES.get(dataset_title(dataset))
    return published if published and (*published.domains.values(),) == (*domains,) else None


def translate(algorithm: str, hparams: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return our name of DomainBed's ``algorithm`` and its hyper-parameters under our names.

    Settings of DomainBed's networks and loaders are left out.  Fractional numbers of steps (EQRM's
    burn-in) are rounded down.
    """
    # Reports need only the names, and torch takes seconds to import.
    from shiftproof.learners.algorithms import ALGORITHMS

    if algorithm not in ALGORITHM_NAMES:
        raise UnknownName("DomainBed algorithm", algorithm, ALGORITHM_NAMES)
    ours, names = ALGORITHM_NAMES[algorithm]
    declared = specs(ALGORITHMS.get(ours).Hparams)
    known = {names[key]: value for key, value in hparams.items() if key in names}
    return ours, {k: int(v) if declared[k].type is int else v for k, v in known.items()}
