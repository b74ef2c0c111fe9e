"""Share the data of a sweep on Ray: the driver loads it once, and every run reads it in place.

Images that are read lazily from files are not sent; a run reads them on its own machine.
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


class SharedDatasets:
    """The data of a sweep, loaded by the driver in a separate thread."""

    def __init__(self) -> None:
        self._loader = ThreadPoolExecutor(1)
        self._loading: dict[tuple[str, str], Future[ObjectRef[Any] | None]] = {}

    def get(self, job: Job) -> Future[ObjectRef[Any] | None]:
        """Return a future of a job's data; its result is None if the worker must read files."""
        key = (job.data.name, job.config.fingerprint)
        if key not in self._loading:
            self._loading[key] = self._loader.submit(self._load, job)
        return self._loading[key]

    def close(self) -> None:
        """Stop loading."""
        self._loader.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _load(job: Job) -> ObjectRef[Any] | None:
        dataset = job.data.load(job.trial_seed)
        if any(domain.is_lazy for domain in (*dataset.domains, *dataset.extras)):
            return None
        return share_dataset(dataset)


def share_dataset(dataset: DomainDataset) -> ObjectRef[Any]:
    """Put a dataset into Ray's object store, with tensors as arrays that are read in place."""
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
        # Torch warns about read-only memory.  A dataset is never modified: every run copies its
        # samples, and checks its fingerprint first.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(flat).view(dtype).reshape(shape)


def with_absolute_path(job: Job) -> Job:
    """Return the job with an absolute data path, independent of the working directory."""
    request = job.data.request
    if request.data in DATASETS:
        return job
    path = str(Path(request.data).expanduser().absolute())
    return replace(job, data=replace(job.data, request=replace(request, data=path)))
