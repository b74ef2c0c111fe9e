"""Frozen features: a backbone sees every image once, and training goes on from what it saw.

The features φ(x) of a domain are kept on disk under a name that hashes all they depend on: the
content of the images and their view, the network, its weights, the precision.  Moved or renamed
images find them again; changed ones do not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from filelock import FileLock
from safetensors import SafetensorError
from torch import Tensor, nn

from shiftproof.core.errors import DataError, InvalidValue, UnknownName
from shiftproof.core.space import resolve
from shiftproof.core.types import Task
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.base import Progress, as_numbers, silent
from shiftproof.data.cache_dir import home
from shiftproof.data.input_forms import InputForm, form_of
from shiftproof.models import MODELS, Model
from shiftproof.models.pretrained import PretrainedModel
from shiftproof.models.weights import PRETRAINED, content_hash, names_a_file
from shiftproof.training.checkpoint import write_atomically
from shiftproof.training.config import PRECISIONS, choose_device
from shiftproof.training.evaluate import EvaluationSet, read_in_order, reading_threads

# Samples to a file: what an interrupted extraction may have to do again.
SHARD = 2048


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
    """Return ``dataset`` with the features of each sample, [n, k] float32, as its inputs.

    ``weights`` is ``pretrained``, ``random`` (of a fixed seed) or a file.  What was extracted
    before is read from the cache; an interrupted extraction goes on.  The network that is trained
    on the features is, unless another is chosen, an ``mlp``.
    """
    if dataset.preparation is not None or len(dataset.input_shape) != 3:
        raise InvalidValue(f"--freeze is for images, and {dataset.name} has none")
    name = MODELS.full_name(backbone)
    if not issubclass(MODELS.get(name), PretrainedModel):
        raise InvalidValue(
            f"--freeze needs a backbone with weights learnt elsewhere (resnet18, resnet50 or"
            f" timm's), and {name} has none"
        )
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, PRECISIONS)
    workers = reading_threads(workers)
    device = choose_device(device)
    dataset = dataset.without_chance()
    frozen = {
        "backbone": name,
        "weights": content_hash(weights) if names_a_file(weights) else weights,
        "precision": precision,
    }
    extractor = _Extractor(dataset.input_shape, frozen, weights, device, precision)
    total = sum(len(domain) for domain in (*dataset.domains, *dataset.extras))
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(f"features of {name}", done, total)

    def extract(domain: Domain) -> Domain:
        folder = home() / "features" / _key(frozen, domain)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{folder} cannot be written ({error.strerror}); set SHIFTPROOF_HOME to a folder"
                " that can"
            ) from error
        # A second process waits, and finds the features of the first.
        with FileLock(folder / "lock"):
            starts = range(0, len(domain), SHARD)
            return replace(domain, x=torch.cat([shard(domain, folder, start) for start in starts]))

    def shard(domain: Domain, folder: Path, start: int) -> Tensor:
        index = np.arange(start, min(start + SHARD, len(domain)))
        path = folder / f"{start:09d}.safetensors"
        features = _read(path, len(index))
        if features is None:
            parts = []
            for part in extractor.features(domain, index, workers):
                parts.append(part)
                advance(len(part))
            features = torch.cat(parts)
            write_atomically(path, safetensors.torch.save({"features": features}))
        else:
            advance(len(index))
        return features

    described = json.dumps([dataset.fingerprint, frozen], sort_keys=True)
    made = replace(
        dataset.with_domains(extract),
        regime="features",
        backbone="mlp",
        identity=hashlib.sha256(described.encode()).hexdigest()[:16],
        frozen=frozen,
    )
    return FrozenFeatures(
        **{item.name: getattr(made, item.name) for item in fields(made)},
        source=form_of(dataset, {}),
        network=extractor.built,
    )


@dataclass(frozen=True)
class FrozenFeatures(DomainDataset):
    """Features that a network made of other inputs, and what makes the same of more of them."""

    source: InputForm = field(kw_only=True)
    network: Callable[[], nn.Module] = field(kw_only=True, compare=False, repr=False)


class _Extractor:
    """A backbone that is built when the first features are missing."""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        frozen: dict[str, str],
        weights: str,
        device: str,
        precision: str,
    ) -> None:
        self._input_shape = input_shape
        self._model = extractor_model(frozen["backbone"], weights)
        self._device = torch.device(device)
        self._bf16 = precision == "bf16"
        self._featurizer: nn.Module | None = None

    @torch.no_grad()
    def features(self, domain: Domain, index: np.ndarray, workers: int) -> Iterator[Tensor]:
        """Yield the features of some samples, batch by batch."""
        featurizer = self.built()
        autocast = torch.autocast(self._device.type, dtype=torch.bfloat16)
        for x, _ in read_in_order(EvaluationSet(domain.name, domain, index), workers):
            with autocast if self._bf16 else contextlib.nullcontext():
                features = featurizer(as_numbers(x.to(self._device))).float().cpu()
            if not features.isfinite().all():
                raise DataError(
                    f"the features of domain {domain.name!r} are not finite; use --precision fp32"
                    " or other weights"
                )
            yield features

    def built(self) -> nn.Module:
        """Return the network, in eval mode and on its device."""
        if self._featurizer is None:
            with torch.random.fork_rng():
                torch.manual_seed(0)  # which decides random weights
                featurizer = build_extractor(self._model, self._input_shape)
            # Images in channels-last order are what convolutions on a CPU are fastest with.
            featurizer = featurizer.to(self._device)
            self._featurizer = featurizer.to(memory_format=torch.channels_last)
        return self._featurizer


def extractor_model(backbone: str, weights: str) -> Model:
    """Return the description of a network that makes features."""
    return resolve(MODELS.get(backbone), "large-image", {"weights": weights, "dropout": 0.0})


def build_extractor(model: Model, input_shape: tuple[int, ...]) -> nn.Module:
    """Return a network that makes features of inputs of a shape, in eval mode."""
    # Of the task, its featurizer depends on the inputs alone.
    return model.build(Task(input_shape, 2, 1, "large-image")).featurizer.eval()


def _key(frozen: dict[str, str], domain: Domain) -> str:
    described = json.dumps([1, frozen, domain.inputs_digest.hex()], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:24]


def _read(path: Path, rows: int) -> Tensor | None:
    """Return a shard, or None if it is not there or not whole."""
    if not path.exists():
        return None
    try:
        features = safetensors.torch.load(path.read_bytes()).get("features")
    except SafetensorError:
        return None
    return features if features is not None and len(features) == rows else None
