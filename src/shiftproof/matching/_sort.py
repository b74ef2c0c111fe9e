"""Sort many short rows and return where each value came from: the inner loop of matching.

torch sorts float32 on a CPU in about 40 ns per element.  NumPy sorts float64 with vector
instructions, about ten times as fast, but returns no positions.  A float32 leaves the last 29 bits
of a float64 free.  So the position of each element is stored there, the rows are sorted as float64,
and values and positions are read from the result.  Long rows are sorted by counting instead, two
bytes at a time, in time linear in their length.  The result is that of torch, except for the order
of equal values.

torch splits each operation across its threads, which wait for each other after each operation.  A
long series of small operations is faster if every thread runs a part of the series by itself
(`side_by_side`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply `work` to each item in as many threads as torch uses; return the results in order."""
    count = torch.get_num_threads()
    if count == 1 or len(items) == 1:
        return [work(item) for item in items]
    return list(_workers(count).map(work, items))


@functools.cache
def _workers(count: int) -> ThreadPoolExecutor:
    ready = threading.Barrier(count + 1)
    before = torch.get_num_threads()

    def begin() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # without this call, torch would set the number later
        ready.wait()

    pool = ThreadPoolExecutor(count, "shiftproof", initializer=begin)
    for _ in range(count):
        pool.submit(int)  # each call starts one more worker
    ready.wait()
    torch.set_num_threads(before)  # the workers have changed it
    return pool


Rows = NDArray[Any]
# Bits of a float64's mantissa that no float32 uses.
_FREE_BITS = 29
# Rows at least this long are sorted by counting.
_LONG = 4096
# Fewer values than this are sorted in one thread.
_WORTH_A_THREAD = 1 << 15


def sort_rows(x: Tensor, into: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Return x [..., n] sorted along the last axis, and the original positions of its values.

    Neither carries a gradient.  Equal values above 0 keep their order.  If given, the result is
    written `into` contiguous tensors of the shape of x; the positions are int64.

    >>> sort_rows(torch.tensor([3.0, 1.0, 2.0]))
    (tensor([1., 2., 3.]), tensor([1, 2, 0]))
    """
    x = x.detach()
    if not _can_carry_positions(x):
        values, order = torch.sort(x, dim=-1, stable=True, out=into)
        return values, order
    values, order = into or (torch.empty(x.shape), torch.empty(x.shape, dtype=torch.int64))
    if x.shape[-1] >= _LONG:
        _by_threads(_sort_long_rows, x, values, order)
        return values, order
    keys = order.view(torch.float64).copy_(x)
    order |= torch.arange(x.shape[-1])
    _by_threads(np.ndarray.sort, keys)
    values.copy_(keys)
    order &= (1 << _FREE_BITS) - 1  # only the positions are needed now
    return values, order


def _sort_long_rows(x: Rows, ranked: Rows, positions: Rows) -> None:
    """Sort row by row, so that a row and its positions stay in the cache."""
    for row in range(len(x)):
        _sort_long_row(x[row], ranked[row], positions[row])


def _sort_long_row(row: Rows, ranked: Rows, positions: Rows) -> None:
    """Write the sorted values to `ranked`, and their positions to `positions`.

    Only values other than 0 are sorted: after a ReLU every second value is 0.  The bits of floats
    sort like their values: ascending above 0, descending below.
    """
    is_zero = row == 0  # NumPy searches a mask ten times as fast as numbers
    there = np.flatnonzero(~is_zero)
    values = row.take(there)
    by_bits = _order_of_bits(values)
    below = np.count_nonzero(np.signbit(values))
    above = len(row) - len(there) + below  # where the values above 0 begin
    values, there = values.take(by_bits), there.take(by_bits)
    for target, source in ((ranked, values), (positions, there)):
        target[:below] = source[len(source) - below :][::-1]
        target[above:] = source[: len(source) - below]
    ranked[below:above] = 0
    positions[below:above] = np.flatnonzero(is_zero)


def _order_of_bits(values: Rows) -> Rows:
    """Return the stable order of float32 values, read as unsigned integers.

    NumPy sorts 16-bit integers by counting: first the lower halves, then the upper ones.
    """
    bits = values.view(np.uint32)
    by_lower = bits.astype(np.uint16).argsort(kind="stable")
    upper = (bits >> 16).astype(np.uint16)
    return by_lower.take(upper.take(by_lower).argsort(kind="stable"))


def sorted_rows(x: Tensor) -> Tensor:
    """Return x [..., n] sorted along the last axis; differentiable, and x does not change."""
    if not _can_carry_positions(x):
        values: Tensor = x.sort(dim=-1).values
        return values
    if x.requires_grad and torch.is_grad_enabled():
        ranked: Tensor = _Sorted.apply(x)
        return ranked
    x = x.detach().clone(memory_format=torch.contiguous_format)
    _by_threads(np.ndarray.sort, x)
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


def _by_threads(work: Callable[..., None], *tensors: Tensor) -> None:
    """Apply `work` to the rows of tensors of one shape in threads; NumPy releases the GIL.

    Tensors that `work` writes to must be contiguous.
    """
    rows = [x.reshape(-1, x.shape[-1]).numpy() for x in tensors]
    count, length = rows[0].shape
    parts = max(1, min(torch.get_num_threads(), count, count * length // _WORTH_A_THREAD))
    split = zip(*(np.array_split(tensor, parts) for tensor in rows), strict=True)
    side_by_side(lambda part: work(*part), list(split))


def _can_carry_positions(x: Tensor) -> bool:
    """Return whether NumPy can sort x as float64: float32 on the CPU, not traced or transformed.

    With a position in its last bits, an infinite value becomes NaN, and a NaN loses its position.
    Neither matters: the penalty is not finite in any case.
    """
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and 1 < x.shape[-1] < 1 << _FREE_BITS
        and not torch.compiler.is_compiling()
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )
