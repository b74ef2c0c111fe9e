"""Checks of the arguments that a training loop passes to `InterDomainMatching`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TypeGuard

import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue


def check_settings(
    weights: Mapping[str, object], warmups: Mapping[str, object], memories: Mapping[str, object]
) -> None:
    """Check weights, warm-up steps and decays γ, all given by name."""
    for name, value in weights.items():
        if not (_is_number(value) and math.isfinite(value) and value >= 0):
            raise InvalidValue(f"`{name}` must be a number from 0 up or 'auto', not {value!r}")
    for name, value in warmups.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidValue(f"`{name}` must be a whole number from 0 up, not {value!r}")
    for name, value in memories.items():
        if not (_is_number(value) and 0 <= value < 1):
            raise InvalidValue(f"`{name}` must be at least 0 and less than 1, not {value!r}")


def check_shapes(features: Tensor, logits: Tensor, labels: Tensor, domains: Tensor) -> None:
    """Check types and shapes; no value is read, so nothing waits for the device."""
    for name, x, meaning in [
        ("features", features, "the input of the head"),
        ("logits", logits, "the output of the head"),
    ]:
        if x.ndim != 2 or not x.is_floating_point():
            raise InvalidValue(
                f"`{name}` must be floating-point numbers [samples, …] in two dimensions,"
                f" {meaning}, not {_described(x)}: use .flatten(1) if there are more"
            )
    for name, x, remedy in [
        ("labels", labels, "one-hot labels become class numbers by .argmax(1)"),
        ("domains", domains, "give every sample the number of its domain"),
    ]:
        if x.ndim != 1 or x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
            raise InvalidValue(
                f"`{name}` must be integers [samples], not {_described(x)}: {remedy}"
            )
    sizes = [len(features), len(logits), len(labels), len(domains)]
    if len(set(sizes)) > 1:
        raise InvalidValue(
            "`features`, `logits`, `labels` and `domains` must be of the same samples, but there"
            " are {}, {}, {} and {}".format(*sizes)
        )
    if logits.shape[1] == 0 or features.shape[1] == 0:
        raise InvalidValue("`features` and `logits` need at least one column each")


def check_values(features: Tensor, logits: Tensor, labels: Tensor) -> None:
    """Check for NaN, infinity and labels without a logit; this waits for a GPU once."""
    classes = max(logits.shape[1], 2)  # one logit means two classes
    wrong = [
        (~features.isfinite()).any(dim=1).sum(),
        (~logits.isfinite()).any(dim=1).sum(),
        ((labels < 0) | (labels >= classes)).sum(),
    ]
    bad_features, bad_logits, bad_labels = torch.stack(wrong).tolist()
    for name, count in [("features", bad_features), ("logits", bad_logits)]:
        if count:
            raise InvalidValue(
                f"`{name}` are NaN or infinite in {count} of {len(labels)} samples: lower the"
                " learning rate or the weights, or look for such values in the data"
            )
    if bad_labels:
        raise InvalidValue(
            f"{bad_labels} of {len(labels)} `labels` are outside 0 … {classes - 1}, the classes"
            " of the logits: number the classes from 0"
        )


def as_ids(domains: object, device: torch.device) -> Tensor:
    """Return domain ids as a tensor; a tensor stays on its device, others go to `device`."""
    if isinstance(domains, Tensor):
        return domains
    try:
        return torch.as_tensor(domains, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidValue(
            "`domains` must be integers, one for each sample: names become numbers by"
            " numpy.unique(names, return_inverse=True)[1]"
        ) from error


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _described(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
