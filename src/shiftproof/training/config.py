"""The configuration of a run: two runs with equal configurations have equal records."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.class_weight import BALANCED, UNWEIGHTED, checked_class_weight
from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.space import Regime, Scalar, resolve, specs
from shiftproof.core.standardize import AUTO, NONE, adaptation_title
from shiftproof.core.text import counted
from shiftproof.core.types import CLASSIFICATION, CROSS_ENTROPY, REGRESSION, SQUARED, Kind, Task
from shiftproof.data import DomainDataset
from shiftproof.data.splits import Split, split_domain
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.learners.estimator import ESTIMATOR, NEEDS_ONE, accepted, identified
from shiftproof.models import MODELS, Model
from shiftproof.models.risk import NUMBER_LOSSES, loss_named
from shiftproof.models.weights import RANDOM, content_hash, names_a_file
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.sample_weights import training_weights, without_weightless

PRECISIONS = ("fp32", "bf16")
# Which samples to evaluate on: the two parts of the training and of the test domains, and the
# dataset's extra sets.
EVALUATION_SETS = ("train-in", "train-out", "test-in", "test-out", "extra")
# What `evaluate` may name: the sets, and a test whether the outputs on train-out mean the same in
# every training domain (see `training.invariance`).
INVARIANCE = "invariance"
EVALUATIONS = (*EVALUATION_SETS, INVARIANCE)
# The backbone of an algorithm that is fitted at once.
NO_NETWORK = ""
DEFAULT_EVALUATION = ("train-out", "test-in", "test-out", "extra")


@dataclass(frozen=True)
class RunConfig:
    """All that determines a run: the data by its fingerprint, everything else by value.

    `hparams` holds the hyper-parameters of the algorithm and the backbone; `data_seed` decides
    generated data and splits, `seed` starting weights, batches and noise.  `init_seed` decides the
    starting weights in place of `seed`, so that runs of different seeds can start alike.

    `frozen` names the network that computed the features, if `backbone` is trained on features
    (see `training.features`).  With `augment_validation`, the training domains are evaluated on
    random views, as in the original protocol.  A `private` run keeps what tells of single training
    samples out of its model (see `TrainedModel.without_training_data`).  `standardize` says how
    rows are standardised within their domain (see `data.within_domain`); results then are of
    adaptation.  `loss` names that of a sample, and so whether classes or numbers are predicted.
    `class_weight` says how much classes count (`training.sample_weights`).

    If `weights` is a file, `hparams` holds the hash of its content; `weights_file` is its
    path on this machine and not part of the run: not compared, not written, and not in the id.
    So is `estimator`, a scikit-learn classifier to train, which `hparams` identifies.
    """

    dataset: str
    fingerprint: str
    algorithm: str
    backbone: str
    hparams: Mapping[str, Scalar]
    test_domains: tuple[str, ...]
    steps: int
    eval_every: int
    evaluate: tuple[str, ...]
    holdout: float
    data_seed: int
    seed: int
    device: str
    precision: str
    average: str = "none"
    frozen: Mapping[str, str] = field(default_factory=dict)
    augment_validation: bool = False
    init_seed: int | None = None
    private: bool = False
    standardize: str = NONE
    loss: str = CROSS_ENTROPY
    class_weight: str = UNWEIGHTED
    weights_file: str = field(default="", compare=False)
    estimator: Any = field(default=None, compare=False, repr=False)

    @property
    def title(self) -> str:
        """What results of the run are called: its algorithm, and how it adapts to a domain."""
        return adaptation_title(self.algorithm, self.standardize)

    @property
    def run_id(self) -> str:
        """A hash of the content."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as JSON values.

        Settings that were added later are left out where unused, so older runs keep their ids.
        """
        of_this_machine = {"weights_file", "estimator"}
        unused: dict[str, Any] = {"average": "none", "frozen": {}, "augment_validation": False}
        unused |= {"init_seed": None, "private": False, "standardize": NONE, "loss": CROSS_ENTROPY}
        unused["class_weight"] = UNWEIGHTED
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in dataclasses.asdict(replace(self, estimator=None)).items()
            if key not in of_this_machine and not (key in unused and value == unused[key])
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunConfig:
        """Rebuild what `to_json` returned."""
        fields: dict[str, Any] = {
            key: tuple(item) if isinstance(item, list) else item for key, item in value.items()
        }
        return cls(**fields)

    def evaluates_after(self, step: int) -> bool:
        """Whether the run is evaluated after this update: 1, 1 + every, …, and the last."""
        every = self.eval_every
        return step == self.steps or (every > 0 and (step - 1) % every == 0)

    def task(self, dataset: DomainDataset) -> Task:
        """Return the task of the training domains of `dataset`, whose labels are as loaded."""
        return Task(
            dataset.input_shape,
            len(dataset.classes),
            len(dataset.domains) - len(self.test_domains),
            dataset.regime,
            self.loss,
            *(self._units(dataset) if dataset.target else ()),
        )

    def _units(self, dataset: DomainDataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the standard units of the labels that are trained on."""
        splits = self.training_splits(dataset)
        labels = [d.labels(splits[d.name].in_) for d in dataset.domains if d.name in splits]
        return standard_units(labels, training_weights(dataset, splits, self.class_weight))

    def splits(self, dataset: DomainDataset) -> list[Split]:
        """Return the *in* and *out* part of each domain, in order."""
        return [
            split_domain(len(domain), self.holdout, self.data_seed, index)
            for index, domain in enumerate(dataset.domains)
        ]

    def training_splits(self, dataset: DomainDataset) -> dict[str, Split]:
        """Return the *in* and *out* part of each training domain, by name.

        Samples of weight 0 are in no *in* part.
        """
        pairs = zip(dataset.domain_names, self.splits(dataset), strict=True)
        splits = {name: split for name, split in pairs if name not in self.test_domains}
        return without_weightless(dataset, splits)

    def algorithm_hparams(self, regime: Regime) -> Algorithm.Hparams:
        """Return the hyper-parameters of the algorithm."""
        declared = ALGORITHMS.get(self.algorithm).Hparams
        return resolve(declared, regime, _share(declared, self.hparams))

    def model(self, regime: Regime) -> Model:
        """Return the backbone with its hyper-parameters."""
        declared = MODELS.get(self.backbone)
        hparams = dict(self.hparams)
        if self.weights_file:
            found = content_hash(self.weights_file)
            if found != hparams["weights"]:
                raise InvalidValue(
                    f"{self.weights_file} has changed since the run was configured:"
                    f" {found}, not {hparams['weights']}"
                )
            hparams["weights"] = self.weights_file
        return resolve(declared, regime, _share(declared, hparams))


