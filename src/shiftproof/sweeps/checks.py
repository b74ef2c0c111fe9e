"""Check the arguments of a sweep before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.core.errors import InvalidValue
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.selection import SELECTORS, Needs


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
