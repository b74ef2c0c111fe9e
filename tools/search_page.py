"""Write the tables of results/domainbed-search.md from its records.

    python -m tools.search_page

They are every draw at its last step, and what each way of model selection chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.selection import SELECTORS
from tools.marked_sections import renewed

RESULTS = Path(__file__).parents[1] / "results"
PAGE, RECORDS = RESULTS / "domainbed-search.md", RESULTS / "domainbed-search.jsonl.gz"
SELECTIONS = ("oracle", "training-domain", "invariance")
# The position of the reversed domain, 10%.
REVERSED = 2


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is text and whose other columns are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def percent(share: float | None) -> str:
    """Return a share in percent, or an en dash if there is none."""
    return "–" if share is None else f"{100 * share:.1f}"


def draws_table(runs: Sequence[Run]) -> str:
    """Return one row per draw: its settings, and both algorithms at their last step."""
    found = {(run.algorithm, run.hparams_seed): run for run in runs}
    rows = []
    for seed in sorted({run.hparams_seed for run in runs}):
        own = [found.get((name, seed)) for name in ("erm", "idm")]
        some = next(run for run in own if run)
        matching = own[1].hparams if own[1] else {}
        cells = ["–", "–"]
        if matching:
            cells = [f"{matching['gradient_weight']:,.0f}", f"{matching['gradient_warmup']:,}"]
        for run in own:
            last = run.evaluations[-1] if run else None
            trained = [a for a in last.outside[:REVERSED] if a is not None] if last else []
            cells += [percent(fmean(trained) if trained else None)]
            cells += [percent(last.inside[REVERSED] if last else None)]
        rate = f"{some.hparams['lr']:.1e}".replace("e-0", "e-")
        rows.append([str(seed), str(some.hparams["batch_size"]), rate, *cells])
    head = ["draw", "batch", "learning rate", "λ₁", "warm-up", "ERM, training", "ERM, reversed"]
    return markdown([*head, "IDM, training", "IDM, reversed"], rows)


def selected_table(runs: Sequence[Run]) -> str:
    """Return what each selector selects, and its accuracy on the reversed domain."""
    rows = []
    for name in SELECTIONS:
        for algorithm in ("erm", "idm"):
            own = [run for run in runs if run.algorithm == algorithm]
            chosen = SELECTORS.get(name)().select(own, REVERSED)
            if chosen is not None:
                place = [str(chosen.run.hparams_seed), f"{chosen.step:,}"]
                rows.append([f"{name}, {algorithm.upper()}", *place, percent(chosen.accuracy)])
    return markdown(["selected by", "draw", "step", "reversed"], rows)


def finished_runs() -> list[Run]:
    """Return the finished runs; a search in progress has others too."""
    return [run for run in read_sweep(RECORDS) if run.status == "finished"]


def tables() -> dict[str, str]:
    """Return the tables by name."""
    runs = finished_runs()
    return {"draws": draws_table(runs), "selected": selected_table(runs)}


def rewritten(page: str) -> str:
    """Return the page with its tables rewritten."""
    return renewed(page, tables().__getitem__)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), "utf-8")
