"""What a trained run makes of samples that it has not seen: representations and risks.

Those it was trained on would not do: what is learnt by heart has no risk in any training domain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.algorithms import Algorithm
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, as_numbers, silent
from shiftproof.data.splits import split_domain
from shiftproof.diagnosis.samples import Positions
from shiftproof.diagnosis.shift import ModelView
from shiftproof.errors import CheckpointError, DataError
from shiftproof.models.weights import RANDOM
from shiftproof.penalties.risk import per_sample_risk, predicted_class
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.config import RunConfig, choose_device
from shiftproof.training.evaluate import EvaluationSet, read_in_order, reading_threads
from shiftproof.training.folder import RunFolder, read_json
from shiftproof.training.loop import build_algorithm


def read_run(folder: Path) -> RunConfig:
    """Return what determined the run in a folder."""
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(f"{folder} holds no run: there is no {path.name}")
    try:
        return RunConfig.from_json(read_json(path))
    except TypeError as error:
        raise CheckpointError(f"{path} is not of a run of this version ({error})") from error


def unseen_samples(dataset: DomainDataset, domains: tuple[str, ...], run: RunConfig) -> Positions:
    """Return the positions in these domains that a run was not trained on."""
    found = {}
    for index, domain in enumerate(dataset.domains):
        if domain.name in run.test_domains:
            found[domain.name] = np.arange(len(domain))
        else:
            split = split_domain(len(domain), run.holdout, run.data_seed, index)
            found[domain.name] = np.sort(split.out)
    for name in domains:
        if len(found[name]) == 0:
            raise DataError(
                f"the run was trained on every sample of domain {name!r}, and what it has seen"
                " shows nothing; train with --holdout above 0, or leave the domain out"
            )
    return {name: found[name] for name in dataset.domain_names if name in domains}


def view_of_run(
    folder: Path,
    run: RunConfig,
    dataset: DomainDataset,
    positions: Positions,
    *,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress = silent,
) -> ModelView:
    """Return representations and risks of the samples, by the weights that the run scores.

    A representation is what the head is given; ``dataset`` must be the run's, all of it.
    """
    if dataset.fingerprint != run.fingerprint:
        raise DataError(
            f"the run in {folder} was trained on other data ({run.dataset}) than this"
            f" {dataset.name}; give the same data and options, and the same network's features"
        )
    # The checkpoint has all weights: those to start from need not be had again.
    started = {**run.hparams, **({"weights": RANDOM} if "weights" in run.hparams else {})}
    run = replace(run, hparams=started, device=choose_device(device))
    trained_on = {
        domain.name: split_domain(len(domain), run.holdout, run.data_seed, index).in_
        for index, domain in enumerate(dataset.domains)
        if domain.name not in run.test_domains
    }
    dataset = dataset.prepared(trained_on)
    algorithm = build_algorithm(run, dataset)
    with _weights_in_place(folder, run, algorithm):
        parts = list(_views(run, algorithm, dataset, positions, reading_threads(workers), progress))
    representations, risks, right = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return ModelView(
        f"{run.algorithm} in {folder}", representations.astype(np.float64), risks, right
    )


@contextmanager
def _weights_in_place(folder: Path, run: RunConfig, algorithm: Algorithm) -> Iterator[None]:
    """Load the checkpoint, and its averaged weights for the while if the run averages."""
    state = RunFolder(folder).load()
    if state is None:
        raise DataError(f"the run in {folder} has no checkpoint yet; let it train for a while")
    average = AVERAGES[run.average](algorithm)
    try:
        algorithm.load_training_state(state["algorithm"])
        average.load(state)
    except (KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"the checkpoint in {folder} does not fit this version ({error})"
        ) from error
    with average.in_place():
        yield


@torch.no_grad()
def _views(
    run: RunConfig,
    algorithm: Algorithm,
    dataset: DomainDataset,
    positions: Positions,
    workers: int,
    progress: Progress,
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield representations, risks and right answers, batch by batch."""
    device = torch.device(run.device)
    autocast = torch.autocast(device.type, dtype=torch.bfloat16)
    total, done = sum(map(len, positions.values())), 0
    algorithm.eval()
    given: list[Tensor] = []

    def listen(head: nn.Module, inputs: tuple[Any, ...]) -> None:
        given[:] = [inputs[0]]

    with algorithm.head.register_forward_pre_hook(listen):
        for domain in dataset.domains:
            if domain.name not in positions:
                continue
            subset = EvaluationSet(domain.name, domain, positions[domain.name])
            for x, labels in read_in_order(subset, workers):
                with autocast if run.precision == "bf16" else contextlib.nullcontext():
                    logits = algorithm.predict(as_numbers(x.to(device))).float().cpu()
                done += len(x)
                progress("asking the model", done, total)
                yield (
                    given[0].flatten(1).float().cpu(),
                    per_sample_risk(logits, labels),
                    predicted_class(logits) == labels,
                )
