"""Temperature scaling of a trained network.

A network predicts softmax(logits / T).  Networks are overconfident on samples not seen in training;
T minimises the log loss on the held-out parts of the training domains, each domain with the same
weight (Guo et al., 2017, *On calibration of modern neural networks*).  These are samples of known
domains: at a new domain, probabilities are still overconfident if the domains differ.  Learners
that are fitted at once (`learners.exact`) are calibrated on whole domains held out.

Each held-out part gets one additional pseudo-row, whose labels follow the network's own
probabilities, so that T = 1 is optimal for it.  It has little weight among many rows, but without
it a few rows that are all correct would make the network certain (T → 0).

T is not part of training: records and checkpoints do not depend on it.  A run stores uncalibrated
outputs on test domains; `calibrated_outputs` returns the outputs of its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shiftproof.inference.model_file import MODEL, stored_header
from shiftproof.learners.criterion import fit_temperature, tempered
from shiftproof.metrics.outputs import AnyOutputs, of_classes
from shiftproof.training.outputs import load_outputs
from shiftproof.training.run_folder import HELD_OUT, RunFolder


def held_out_temperature(held_out: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> float:
    """Return T from probabilities [n, c] and labels [n] of the held-out part of each domain.

    Without held-out rows, T is 1.
    """
    known = [part for part in held_out.values() if len(part[1])]
    if not known:
        return 1.0
    predicted, classes, weights = [], [], []
    for probabilities, labels in known:
        n, c = probabilities.shape
        # The rows, and a copy of each row for every class; the copies weigh as much as one row.
        predicted += [probabilities, np.repeat(probabilities, c, axis=0)]
        classes += [labels, np.tile(np.arange(c), n)]
        share = 1 / len(known) / (n + 1)
        weights += [np.full(n, share), probabilities.ravel() * share / n]
    return fit_temperature(*map(np.concatenate, (predicted, classes, weights)))


def calibrated_outputs(folder: Path) -> dict[str, AnyOutputs]:
    """Return the model's outputs on the test domains of a run; empty if the run stored none."""
    RunFolder(folder).check(HELD_OUT)
    outputs = load_outputs(folder / HELD_OUT)
    if not outputs or not (folder / MODEL).is_file():
        return outputs
    temperature = float(stored_header(folder).get("temperature", 1.0))
    if temperature == 1:
        return outputs
    return {
        domain: part._replace(probabilities=tempered(part.probabilities, temperature))
        for domain, part in of_classes(outputs, "a temperature").items()
    }
