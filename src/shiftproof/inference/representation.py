"""The representation of inputs that typicality is computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from shiftproof.data.domain import as_array
from shiftproof.data.input_forms import InputForm, TableForm

if TYPE_CHECKING:
    from shiftproof.inference.predictor import Predictor


@torch.no_grad()
def seen_by(network: Predictor, x: Tensor, form: InputForm) -> tuple[Tensor, Tensor]:
    """Return the representation for typicality, [n, k], and the logits, both on the CPU.

    The representation is the input of the head; for a table it is the features themselves, because
    a network may have learnt to ignore some.
    """
    representation, logits = network.represented(x)
    if isinstance(form, TableForm):
        representation = torch.from_numpy(form.features(as_array(x)))
    return representation.float().cpu(), logits.float().cpu()
