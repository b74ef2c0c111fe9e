"""`train`: train one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from shiftproof.api.load import Data, load
from shiftproof.api.run_folders import folder_of, run_name
from shiftproof.api.settings import LearningSettings, TrainSettings
from shiftproof.api.trained_run import TrainedRun
from shiftproof.core.errors import InvalidValue
from shiftproof.core.settings import keywords
from shiftproof.core.types import SQUARED
from shiftproof.data import DomainDataset
from shiftproof.data.settings import DataSettings
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_file import MODEL
from shiftproof.inference.model_of_run import trained_model
from shiftproof.metrics import METRICS
from shiftproof.models.weights_name import PRETRAINED
from shiftproof.training import processes
from shiftproof.training.choose_vector import pooled
from shiftproof.training.config import NO_NETWORK
from shiftproof.training.configure import configure, default_algorithm
from shiftproof.training.loop import train as run
from shiftproof.training.observers import Observer
from shiftproof.training.session import Session
from shiftproof.training.settings import ConfigureSettings

L = TypeVar("L", bound=LearningSettings)


@keywords(TrainSettings)
def train(data: Data, settings: TrainSettings) -> TrainedRun:
    """Train a model in a folder; called again with the same settings, resume or return the result.

    The first Ctrl-C stops training after the current step and writes a checkpoint.  Processes
    started by `torchrun` train one model together; the result equals that of a single process up
    to rounding.

    `class_weight="balanced"` weights each sample by n / (k n_c), where n is the number of training
    samples, k the number of classes and n_c the size of the sample's class: rare classes count as
    much as common ones.

    `algorithm` may also be a scikit-learn classifier, regressor or pipeline, which is cloned and
    fitted to the training domains unchanged.

    Args:
        data: data as for `load`, whose keywords (`label`, `domain`, …) are also accepted here.
    """
    folder = folder_of(settings.out)
    observer = settings.observer or Observer()
    dataset, settings = prepare(data, settings, observer)
    dataset, notes = pooled(
        dataset, settings.pool, settings.test_domains, settings.seed_of_data, observer.progress
    )
    for note in notes:
        observer.note(note)
    dataset = within_domains(dataset, settings.standardize)
    config = configure(
        dataset,
        **settings.but(
            hparams=with_metric(settings, dataset), loss=loss_of_metric(settings, dataset)
        ).given(ConfigureSettings),
    )
    if config.backbone == NO_NETWORK:
        settings.refuse(
            ("compile", "average", "precision"),
            f"{config.algorithm} has no network: leave out {{}}, or choose another `algorithm`",
        )
    folder = folder or Path("runs", run_name(config))
    processes.join(config.device)
    models: list[TrainedModel] = []

    def save_model(fit: Session | None) -> None:
        models.append(trained_model(config, dataset, folder, observer.progress, fit))
        models[0].save(folder)

    result = run(
        config,
        dataset,
        folder,
        observer,
        settings.checkpoint_seconds,
        settings.workers,
        keeps_outputs=True,
        threads=settings.threads,
        compiled=settings.compile,
        finish=save_model,
    )
    if result.status == "finished" and processes.leads() and not (folder / MODEL).exists():
        save_model(None)  # a sweep made the run, or the file was deleted
    processes.wait()  # the first process writes the model
    return TrainedRun(
        **vars(replace(result, fit=None)), config=config, trained=next(iter(models), None)
    )


def prepare(data: Data, settings: L, observer: Observer) -> tuple[DomainDataset, L]:
    """Load the data and, with `freeze`, replace images by the features of `backbone`.

    Return the data, and the settings to train on it, with an algorithm.
    """
    hparams = dict(settings.hparams or {})
    if settings.weights is not None:
        if "weights" in hparams:
            raise InvalidValue("`weights` and `hparams` give weights twice")
        hparams["weights"] = settings.weights
    dataset = load(
        data, seed=settings.seed_of_data, progress=observer.progress, **settings.given(DataSettings)
    )
    backbone = settings.backbone
    if settings.freeze:
        from shiftproof.training.features import freeze as freeze_backbone

        dataset = freeze_backbone(
            dataset,
            backbone or dataset.backbone,
            str(hparams.pop("weights", PRETRAINED)),
            device=settings.device,
            precision=settings.precision,
            workers=settings.workers,
            progress=observer.progress,
        )
        backbone = None
    observer.loaded(dataset)
    algorithm = settings.algorithm
    if algorithm is None:
        images = len(dataset.input_shape) > 1
        algorithm = default_algorithm(images=images, kind=dataset.kind)
    prepared = settings.but(
        algorithm=algorithm, hparams=hparams or None, backbone=backbone, weights=None, freeze=False
    )
    return dataset, prepared


def check_metric(dataset: DomainDataset, metric: str | None) -> None:
    """Raise if the metric is unknown for this kind of data."""
    if metric is not None:
        METRICS.checked(metric, dataset.kind)


def loss_of_metric(settings: LearningSettings, dataset: DomainDataset) -> str | None:
    """Return the given loss or, in regression, the loss that the score implies."""
    if settings.loss is not None or settings.metric is None or not dataset.target:
        return settings.loss
    return "absolute" if settings.metric == "mae" else SQUARED


def with_metric(settings: LearningSettings, dataset: DomainDataset) -> Mapping[str, object] | None:
    """Return the hyper-parameters with the score to choose settings by; only `best` has one.

    In regression, the loss determines it (`loss_of_metric`).
    """
    check_metric(dataset, settings.metric)
    is_best = isinstance(settings.algorithm, str) and settings.algorithm == "best"
    if settings.metric is None or dataset.target or not is_best:
        return settings.hparams
    if "metric" in (settings.hparams or {}):
        raise InvalidValue("`metric` and `hparams` give metric twice")
    return {**(settings.hparams or {}), "metric": settings.metric}