def default_algorithm(*, images: bool, kind: Kind = CLASSIFICATION) -> str:
    """Return what is trained if nothing is named: IDM at automatic strength, or `best` for rows.

    Numbers have no automatic strength, so images are trained by ERM.
    """
    if not images:
        return "best"
    return "idm-auto" if kind == CLASSIFICATION else "erm"


def default_holdout(learner: type[Algorithm]) -> float:
    """Return the share of each domain to hold out; what is fitted at once holds out domains."""
    return 0.0 if learner.exact else 0.2


def configure(
    dataset: DomainDataset,
    algorithm: Any,
    *,
    test_domains: Sequence[str] = (),
    backbone: str | None = None,
    hparams: Mapping[str, object] | None = None,
    steps: int = 5001,
    eval_every: int | None = None,
    evaluate: Sequence[str] = DEFAULT_EVALUATION,
    holdout: float | None = None,
    seed: int = 0,
    data_seed: int | None = None,
    device: str = "auto",
    precision: str = "fp32",
    average: str = "none",
    augment_validation: bool = False,
    init_seed: int | None = None,
    private: bool = False,
    fewest_training_domains: int = 2,
    loss: str | None = None,
    class_weight: str = UNWEIGHTED,
) -> RunConfig:
    """Return the configuration of a run, with all names and values checked and defaults filled in.

    The parameters are those of `shiftproof.train`: `algorithm` is a name or a scikit-learn
    classifier.  `dataset` is the loaded data, made with
    `data_seed`; `evaluate` are some of `EVALUATIONS`, and `average` is one of `AVERAGES`.
    `fewest_training_domains` must be left for training; 1 is for runs that leave out most domains
    to choose hyper-parameters.
    """
    if dataset.kind == CLASSIFICATION and len(dataset.classes) < 2:
        raise DataError(
            f"{dataset.name} has one class only ({', '.join(dataset.classes)}); at least two are"
            " needed"
        )
    estimator = None
    if not isinstance(algorithm, str):
        estimator = accepted(algorithm, dataset.kind)
        if hparams:
            raise InvalidValue(
                "`hparams` are those of a named algorithm; set the estimator's own parameters"
            )
        if private:
            raise InvalidValue(
                "an estimator of your own may store training samples in its model; `private` needs"
                " a named `algorithm`"
            )
        algorithm, hparams = ESTIMATOR, identified(estimator)
    elif algorithm == ESTIMATOR:
        raise InvalidValue(NEEDS_ONE)
    learner = ALGORITHMS.get(algorithm)
    if dataset.kind == REGRESSION and learner.classes_only:
        raise InvalidValue(
            f"{algorithm} is for classes, since {learner.classes_only}, and {dataset.target!r} is a"
            " number: choose another `algorithm`, such as erm or idm"
        )
    if dataset.standardize == AUTO and algorithm != "best":
        raise InvalidValue(
            f"`standardize={AUTO!r}` is for best, which judges models with and without it; for"
            f" {algorithm}, choose one"
        )
    if class_weight == BALANCED and dataset.kind == REGRESSION:
        raise InvalidValue(f"`class_weight` is for classes, and {dataset.target!r} is a number")
    weighted = checked_class_weight(class_weight) == BALANCED or dataset.weighted
    if weighted and not learner.weighs_samples:
        raise InvalidValue(
            f"{algorithm} does not weigh samples: leave out their weights, or choose another"
            " `algorithm`, such as best, erm or idm"
        )
    if holdout is None:
        holdout = default_holdout(learner)
    if learner.exact:  # one step fits it, and no network is built
        if backbone is not None:
            raise InvalidValue(
                f"{algorithm} has no network: leave out `backbone`, or choose another `algorithm`"
            )
        backbone, steps, eval_every = NO_NETWORK, 1, 0
        evaluate = [name for name in evaluate if holdout > 0 or name != "train-out"]
        declared: tuple[type, ...] = (learner.Hparams,)
    else:
        backbone = MODELS.full_name(backbone or dataset.backbone)
        declared = (learner.Hparams, MODELS.get(backbone))
    known = [name for part in declared for name in specs(part)]
    for name in hparams or {}:
        if name == "weights" and name not in known:
            raise InvalidValue(
                f"{backbone} has no weights to start from; `weights` is for resnet18, resnet50 and"
                " timm's networks"
            )
        if name not in known:
            on = f" on {backbone}" if backbone else ""
            raise UnknownName(f"hyper-parameter of {algorithm}{on}", name, known)
    resolved: dict[str, Scalar] = {}
    for part in declared:
        values: Any = resolve(part, dataset.regime, _share(part, hparams or {}))
        resolved |= {name: getattr(values, name) for name in specs(part)}
    weights_file = ""
    if names_a_file(weights := str(resolved.get("weights", RANDOM))):
        resolved["weights"] = content_hash(weights)
        weights_file = str(Path(weights).expanduser().absolute())
    for name in evaluate:
        if name not in EVALUATIONS:
            raise UnknownName("evaluation set", name, EVALUATIONS)
    if INVARIANCE in evaluate and "train-out" not in evaluate:
        raise InvalidValue(
            f"{INVARIANCE} tests the outputs on train-out: `evaluate` must include both (now:"
            f" {','.join(evaluate)})"
        )
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, PRECISIONS)
    if average not in AVERAGES:
        raise UnknownName("average", average, AVERAGES)
    if steps < 1:
        raise InvalidValue(f"`steps` must be at least 1, not {steps}")
    if not (0 <= holdout < 1 and math.isfinite(holdout)):
        raise InvalidValue(f"`holdout` must lie in [0, 1), not {holdout}")
    eval_every = dataset.eval_every if eval_every is None else eval_every
    if eval_every < 0:
        raise InvalidValue(f"`eval_every` must be at least 0, not {eval_every}")
    if AVERAGES[average].judges and ("train-out" not in evaluate or eval_every == 0):
        raise InvalidValue(
            f"`average={average!r}` needs the risk on train-out: `evaluate` must include it (now:"
            f" {','.join(evaluate)}) and `eval_every` must be above 0 (now: {eval_every})"
        )
    return RunConfig(
        dataset=dataset.name,
        fingerprint=dataset.fingerprint,
        algorithm=algorithm,
        backbone=backbone,
        hparams=resolved,
        test_domains=_test_domains(dataset, test_domains, fewest_training_domains),
        steps=steps,
        eval_every=eval_every,
        evaluate=tuple(name for name in EVALUATIONS if name in evaluate),
        holdout=holdout,
        data_seed=seed if data_seed is None else data_seed,
        seed=seed,
        device=choose_device(device),
        precision=precision,
        average=average,
        frozen=dict(dataset.frozen),
        augment_validation=augment_validation,
        init_seed=init_seed,
        private=private,
        standardize=dataset.standardize,
        loss=_loss(dataset, loss),
        class_weight=class_weight,
        weights_file=weights_file,
        estimator=estimator,
    )


