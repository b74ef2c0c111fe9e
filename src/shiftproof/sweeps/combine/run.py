"""Combine the draws of a finished sweep, cell by cell; if killed at any time, it can be resumed.

The final model of every run is read from its checkpoint, which a sweep keeps.  Combining needs disk
space only for the soups themselves, one model per cell and method.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from shiftproof.core.errors import RunConflict
from shiftproof.core.text import counted
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.inference.model_of_run import trained_model
from shiftproof.inference.predictor import Predictor
from shiftproof.learners.algorithms import Algorithm
from shiftproof.learners.exact import Exact
from shiftproof.sweeps.combine.methods import ENSEMBLE, GREEDY
from shiftproof.sweeps.combine.scoring import CHOOSING, REPORTING, Scorer
from shiftproof.sweeps.combine.soup import Soup, Weights, greedy_soup, uniform_soup
from shiftproof.sweeps.combine.stored import CombinedFolder, CombinedResult
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.sweeps.store import SweepFolder
from shiftproof.training.checkpoint import read_checkpoint, save_state
from shiftproof.training.config import RunConfig
from shiftproof.training.run_folder import RunFolder

MOST_NAMED = 3


def combine_draws(
    jobs: Sequence[Job],
    folder: SweepFolder,
    methods: Sequence[str],
    progress: Progress = silent,
) -> list[CombinedResult]:
    """Combine the draws of each dataset, variant, trial and single held-out domain.

    Diverged draws are left out, as in every selector; a cell without remaining draws has no result.
    All other runs must have finished.
    """
    single = [job for job in jobs if len(job.config.test_domains) == 1]
    _require_finished(single, folder)
    cells: dict[tuple[str, int, str, str], list[Job]] = {}
    for job in single:
        key = (job.data.name, job.trial_seed, job.variant, job.config.test_domains[0])
        cells.setdefault(key, []).append(job)
    cache = DatasetCache()
    found: list[CombinedResult] = []
    # By dataset and trial, so that data is loaded once.
    for done, key in enumerate(sorted(cells)):
        progress("combining draws", done, len(cells))
        members = [job for job in cells[key] if folder.state(job) == "finished"]
        if members:
            members.sort(key=lambda job: job.hparams_seed)
            found += Cell(members, folder).combined(methods, cache)
    progress("combining draws", len(cells), len(cells))
    return found


class Cell:
    """The draws (at least one) of one dataset, variant, trial and held-out domain."""

    def __init__(self, members: Sequence[Job], folder: SweepFolder) -> None:
        self._members = members
        self._folder = folder
        self._scorer: Scorer | None = None

    def combined(self, methods: Sequence[str], cache: DatasetCache) -> list[CombinedResult]:
        """Return the result of each method, read from its file if that exists."""
        return [self._combined(method, cache) for method in methods]

    def _combined(self, method: str, cache: DatasetCache) -> CombinedResult:
        job = self._members[0]
        cell = {
            "method": method,
            "dataset": job.data.name,
            "variant": job.variant,
            "test_domain": job.config.test_domains[0],
            "trial_seed": job.trial_seed,
        }
        place = CombinedFolder(self._folder.path, cell)
        ids = [member.id for member in self._members]
        if (there := place.read(ids)) is not None:
            return there
        dataset = cache.get(job)
        scorer = self._scorer = self._scorer or Scorer(job.config, dataset, self._run(job))
        path = place.begin()
        if method == ENSEMBLE:
            models = (scorer.trained(member.config, self._run(member)) for member in self._members)
            predicted, chosen = mean_probabilities(scorer, models), list(range(len(ids)))
        else:
            soup, chosen = self._soup(method, scorer)
            model = scorer.cooked(soup)
            predicted = mean_probabilities(scorer, [model])
            save_soup(model, job.config, dataset, self._run(job), path)
        result = CombinedResult(
            method,
            job.data.name,
            job.variant,
            job.domains,
            job.config.test_domains[0],
            job.trial_seed,
            job.config.average,
            tuple(ids),
            tuple(member.hparams_seed for member in self._members),
            tuple(self._members[position].hparams_seed for position in chosen),
            scorer.accuracy(predicted[CHOOSING], CHOOSING) if scorer.chooses else None,
            scorer.accuracy(predicted[REPORTING], REPORTING),
            scorer.log_loss(predicted[REPORTING], REPORTING),
        )
        place.finish(result)
        return result

    def _run(self, job: Job) -> Path:
        return self._folder.run(job)

    def _soup(self, method: str, scorer: Scorer) -> tuple[Soup, list[int]]:
        """Return a soup and the positions of its members."""

        def weights(position: int) -> Weights:
            member = self._members[position]
            return scorer.weights(member.config, self._run(member))

        if method == GREEDY:
            own = self._validated(scorer)
            return greedy_soup(own, weights, lambda s: _validation(scorer, scorer.cooked(s)))
        everyone = list(range(len(self._members)))
        return uniform_soup(map(weights, everyone)), everyone

    def _validated(self, scorer: Scorer) -> list[float]:
        """Return each member's own accuracy on the training domains' out parts."""
        return [
            _validation(scorer, scorer.trained(member.config, self._run(member)))
            for member in self._members
        ]


def _validation(scorer: Scorer, model: Algorithm | Exact) -> float:
    return scorer.accuracy(scorer.probabilities(model, CHOOSING), CHOOSING)


def mean_probabilities(
    scorer: Scorer, models: Iterable[Algorithm | Exact]
) -> dict[str, list[Tensor]]:
    """Return p(y|x) = (1/m) Σ_i p_i(y|x) on each set, keyed by the kind of set."""
    total: dict[str, list[Tensor]] = {}
    count = 0
    for model in models:
        count += 1
        for kind in (CHOOSING, REPORTING):
            own = scorer.probabilities(model, kind)
            before = total.get(kind)
            pairs = zip(before, own, strict=True) if before else ()
            total[kind] = [so_far + new for so_far, new in pairs] if before else own
    return {kind: [each / count for each in sums] for kind, sums in total.items()}


def save_soup(
    model: Algorithm, config: RunConfig, dataset: DomainDataset, run: Path, out: Path
) -> None:
    """Write a soup into a folder as a model file, which `load_model` reads.

    It is saved like a run whose checkpoint has these weights; ``run`` is one of the averaged runs.
    """
    weights = Predictor(model).weights()
    state = read_checkpoint(run)
    preparation = {key: state[key] for key in ("preparation",) if key in state}
    with TemporaryDirectory() as aside:
        checkpoint = RunFolder(Path(aside)).checkpoint
        save_state(checkpoint, {"algorithm": {"modules": weights}, **preparation})
        trained_model(replace(config, average="none"), dataset, Path(aside)).save(out)


def _require_finished(jobs: Sequence[Job], folder: SweepFolder) -> None:
    left = [job.title for job in jobs if folder.state(job) not in ("finished", "diverged")]
    if left:
        more = "; …" if len(left) > MOST_NAMED else ""
        raise RunConflict(
            f"{counted(len(left), 'run')} in {folder.path} not finished"
            f" ({'; '.join(left[:MOST_NAMED])}{more}); finish the sweep, then combine"
        )
