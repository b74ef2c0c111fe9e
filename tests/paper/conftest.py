"""Runs as studies read them, made up number by number."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from _internals import Evaluation, Run


def run_of(
    dataset: str,
    row: str,
    domains: tuple[str, ...],
    test_domain: str,
    inside: Mapping[str, float],
    *,
    outside: Mapping[str, float] | None = None,
    trial: int = 0,
    draw: int = 0,
    status: str = "finished",
    extras: tuple[tuple[str, float], ...] = (),
) -> Run:
    """Return a run with one evaluation."""
    evaluation = Evaluation(
        500,
        tuple(inside.get(name) for name in domains),
        tuple((outside or {}).get(name) for name in domains),
        extras=extras,
    )
    return Run(
        dataset, row, domains, (domains.index(test_domain),), draw, trial, status, (evaluation,),
        config={"hparams": {"anneal_steps": 154}},
    )  # fmt: skip


@pytest.fixture
def make_run():
    return run_of
