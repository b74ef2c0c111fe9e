"""IDM's two penalties (Algorithm 2 of the paper) as one module for any training loop."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import widened
from shiftproof.matching.by_class import ClassMatch
from shiftproof.matching.checks import as_ids, check_settings, check_shapes, check_values
from shiftproof.matching.gradients import LinearGradients, functional_head_gradients, is_linear
from shiftproof.matching.pdm import Points, pdm
from shiftproof.matching.processes import join, process_count
from shiftproof.matching.spread import Order
from shiftproof.matching.term import MatchingTerm, MatchInputs, gradients, representations
from shiftproof.matching.unit_weight import unit_weight
from shiftproof.models.risk import logit_residual, per_sample_risk

# A weight that the first matched batch determines.
AUTO: Literal["auto"] = "auto"


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
        gradient_weight: λ₁; with 0, gradients are not computed.  `"auto"` chooses λ₁ so that the
            penalty is as large as the cross-entropy in the first call that adds it, and then keeps
            it (`matching.unit_weight`).  It does not decide whether matching helps: `idm-auto`
            does so on held-out samples.
        representation_weight: λ₂; with 0, representations are not matched; or `"auto"`.
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
        gradient_weight: float | Literal["auto"] = 1e3,
        representation_weight: float | Literal["auto"] = 1.0,
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
        weights = {"gradient": gradient_weight, "representation": representation_weight}
        check_settings(
            {f"{name}_weight": value for name, value in weights.items() if value != AUTO},
            {
                "gradient_warmup": gradient_warmup,
                "representation_warmup": representation_warmup,
                "trim": trim,
            },
            {"gradient_ema": gradient_ema, "representation_ema": representation_ema},
        )
        if order not in (1, 2):
            raise InvalidValue(f"`order` must be 1 or 2, not {order!r}")
        if match_within not in ("all", "class"):
            raise InvalidValue(f"`match_within` must be 'all' or 'class', not {match_within!r}")
        if match_within == "class" and representation_ema > 0:
            raise InvalidValue(
                '`match_within="class"` has no moving average, since every batch holds other shares'
                " of the classes: set `representation_ema=0`"
            )
        self.gradients = MatchingTerm(
            gradients, gradient_weight, gradient_warmup, gradient_ema, order=order, trim=trim
        )
        self.representations = MatchingTerm(
            representations, representation_weight, representation_warmup, representation_ema,
            order=order,
        )  # fmt: skip
        if match_within == "class":
            self.representations.match_within_classes(ClassMatch(order))
        self._gammas = {"gradient": gradient_ema, "representation": representation_ema}
        self._order: Order = order
        self._units: dict[str, float] = {}  # the automatic weights fixed so far
        self.join_processes = join_processes
        self.check = check
        self.steps = 0
        self.measured: dict[str, Tensor] = {}
        self._first: list[int] = []  # the domains of the first batch
        self._head = (head,)  # a tuple, so it is not registered: the model has its parameters

    # Like `torch.compiler.disable`, but imports the compiler in the first call, not here.
    @_disable_dynamo
    def forward(
        self,
        features: Tensor,
        logits: Tensor,
        labels: Tensor,
        domains: Tensor | Sequence[int],
    ) -> Tensor:
        """Return the penalty of one batch, a scalar ≥ 0.

        features [n, k] are the input of the head and logits [n, c] (or [n, 1] for two classes) its
        output; labels [n] are class indices and domains [n] any integers.
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
        rows, ids, sizes = _grouped(domains, features.device)
        if self.training and self.steps < 2:
            self._tell_of_one(list(ids))
        features, logits, labels = features[rows], logits[rows], labels[rows].long()
        inputs = MatchInputs(
            torch.split(features, sizes),
            torch.split(labels, sizes),
            max(logits.shape[1], 2),
            partial(self._gradients, features, logits, labels, sizes),
            domains=ids,
        )
        total = features[:0].sum() + logits[:0].sum()  # 0, with a gradient of 0
        self.measured = {}
        for name, term in (
            ("gradient", self.gradients),
            ("representation", self.representations),
        ):
            if term.weight != 0 and term.tracks(self.steps):
                penalty = term(inputs, self.steps)
                self.measured[f"{name}_penalty"] = penalty.detach()
                if term.acts(self.steps):
                    weight = term.weight
                    if weight == AUTO:
                        weight = self._automatic(name, term, inputs, logits, labels)
                    total = total + weight * penalty
        return total

    @torch.no_grad()
    def _automatic(
        self, name: str, term: MatchingTerm, inputs: MatchInputs, logits: Tensor, labels: Tensor
    ) -> float:
        """Return an automatic weight; the first batch with several domains fixes it."""
        if name in self._units:
            return self._units[name]
        own = pdm(term.points(inputs)[0], self._order).item()
        risk = per_sample_risk(logits, labels).mean().item()
        found = unit_weight(risk, own, self._gammas[name], self._order)
        if self.training and found > 0:
            self._units[name] = found
        return found

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
        found = functional_head_gradients(head, features[None], labels[None])
        return torch.split(found.squeeze(0), sizes)

    def extra_repr(self) -> str:
        """Return the weights and warm-ups of both terms."""
        shown = {}
        for name, term in (("gradient", self.gradients), ("representation", self.representations)):
            found = f" ({self._units[name]:g})" if name in self._units else ""
            shown[name] = f"{AUTO}{found}" if term.weight == AUTO else f"{term.weight:g}"
        return (
            f"gradient_weight={shown['gradient']}, gradient_warmup={self.gradient_warmup},"
            f" representation_weight={shown['representation']},"
            f" representation_warmup={self.representation_warmup}"
        )

    def get_extra_state(self) -> dict[str, Any]:
        """Return the step count and the automatic weights, for `state_dict`."""
        return {"steps": self.steps, **({"units": dict(self._units)} if self._units else {})}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Set the step count and the automatic weights."""
        self.steps = state["steps"]
        self._units = dict(state.get("units", {}))


def _grouped(domains: Tensor, device: torch.device) -> tuple[Tensor, list[int], list[int]]:
    """Return the row indices grouped by domain, the domain ids, and the group sizes."""
    ids, member, sizes = torch.unique(domains.cpu(), return_inverse=True, return_counts=True)
    rows = member.argsort(stable=True).to(device, non_blocking=True)
    return rows, ids.tolist(), sizes.tolist()
