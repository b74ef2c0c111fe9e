"""The accuracy of a model trained on all domains on these domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.inference.model_file import MODEL, stored_header
from shiftproof.reporting.page.charts import HELD_OUT_WITHIN, SET_ASIDE
from shiftproof.sweeps.results import Run
from shiftproof.training.records import Records


def training_results(runs: Sequence[Run]) -> tuple[Mapping[str, float], str] | None:
    """Return the accuracy on each training domain and its source; None if a domain was held out.

    Algorithms that are fitted at once held out each domain to choose their settings; other runs
    held out some rows of each domain.
    """
    if len(runs) != 1 or runs[0].test_domains or runs[0].folder is None:
        return None
    folder = runs[0].folder
    if runs[0].status != "finished" or not (folder / MODEL).is_file():
        return None
    if accuracies := stored_header(folder).get("held_out_accuracy"):
        return accuracies, HELD_OUT_WITHIN
    records = Records(folder / "records.jsonl").read()
    accuracy = records[-1].get("accuracy", {}) if records else {}
    aside = {
        name.removesuffix("/out"): value
        for name, value in accuracy.items()
        if name.endswith("/out")
    }
    return (aside, SET_ASIDE) if aside else None
