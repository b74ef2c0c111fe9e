"""One run in several `torchrun` processes, with the result of one process up to rounding.

Most objectives are not sums over samples: they compare the domains of the whole batch.  So every
process has the whole batch, and only the expensive part is divided: process r passes its share of
the n samples through the featurizer φ.  The representations are then exchanged, and every process
computes head, penalties and the same loss L on all of them:

    own share  xᵣ → Rᵣ = φ(xᵣ);   exchange  R = (R₁, …, R_p);   L = L(R, y) in every process

In the backward pass, each process computes ∂L/∂R and keeps its own part ∂L/∂Rᵣ; the gradients of
φ's parameters, Σᵣ (∂Rᵣ/∂θ)ᵀ ∂L/∂Rᵣ, are summed over processes.  Both exchanges are differentiable
autograd functions, so algorithms that use parameter gradients (masks, meta-learning) get the same
ones too.  With dropout in φ, results are the same in distribution only.  Batch norms that learn
their statistics need the whole batch, so every process then passes all of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof.training import processes

Map = Callable[[Tensor], Tensor]


def same_weights(module: nn.Module) -> None:
    """Copy the first process's weights to all; on some devices they differ by rounding."""
    if processes.count() > 1:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, 0)


def own_share(size: int) -> Tensor:
    """Return the positions of this process's share of `size`; all shares have the same length."""
    length = -(-size // processes.count())
    return (torch.arange(length) + processes.rank() * length) % size


def exchanged(own: Tensor, size: int) -> Tensor:
    """Return the shares of all processes, [size, …], given this process's own share."""
    shared: Tensor = _Linear.apply(own, _gathered, _own_part)
    return shared[:size]


def learns_statistics(module: nn.Module) -> bool:
    """Return whether a batch norm is in training mode: it would learn from one share only.

    >>> learns_statistics(nn.BatchNorm1d(2)), learns_statistics(nn.BatchNorm1d(2).eval())
    (True, False)
    """
    return any(isinstance(part, _BatchNorm) and part.training for part in module.modules())


def share(featurizer: nn.Module) -> None:
    """Divide a network's inputs among the processes; its weights keep their names."""
    plain = type(featurizer)

    class Shared(plain):  # type: ignore[valid-type, misc]
        """A network that computes its share of the outputs, and returns those of all processes."""

        inside = False

        def forward(self, x: Tensor) -> Tensor:
            """Return the outputs for x [n, …]."""
            if self.inside:
                outputs: Tensor = plain.forward(self, x)
                return outputs
            summed = {
                name: _Linear.apply(parameter, _same, _summed)
                if parameter.requires_grad
                else parameter
                for name, parameter in self.named_parameters()
            }
            if x.requires_grad:  # the inputs come from another network
                x = _Linear.apply(x, _same, _summed)
            self.inside = True
            try:
                with _own_noise(self):
                    share = functional_call(self, summed, (x[own_share(len(x)).to(x.device)],))
            finally:
                self.inside = False
            return exchanged(share, len(x))

    Shared.__name__, Shared.__qualname__ = plain.__name__, plain.__qualname__
    featurizer.__class__ = Shared


@contextlib.contextmanager
def _own_noise(module: nn.Module) -> Any:
    """Let dropout draw different masks in each process, and restore the generators afterwards."""
    dropout = any(isinstance(part, nn.Dropout) and part.p > 0 for part in module.modules())
    if not (dropout and module.training):
        yield
        return
    seed = int(torch.randint(2**62, ()))
    with torch.random.fork_rng():
        torch.manual_seed(seed + processes.rank())
        yield


class _Linear(torch.autograd.Function):
    """Apply a linear map between processes; backward, apply its adjoint."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Map, adjoint: Map) -> Tensor:
        """Return the value of the map."""
        ctx.maps = adjoint, forward
        return forward(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Return the gradient, which can be differentiated in turn."""
        return _Linear.apply(*gradients, *ctx.maps), None, None


def _gathered(own: Tensor) -> Tensor:
    """Return the shares of all processes; the adjoint is `_own_part`."""
    parts = [torch.empty_like(own) for _ in range(processes.count())]
    dist.all_gather(parts, own.contiguous())
    return torch.cat(parts)


def _own_part(whole: Tensor) -> Tensor:
    return whole.chunk(processes.count())[processes.rank()].clone()


def _same(tensor: Tensor) -> Tensor:
    """Return a tensor that every process has; the adjoint is `_summed`."""
    return tensor.view_as(tensor)


def _summed(own: Tensor) -> Tensor:
    total = own.clone()
    dist.all_reduce(total)
    return total
