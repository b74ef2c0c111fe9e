"""Frozen features: a backbone computes the features of every image once, for training on them.

The features φ(x) of a domain are cached on disk under a hash of everything they depend on: the
content of the images and their view, the network, its weights, the precision.  So they are found
again if the images are moved or renamed, but not if they change.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import safetensors.torch
import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.files import write_atomically
from shiftproof.core.migrations import FORMAT, KEY, current
from shiftproof.core.space import resolve
from shiftproof.core.text import counted
from shiftproof.core.types import Task
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.base import Progress, cache_dir, silent
from shiftproof.data.domain import as_numbers
from shiftproof.data.input_forms import form_of
from shiftproof.data.prefetch import prefetch
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.data.tables.vectors import component_names
from shiftproof.models import MODELS
from shiftproof.models.base import Model
from shiftproof.models.pretrained import PretrainedModel
from shiftproof.models.side_by_side import SideBySide
from shiftproof.models.weights_name import PRETRAINED, RANDOM, content_hash, names_a_file
from shiftproof.training.configure import choose_device
from shiftproof.training.evaluation_sets import batch_size, reading_threads
from shiftproof.training.frozen_features import FrozenFeatures as FrozenFeatures
from shiftproof.training.settings import PRECISIONS

# Samples in a file: an interrupted extraction repeats at most this many.
SHARD = 2048
# Key in the header of such a file: a hash of its shape and numbers.
CHECKSUM = "sha256"


def freeze(
    dataset: DomainDataset,
    backbone: str,
    weights: str = PRETRAINED,
    *,
    device: str = "auto",
    precision: str = "fp32",
    workers: int | None = None,
    progress: Progress = silent,
) -> FrozenFeatures:
    """Return `dataset` with the features of each sample, [n, k] float32, as its inputs.

    `weights` is `pretrained`, `random` (with a fixed seed) or a file.  Features that were
    computed before are read from the cache; an interrupted extraction resumes.  By default, the
    network trained on the features is an `mlp`.

    The features of several backbones, separated by commas, are concatenated; each run fits their
    standard units to its training samples.  `weights` is then one value for all, or one for each,
    separated by commas.
    """
    if "," in backbone:
        freeze_as = partial(freeze, device=device, precision=precision, progress=progress)
        pairs = several_backbones(backbone, weights)
        return joined_features([freeze_as(dataset, *pair, workers=workers) for pair in pairs])
    if dataset.preparation is not None or len(dataset.input_shape) != 3:
        raise InvalidValue(f"`freeze` is for images, but {dataset.name} has none")
    name = MODELS.full_name(backbone)
    if not issubclass(MODELS.get(name), PretrainedModel):
        raise InvalidValue(
            f"`backbone` must be a pretrained network (resnet18, resnet50 or one of timm's) to"
            f" compute features, not {name}"
        )
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, PRECISIONS)
    workers = reading_threads(workers)
    device = choose_device(device)
    dataset = dataset.without_augmentation()
    frozen = {
        "backbone": name,
        "weights": content_hash(weights) if names_a_file(weights) else weights,
        "precision": precision,
    }
    model = extractor_model(name, weights)
    extractor = _Extractor(model, dataset.input_shape, torch.device(device), precision)
    total = sum(len(domain) for domain in (*dataset.domains, *dataset.extras))
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(f"features of {name}", done, total)

    def extract(domain: Domain) -> Domain:
        folder = cache_dir() / "features" / _key(frozen, domain)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{folder} cannot be written ({error.strerror}); set SHIFTPROOF_HOME to a writable"
                " folder"
            ) from error
        # A second process waits, then reads the features of the first.
        with FileLock(folder / "lock"):
            return domain.having(x=torch.cat(list(shards(domain, folder))))

    def shards(domain: Domain, folder: Path) -> Iterator[Tensor]:
        starts = range(0, len(domain), SHARD)
        indices = [np.arange(start, min(start + SHARD, len(domain))) for start in starts]
        paths = [folder / f"{start:09d}.safetensors" for start in starts]
        stored = [_read(path, len(index)) for path, index in zip(paths, indices, strict=True)]
        missing = [i for i, features in zip(indices, stored, strict=True) if features is None]
        # One iterator for all: the images of the next file are read while this one is computed.
        computed = extractor.features(domain, missing, workers) if missing else iter(())
        for path, index, features in zip(paths, indices, stored, strict=True):
            if features is None:
                parts: list[Tensor] = []
                while sum(map(len, parts)) < len(index):
                    parts.append(next(computed))
                    advance(len(parts[-1]))
                features = torch.cat(parts)
                write_atomically(path, _shard(features))
            else:
                advance(len(index))
            yield features

    described = json.dumps([dataset.fingerprint, frozen], sort_keys=True)
    features = replace(
        dataset.with_domains(extract),
        regime="features",
        backbone="mlp",
        identity=hashlib.sha256(described.encode()).hexdigest()[:16],
        frozen=frozen,
    )
    return FrozenFeatures(
        **{item.name: getattr(features, item.name) for item in fields(features)},
        source=form_of(dataset, None),
        network=extractor.built,
    )


def several_backbones(backbone: str, weights: str) -> list[tuple[str, str]]:
    """Split backbones separated by commas, and return each with its weights.

    >>> several_backbones("resnet18, resnet50", "random")
    [('resnet18', 'random'), ('resnet50', 'random')]
    """
    names, values = ([text.strip() for text in part.split(",")] for part in (backbone, weights))
    values = values * len(names) if len(values) == 1 else values
    if "" in names or len(set(names)) < len(names):
        raise InvalidValue(f"`backbone` must name each network once, not {backbone!r}")
    if len(values) != len(names):
        raise InvalidValue(
            f"`weights` must have one entry, or one for each of {counted(len(names), 'backbone')},"
            f" not {len(values)}"
        )
    return list(zip(names, values, strict=True))


def joined_features(parts: Sequence[FrozenFeatures]) -> FrozenFeatures:
    """Return the features of several networks as one dataset, which each run standardises."""
    first = parts[0]
    columns = [
        Column(name, "number")
        for part in parts
        for name in component_names(part.frozen["backbone"], part.input_shape[0])
    ]
    by_name = [{domain.name: domain for domain in (*p.domains, *p.extras)} for p in parts]

    def joined(domain: Domain) -> Domain:
        rows = [domains[domain.name].rows() for domains in by_name]
        return domain.having(x=np.concatenate(rows, axis=1))

    described = json.dumps([part.identity for part in parts])
    names = {key: ",".join(p.frozen[key] for p in parts) for key in ("backbone", "weights")}
    return replace(
        cast(FrozenFeatures, first.with_domains(joined)),
        preparation=Columns(tuple(columns)),
        identity=hashlib.sha256(described.encode()).hexdigest()[:16],
        frozen={**first.frozen, **names},
        network=partial(_built_side_by_side, parts),
        parts=tuple(parts),
    )


def _built_side_by_side(parts: Sequence[FrozenFeatures]) -> nn.Module:
    return SideBySide([part.network() for part in parts])


@dataclass
class _Extractor:
    """A backbone that is built only if features are missing."""

    model: Model
    input_shape: tuple[int, ...]
    device: torch.device
    precision: str
    featurizer: nn.Module | None = None

    @torch.no_grad()
    def features(
        self, domain: Domain, groups: Sequence[np.ndarray], workers: int
    ) -> Iterator[Tensor]:
        """Yield the features of groups of samples, batch by batch; no batch spans two groups."""
        featurizer = self.built()
        autocast = torch.autocast(self.device.type, dtype=torch.bfloat16)
        size = batch_size(domain)
        batches = [rows[low : low + size] for rows in groups for low in range(0, len(rows), size)]
        for x in prefetch(domain.stored, batches, workers if domain.is_lazy else 0):
            with autocast if self.precision == "bf16" else contextlib.nullcontext():
                features = featurizer(as_numbers(x.to(self.device))).float().cpu()
            if not features.isfinite().all():
                raise DataError(
                    f"the features of domain {domain.name!r} are not finite; use"
                    " `precision='fp32'` or other `weights`"
                )
            yield features

    def built(self) -> nn.Module:
        """Return the network, in eval mode and on its device."""
        if self.featurizer is None:
            with torch.random.fork_rng():
                torch.manual_seed(0)  # for random weights
                featurizer = build_extractor(self.model, self.input_shape)
            # Convolutions on a CPU are fastest with images in channels-last order.
            featurizer = featurizer.to(self.device)
            self.featurizer = featurizer.to(memory_format=torch.channels_last)
        return self.featurizer


def extractor_model(backbone: str, weights: str) -> Model:
    """Return the model that computes features, not built yet."""
    return resolve(MODELS.get(backbone), "large-image", {"weights": weights, "dropout": 0.0})


def untrained_stem(frozen: Mapping[str, str], input_shape: tuple[int, ...]) -> nn.Module:
    """Return the network or networks that computed features, with random weights."""
    networks = [
        build_extractor(extractor_model(name, RANDOM), input_shape)
        for name in frozen["backbone"].split(",")
    ]
    return networks[0] if len(networks) == 1 else SideBySide(networks)


def build_extractor(model: Model, input_shape: tuple[int, ...]) -> nn.Module:
    """Return a network, in eval mode, that computes features for inputs of a given shape."""
    # The featurizer depends only on the input shape of the task.
    return model.build(Task(input_shape, 2, 1, "large-image")).featurizer.eval()


def _key(frozen: dict[str, str], domain: Domain) -> str:
    described = json.dumps([1, frozen, domain.inputs_digest.hex()], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:24]


def _shard(features: Tensor) -> bytes:
    """Return the content of a file with features [n, k] float32 and their checksum."""
    header = {KEY: str(FORMAT), CHECKSUM: _checksum(features)}
    return safetensors.torch.save({"features": features}, metadata=header)


def _read(path: Path, rows: int) -> Tensor | None:
    """Return the features [rows, k] of a file, or None if it is missing, damaged or different."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = current(file.metadata() or {}, "features", path)
            features: Tensor = file.get_tensor("features")
    except (SafetensorError, OSError, DataError):  # the last: written by another version
        return None
    if features.dtype != torch.float32 or features.ndim != 2 or len(features) != rows:
        return None
    return features if _checksum(features) == header.get(CHECKSUM) else None


def _checksum(features: Tensor) -> str:
    described = hashlib.sha256(repr(tuple(features.shape)).encode())
    described.update(features.contiguous().numpy().data)
    return described.hexdigest()
