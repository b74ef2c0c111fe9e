"""Sort many short rows and return where each value came from: the inner loop of matching.

torch sorts float32 on a CPU in about 40 ns an element.  NumPy sorts float64 with vector
instructions, about ten times as fast, but returns no positions.  A float32 leaves the last 29 bits
of a float64 free.  So each element carries its position there, the rows are sorted as float64, and
values and positions are read from the result.  The result is that of torch, except for the order
among equal values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.matching.parallel import side_by_side

# Bits of a float64's mantissa that no float32 uses.
_FREE_BITS = 29
# In rows at least this long, with at least this share of zeros, only the other values are sorted.
_LONG, _MANY_ZEROS = 4096, 0.25
# Fewer values than this are sorted in one thread.
_WORTH_A_THREAD = 1 << 15


def sort_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x [..., n] sorted along the last axis, and the positions that its values came from.

    Neither carries a gradient.  Equal values above 0 keep their order.

    >>> sort_rows(torch.tensor([3.0, 1.0, 2.0]))
    (tensor([1., 2., 3.]), tensor([1, 2, 0]))
    """
    x = x.detach()
    if not _can_carry_positions(x):
        values, order = x.sort(dim=-1, stable=True)
        return values, order
    n = x.shape[-1]
    if n >= _LONG and _share_of_zeros(x) > _MANY_ZEROS:
        return _sort_sparse_rows(x)
    keys = x.contiguous().double()
    bits = keys.view(torch.int64)
    bits |= torch.arange(n)
    _sort_in_place(keys)
    values = keys.float()
    bits &= (1 << _FREE_BITS) - 1  # only the positions are needed now
    return values, bits


def _sort_sparse_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sort rows with many zeros, as after a ReLU, by sorting the other values only."""
    n = x.shape[-1]
    values, order = (
        torch.zeros_like(x, memory_format=torch.contiguous_format),
        torch.empty(x.shape, dtype=torch.int64),
    )
    for row, ranked, places in zip(
        *(part.reshape(-1, n).numpy() for part in (x, values, order)), strict=True
    ):
        is_zero = row == 0  # NumPy finds those of a mask ten times as fast as those of numbers
        there = np.flatnonzero(~is_zero)
        keys = row[there].astype(np.float64)
        bits = keys.view(np.int64)
        bits |= there
        keys.sort()
        below, above = int(np.searchsorted(keys, 0.0)), n - len(there)
        above += below  # where the values above 0 begin
        ranked[:below], ranked[above:] = keys[:below], keys[below:]
        bits &= (1 << _FREE_BITS) - 1
        places[:below], places[above:] = bits[:below], bits[below:]
        places[below:above] = np.flatnonzero(is_zero)
    return values, order


def _share_of_zeros(x: Tensor) -> float:
    some = x.reshape(-1)[:: max(1, x.numel() // 4096)]
    return 1 - torch.count_nonzero(some).item() / some.numel()


def sorted_rows(x: Tensor) -> Tensor:
    """Return x [..., n] sorted along the last axis; differentiable."""
    if not _can_carry_positions(x):
        values: Tensor = x.sort(dim=-1).values
        return values
    if not (x.requires_grad and torch.is_grad_enabled()):
        return sorted_values(x)
    ranked: Tensor = _Sorted.apply(x)
    return ranked


def sorted_values(x: Tensor) -> Tensor:
    """Return x [..., n] sorted along the last axis, without gradient; x does not change."""
    x = x.detach()
    if not _can_carry_positions(x):
        values: Tensor = x.sort(dim=-1).values
        return values
    x = x.clone(memory_format=torch.contiguous_format)
    _sort_in_place(x)
    return x


class _Sorted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        values, order = sort_rows(x)
        ctx.save_for_backward(order)
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (order,) = ctx.saved_tensors
        return torch.zeros_like(gradients[0]).scatter(-1, order, gradients[0])


def _sort_in_place(x: Tensor) -> None:
    """Sort the rows of a contiguous tensor in several threads; NumPy releases Python's lock."""
    rows = x.view(-1, x.shape[-1]).numpy()
    parts = max(1, min(torch.get_num_threads(), len(rows), rows.size // _WORTH_A_THREAD))
    side_by_side(lambda part: part.sort(axis=-1), np.array_split(rows, parts))


def _can_carry_positions(x: Tensor) -> bool:
    """Whether NumPy can sort x as float64: float32 on the CPU, and not traced or transformed.

    With a position in its last bits an infinite value becomes NaN, and a NaN loses its position.
    Neither matters: the penalty is not finite in any case.
    """
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and 1 < x.shape[-1] < 1 << _FREE_BITS
        and not torch.compiler.is_compiling()
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )
