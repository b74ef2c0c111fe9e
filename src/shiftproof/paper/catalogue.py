"""All studies of the paper that are made from runs."""

from __future__ import annotations

from shiftproof.paper.ablations import Components, Gradients, Matching, Representations
from shiftproof.paper.colored_mnist import Figure1, Table1
from shiftproof.paper.studies import Study
from shiftproof.paper.table2 import Table2

# In the order of the paper.  The running times are not made from runs: see `paper.running_time`.
STUDIES: dict[str, type[Study]] = {
    study.name: study
    for study in (Table1, Figure1, Table2, Components, Gradients, Representations, Matching)
}