def standard_units(
    labels: Sequence[Tensor], weights: Sequence[np.ndarray] | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each target, every domain counted alike.

    Within a domain, samples count by their weights, if there are any.

    >>> standard_units([torch.tensor([0.0, 2.0]), torch.tensor([5.0, 5.0, 5.0])])
    ((3.0,), (2.1213203435596424,))
    >>> standard_units([torch.tensor([0.0, 2.0])], [np.array([3.0, 1.0])])[0]
    (0.5,)
    """
    centers, scales = [], []
    for own in zip(*(part.double().reshape(len(part), -1).T for part in labels), strict=True):
        center = _mean_of_means(own, weights)
        variance = _mean_of_means([(part - center).square() for part in own], weights)
        centers.append(center)
        scales.append(math.sqrt(variance) or 1.0)
    return tuple(centers), tuple(scales)


def _mean_of_means(parts: Sequence[Tensor], weights: Sequence[np.ndarray] | None) -> float:
    if weights is None:
        return fmean(float(part.mean()) for part in parts)
    pairs = zip(parts, weights, strict=True)
    return fmean(float(np.average(part.cpu().numpy(), weights=weight)) for part, weight in pairs)


def _loss(dataset: DomainDataset, asked: str | None) -> str:
    """Return the name of the loss: by default cross-entropy of classes, squared of numbers."""
    if dataset.kind == CLASSIFICATION:
        if asked not in (None, CROSS_ENTROPY):
            raise InvalidValue(
                f"`loss={asked!r}` is for numbers, and {dataset.name} has classes; set"
                " `task='regression'` if they are numbers"
            )
        return CROSS_ENTROPY
    name = SQUARED if asked is None else asked
    if name == CROSS_ENTROPY:
        raise InvalidValue(
            f"`loss={name!r}` is for classes, and {dataset.target!r} is a number; choose one of"
            f" {', '.join(NUMBER_LOSSES)}"
        )
    loss_named(name)
    return name


def _share(declared: type, hparams: Mapping[str, object]) -> dict[str, object]:
    names = specs(declared)
    return {name: value for name, value in hparams.items() if name in names}


def _test_domains(dataset: DomainDataset, asked: Sequence[str], fewest: int) -> tuple[str, ...]:
    chosen = {dataset.index_of(name) for name in asked}
    left = [name for index, name in enumerate(dataset.domain_names) if index not in chosen]
    if len(left) < fewest:
        raise DataError(
            f"{dataset.name} has {counted(len(dataset.domains), 'domain')}"
            f" ({', '.join(dataset.domain_names)}), with {len(left)} left for training; needed:"
            f" at least {('one', 'two')[fewest - 1]}"
        )
    return tuple(dataset.domain_names[index] for index in sorted(chosen))


def choose_device(asked: str) -> str:
    """Return `asked`, or for `auto` the fastest device; raise if the machine lacks it."""
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
