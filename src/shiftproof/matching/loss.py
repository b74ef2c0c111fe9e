"""IDM's two penalties (Algorithm 2 of the paper) as one module for a loop of your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.upcast import widened
from shiftproof.matching.checks import as_ids, check_settings, check_shapes, check_values
from shiftproof.matching.fading import FadingMatch
from shiftproof.matching.gradients import head_gradients, linear_head_gradients
from shiftproof.matching.pdm import Order, pdm
from shiftproof.matching.processes import join, process_count
from shiftproof.models.risk import logit_residual


class InterDomainMatching(nn.Module):
    """λ₁ L_G + λ₂ L_R: what IDM adds to the risk, from a batch in which every sample has a domain.

        penalty = matching(features, logits, labels, domains)
        loss = cross_entropy(logits, labels) + penalty

    L_G matches the per-sample gradients of the cross-entropy by the head's parameters across
    domains, and L_R the features themselves (`IDM`; this is its
    default variant, the authors').  Names and defaults are those of IDM's hyper-parameters; note
    that L_G then begins after 1500 calls.  Groups may be of unequal sizes, which are matched by
    quantiles.

    Args:
        gradient_weight: λ₁; 0 leaves gradients out, and what they cost.
        representation_weight: λ₂; 0 leaves representations out.
        gradient_warmup: calls before L_G is added; its memory begins with the first.
        representation_warmup: the same of L_R.
        gradient_ema: γ₁, memory of L_G; 0 matches each batch on its own.
        representation_ema: γ₂, of L_R.
        match_within: ``class`` matches the features of each class with themselves, for domains
            that hold the classes in different shares; needs γ₂ = 0.
        order: 2 for the KL form of PDM, 1 for Wasserstein.
        trim: extreme gradients left out at each end, per dimension.
        head: leave it out for a linear head with a bias, whose gradients come in closed form from
            features and logits.  Any other head is given here, and is neither registered nor saved
            with the matching; it must treat samples independently.
        join_processes: match the joined batch of all processes of ``torch.distributed``, if in use.
            The penalty is then the same in each, and the gradients that DistributedDataParallel
            averages are those of one process with the joined batch.
        check: look for NaN, infinity and impossible labels.  Without it such a batch has a penalty
            of NaN and is not remembered.

    **One step is one call** in training mode: ``steps`` counts them, and both memories and the
    count are in ``state_dict``.  After ``eval()`` a call only measures: it changes nothing and
    speaks to no other process.

    **Domains that are absent** from a batch: what a call has seen weighs γᵏ after k calls, so a
    domain's memory still counts while it is absent, and fades
    (`FadingMatch`).  Without memory (γ = 0) only the domains of
    the batch are matched.  A single domain, with none remembered, has penalty 0.

    **Precision**: computed in float32 or better, under autocast too.  **torch.compile** leaves the
    call out (a graph break), since the sizes of the groups differ from call to call.  **Waiting**:
    grouping needs the domains on the host.  If they are still there (as a data loader gives them)
    and ``check=False``, no GPU is waited for; otherwise once a call.  ``class`` waits more often.

    ``measured`` holds L_G and L_R of the last call, as far as computed, without weights.

    >>> matching = InterDomainMatching(gradient_weight=0, representation_weight=3)
    >>> features = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> matching(features, torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), [7, 7, 9, 9])
    tensor(3.)

    Paper: Dong et al. (2024).
    """

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
        if order not in (1, 2):
            raise InvalidValue(f"order must be 1 or 2, not {order!r}")
        if match_within not in ("all", "class"):
            raise InvalidValue(f"match_within must be 'all' or 'class', not {match_within!r}")
        if match_within == "class" and representation_ema > 0:
            raise InvalidValue(
                "match_within='class' has no moving average, since every batch holds other shares"
                " of the classes: set representation_ema=0"
            )
        self.gradient_weight = gradient_weight
        self.representation_weight = representation_weight
        self.gradient_warmup = gradient_warmup
        self.representation_warmup = representation_warmup
        self.match_within = match_within
        self.join_processes = join_processes
        self.check = check
        self.gradients = FadingMatch(gradient_ema, order, trim)
        self.representations = FadingMatch(representation_ema, order)
        self.steps = 0
        self.measured: dict[str, Tensor] = {}
        self._head = (head,)  # in a tuple it is not registered: its parameters are the model's

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        features: Tensor,
        logits: Tensor,
        labels: Tensor,
        domains: Tensor | Sequence[int],
    ) -> Tensor:
        """Return the penalty of one batch, a scalar ≥ 0.

        features [n, k] are what the head is given and logits [n, c] (or [n, 1] for two classes)
        what it returns; labels [n] are class numbers and domains [n] any integers.
        """
        ids = as_ids(domains, labels.device)
        check_shapes(features, logits, labels, ids)
        with torch.autocast(features.device.type, enabled=False):
            batch = (widened(features), widened(logits), labels, ids)
            if self.training and self.join_processes and process_count() > 1:
                batch = join(*batch)
            if len(batch[0]) == 0:
                raise InvalidValue("an empty batch has nothing to match: leave it out")
            if self.check:
                check_values(*batch[:3])
            penalty = self._penalty(*batch)
        if self.training:
            self.steps += 1
        return penalty

    def _penalty(self, features: Tensor, logits: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
        groups = _Groups(domains, features.device)
        total = features[:0].sum() + logits[:0].sum()  # 0, with a gradient of 0
        self.measured = {}
        if self._is_needed(self.gradient_weight, self.gradient_warmup, self.gradients):
            gradients = self._head_gradients(features, logits, labels)
            penalty = self.gradients(groups.of(gradients), groups.domains)
            self.measured["gradient_penalty"] = penalty.detach()
            if self.steps >= self.gradient_warmup:
                total = total + self.gradient_weight * penalty
        if self._is_needed(
            self.representation_weight, self.representation_warmup, self.representations
        ):
            points = groups.of(features)
            if self.match_within == "class":
                penalty = _matched_by_class(points, groups.of(labels), self.representations.order)
            else:
                penalty = self.representations(points, groups.domains)
            self.measured["representation_penalty"] = penalty.detach()
            if self.steps >= self.representation_warmup:
                total = total + self.representation_weight * penalty
        return total

    def _is_needed(self, weight: float, warmup: int, match: FadingMatch) -> bool:
        """Whether this call's points enter the loss or a memory."""
        return weight > 0 and (match.gamma > 0 or self.steps >= warmup)

    def _head_gradients(self, features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        """Return every sample's gradient by the head's P parameters, [n, P]."""
        (head,) = self._head
        if head is None:
            return linear_head_gradients(features, logit_residual(logits, labels.long()))
        as_one_domain = (features[None], labels[None].long(), logits[None])
        return head_gradients(head, *as_one_domain).squeeze(0)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the count of steps, for ``state_dict``."""
        return {"steps": self.steps}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take up the count of steps."""
        self.steps = state["steps"]


class _Groups:
    """Who belongs to which domain: the domains of a batch, and its rows in their order."""

    def __init__(self, domains: Tensor, device: torch.device) -> None:
        unique, member, sizes = torch.unique(domains.cpu(), return_inverse=True, return_counts=True)
        self.domains: list[int] = unique.tolist()
        self.sizes: list[int] = sizes.tolist()
        self.rows = member.argsort(stable=True).to(device, non_blocking=True)

    def of(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return x [n, …] as one tensor for each domain."""
        return torch.split(x[self.rows], self.sizes)


def _matched_by_class(points: Sequence[Tensor], labels: Sequence[Tensor], order: Order) -> Tensor:
    """Return the mean of PDM over the classes that every domain holds; 0 if there is none."""
    shared = set.intersection(*(set(group.tolist()) for group in labels))
    if not shared:
        return points[0][:0].sum()
    of_classes = [
        pdm([x[y == label] for x, y in zip(points, labels, strict=True)], order)
        for label in sorted(shared)
    ]
    return torch.stack(of_classes).mean()
