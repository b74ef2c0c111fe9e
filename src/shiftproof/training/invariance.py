"""Whether a model's outputs mean the same in every training domain.

The outputs R are a representation as well: the network is their encoder and softmax their
predictor, and no smaller one has the prediction as a function of it.  So the concept shift
I(Y;D|R) and the covariate shift I(R;D) are measured on them: they are few, and made for a linear
rule.

Logits count up to a common constant: c classes have c − 1 contrasts.  Where classes are many, each
has too few samples for a rule of its own, and the question is the coarser one: does the same
confidence mean the same chance of being right?  The largest log-probabilities, in order, stand for
the outputs there, and "the first is right" for the label.

A test finds what its samples can show.  Held-out parts of a few samples hardly ever show a shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.linalg import helmert  # type: ignore[import-untyped]
from torch import Tensor

FOLDS = 3
RESAMPLES = 199
# Of all domains together: enough to find a concept shift of 0.001 nats, in a second.
MOST_SAMPLES = 10_000
# As many as a label or a column each, at most.
MOST_CLASSES = 12


def shift_of_outputs(outputs: Mapping[str, tuple[Tensor, Tensor]], seed: int) -> dict[str, Any]:
    """Return how the outputs shift between training domains, as JSON values.

    Args:
        outputs: logits [n, classes] and labels [n] of each training domain's held-out part.
        seed: which samples are taken, if there are many, and how they are resampled.

    ``label_entropy`` says, by domain, how far the risk falls by knowing the label shares alone:
    a model that does no better has learnt nothing.  ``concept`` and ``covariate`` each hold value,
    low and high (95%) and p_value; where they cannot be measured, ``untested`` says why.
    """
    shift: dict[str, Any] = {
        "classes": max((logits.shape[1] for logits, _ in outputs.values()), default=0),
        "label_entropy": {name: label_entropy(labels) for name, (_, labels) in outputs.items()},
    }
    if why := _untestable(outputs):
        return shift | {"untested": why}
    # scikit-learn takes a while to import: not before it is needed.
    from shiftproof.information.classifiers import CrossFitted

    taken = _share(list(outputs.values()), seed)
    rows = [read(logits, labels) for logits, labels in taken]
    x, y = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    d = np.repeat(np.arange(len(taken)), [len(labels) for _, labels in taken])
    estimator = CrossFitted(seed=seed, permutations=RESAMPLES, folds=FOLDS, linear=True)
    found = estimator.measure(x, y, d)
    for name in ("concept", "covariate"):
        estimate = getattr(found, name)
        low, high = estimate.interval
        shift[name] = {
            "value": estimate.value,
            "low": low,
            "high": high,
            "p_value": estimate.p_value,
        }
    return shift


def read(logits: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return features [n, at most 12] of logits [n, classes], and labels [n].

    Contrasts of the logits and the labels themselves, or of many classes the largest
    log-probabilities and whether the first is right.
    """
    # With numbers of double precision: what is tested may not hang on rounding.
    logits = logits.cpu().double()
    labels = labels.cpu()
    classes = logits.shape[1]
    if classes <= MOST_CLASSES:
        return logits.numpy() @ helmert(classes).T, labels.numpy()
    largest = logits.log_softmax(1).topk(MOST_CLASSES, dim=1)
    right = (largest.indices[:, 0] == labels).long()
    return largest.values.numpy(), right.numpy()


def label_entropy(labels: Tensor) -> float:
    """Return the entropy in nats of the shares of labels [n].

    >>> round(label_entropy(torch.tensor([0, 1, 0, 1])), 6)
    0.693147
    """
    counts = labels.cpu().bincount()
    shares = counts[counts > 0].double() / len(labels)
    return float(-(shares * shares.log()).sum())


def _untestable(outputs: Mapping[str, tuple[Tensor, Tensor]]) -> str:
    """Say why nothing can be measured; nothing if it can."""
    if len(outputs) < 2:
        return "a single training domain"
    for name, (logits, labels) in outputs.items():
        if len(labels) < FOLDS:
            return f"{name} has fewer than {FOLDS} samples"
        if not logits.isfinite().all():
            return f"outputs on {name} are not finite"
    if len({label for _, labels in outputs.values() for label in labels.tolist()}) < 2:
        return "a single class"
    return ""


def _share(outputs: list[tuple[Tensor, Tensor]], seed: int) -> list[tuple[Tensor, Tensor]]:
    """Return the same share of each domain's samples, all of them if they are few."""
    total = sum(len(labels) for _, labels in outputs)
    if total <= MOST_SAMPLES:
        return outputs
    taken = []
    for position, (logits, labels) in enumerate(outputs):
        count = max(FOLDS, len(labels) * MOST_SAMPLES // total)
        rng = np.random.default_rng([seed, position])
        chosen = torch.from_numpy(np.sort(rng.permutation(len(labels))[:count]))
        taken.append((logits.cpu()[chosen], labels.cpu()[chosen]))
    return taken
