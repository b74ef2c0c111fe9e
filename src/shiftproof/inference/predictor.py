"""Networks for prediction: an algorithm, and the frozen network that computes its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.types import CLASSIFICATION
from shiftproof.data import Domain
from shiftproof.data.domain import as_array, as_float_rows, as_numbers
from shiftproof.data.input_forms import InputForm, Inputs, TableForm
from shiftproof.inference.representation import seen_by
from shiftproof.inference.weight_names import under
from shiftproof.learners.exact import STORED, Exact
from shiftproof.models.risk import class_probabilities
from shiftproof.training.evaluate import read_in_order
from shiftproof.training.evaluation_sets import EvaluationSet, reading_threads


class Predictor(nn.Module):
    """Map from inputs [n, …] to logits [n, c], in eval mode.

    `stem` is the frozen network that computed the features for training, if there is one.  The
    logits are divided by the `temperature`.
    """

    def __init__(
        self, algorithm: Any, stem: nn.Module | None = None, temperature: float = 1.0
    ) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.stem = stem
        self.temperature = temperature
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of inputs, uint8 or floating point."""
        x = as_numbers(x)
        logits: Tensor = self.algorithm.predict(x if self.stem is None else self.stem(x))
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
        """Return everything that predictions depend on, by name, as copies on the CPU."""
        return {
            f"{part}.{name}": tensor.detach().cpu().clone().contiguous()
            for part, module in self._parts().items()
            for name, tensor in module.state_dict().items()
        }

    def load(self, weights: Mapping[str, Any]) -> None:
        """Load the weights that `weights` returned, as tensors or arrays."""
        for part, module in self._parts().items():
            own = under(f"{part}.", weights)
            module.load_state_dict({name: as_tensor(value) for name, value in own.items()})

    def described(
        self, subset: EvaluationSet, form: InputForm, device: str, *, answered: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the representations of training samples, and their probabilities if `answered`."""
        for x, _ in read_in_order(subset, reading_threads(None)):
            none = np.empty((len(x), 0))
            if isinstance(form, TableForm) and not answered:
                yield as_float_rows(form.features(as_array(x))), none
                continue
            seen, logits = seen_by(self, x.to(device), form)
            chances = class_probabilities(logits.double()).numpy() if answered else none
            yield seen.numpy(), chances

    def answers(
        self, inputs: Inputs, form: InputForm, device: str, workers: int | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield representations, and probabilities or numbers in label units, batch by batch."""
        domain = Domain("inputs", inputs, np.zeros(len(inputs), dtype=np.int64))
        subset = EvaluationSet(domain.name, domain, np.arange(len(domain)))
        for x, _ in read_in_order(subset, reading_threads(workers)):
            seen, logits = seen_by(self, x.to(device), form)
            task = self.algorithm.task
            if task.kind == CLASSIFICATION:
                yield seen.numpy(), class_probabilities(logits).numpy()
            else:
                yield seen.numpy(), task.in_units(logits.double()).numpy()

    def _parts(self) -> dict[str, nn.Module]:
        parts = {name: getattr(self.algorithm, name) for name in self.algorithm.predicts_with}
        return parts if self.stem is None else {**parts, "stem": self.stem}


class StemPredictor(Predictor):
    """A frozen network, and a learner that was fitted at once to its features."""

    algorithm: Exact

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of inputs, uint8 or floating point."""
        return self.represented(x)[1]

    def represented(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features, [n, k], and the outputs."""
        x = as_numbers(x)
        features = (x if self.stem is None else self.stem(x)).float()
        outputs = self.algorithm.predict(as_array(features))
        return features.flatten(1), torch.from_numpy(outputs).to(x.device)

    def weights(self) -> dict[str, Tensor]:
        """Return everything that predictions depend on, by name."""
        own = {name: as_tensor(value) for name, value in self.algorithm.weights().items()}
        return own | super().weights()

    def load(self, weights: Mapping[str, Any]) -> None:
        """Load the weights that `weights` returned."""
        self.algorithm.load({name: as_array(weights[name]) for name in (STORED,)})
        super().load(weights)

    def _parts(self) -> dict[str, nn.Module]:
        return {} if self.stem is None else {"stem": self.stem}


def as_tensor(value: Tensor | np.ndarray) -> Tensor:
    """Return a tensor; arrays are copied."""
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value
