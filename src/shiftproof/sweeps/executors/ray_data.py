"""The data of a sweep on Ray: loaded by the driver once, and read in place by every run.

Images that are read from files when they are needed stay where they are: a run looks for them on
its own machine.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from ray import ObjectRef
from torch import Tensor

from shiftproof.data import DATASETS, DomainDataset
from shiftproof.sweeps.jobs import Job


class Library:
    """The data of a sweep, loaded by the driver beside its other work."""

    def __init__(self) -> None:
        self._loader = ThreadPoolExecutor(1)
        self._orders: dict[tuple[str, str], Future[ObjectRef[Any] | None]] = {}

    def order(self, job: Job) -> Future[ObjectRef[Any] | None]:
        """Return where a job's data will be: nowhere if it must be read from files over there."""
        key = (job.data.name, job.config.fingerprint)
        if key not in self._orders:
            self._orders[key] = self._loader.submit(self._load, job)
        return self._orders[key]

    def close(self) -> None:
        """Load no more."""
        self._loader.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _load(job: Job) -> ObjectRef[Any] | None:
        dataset = job.data.load(job.trial_seed)
        if any(domain.is_lazy for domain in (*dataset.domains, *dataset.extras)):
            return None
        return share_dataset(dataset)


def share_dataset(dataset: DomainDataset) -> ObjectRef[Any]:
    """Put a dataset into Ray's store, its tensors as arrays, which are read there in place."""
    ray.util.register_serializer(Tensor, serializer=_to_bytes, deserializer=_from_bytes)
    try:
        return ray.put(dataset)
    finally:
        ray.util.deregister_serializer(Tensor)


def _to_bytes(tensor: Tensor) -> tuple[np.ndarray, torch.dtype, torch.Size]:
    flat = tensor.contiguous().flatten().view(torch.uint8)
    return flat.numpy(), tensor.dtype, tensor.shape


def _from_bytes(parts: tuple[np.ndarray, torch.dtype, torch.Size]) -> Tensor:
    flat, dtype, shape = parts
    with warnings.catch_warnings():
        # Torch warns of memory that must not be written.  A dataset never is: every run takes
        # copies out of it, and makes sure of its fingerprint first.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(flat).view(dtype).reshape(shape)


def findable(job: Job) -> Job:
    """Return a job whose data is found from any folder of a machine that has it."""
    request = job.data.request
    if request.data in DATASETS:
        return job
    path = str(Path(request.data).expanduser().absolute())
    return replace(job, data=replace(job.data, request=replace(request, data=path)))
