"""The made sweeps of the benchmark of `report` are whole and readable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from _internals import read_sweep

from benchmarks import many_runs


@pytest.mark.parametrize("write", [many_runs.write_sweep, many_runs.write_domainbed])
def test_the_runs_are_read_with_all_their_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, int], int]
) -> None:
    monkeypatch.setattr(many_runs, "DRAWS", 2)
    monkeypatch.setattr(many_runs, "TRIALS", 1)
    count = write(tmp_path, 1)
    runs = read_sweep(tmp_path)
    assert count == len(runs) == len(many_runs.DATASETS) * many_runs.DOMAINS * 2
    for run in runs:
        assert (run.status, run.marks, len(run.evaluations)) == ("finished", (), 18)
        assert run.evaluations[-1].step == many_runs.STEPS
        assert run.evaluations[0].inside[run.test_domains[0]] is not None
