"""`train`: one run, from the data to the trained model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from shiftproof.api.best_settings import loss_of_metric, with_budget, with_metric
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
from shiftproof.training.observers import CompositeObserver, Observer
from shiftproof.training.tensorboard import TensorBoard

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator  # type: ignore[import-untyped]


def train(
    data: Data,
    algorithm: str | BaseEstimator | None = None,
    *,
    test_domains: str | Sequence[str] = (),
    hparams: Mapping[str, object] | None = None,
    budget: str | float | None = None,
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
    tensorboard: bool = False,
    observer: Observer | None = None,
    **loading: Unpack[LoadOptions],
) -> TrainedRun:
    """Train a model in a folder; called again with the same settings, resume or return the result.

    The first Ctrl-C stops training after the current step with a checkpoint.  Processes that
    `torchrun` has started train one model together, with the result of one process up to rounding.

    Args:
        data: what `load` takes; its keywords (`label`, `domain`, …) are taken here too.
        algorithm: a name of `shiftproof.ALGORITHMS`, or a scikit-learn classifier or pipeline of
            your own, which is cloned and fitted to the training domains as it is.  By default
            `best` for tables, arrays and features, and `idm-auto` for images.
        test_domains: domains kept out of training; none trains on all of them.
        hparams: hyper-parameters of the algorithm or the backbone, in place of the defaults.
        budget: time for `best` to try candidates in: seconds, or like 30s, 5m or 1h.  By default
            5m, or 60s for each domain held out if that is more.
        metric: what `best` optimises: settings are chosen by this score on held-out training
            domains, and the weights of the ensemble by log loss unless equal ones, or a single
            member, do better by it there; by default the log loss.  Other algorithms ignore it.
            It is one of the scores of `expect`; of numbers, `mae` is the loss `absolute`, and
            `r2` and `rmse` are `squared`.
        loss: of numbers: `squared` (default), `absolute`, `huber` or `huber:DELTA`, in standard
            deviations of the label, or `quantile:Q`.  Models that are fitted at once take the first
            two.
        class_weight: `balanced` weighs samples by n / (k n_c), with n_c of the n training samples
            in their class, one of k: rare classes then count as much as common ones.  Scores count
            every sample alike.  Rows of a table can have own weights too (`weights_column`).
        steps: number of updates.
        seed: seed of starting weights, batches and noise.
        data_seed: seed of generated data and of the splits; `seed` by default.
        out: folder of the run; by default one in `runs`, named after the run.
        backbone: the network: mlp, mnist-cnn, resnet18, resnet50 or a name of timm's; the
            dataset's own by default.
        weights: starting weights of the backbone: a file, `pretrained` or `random`.
        freeze: compute the features of all images with the backbone once, and train on them.
            Several backbones are separated by commas.
        pool: of several backbones, or several vectors of a table: `all` takes them side by side, in
            standard units, and `best` the one with which a linear model has the least loss on
            held-out training domains.
        holdout: share of each domain that is not trained on; by default 0.2, and 0 for algorithms
            that are fitted at once.
        eval_every: steps between evaluations; 0 evaluates after the last step only.
        evaluate: which sets to evaluate: train-in, train-out, test-in, test-out, extra; and
            invariance, which tests whether the outputs on train-out mean the same in every
            training domain.
        device: auto, cpu, cuda or mps.
        precision: fp32 or bf16.
        average: which weights to score: the last (`none`), averaged (`ema`, `swad`), or the best
            on the held-out parts of the training domains (`best`).
        augment_validation: evaluate the training domains on random views, as DomainBed does.
        private: keep all that tells of single training samples, and all that predictions do not
            need, out of the model's file; it then cannot mark inputs unlike the training data.
        standardize: `domain` centres and scales the numbers of each domain by its own mean and
            standard deviation, and those of a new site by its own rows when the model predicts;
            `whiten` takes away the correlations of features too.  `auto`, for `best`, lets held-out
            domains judge models with and without.  Results then are of adaptation: they use the
            rows of the new site, without labels.
        workers: threads that read images ahead; by default one a core, at most eight.
        threads: threads that compute; by default the first steps choose between one and all free
            cores, and a resumed run goes on with their choice.
        checkpoint_seconds: shortest time between checkpoints.
        compile: let torch compile the network: the first step takes longer, the others less, and
            results differ by rounding.
        tensorboard: write the records for TensorBoard, into the folder.
        observer: told of progress, evaluations and notes; see `Observer`.
    """
    folder = folder_of(out)
    if not checkpoint_seconds >= 0:
        raise InvalidValue(f"`checkpoint_seconds` must be at least 0, not {checkpoint_seconds}")
    checked_threads(threads)
    observer = observer or Observer()
    dataset, hparams, backbone = prepare(
        data,
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
    if algorithm is None:
        images = len(dataset.input_shape) > 1
        algorithm = default_algorithm(images=images, kind=dataset.kind)
    dataset = within_domains(dataset, standardize)
    config = configure(
        dataset,
        algorithm,
        test_domains=names(test_domains),
        backbone=backbone,
        hparams=with_metric(with_budget(hparams, algorithm, budget), algorithm, metric, dataset),
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
    writes = tensorboard and processes.leads()
    observers = [observer, TensorBoard(folder)] if writes else [observer]
    result = run(
        config,
        dataset,
        folder,
        CompositeObserver(observers),
        checkpoint_seconds,
        workers,
        keeps_outputs=True,
        threads=threads,
        compiled=compile,
    )
    model = folder / MODEL
    if result.status == "finished" and processes.leads() and not model.exists():
        trained_model(config, dataset, folder, observer.progress).save(folder)
    processes.wait()  # of several, the first writes the model
    return TrainedRun(**vars(result), config=config)


def prepare(
    data: Data,
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
) -> tuple[DomainDataset, Mapping[str, object], str | None]:
    """Load the data and, with `freeze`, turn images into the features of `backbone`.

    Return data that training can start on, and the hyper-parameters and backbone for it.
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
    return dataset, given, backbone
