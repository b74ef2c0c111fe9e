"""The ablations of IDM: the effect of each part, and of PDM compared with matching moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shiftproof.paper.domainbed import Part, ProtocolStudy
from shiftproof.paper.published import PaperRow, paper_table
from shiftproof.sweeps.jobs import Variant

# Rows by the marks that the paper gives them.
Marked = dict[tuple[str, ...], Variant]

WITHOUT_GRADIENTS = Variant("idm without gradients", "idm", {"match_gradients": False})
WITHOUT_REPRESENTATIONS = Variant(
    "idm without representations", "idm", {"match_representations": False}
)
WITHOUT_WARMUP = Variant("idm without warm-up", "idm", {"gradient_warmup": 0})
WITHOUT_AVERAGE = Variant("idm without moving average", "idm", {"gradient_ema": 0.0})

# Keys: gradient alignment, representation alignment, warm-up, moving average.  Warm-up and moving
# average apply to gradients only: without gradient alignment there is neither.
COMPONENTS: Marked = {
    ("no", "yes", "no", "no"): WITHOUT_GRADIENTS,
    ("yes", "no", "yes", "yes"): WITHOUT_REPRESENTATIONS,
    ("yes", "yes", "no", "yes"): WITHOUT_WARMUP,
    ("yes", "yes", "yes", "no"): WITHOUT_AVERAGE,
}


class Ablation(ProtocolStudy):
    """Tables of variants of IDM, which rows have by the marks that the paper gives them.

    ``tables`` are the paper's, with their datasets; another row is the algorithm itself.
    """

    folder = "ablations"
    tables: ClassVar[Mapping[str, str]]
    variants: ClassVar[Marked] = {}

    def parts(self) -> list[Part]:
        """Return the tables."""
        return [
            Part(table, dataset, tuple(map(self._variant, table.rows)))
            for table, dataset in ((paper_table(t), dataset) for t, dataset in self.tables.items())
        ]

    def _variant(self, row: PaperRow) -> Variant:
        plain = Variant.plain(row.ours)
        return plain if row.ours == "erm" else self.variants.get(row.marks, plain)


class Components(Ablation):
    """IDM without each of its parts."""

    name = "ablation-components"
    tables: ClassVar = {f"ablation-components-{d}": d for d in ("colored-mnist", "office-home")}
    variants: ClassVar = COMPONENTS


class Gradients(Ablation):
    """IDM with and without gradient alignment."""

    name = "ablation-gradient"
    tables: ClassVar = {f"ablation-gradient-{dataset}": dataset for dataset in ("vlcs", "pacs")}
    variants: ClassVar = {("no",): WITHOUT_GRADIENTS}


class Representations(Ablation):
    """IDM with and without representation alignment."""

    name = "ablation-representation"
    tables: ClassVar = {"ablation-representation": "rotated-mnist"}
    variants: ClassVar = {("no",): WITHOUT_REPRESENTATIONS}


class Matching(Ablation):
    """Matching means (IGA), variances (Fishr), both, or whole distributions (IDM).

    According to the text, IDM is used here without representation alignment; the printed numbers
    are those of full IDM, and so are ours.
    """

    name = "ablation-pdm"
    tables: ClassVar = {"ablation-pdm": "colored-mnist"}
