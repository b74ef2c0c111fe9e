"""Check the user's settings and complete them to the configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.settings import keywords
from shiftproof.core.space import Scalar, resolve, specs
from shiftproof.core.text import counted
from shiftproof.core.types import BALANCED, CLASSIFICATION, CROSS_ENTROPY, REGRESSION, SQUARED, Kind
from shiftproof.data import DomainDataset
from shiftproof.learners.base import ALGORITHMS, Learner
from shiftproof.learners.estimator import ESTIMATOR, NEEDS_ONE, accepted, identified
from shiftproof.models.loss_names import NUMBER_LOSSES, parsed_loss
from shiftproof.models.registry import MODELS
from shiftproof.models.weights_name import RANDOM, content_hash, names_a_file
from shiftproof.training.config import NO_NETWORK, RunConfig, declared_hparams
from shiftproof.training.settings import AVERAGES, EVALUATIONS, INVARIANCE, ConfigureSettings

# The settings that a configuration holds as they are.
UNCHANGED = ("seed", "precision", "average", "augment_validation", "private", "class_weight")


def default_algorithm(*, images: bool, kind: Kind = CLASSIFICATION) -> str:
    """Return the default algorithm: IDM with automatic strength for images, `best` for rows.

    Automatic strength needs classes: for regression on images, the default is ERM.
    """
    if not images:
        return "best"
    return "idm-auto" if kind == CLASSIFICATION else "erm"


def default_holdout(learner: type[Learner]) -> float:
    """Return the share of each domain to hold out; algorithms fitted at once hold out domains."""
    return 0.0 if learner.exact else 0.2


@keywords(ConfigureSettings)
def configure(dataset: DomainDataset, settings: ConfigureSettings) -> RunConfig:
    """Return the configuration of a run, with all names and values checked and defaults filled in.

    `dataset` is the data loaded with `data_seed`.  At least `fewest_training_domains` domains must
    be left for training; 1 is for runs that leave out most domains to choose hyper-parameters.
    """
    algorithm, backbone, hparams = settings.algorithm, settings.backbone, settings.hparams
    holdout, steps, evaluate = settings.holdout, settings.steps, settings.evaluate
    estimator = None
    if not isinstance(algorithm, str):
        estimator, hparams = _own_estimator(algorithm, dataset, hparams, settings.private)
        algorithm = ESTIMATOR
    elif algorithm == ESTIMATOR:
        raise InvalidValue(NEEDS_ONE)
    learner = ALGORITHMS.get(algorithm)
    _check_task(dataset, algorithm, learner, settings.class_weight)
    if holdout is None:
        holdout = default_holdout(learner)
    eval_every = dataset.eval_every if settings.eval_every is None else settings.eval_every
    if learner.exact:  # one step fits it, and no network is built
        if backbone is not None:
            raise InvalidValue(
                f"{algorithm} has no network: leave out `backbone`, or choose another `algorithm`"
            )
        backbone, steps, eval_every = NO_NETWORK, 1, 0
        evaluate = tuple(name for name in evaluate if holdout > 0 or name != "train-out")
    else:
        backbone = MODELS.full_name(backbone or dataset.backbone)
    resolved = _hyper_parameters(dataset, algorithm, learner, backbone, hparams or {})
    weights_file = ""
    if names_a_file(weights := str(resolved.get("weights", RANDOM))):
        resolved["weights"] = content_hash(weights)
        weights_file = str(Path(weights).expanduser().absolute())
    _check_evaluation(evaluate, eval_every, settings.average)
    if learner.averages_weights and settings.average not in ("none", "best"):
        raise InvalidValue(
            f"{algorithm} already averages its weights: leave out `average` (now:"
            f" {settings.average}), or choose another `algorithm`, such as erm"
        )
    fewest = settings.fewest_training_domains
    test_domains = _test_domains(dataset, settings.test_domains, fewest)
    return RunConfig(
        dataset=dataset.name,
        fingerprint=dataset.fingerprint,
        algorithm=algorithm,
        backbone=backbone,
        hparams=resolved,
        test_domains=test_domains,
        steps=steps,
        eval_every=eval_every,
        evaluate=tuple(name for name in EVALUATIONS if name in evaluate),
        holdout=holdout,
        data_seed=settings.seed_of_data,
        device=_device(settings.device, dataset, learner),
        extractor=dict(dataset.frozen),
        standardize=dataset.standardize,
        loss=_loss(dataset, settings.loss),
        weights_file=weights_file,
        estimator=estimator,
        **{name: getattr(settings, name) for name in UNCHANGED},
    )


def _own_estimator(
    given: Any, dataset: DomainDataset, hparams: Mapping[str, object] | None, private: bool
) -> tuple[Any, dict[str, str]]:
    """Return the user's scikit-learn estimator, and the hyper-parameters that identify it."""
    estimator = accepted(given, dataset.kind)
    if hparams:
        raise InvalidValue(
            "`hparams` cannot be used with an estimator object; set the estimator's own parameters"
        )
    if private:
        raise InvalidValue(
            "`private` needs a named `algorithm`, because your own estimator may store training"
            " samples in its model"
        )
    return estimator, identified(estimator)


