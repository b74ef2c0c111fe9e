"""IDM's two penalties (Algorithm 2 of the paper) as one module for any training loop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Literal, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._compile import _disable_dynamo

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import widened
from shiftproof.matching.head_gradients import LinearGradients, functional_head_gradients, is_linear
from shiftproof.matching.levels import Order
from shiftproof.matching.pdm import Points
from shiftproof.matching.term import MatchingTerm, MatchInputs, with_penalties
from shiftproof.models.risk import logit_residual


def check_settings(
    weights: Mapping[str, object], warmups: Mapping[str, object], memories: Mapping[str, object]
) -> None:
    """Check weights, warm-up steps and decays γ, all given by name."""
    for name, value in weights.items():
        if not (_is_number(value) and math.isfinite(value) and value >= 0):
            raise InvalidValue(f"`{name}` must be a number from 0 up, not {value!r}")
    for name, value in warmups.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidValue(f"`{name}` must be a whole number from 0 up, not {value!r}")
    for name, value in memories.items():
        if not (_is_number(value) and 0 <= value < 1):
            raise InvalidValue(f"`{name}` must be at least 0 and less than 1, not {value!r}")


def check_shapes(features: Tensor, logits: Tensor, labels: Tensor, domains: Tensor) -> None:
    """Check types and shapes; no value is read, so nothing waits for the device."""
    for name, x, meaning in [
        ("features", features, "the input of the head"),
        ("logits", logits, "the output of the head"),
    ]:
        if x.ndim != 2 or not x.is_floating_point():
            raise InvalidValue(
                f"`{name}` must be floating-point numbers [samples, …] in two dimensions,"
                f" {meaning}, not {_described(x)}: use .flatten(1) if there are more"
            )
    for name, x, remedy in [
        ("labels", labels, "one-hot labels become class numbers by .argmax(1)"),
        ("domains", domains, "give every sample the number of its domain"),
    ]:
        if x.ndim != 1 or x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
            raise InvalidValue(
                f"`{name}` must be integers [samples], not {_described(x)}: {remedy}"
            )
    sizes = [len(features), len(logits), len(labels), len(domains)]
    if len(set(sizes)) > 1:
        raise InvalidValue(
            "`features`, `logits`, `labels` and `domains` must be of the same samples, but there"
            " are {}, {}, {} and {}".format(*sizes)
        )
    if logits.shape[1] == 0 or features.shape[1] == 0:
        raise InvalidValue("`features` and `logits` need at least one column each")


def check_values(features: Tensor, logits: Tensor, labels: Tensor) -> None:
    """Check for NaN, infinity and labels without a logit; this waits for a GPU once."""
    classes = max(logits.shape[1], 2)  # one logit means two classes
    wrong = [
        (~features.isfinite()).any(dim=1).sum(),
        (~logits.isfinite()).any(dim=1).sum(),
        ((labels < 0) | (labels >= classes)).sum(),
    ]
    bad_features, bad_logits, bad_labels = torch.stack(wrong).tolist()
    for name, count in [("features", bad_features), ("logits", bad_logits)]:
        if count:
            raise InvalidValue(
                f"`{name}` are NaN or infinite in {count} of {len(labels)} samples: lower the"
                " learning rate or the weights, or look for such values in the data"
            )
    if bad_labels:
        raise InvalidValue(
            f"{bad_labels} of {len(labels)} `labels` are outside 0 … {classes - 1}, the classes"
            " of the logits: number the classes from 0"
        )


def as_ids(domains: object, device: torch.device) -> Tensor:
    """Return domain ids as a tensor; a tensor stays on its device, others go to `device`."""
    if isinstance(domains, Tensor):
        return domains
    try:
        return torch.as_tensor(domains, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidValue(
            "`domains` must be integers, one for each sample: names become numbers by"
            " numpy.unique(names, return_inverse=True)[1]"
        ) from error


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _described(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"


Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def join(features: Tensor, logits: Tensor, labels: Tensor, domains: Tensor) -> Batch:
    """Return the samples of all processes, in order of rank; batch sizes may differ.

    Every process computes the same penalty of the joined batch, and its gradient with respect to
    its own samples.  DistributedDataParallel averages these gradients, which should be summed, so
    they are multiplied by the number of processes here.  Nothing is sent in the backward pass.
    """
    points = torch.cat([features, logits], dim=1)
    codes = torch.stack([labels.to(points.device), domains.to(points.device)], dim=1).long()
    own_size = torch.tensor([len(points)], device=points.device)
    sizes = [int(size) for size in torch.cat(_gather(own_size))]
    all_points = [part[:size] for part, size in zip(_gather(points, sizes), sizes, strict=True)]
    all_codes = [part[:size] for part, size in zip(_gather(codes, sizes), sizes, strict=True)]
    if points.requires_grad:
        count = len(sizes)
        points.register_hook(lambda gradient: count * gradient)  # type: ignore[no-untyped-call]
        all_points[dist.get_rank()] = points
    width = features.shape[1]
    joined, codes = torch.cat(all_points), torch.cat(all_codes)
    return joined[:, :width], joined[:, width:], codes[:, 0], codes[:, 1]


def _gather(x: Tensor, sizes: list[int] | None = None) -> list[Tensor]:
    """Gather x from every process, padded with zeros to the largest size."""
    x = x.detach()
    if sizes is not None:
        x = torch.cat([x, x.new_zeros(max(sizes) - len(x), *x.shape[1:])])
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return parts


def _setting(term: str, name: str) -> Any:
    """Return a property that forwards to an attribute of a term."""
    return property(
        lambda self: getattr(getattr(self, term), name),
        lambda self, value: setattr(getattr(self, term), name, value),
    )


class InterDomainMatching(nn.Module):
    """λ₁ L_G + λ₂ L_R: the penalty that IDM adds to the risk of a batch with domain labels.

        penalty = matching(features, logits, labels, domains)
        loss = cross_entropy(logits, labels) + penalty

    L_G matches the per-sample gradients of the cross-entropy with respect to the head's parameters
    across domains; L_R matches the features.  Names, defaults and the variant (`authors`) are those
    of `IDM`.  Note that L_G begins after 1500 calls by default.  The domains may have different
    numbers of samples; they are matched by quantiles.

    Args:
        gradient_weight: λ₁; with 0, gradients are not computed.
        representation_weight: λ₂; with 0, representations are not matched.
        gradient_warmup: calls before L_G is added; its moving average begins with the first call.
        representation_warmup: the same for L_R.
        gradient_ema: γ₁, decay of L_G's moving average; 0 matches each batch by itself.
        representation_ema: γ₂, the same for L_R.
        match_within: `class` matches features class by class, for domains with different class
            proportions; requires γ₂ = 0.
        order: 2 for the KL form of PDM, 1 for Wasserstein.
        trim: number of extreme gradients to leave out at each end, per dimension.
        head: not needed for a linear head with a bias, whose gradients follow from features and
            logits.  Pass any other head here.  It is not registered or saved with this module, and
            must treat samples independently.
        join_processes: match the joined batch of all `torch.distributed` processes, if in use.
            Every process then computes the same penalty, and the gradients averaged by
            DistributedDataParallel are those of one process with the joined batch.
        check: check for NaN, infinity and invalid labels.  Without it, a batch with NaN or infinity
            has a penalty of NaN and does not enter the moving averages.

    **One step is one call** in training mode.  `steps` counts the calls, and `state_dict` holds the
    count and both moving averages.  After `eval()` a call only measures: it changes nothing and
    does not communicate with other processes.

    **Domains that are absent** from a batch still count through their moving average, with weight
    γᵏ after k calls (`MovingMatch`).  With γ = 0, only the domains of the batch are matched.  If
    there is a single domain and no other is remembered, the penalty is 0.

    **Precision**: float32 or better, also under autocast.  **torch.compile** skips the call (a
    graph break), since group sizes change from call to call.  **GPU synchronisation**: grouping
    needs the domains on the CPU.  If they are there (as a data loader returns them) and
    `check=False`, a call does not wait for the GPU; otherwise it waits once.  **Memory**: a linear
    head's gradients are matched block by block (`matching.linear_head`), so the penalty can be
    differentiated once; for any other head, all gradients are held in memory.

    `measured` holds L_G and L_R of the last call, if they were computed, before weighting.

    >>> matching = InterDomainMatching(gradient_weight=0, representation_weight=3)
    >>> features = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> matching(features, torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), [7, 7, 9, 9])
    tensor(3.)

    Paper: Dong et al. (2024).
    """

    gradient_weight = _setting("gradients", "weight")
    gradient_warmup = _setting("gradients", "start")
    representation_weight = _setting("representations", "weight")
    representation_warmup = _setting("representations", "start")

    def __init__(
        self,
        gradient_weight: float = 1e3,
        representation_weight: float = 1.0,
        *,
        gradient_warmup: int = 1500,
        representation_warmup: int = 0,
        gradient_ema: float = 0.95,
        representation_ema: float = 0.0,
        match_within: Literal["all", "class"] = "all",
        order: Order = 2,
        trim: int = 0,
        head: nn.Module | None = None,
        join_processes: bool = True,
        check: bool = True,
    ) -> None:
        super().__init__()
        check_settings(
            {"gradient_weight": gradient_weight, "representation_weight": representation_weight},
            {
                "gradient_warmup": gradient_warmup,
                "representation_warmup": representation_warmup,
                "trim": trim,
            },
            {"gradient_ema": gradient_ema, "representation_ema": representation_ema},
        )
        if match_within not in ("all", "class"):
            raise InvalidValue(f"`match_within` must be 'all' or 'class', not {match_within!r}")
        self.gradients = MatchingTerm(
            "gradients", gradient_weight, gradient_warmup, gradient_ema, order=order, trim=trim
        )
        self.representations = MatchingTerm(
            "representations", representation_weight, representation_warmup, representation_ema,
            order=order, by_class=match_within == "class",
        )  # fmt: skip
        self.join_processes = join_processes
        self.check = check
        self.steps = 0
        self.measured: dict[str, Tensor] = {}
        self._first: list[int] = []  # the domains of the first batch
        self._head = (head,)  # a tuple, so it is not registered: the model has its parameters

    # Like `torch.compiler.disable`, but imports the compiler in the first call, not here.
    @_disable_dynamo
    def forward(
        self, features: Tensor, logits: Tensor, labels: Tensor, domains: Tensor | Sequence[int]
    ) -> Tensor:
        """Return the penalty of one batch, a scalar ≥ 0.

        features [n, k] are the input of the head and logits [n, c] (or [n, 1] for two classes) its
        output; labels [n] are class indices and domains [n] any integers.
        """
        ids = as_ids(domains, labels.device)
        check_shapes(features, logits, labels, ids)
        with torch.autocast(features.device.type, enabled=False):
            batch = (widened(features), widened(logits), labels, ids)
            joins = self.training and self.join_processes and dist.is_available()
            if joins and dist.is_initialized() and dist.get_world_size() > 1:
                batch = join(*batch)
            if len(batch[0]) == 0:
                raise InvalidValue("an empty batch has nothing to match: leave it out")
            if self.check:
                check_values(*batch[:3])
            penalty = self._penalty(*batch)
        if self.training:
            self.steps += 1
        return penalty

    def _tell_of_one(self, ids: list[int]) -> None:
        """Warn if the first two batches contain only one and the same domain.

        Batches of one domain each are fine as long as the domains change.
        """
        if self.steps == 0:
            self._first = ids
        elif len(ids) == 1 and ids == self._first:
            warnings.warn(
                f"all samples so far are of one domain, {ids[0]}: there is nothing to match with",
                stacklevel=5,
            )

    def _penalty(self, features: Tensor, logits: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
        unique, member, counts = torch.unique(
            domains.cpu(), return_inverse=True, return_counts=True
        )
        ids, sizes = unique.tolist(), counts.tolist()
        rows = member.argsort(stable=True).to(features.device, non_blocking=True)
        if self.training and self.steps < 2:
            self._tell_of_one(ids)
        features, logits, labels = features[rows], logits[rows], labels[rows].long()
        inputs = MatchInputs(
            torch.split(features, sizes),
            torch.split(labels, sizes),
            max(logits.shape[1], 2),
            partial(self._gradients, features, logits, labels, sizes),
            domains=ids,
        )
        zero = features[:0].sum() + logits[:0].sum()  # with a gradient of 0
        terms = {"gradient": self.gradients, "representation": self.representations}
        weighed = {name: term for name, term in terms.items() if term.weight != 0}
        total, penalties = with_penalties(zero, weighed, inputs, self.steps)
        self.measured = {name: penalty.detach() for name, penalty in penalties.items()}
        return total

    def _gradients(
        self, features: Tensor, logits: Tensor, labels: Tensor, sizes: list[int]
    ) -> Points:
        """Return the per-sample gradients of the head's parameters, domain by domain."""
        (head,) = self._head
        if head is None or is_linear(head):
            has_bias = head is None or head.bias is not None
            return LinearGradients.of(
                features, logit_residual(logits, labels), sizes, bias=has_bias
            )
        gradients = functional_head_gradients(head, features[None], labels[None])
        return torch.split(gradients.squeeze(0), sizes)

    def extra_repr(self) -> str:
        """Return the weights and warm-ups of both terms."""
        return (
            f"gradient_weight={self.gradient_weight:g}, gradient_warmup={self.gradient_warmup},"
            f" representation_weight={self.representation_weight:g},"
            f" representation_warmup={self.representation_warmup}"
        )

    def get_extra_state(self) -> dict[str, int]:
        """Return the step count, for `state_dict`."""
        return {"steps": self.steps}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Set the step count."""
        self.steps = state["steps"]
