"""Initial weights from a safetensors or torch file; reading one never runs code."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence

import safetensors.torch
import torch
from torch import Tensor, nn

from shiftproof.core.errors import CheckpointError
from shiftproof.models.weights_name import existing

# Modules of the file that are not loaded, because we build our own classifier.
CLASSIFIERS = ("fc", "classifier", "head")


def read_weights(path: str) -> dict[str, Tensor]:
    """Return the tensors of a file by name, on the CPU.

    A torch file may hold them under `state_dict` or `model`.
    """
    data = existing(path).read_bytes()
    content: object
    # Both libraries raise errors of many kinds on a damaged file, hence Exception.
    if data[8:9] == b"{":  # safetensors: eight bytes of length, then JSON
        try:
            content = safetensors.torch.load(data)
        except Exception as error:
            raise CheckpointError(
                f"{path} is a damaged safetensors file ({reason(error)})"
            ) from error
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings about pickles that torch then rejects
                content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except Exception as error:  # torch's own message advises reading the file unsafely
            raise CheckpointError(
                f"{path} is neither a safetensors file nor a torch file of only tensors; it may be"
                " damaged, or hold code or objects (none was run)"
            ) from error
    for wrapper in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping) or not content:
        raise CheckpointError(f"{path} holds no named tensors")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise CheckpointError(f"{path} holds {name!r}, which is not a tensor")
    return dict(content)


def load_weights(
    network: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    source: str,
    architecture: str,
    classifiers: Sequence[str] = CLASSIFIERS,
) -> None:
    """Copy `tensors` into a network without classifier; if one does not fit, none is copied.

    The file's classifier is left out.  A missing `num_batches_tracked`, as in old torch files, is
    not an error, because nothing reads that count.
    """
    expected = network.state_dict()
    left_out = tuple(f"{name}." for name in classifiers)
    counter = "num_batches_tracked"
    faults = {
        "missing": [key for key in expected if key not in tensors and not key.endswith(counter)],
        "unexpected": [
            k for k in sorted(tensors) if k not in expected and not k.startswith(left_out)
        ],
        "misshapen": [
            f"{key} {_form(tensors[key])} for {_form(value)}"
            for key, value in expected.items()
            if key in tensors and _form(tensors[key]) != _form(value)
        ],
    }
    if any(faults.values()):
        parts = "; ".join(f"{len(k)} {fault}: {_first(k)}" for fault, k in faults.items() if k)
        raise CheckpointError(f"{source} does not fit {architecture}: {parts}")
    fitting = {key: value for key, value in tensors.items() if key in expected}
    network.load_state_dict(fitting, strict=False)


def reason(error: Exception) -> str:
    """Return the error of another library as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}{'…' if len(text) > 200 else ''}"


def _form(tensor: Tensor) -> str:
    """Return what must match: the shape, and float or integer (of any float precision)."""
    return f"{list(tensor.shape)}{'' if tensor.is_floating_point() else ' of whole numbers'}"


def _first(keys: Sequence[str], limit: int = 3) -> str:
    return ", ".join(keys[:limit]) + (", …" if len(keys) > limit else "")