def _check_task(
    dataset: DomainDataset, algorithm: str, learner: type[Learner], class_weight: str
) -> None:
    """Raise if an algorithm cannot be trained on this data."""
    if dataset.kind == CLASSIFICATION and len(dataset.classes) < 2:
        raise DataError(
            f"{dataset.name} has one class only ({', '.join(dataset.classes)}); at least two are"
            " needed"
        )
    if dataset.kind == REGRESSION and learner.classes_only:
        raise InvalidValue(
            f"{algorithm} only predicts classes, because {learner.classes_only}, but"
            f" {dataset.target!r} is a number: choose another `algorithm`, such as erm or idm"
        )
    if class_weight == BALANCED and dataset.kind == REGRESSION:
        raise InvalidValue(f"`class_weight` is for classes, but {dataset.target!r} is a number")
    weighted = class_weight == BALANCED or dataset.weighted
    if weighted and not learner.weighs_samples:
        raise InvalidValue(
            f"{algorithm} does not support sample weights: leave them out, or choose another"
            " `algorithm`, such as best, erm or idm"
        )


def _hyper_parameters(
    dataset: DomainDataset,
    algorithm: str,
    learner: type[Learner],
    backbone: str,
    given: Mapping[str, object],
) -> dict[str, Scalar]:
    """Return the hyper-parameters of an algorithm and its network, if it has one."""
    declared: tuple[type, ...] = (learner.Hparams,)
    if backbone != NO_NETWORK:
        declared = (learner.Hparams, MODELS.get(backbone))
    known = [name for part in declared for name in specs(part)]
    for name in given:
        if name == "weights" and name not in known:
            raise InvalidValue(
                f"{backbone or algorithm} has no weights to start from; `weights` is for resnet18,"
                " resnet50 and timm's networks"
            )
        if name not in known:
            on = f" on {backbone}" if backbone else ""
            raise UnknownName(f"hyper-parameter of {algorithm}{on}", name, known)
    resolved: dict[str, Scalar] = {}
    for part in declared:
        values: Any = resolve(part, dataset.regime, declared_hparams(part, given))
        resolved |= {name: getattr(values, name) for name in specs(part)}
    return resolved


def _check_evaluation(evaluate: Sequence[str], eval_every: int, average: str) -> None:
    """Raise if a set to evaluate is unknown, or if one that another setting needs is missing."""
    for name in evaluate:
        if name not in EVALUATIONS:
            raise UnknownName("evaluation set", name, EVALUATIONS)
    if INVARIANCE in evaluate and "train-out" not in evaluate:
        raise InvalidValue(
            f"{INVARIANCE} tests the outputs on train-out: `evaluate` must include both (now:"
            f" {','.join(evaluate)})"
        )
    if AVERAGES[average] and ("train-out" not in evaluate or eval_every == 0):
        raise InvalidValue(
            f"`average={average!r}` needs the risk on train-out: `evaluate` must include it (now:"
            f" {','.join(evaluate)}) and `eval_every` must be above 0 (now: {eval_every})"
        )


def _loss(dataset: DomainDataset, asked: str | None) -> str:
    """Return the name of the loss: by default cross-entropy for classes, squared for numbers."""
    if dataset.kind == CLASSIFICATION:
        if asked not in (None, CROSS_ENTROPY):
            raise InvalidValue(
                f"`loss={asked!r}` is for numbers, but {dataset.name} has classes; set"
                " `task='regression'` if they are numbers"
            )
        return CROSS_ENTROPY
    name = SQUARED if asked is None else asked
    if name == CROSS_ENTROPY:
        raise InvalidValue(
            f"`loss={name!r}` is for classes, but {dataset.target!r} is a number; choose one of"
            f" {', '.join(NUMBER_LOSSES)}"
        )
    parsed_loss(name)
    return name


def _test_domains(dataset: DomainDataset, asked: Sequence[str], fewest: int) -> tuple[str, ...]:
    chosen = {dataset.index_of(name) for name in asked}
    left = [name for index, name in enumerate(dataset.domain_names) if index not in chosen]
    if len(left) < fewest:
        raise DataError(
            f"{dataset.name} has {counted(len(dataset.domains), 'domain')}"
            f" ({', '.join(dataset.domain_names)}), with {len(left)} left for training;"
            f" at least {('one is', 'two are')[fewest - 1]} needed"
        )
    return tuple(dataset.domain_names[index] for index in sorted(chosen))


def _device(asked: str, dataset: DomainDataset, learner: type[Learner]) -> str:
    """Return the device of a run; algorithms fitted at once use the CPU by default."""
    alone = learner.exact and not dataset.frozen  # no network computes its features
    return "cpu" if alone and asked == "auto" else choose_device(asked)


def choose_device(asked: str) -> str:
    """Return `asked`, or the fastest device for `auto`; raise if the machine lacks it."""
    if asked == "cpu":
        return asked
    import torch

    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if asked == "auto":
        return next(name for name, there in available.items() if there)
    kind = asked.partition(":")[0]
    if kind not in available:
        raise UnknownName("device", asked, ["auto", *available])
    if not available[kind]:
        raise InvalidValue(f"this machine has no {kind} device; use `device='auto'`")
    return asked
