"""The network that predicts: an algorithm, and the frozen network that computes its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from shiftproof.data.domain import as_numbers
from shiftproof.learners.algorithms import Algorithm


class Predictor(nn.Module):
    """From inputs [n, …] to logits [n, c], in eval mode.

    `stem` is the frozen network that computed the features for training, if there is one.  The
    logits are divided by the `temperature`.
    """

    def __init__(
        self, algorithm: Algorithm, stem: nn.Module | None = None, temperature: float = 1.0
    ) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.stem = stem
        self.temperature = temperature
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of inputs, uint8 or floating point."""
        x = as_numbers(x)
        logits = self.algorithm.predict(x if self.stem is None else self.stem(x))
        return logits if self.temperature == 1 else logits / self.temperature

    def represented(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of the head, [n, k], and the logits."""
        given: list[Tensor] = []

        def listen(head: nn.Module, inputs: tuple[Any, ...]) -> None:
            given[:] = [inputs[0]]

        with self.algorithm.head.register_forward_pre_hook(listen):
            logits = self(x)
        return given[0].flatten(1), logits

    def weights(self) -> dict[str, Tensor]:
        """Return all that a prediction depends on, by name; copies on the CPU."""
        return {
            f"{part}.{name}": tensor.detach().cpu().clone().contiguous()
            for part, module in self._parts().items()
            for name, tensor in module.state_dict().items()
        }

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Load the weights that `weights` returned."""
        for part, module in self._parts().items():
            module.load_state_dict(under(f"{part}.", weights))

    def _parts(self) -> dict[str, nn.Module]:
        parts = {name: getattr(self.algorithm, name) for name in self.algorithm.predicts_with}
        return parts if self.stem is None else {**parts, "stem": self.stem}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
