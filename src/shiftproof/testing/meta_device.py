"""Take steps on the meta device, whose tensors have shapes but no values: reading one fails."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch

from shiftproof.data import DomainDataset
from shiftproof.learners.algorithms import Algorithm
from shiftproof.testing.harness import STEPS, Hparams, batch_of, build


def take_steps_on_meta(name: str, data: DomainDataset, hparams: Hparams) -> None:
    """Take a few steps; reading a value raises."""
    algorithm = _on_meta(build(name, data, hparams))
    algorithm.train()
    with mock.patch.object(torch, "autocast", _autocast_on_meta):
        for step in range(STEPS):
            algorithm.update(batch_of(data, step).to(torch.device("meta")))


def _on_meta(algorithm: Algorithm) -> Algorithm:
    # In place, so that the optimisers keep the same parameters.
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return algorithm.to("meta")
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def _autocast_on_meta(device_type: str, *args: Any, **kwargs: Any) -> Any:
    # Autocast does not support the meta device.
    return _AUTOCAST("cpu" if device_type == "meta" else device_type, *args, **kwargs)


_AUTOCAST = torch.autocast
