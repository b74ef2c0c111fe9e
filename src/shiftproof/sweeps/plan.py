"""Plan the runs of a sweep, following the DomainBed protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from shiftproof.core.errors import InvalidValue
from shiftproof.core.seeding import seed_hash
from shiftproof.core.space import Regime, Scalar, draw, specs
from shiftproof.data import DomainDataset
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.models import MODELS
from shiftproof.sweeps.domainbed.names import ALGORITHM_NAMES, algorithm_title, dataset_title
from shiftproof.sweeps.jobs import Job, SweepData, Variant
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.selection import SELECTORS, Needs
from shiftproof.training.config import NO_NETWORK, RunConfig
from shiftproof.training.configure import configure


@dataclass(frozen=True)
class Block:
    """Runs on one dataset: variants × held-out domains × draws × trials.

    ``draws`` are hyper-parameter seeds.  ``test_domains`` are the domains to hold out, by default
    each in turn.
    """

    data: SweepData
    variants: Sequence[Variant]
    needs: Needs
    draws: Sequence[int]
    trials: int
    test_domains: Sequence[str] = ()


def plan(
    block: Block, loaded: Mapping[int, DomainDataset], preset: Preset, **common: Any
) -> Iterator[Job]:
    """Yield the jobs of a block, variant by variant.

    ``loaded`` maps trial seeds to data.  Only what the selectors read is run and evaluated.
    ``common`` are keywords of `configure` that apply to every run, such as ``device``.
    """
    needs = block.needs
    rows: dict[str, str] = {}
    for variant, (trial_seed, dataset) in product(block.variants, loaded.items()):
        algorithm = variant.algorithm
        backbone = preset.backbones.get(dataset.regime, dataset.backbone)
        if ALGORITHMS.get(algorithm).exact:
            backbone = NO_NETWORK
        every = preset.eval_every(dataset.eval_every) if needs.every_step else 0
        for tests, draw_seed in product(test_sets(dataset, needs, block.test_domains), block.draws):
            drawn = choose_hparams(
                algorithm, backbone, dataset.regime, preset, draw_seed, trial_seed
            )
            config = configure(
                dataset,
                algorithm,
                test_domains=[dataset.domain_names[index] for index in tests],
                backbone=backbone or None,
                hparams={**drawn, **variant.hparams},
                steps=preset.steps,
                eval_every=every,
                evaluate=needs.evaluate if len(tests) == 1 else needs.evaluate_pairs,
                holdout=preset.holdout,
                seed=job_seed(block.data.name, algorithm, tests, draw_seed, trial_seed),
                data_seed=trial_seed,
                augment_validation=preset.augment_validation and not dataset.frozen,
                fewest_training_domains=1 if len(tests) > 1 else 2,
                **common,
            )
            _check_fit(config, dataset, preset)
            names = dataset.domain_names
            job = Job(block.data, config, names, draw_seed, trial_seed, variant.name)
            # A run has one folder, which belongs to one row of the tables.
            if (row := rows.setdefault(job.id, job.variant)) != job.variant:
                raise InvalidValue(f"{row} and {job.title} are the same run; leave one out")
            yield job


def combined(needs: Sequence[Needs]) -> Needs:
    """Return the union of what several selectors need."""
    return Needs(
        tuple(dict.fromkeys(name for need in needs for name in need.evaluate)),
        tuple(dict.fromkeys(name for need in needs for name in need.evaluate_pairs)),
        any(need.every_step for need in needs),
    )


def test_sets(
    dataset: DomainDataset, needs: Needs, test_domains: Sequence[str]
) -> list[tuple[int, ...]]:
    """Return the sets of domains to hold out; a pair may leave one domain for training.

    With ``test_domains``, return only the sets that contain one of them.
    """
    chosen = {dataset.index_of(name) for name in test_domains or dataset.domain_names}
    count = len(dataset.domains)
    fewest = 3 if needs.evaluate_pairs else 2
    if count < fewest:
        raise InvalidValue(
            f"{dataset.name} has {count} domains; this `selection` holds out {fewest - 1} of them,"
            f" and needs at least {fewest}"
        )
    return [held_out for held_out in needs.held_out(count) if chosen.intersection(held_out)]


def _check_fit(config: RunConfig, dataset: DomainDataset, preset: Preset) -> None:
    """Raise an error before anything runs if the data does not fit this configuration."""
    classes = len(dataset.classes)
    if config.hparams.get("single_logit") and classes != 2:
        raise InvalidValue(
            f"single_logit{_of(preset, 'single_logit')} is for two classes, and {dataset.name} has"
            f' {classes}; use another preset, or `hparams={{"single_logit": False}}`'
        )
    sizes = {
        len(domain) - int(len(domain) * config.holdout): None
        for domain in dataset.domains
        if domain.name not in config.test_domains
    }
    if config.hparams.get("batch_size") == 0 and len(sizes) > 1:
        raise InvalidValue(
            f"full batches (batch_size=0{_of(preset, 'batch_size')}) need training domains of equal"
            f" size; with {'+'.join(config.test_domains)} held out, those of {dataset.name} have"
            f" {' and '.join(map(str, sizes))} samples; hold out others with `test_domains`, or"
            " set `batch_size`"
        )


def _of(preset: Preset, hparam: str) -> str:
    """Return a phrase that names the preset if it sets the hyper-parameter."""
    return f" of the preset {preset.name}" if hparam in preset.hparams else ""


def choose_hparams(
    algorithm: str,
    backbone: str,
    regime: Regime,
    preset: Preset,
    hparams_seed: int,
    trial_seed: int,
) -> dict[str, Scalar]:
    """Return the hyper-parameters of a draw; seed 0 means the defaults.

    Hyper-parameters that make a run long or large are scaled to the preset's size.
    """
    published = ALGORITHM_NAMES.get(algorithm_title(algorithm))
    theirs = {} if published is None else published.hparams
    names = {ours: name for name, ours in theirs.items()}
    chosen: dict[str, Scalar] = {}
    parts: list[tuple[type, Mapping[str, str]]] = [(ALGORITHMS.get(algorithm).Hparams, names)]
    if backbone != NO_NETWORK:
        parts.append((MODELS.get(backbone), {"dropout": "resnet_dropout"}))
    for declared, seeded_by in parts:
        seed = seed_hash(hparams_seed, trial_seed)
        drawn = draw(declared, regime, seed, seeded_by) if hparams_seed else {}
        for name, spec in specs(declared).items():
            value = drawn[name] if hparams_seed else spec.at(regime).default
            chosen[name] = preset.sized(name, value, spec.unit)
    return chosen | {name: value for name, value in preset.hparams.items() if name in chosen}


def job_seed(
    dataset: str, algorithm: str, tests: Sequence[int], hparams_seed: int, trial_seed: int
) -> int:
    """Return the seed of a run, derived from DomainBed's names where they exist."""
    return seed_hash(
        dataset_title(dataset), algorithm_title(algorithm), list(tests), hparams_seed, trial_seed
    )


