"""The temperature of a trained network: how sure its probabilities are, after training.

A network predicts softmax(logits / T).  Networks are too sure on samples that they were not trained
on; T is the one number with the least log loss on the held-out parts of the training domains, each
domain with the same weight (Guo et al., 2017, *On calibration of modern neural networks*).  These
are samples of known domains: at a new one, probabilities are still too sure if the domains differ.
Learners that are fitted at once (`learners.exact`) are calibrated on whole domains held out.

Each held-out part has one more row whose classes are as probable as the mean row of the network
says.  T = 1 is best for it.  It counts little beside many rows, but without it a few rows that are
all right would make the network certain (T → 0).

T is no part of training: records and checkpoints do not depend on it.  The answers on test domains
that a run stores are the network's own; `calibrated_outputs` returns those of its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shiftproof.inference.model_file import MODEL, stored_header
from shiftproof.learners.calibration import fit_temperature, tempered
from shiftproof.training.outputs import AnyOutputs, load_outputs, of_classes


def held_out_temperature(held_out: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> float:
    """Return T from probabilities [n, c] and labels [n] of the held-out part of each domain.

    Without any held-out rows it is 1.
    """
    known = [own for own in held_out.values() if len(own[1])]
    if not known:
        return 1.0
    predicted, classes, weights = [], [], []
    for probabilities, labels in known:
        n, c = probabilities.shape
        # The rows, and each of them once more with every class: together, one more row.
        predicted += [probabilities, np.repeat(probabilities, c, axis=0)]
        classes += [labels, np.tile(np.arange(c), n)]
        share = 1 / len(known) / (n + 1)
        weights += [np.full(n, share), probabilities.ravel() * share / n]
    return fit_temperature(*map(np.concatenate, (predicted, classes, weights)))


def calibrated_outputs(folder: Path) -> dict[str, AnyOutputs]:
    """Return what the model of a run answers on its test domains; none if the run kept none."""
    outputs = load_outputs(folder)
    if not outputs or not (folder / MODEL).is_file():
        return outputs
    temperature = float(stored_header(folder).get("temperature", 1.0))
    if temperature == 1:
        return outputs
    return {
        domain: own._replace(probabilities=tempered(own.probabilities, temperature))
        for domain, own in of_classes(outputs, "a temperature").items()
    }
