"""One run in several processes, as `torchrun` starts them: the result of one process, to rounding.

Most objectives are no sums over samples: they compare the domains of the whole batch.  So every
process has the whole batch, and only the expensive part is divided: of n samples, process r passes
its share through the featurizer φ.  The representations are then exchanged, and every process
computes head, penalties and the same loss L of all of them:

    own share  xᵣ → Rᵣ = φ(xᵣ);   exchange  R = (R₁, …, R_p);   L = L(R, y) in every process

Backward, a process knows ∂L/∂R, takes its own part ∂L/∂Rᵣ, and the gradients of φ's parameters,
Σᵣ (∂Rᵣ/∂θ)ᵀ ∂L/∂Rᵣ, are summed over processes.  Both exchanges are functions of autograd with
derivatives of their own, so algorithms that use gradients by parameters (masks, meta-learning)
get the same ones, too.  With dropout in φ, results are the same in distribution only.  Batch norms
that learn their statistics need the whole batch, so then every process passes all of it.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof.training import processes


def same_weights(module: nn.Module) -> None:
    """Give all processes the weights of the first; they differ by rounding on some devices."""
    if processes.count() > 1:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, 0)


def own_share(size: int) -> Tensor:
    """Return the positions of this process's share of `size`; all shares are of one length."""
    each = -(-size // processes.count())
    return (torch.arange(each) + processes.rank() * each) % size


def exchanged(own: Tensor, size: int) -> Tensor:
    """Return the shares of all processes, [size, …], from that of each."""
    shared: Tensor = _Exchange.apply(own)
    return shared[:size]


def learns_statistics(module: nn.Module) -> bool:
    """Whether a batch norm inside is in training mode: it would see the statistics of a share.

    >>> learns_statistics(nn.BatchNorm1d(2)), learns_statistics(nn.BatchNorm1d(2).eval())
    (True, False)
    """
    return any(isinstance(own, _BatchNorm) and own.training for own in module.modules())


def share(featurizer: nn.Module) -> None:
    """Divide the passes through a network among the processes; its weights keep their names."""
    plain = type(featurizer)

    class Shared(plain):  # type: ignore[valid-type, misc]
        """A network that passes a share of its inputs, and returns the outputs of all."""

        inside = False

        def forward(self, x: Tensor) -> Tensor:
            """Return the outputs for all of x [n, …]."""
            if self.inside:
                outputs: Tensor = plain.forward(self, x)
                return outputs
            summed = {
                name: _SumGradient.apply(own) if own.requires_grad else own
                for name, own in self.named_parameters()
            }
            if x.requires_grad:  # the inputs are made by another network
                x = _SumGradient.apply(x)
            self.inside = True
            try:
                with _own_noise(self):
                    own = functional_call(self, summed, (x[own_share(len(x)).to(x.device)],))
            finally:
                self.inside = False
            return exchanged(own, len(x))

    Shared.__name__, Shared.__qualname__ = plain.__name__, plain.__qualname__
    featurizer.__class__ = Shared


@contextlib.contextmanager
def _own_noise(module: nn.Module) -> Any:
    """Let dropout draw other masks in each process; afterwards generators are alike again."""
    dropout = any(isinstance(own, nn.Dropout) and own.p > 0 for own in module.modules())
    if not (dropout and module.training):
        yield
        return
    seed = int(torch.randint(2**62, ()))
    with torch.random.fork_rng():
        torch.manual_seed(seed + processes.rank())
        yield


class _Exchange(torch.autograd.Function):
    """The shares of all processes, one after the other; backward, the own part of the gradient."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        """Return the shares of all."""
        parts = [torch.empty_like(own) for _ in range(processes.count())]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return the own part."""
        return _OwnPart.apply(gradient)


class _OwnPart(torch.autograd.Function):
    """The part of this process; backward, the parts of all."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor) -> Tensor:
        """Return the own part."""
        return whole.chunk(processes.count())[processes.rank()].clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return the parts of all."""
        return _Exchange.apply(gradient)


class _SumGradient(torch.autograd.Function):
    """The same tensor; backward, the sum of its gradients over processes."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        """Return the tensor."""
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return the sum."""
        return _Sum.apply(gradient)


class _Sum(torch.autograd.Function):
    """The sum over processes, which every process uses alike."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        """Return the sum."""
        total = own.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return the gradient as it is: all processes have the same one."""
        return gradient
