"""The base class of algorithms: an objective on one batch from each domain, and its state.

A new algorithm subclasses `ERM`, declares its `Hparams` and overrides `objective`, or `update` if
its update is more than a gradient step on an objective.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import Float, Int
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms.adam import Adam
from shiftproof.learners.algorithms.hparams import adam_rate, decay, samples
from shiftproof.learners.base import ALGORITHMS as ALGORITHMS, Learner
from shiftproof.models.risk import Loss, loss_named

# The outputs [nᵢ, c] and labels [nᵢ] of the held-out samples of each training domain.
HeldOut = list[tuple[Tensor, Tensor]]


class Losses(NamedTuple):
    """The loss to minimise and its parts to record, all 0-dimensional tensors."""

    total: Tensor
    parts: dict[str, Tensor]

    def measured(self) -> dict[str, Tensor]:
        """Return the loss and its parts by name, detached."""
        return {"loss": self.total.detach(), **{k: v.detach() for k, v in self.parts.items()}}


@torch.no_grad()
def overwrite(weights: Iterable[Tensor], values: Iterable[Tensor]) -> None:
    """Copy values into weights, in place."""
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)


class Algorithm(nn.Module, Learner):
    """A featurizer, a head and the rule that trains them.

    `generator` is the only source of randomness that an algorithm may use, apart from dropout.
    `training_state` holds everything that changes: k steps, save, load and k more steps equal 2k
    steps bit for bit.

    `updates` is the number of steps taken.
    """

    # The modules that `predict` uses; a trained model keeps only these.
    predicts_with: ClassVar[tuple[str, ...]] = ("featurizer", "head")
    # Whether its mean loss uses sample weights (`Batch.weighted`).  A class that overrides how the
    # loss is computed must declare this again, so that weights are never silently ignored.
    weighs_samples: ClassVar[bool] = False
    # The hyper-parameters that hold the steps at which Adam restarts, as in the published code when
    # a penalty takes effect, and those at which a part of the loss takes effect without a restart.
    restarts_at: ClassVar[tuple[str, ...]] = ()
    starts_at: ClassVar[tuple[str, ...]] = ()
    # Whether several processes may split a batch in the featurizer's pass, because the algorithm
    # reads no inner layer.  Otherwise each process passes the whole batch.
    divides_batches: ClassVar[bool] = True

    @dataclass(frozen=True)
    class Hparams:
        """The hyper-parameters of every algorithm; the training loop reads `batch_size`."""

        lr: float = adam_rate(help="learning rate of Adam")
        weight_decay: float = decay(
            0.0, regimes={"large-image": (0.0, Float(-6, -2, base=10))}, help="weight decay of Adam"
        )
        batch_size: int = samples(
            regimes={
                "large-image": (32, Int(3, 5.5, base=2)),
                "huge-image": (32, Int(3, 5, base=2)),
            }
        )

    hparams: Hparams

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        names = vars(cls)
        if {"objective", "update", "outputs"} & names.keys() and "weighs_samples" not in names:
            cls.weighs_samples = False

    def __init__(
        self,
        task: Task,
        featurizer: nn.Module,
        head: nn.Module,
        hparams: Hparams,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.task = task
        self.featurizer = featurizer
        self.head = head
        self.hparams = hparams
        self.generator = generator
        self.updates = 0
        self.optimizer_restarts = frozenset(getattr(hparams, name) for name in self.restarts_at)
        self.late_starts = frozenset(getattr(hparams, name) for name in self.starts_at)
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.reset_optimizer()
        self.setup()

    def setup(self) -> None:
        """Add further networks, optimisers and state, once the network and its Adam exist."""

    @abstractmethod
    def objective(self, batch: Batch) -> Losses:
        """Return the loss on one batch: x [domains, batch, …], y [domains, batch]."""

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step and return its losses as tensors, without waiting for the device."""
        if self.updates in self.optimizer_restarts:
            self.reset_optimizer()  # the old moments do not fit the new loss
        losses = self.objective(batch)
        self.descend(losses.total)
        self.updates += 1
        return losses.measured()

    def descend(self, loss: Tensor, optimizer: str = "main") -> None:
        """Take one step of the named optimiser on `loss`."""
        self.optimizers[optimizer].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizers[optimizer].step()
        # Autocast caches cast weights: a second pass in this update would use the old ones.
        torch.clear_autocast_cache()

    def predict(self, x: Tensor) -> Tensor:
        """Return the outputs for x [batch, …]: logits [batch, c], or numbers [batch, 1]."""
        logits: Tensor = self.head(self.featurizer(x))
        return logits

    @property
    def sample_loss(self) -> Loss:
        """The per-sample loss: cross-entropy for classes, or a regression loss."""
        return loss_named(self.task.loss)

    def features(self, batch: Batch) -> Tensor:
        """Return the representations R = φ(x) of all domains, [domains, batch, k], in one pass."""
        flat: Tensor = self.featurizer(batch.x.flatten(0, 1))
        return flat.view(*batch.y.shape[:2], *flat.shape[1:])

    def looks(self, steps: int) -> tuple[int, ...]:
        """Return the updates, in order, after which to call `look`; none by default."""
        return ()

    def look(self, held_out: Callable[[], HeldOut], *, last: bool) -> None:
        """Decide something at a planned step.

        `held_out` computes the outputs of the current weights.
        """

    @property
    def num_features(self) -> int:
        """The size k of a representation: the input size of the head's first linear layer."""
        for module in self.head.modules():
            if isinstance(module, nn.Linear):
                return module.in_features
        raise InvalidValue(f"the head needs a linear layer, but has none: {self.head}")

    @classmethod
    def network_task(cls, task: Task) -> Task:
        """Return the task that featurizer and head are built for; overrides may add inputs."""
        return task

    def reset_optimizer(self) -> None:
        """Restart Adam on featurizer and head, without its moments."""
        network = [*self.featurizer.parameters(), *self.head.parameters()]
        weight_decay = self.hparams.weight_decay
        self.optimizers["main"] = self.adam(network, self.learning_rate, weight_decay)

    def adam(self, weights: Iterable[nn.Parameter], lr: float, weight_decay: float) -> Adam:
        """Return the Adam of some weights."""
        return Adam(weights, lr, weight_decay)

    @property
    def learning_rate(self) -> float:
        """The learning rate of Adam from this step on."""
        return self.hparams.lr

    def training_state(self) -> dict[str, Any]:
        """Return everything that changes, as nested dicts of tensors and plain values."""
        return {
            "updates": self.updates,
            "modules": self.state_dict(),
            "optimizers": {name: o.state_dict() for name, o in self.optimizers.items()},
            "generator": self.generator.get_state(),
        }

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Restore what `training_state` returned."""
        self.updates = state["updates"]
        self.load_state_dict(state["modules"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.generator.set_state(state["generator"])
