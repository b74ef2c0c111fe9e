"""Test whether a model's outputs mean the same in every training domain.

The outputs R are a representation too: the network is the encoder and softmax the predictor.  So
the concept shift I(Y;D|R) and the covariate shift I(R;D) are estimated for them.  Outputs have few
dimensions, so linear classifiers suffice.

Logits are defined up to a common constant: c classes have c − 1 contrasts.  With many classes, each
has too few samples for its own classifier, and the question becomes coarser: does the same
confidence mean the same chance of a correct prediction?  Then the largest log-probabilities, in
order, replace the outputs, and "the first is correct" replaces the label.

The power of the test depends on the number of samples: small held-out parts rarely show a shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.linalg import helmert
from torch import Tensor

FOLDS = 3
RESAMPLES = 199
# Over all domains: enough to detect a concept shift of 0.001 nats, in a second.
MOST_SAMPLES = 10_000
# The largest number of classes or features.
MOST_CLASSES = 12


def shift_of_outputs(given: Mapping[str, tuple[Any, Any]], seed: int) -> dict[str, Any]:
    """Return the shift of the outputs between training domains, as JSON values.

    Args:
        given: logits [n, classes] and labels [n] of each training domain's held-out part, as
            tensors or arrays.
        seed: determines which samples are used, if there are many, and how they are resampled.

    `label_entropy` is, for each domain, the risk of a model that predicts the label frequencies: a
    model that does no better has learnt nothing.  `concept` and `covariate` each hold value, low
    and high (95%) and p_value; if they cannot be measured, `untested` says why.
    """
    outputs = {name: (torch.as_tensor(x), torch.as_tensor(y)) for name, (x, y) in given.items()}
    shift: dict[str, Any] = {
        "classes": max((logits.shape[1] for logits, _ in outputs.values()), default=0),
        "label_entropy": {name: label_entropy(labels) for name, (_, labels) in outputs.items()},
    }
    if why := _untestable(outputs):
        return shift | {"untested": why}
    # scikit-learn is slow to import.
    from shiftproof.information.classifiers import CrossFitted

    taken = _share(list(outputs.values()), seed)
    rows = [read(logits, labels) for logits, labels in taken]
    x, y = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    d = np.repeat(np.arange(len(taken)), [len(labels) for _, labels in taken])
    estimator = CrossFitted(seed=seed, permutations=RESAMPLES, folds=FOLDS, linear=True)
    measured = estimator.measure(x, y, d)
    for name in ("concept", "covariate"):
        amount = getattr(measured, name)
        low, high = amount.interval
        values = {"value": amount.value, "low": low, "high": high, "p_value": amount.p_value}
        shift[name] = values
    return shift


def read(logits: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return features [n, at most 12] of logits [n, classes], and labels [n].

    These are contrasts of the logits and the labels themselves; with many classes, the largest
    log-probabilities and whether the first is correct.
    """
    # In double precision, so that rounding does not affect the test.
    logits = logits.cpu().double()
    labels = labels.cpu()
    classes = logits.shape[1]
    if classes <= MOST_CLASSES:
        return logits.numpy() @ helmert(classes).T, labels.numpy()
    largest = logits.log_softmax(1).topk(MOST_CLASSES, dim=1)
    right = (largest.indices[:, 0] == labels).long()
    return largest.values.numpy(), right.numpy()


def label_entropy(labels: Tensor) -> float:
    """Return the entropy in nats of the label frequencies; labels [n].

    >>> round(label_entropy(torch.tensor([0, 1, 0, 1])), 6)
    0.693147
    """
    counts = labels.cpu().bincount()
    shares = counts[counts > 0].double() / len(labels)
    return float(-(shares * shares.log()).sum())


def _untestable(outputs: Mapping[str, tuple[Tensor, Tensor]]) -> str:
    """Return why nothing can be measured, or an empty string."""
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
    """Return the same share of each domain's samples; all samples if there are few."""
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
