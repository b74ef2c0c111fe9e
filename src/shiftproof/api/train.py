"""`train`: train one model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from shiftproof.api.best_settings import loss_of_metric, with_metric
from shiftproof.api.load import Data, LoadOptions, checked_seed, load, names
from shiftproof.api.run_folders import folder_of, run_name
from shiftproof.api.trained_run import TrainedRun
from shiftproof.core.cores import checked_threads
from shiftproof.core.errors import InvalidValue
from shiftproof.data import DomainDataset
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model_file import MODEL
from shiftproof.inference.model_of_run import trained_model
from shiftproof.models.weights_name import PRETRAINED
from shiftproof.training import processes
from shiftproof.training.choose_vector import ALL, pooled
from shiftproof.training.config import DEFAULT_EVALUATION, NO_NETWORK
from shiftproof.training.configure import configure, default_algorithm
from shiftproof.training.loop import train as run
from shiftproof.training.observers import Observer

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator  # type: ignore[import-untyped]


def train(
    data: Data,
    algorithm: str | BaseEstimator | None = None,
    *,
    test_domains: str | Sequence[str] = (),
    hparams: Mapping[str, object] | None = None,
    metric: str | None = None,
    loss: str | None = None,
    class_weight: str = "none",
    steps: int = 5001,
    seed: int = 0,
    data_seed: int | None = None,
    out: str | os.PathLike[str] | None = None,
    backbone: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    freeze: bool = False,
    pool: str = ALL,
    holdout: float | None = None,
    eval_every: int | None = None,
    evaluate: str | Sequence[str] = DEFAULT_EVALUATION,
    device: str = "auto",
    precision: str = "fp32",
    average: str = "none",
    augment_validation: bool = False,
    private: bool = False,
    standardize: str = "none",
    workers: int | None = None,
    threads: int | None = None,
    checkpoint_seconds: float = 5.0,
    compile: bool = False,
    observer: Observer | None = None,
    **loading: Unpack[LoadOptions],
) -> TrainedRun:
    """Train a model in a folder; called again with the same settings, resume or return the result.

    The first Ctrl-C stops training after the current step and writes a checkpoint.  Processes
    started by `torchrun` train one model together; the result equals that of a single process up
    to rounding.

    Args:
        data: data as for `load`, whose keywords (`label`, `domain`, …) are also accepted here.
        algorithm: a name in `shiftproof.ALGORITHMS`, or a scikit-learn classifier or pipeline,
            which is cloned and fitted to the training domains unchanged.  By default `best` for
            tables, arrays and features, and `idm-auto` for images.
        test_domains: domains held out of training; by default all domains are trained on.
        hparams: hyper-parameters of the algorithm or the backbone that override the defaults.
        metric: score on held-out training domains by which `best` chooses the settings of its
            members; by default log loss, to which its weights are always fitted.  Other algorithms
            ignore it.  The scores are those of `expect`; in regression, `mae` implies the loss
            `absolute`, and `r2` and `rmse` imply `squared`.
        loss: regression loss: `squared` (default), `absolute`, `huber` or `huber:DELTA` (DELTA in
            standard deviations of the label), or `quantile:Q`.  Models that are fitted at once
            support only the first two.
        class_weight: `balanced` weights each sample by n / (k n_c), where n is the number of
            training samples, k the number of classes and n_c the size of the sample's class: rare
            classes count as much as common ones.  Scores are not weighted.  Rows of a table can
            also have weights (`weights_column`).
        steps: number of updates.
        seed: seed of the initial weights, batches and noise.
        data_seed: seed of generated data and of the splits; `seed` by default.
        out: folder of the run; by default one in `runs`, named after the run.
        backbone: the network: mlp, mnist-cnn, resnet18, resnet50 or a timm name; by default the
            dataset's default backbone.
        weights: initial weights of the backbone: a file, `pretrained` or `random`.
        freeze: compute the features of all images with the backbone once, and train on them.
            Separate several backbones by commas.
        pool: how to use several backbones, or several vectors of a table: `all` concatenates them
            after standardisation; `best` chooses the one whose linear model has the lowest loss on
            held-out training domains.
        holdout: share of each domain held out of training; by default 0.2, and 0 for algorithms
            that are fitted at once.
        eval_every: steps between evaluations; 0 evaluates after the last step only.
        evaluate: sets to evaluate: train-in, train-out, test-in, test-out, extra; and invariance,
            which tests whether the outputs on train-out mean the same in every training domain.
        device: auto, cpu, cuda or mps.
        precision: fp32 or bf16.
        average: which weights to score: the last (`none`), averaged (`ema`, `swad`), or the best
            on the held-out parts of the training domains (`best`).
        augment_validation: evaluate the training domains on augmented images, as DomainBed does.
        private: leave out of the model file everything about single training samples and
            everything that prediction does not need.  The model then cannot mark inputs unlike the
            training data.
        standardize: `domain` standardises the numeric features of each domain by the domain's own
            mean and standard deviation; at prediction, the rows of a new site are standardised by
            their own.  `whiten` also removes correlations between features.  Results are then those
            of adaptation: they use the unlabelled rows of the new site.
        workers: threads that prefetch images; by default one per core, at most eight.
        threads: threads for computation; by default one for rows, and one per core for images.  A
            resumed run keeps the number.
        checkpoint_seconds: minimum time between checkpoints.
        compile: compile the network with torch: the first step is slower, later steps are faster,
            and results differ by rounding.
        observer: callbacks for progress, evaluations and notes; see `Observer`.
    """
    folder = folder_of(out)
    if not checkpoint_seconds >= 0:
        raise InvalidValue(f"`checkpoint_seconds` must be at least 0, not {checkpoint_seconds}")
    checked_threads(threads)
    observer = observer or Observer()
    dataset, algorithm, hparams, backbone = prepare(
        data,
        algorithm,
        observer,
        hparams=hparams,
        seed=checked_seed(seed, data_seed),
        backbone=backbone,
        weights=weights,
        freeze=freeze,
        device=device,
        precision=precision,
        workers=workers,
        loading=loading,
    )
    dataset, notes = pooled(
        dataset, pool, names(test_domains), checked_seed(seed, data_seed), observer.progress
    )
    for note in notes:
        observer.note(note)
    dataset = within_domains(dataset, standardize)
    config = configure(
        dataset,
        algorithm,
        test_domains=names(test_domains),
        backbone=backbone,
        hparams=with_metric(hparams, algorithm, metric, dataset),
        loss=loss_of_metric(dataset, loss, metric),
        class_weight=class_weight,
        steps=steps,
        eval_every=eval_every,
        evaluate=names(evaluate),
        holdout=holdout,
        seed=seed,
        data_seed=data_seed,
        device=device,
        precision=precision,
        average=average,
        augment_validation=augment_validation,
        private=private,
    )
    of_networks = {
        "compile": compile,
        "average": average != "none",
        "precision": precision != "fp32",
    }
    for name, given in of_networks.items():
        if given and config.backbone == NO_NETWORK:
            raise InvalidValue(
                f"{config.algorithm} has no network: leave out `{name}`, or choose another"
                " `algorithm`"
            )
    folder = folder or Path("runs", run_name(config))
    processes.join(config.device)
    result = run(
        config,
        dataset,
        folder,
        observer,
        checkpoint_seconds,
        workers,
        keeps_outputs=True,
        threads=threads,
        compiled=compile,
    )
    model = folder / MODEL
    if result.status == "finished" and processes.leads() and not model.exists():
        trained_model(config, dataset, folder, observer.progress).save(folder)
    processes.wait()  # the first process writes the model
    return TrainedRun(**vars(result), config=config)


def prepare(
    data: Data,
    algorithm: str | BaseEstimator | None,
    observer: Observer,
    *,
    hparams: Mapping[str, object] | None,
    seed: int,
    backbone: str | None,
    weights: str | os.PathLike[str] | None,
    freeze: bool,
    device: str,
    precision: str,
    workers: int | None,
    loading: LoadOptions,
) -> tuple[DomainDataset, str | BaseEstimator, Mapping[str, object], str | None]:
    """Load the data and, with `freeze`, replace images by the features of `backbone`.

    Return the data, and the algorithm, hyper-parameters and backbone to train with.
    """
    given = dict(hparams or {})
    if weights is not None:
        if "weights" in given:
            raise InvalidValue("`weights` and `hparams` give weights twice")
        given["weights"] = os.fspath(weights)
    dataset = load(data, seed=seed, progress=observer.progress, **loading)
    if freeze:
        from shiftproof.training.features import freeze as freeze_backbone

        dataset = freeze_backbone(
            dataset,
            backbone or dataset.backbone,
            str(given.pop("weights", PRETRAINED)),
            device=device,
            precision=precision,
            workers=workers,
            progress=observer.progress,
        )
        backbone = None
    observer.loaded(dataset)
    if algorithm is None:
        images = len(dataset.input_shape) > 1
        algorithm = default_algorithm(images=images, kind=dataset.kind)
    return dataset, algorithm, given, backbone