def chosen_draws(n_hparams: int, draws: Sequence[int]) -> Sequence[int]:
    """Return the seeds of the draws to run: all of a search, or only the given ``draws``.

    >>> chosen_draws(3, ()), chosen_draws(20, [4, 0, 4])
    (range(0, 3), [0, 4])
    """
    every = range(n_hparams)
    for seed in draws:
        if seed not in every:
            raise InvalidValue(
                f"`draws` has {seed}, and `n_hparams={n_hparams}` has the draws 0 to {every[-1]}"
            )
    return sorted(set(draws)) or every


def check_interval(eval_every: int, needs: Needs, selectors: Sequence[str]) -> None:
    """Raise if the evaluation interval is invalid, or if no selector uses it."""
    if eval_every < 1:
        raise InvalidValue(f"`eval_every` must be at least 1, not {eval_every}")
    if not needs.every_step:
        raise InvalidValue(
            f"`eval_every={eval_every}` has no effect: {', '.join(selectors)} reads the last step"
            " only; leave it out"
        )


def check_parts(needs: Mapping[str, Needs], preset: Preset) -> None:
    """Raise if a selector reads out parts, which the preset does not have."""
    blind = [name for name, need in needs.items() if _reads_out(need)]
    if blind:
        others = [name for name, selector in SELECTORS.items() if not _reads_out(selector.needs)]
        raise InvalidValue(
            f"`selection={blind}` needs held-out samples, but the preset {preset.name} holds none"
            f" out; use {' or '.join(others)}"
        )


def _reads_out(needs: Needs) -> bool:
    return any(name.endswith("-out") for name in needs.evaluate + needs.evaluate_pairs)
