"""Compile a network with torch's compiler, or explain in one line why that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.text import reason_of


def compile_network(network: nn.Module) -> None:
    """Compile like ``network.compile()``, even a ``Sequential`` of torch's own layers.

    In older torch, such as 2.7, that method silently does nothing for these, because it compiles
    no function of torch's own modules; the function here is ours.
    """

    def call(*inputs: Any) -> Any:
        return network._call_impl(*inputs)  # type: ignore[no-untyped-call]

    network._compiled_call_impl = torch.compile(call)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Raise an error of one line if torch cannot compile a network."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        raise InvalidValue(
            f"torch cannot compile the network ({reason_of(error, 120)}); install a C++ compiler,"
            " or leave out `compile`"
        ) from error
