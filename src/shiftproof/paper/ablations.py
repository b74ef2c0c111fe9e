"""The ablations of IDM: the effect of each part, and of PDM compared with matching moments."""

from __future__ import annotations

from shiftproof.paper.domainbed import Part, ProtocolStudy
from shiftproof.paper.published import paper_table
from shiftproof.sweeps.jobs import Variant

# Rows by the marks that the paper gives them.
Marked = dict[tuple[str, ...], Variant]

ERM = Variant.plain("erm")
IDM = Variant.plain("idm")
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
    ("yes", "yes", "yes", "yes"): IDM,
}


class Components(ProtocolStudy):
    """IDM without each of its parts."""

    name = "ablation-components"
    folder = "ablations"

    def parts(self) -> list[Part]:
        """Return the tables of Colored MNIST and OfficeHome."""
        return [
            _part(f"ablation-components-{dataset}", dataset, COMPONENTS)
            for dataset in ("colored-mnist", "office-home")
        ]


class Gradients(ProtocolStudy):
    """IDM with and without gradient alignment."""

    name = "ablation-gradient"
    folder = "ablations"

    def parts(self) -> list[Part]:
        """Return the tables of VLCS and PACS."""
        rows: Marked = {("no",): WITHOUT_GRADIENTS, ("yes",): IDM}
        return [
            _part(f"ablation-gradient-{dataset}", dataset, rows) for dataset in ("vlcs", "pacs")
        ]


class Representations(ProtocolStudy):
    """IDM with and without representation alignment."""

    name = "ablation-representation"
    folder = "ablations"

    def parts(self) -> list[Part]:
        """Return the table of Rotated MNIST."""
        rows: Marked = {("no",): WITHOUT_REPRESENTATIONS, ("yes",): IDM}
        return [_part("ablation-representation", "rotated-mnist", rows)]


class Matching(ProtocolStudy):
    """Matching means (IGA), variances (Fishr), both, or whole distributions (IDM).

    According to the text, IDM is used here without representation alignment; the printed numbers
    are those of full IDM, and so are ours.
    """

    name = "ablation-pdm"
    folder = "ablations"

    def parts(self) -> list[Part]:
        """Return the table of Colored MNIST."""
        table = paper_table("ablation-pdm")
        rows = tuple(Variant.plain(row.ours) for row in table.rows)
        return [Part(table, "colored-mnist", rows)]


def _part(name: str, dataset: str, by_marks: Marked) -> Part:
    table = paper_table(name)
    rows = [ERM if row.ours == "erm" else by_marks[row.marks] for row in table.rows]
    return Part(table, dataset, tuple(rows))
