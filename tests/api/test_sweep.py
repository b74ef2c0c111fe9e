"""`sweep` in a program: a plan, runs in a folder, and what they say."""

import json

import numpy as np
import pandas as pd
import pytest
from _internals import Cost, InvalidValue, SweepFolder, SweepObserver, UnknownName

from shiftproof import sweep

SMALL = {"preset": "lite", "n_hparams": 1, "trials": 1, "steps": 3, "domain": "place",
         "selection": "oracle", "test_domains": "west", "workers": 1, "device": "cpu"}  # fmt: skip


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        f"{place},{row % 2 + rng.normal():.3f},{rng.normal():.3f},{row % 2}"
        for place in ("north", "south", "west")
        for row in range(20)
    ]
    path = tmp_path / "toy.csv"
    path.write_text("\n".join(["place,a,b,label", *rows]) + "\n")
    return path


class Notes(SweepObserver):
    """Keeps what it is told."""

    def __init__(self):
        self.loaded, self.plans, self.stood, self.ends = [], [], [], []

    def progress(self, what, done, total):
        self.loaded.append(what)

    def planned(self, plan, workers, done):
        self.plans.append((len(plan.jobs), workers, done))

    def standing(self, standing):
        self.stood.append(standing.total)

    def ended(self, result):
        self.ends.append(result)


def test_class_weights_are_those_of_every_run(table, tmp_path):
    where = {"out": tmp_path / "out", "dry_run": True}
    plain = sweep(table, "erm", **SMALL, **where).plan
    plan = sweep(table, "erm", class_weight="balanced", **SMALL, **where).plan
    assert {job.config.class_weight for job in plan.jobs} == {"balanced"}
    assert plan.settings == {**plain.settings, "class_weight": "balanced"}
    with pytest.raises(UnknownName, match="balanced"):
        sweep(table, "erm", class_weight="balancd", **SMALL, **where)


def test_a_dry_run_has_a_plan_and_writes_nothing(table, tmp_path):
    notes = Notes()
    asked = SMALL | {"test_domains": (), "selection": ("oracle", "leave-one-domain-out")}
    planned = sweep(table, "erm", **asked, out=tmp_path / "out", dry_run=True, observer=notes)
    assert planned.plan.by_selector == {"oracle": 3, "leave-one-domain-out": 6}
    assert (planned.status, planned.result, planned.failures) == ("planned", None, [])
    assert planned.standing.total == 6
    assert planned.plan.seconds(workers=1) > 0
    assert notes.plans == [(6, 1, 0)]
    assert "measuring steps on toy.csv" in notes.loaded
    assert notes.ends == []
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("jobs_here")
def test_from_the_plan_to_tables_and_models(table, tmp_path):
    notes = Notes()
    settings = SMALL | {"out": tmp_path / "out", "models": tmp_path / "models", "observer": notes}
    found = sweep([table], ["erm"], hparams={"lr": 0.01}, **settings)
    assert found.status == "finished"
    assert found.standing.counts == {"finished": 1}
    assert notes.ends[0].complete
    assert notes.stood
    frame = found.report().to_frame()
    (row,) = frame[frame["mean"].notna()].to_dict("records")
    assert (row["algorithm"], row["test_domain"]) == ("erm[lr=0.01]", "west")
    (model,) = json.loads(found.models.read_text())["models"]
    assert 100 * model["accuracy"] == pytest.approx(row["mean"])
    assert (found.models.parent / model["run"] / "model.safetensors").exists()
    (records,) = (tmp_path / "out").rglob("records.jsonl")
    stamp = records.stat().st_mtime_ns
    again = sweep([table], ["erm"], hparams={"lr": "1e-2"}, **settings)
    assert again.status == "finished"
    assert records.stat().st_mtime_ns == stamp
    # Nothing is left, so nothing was measured.
    assert notes.plans == [(1, 1, 0), (0, 1, 1)]
    assert set(again.plan.costs.values()) == {Cost(0.0, 0.0, 0)}


@pytest.mark.usefixtures("jobs_here")
def test_a_plan_has_what_is_left(table, tmp_path):
    settings = SMALL | {"out": tmp_path / "out", "observer": (notes := Notes())}
    sweep(table, "erm", **settings)
    more = settings | {"test_domains": (), "selection": "oracle", "dry_run": True}
    planned = sweep(table, ("erm", "coral"), **more).plan
    assert notes.plans[-1] == (5, 1, 1)
    done = SweepFolder(tmp_path / "out")
    left = planned.left(done.is_left)
    assert (planned.by_selector, left.by_selector) == ({"oracle": 6}, {"oracle": 5})
    assert left.seconds(workers=1) < planned.seconds(workers=1)
    failed = left.jobs[0]
    done.record_failure(failed, "no reason")
    assert not done.is_left(failed)
    assert done.is_left(failed, retry_failed=True)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"data": ()}, InvalidValue, "`data` must name at least one dataset"),
        ({"data": pd.DataFrame({"a": [1]})}, InvalidValue, "`data` must be names and paths"),
        ({"workers": 0}, InvalidValue, "`workers` must be at least 1, not 0"),
        ({"algorithms": ("erm", "erm")}, InvalidValue, "`algorithms` has duplicates: erm,erm"),
        ({"algorithms": "ermm"}, UnknownName, "did you mean 'erm'"),
        ({"selection": "orcale"}, UnknownName, "did you mean 'oracle'"),
        ({"executor": "rya"}, UnknownName, "did you mean 'ray'"),
        ({"ray_address": "auto"}, InvalidValue, '`ray_address` is for `executor="ray"`'),
        ({"hparams": {"lrr": 1}}, UnknownName, "did you mean 'lr'"),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "",
)
def test_mistakes_are_told_before_anything_runs(table, tmp_path, changes, error, message):
    asked = {"data": table, "algorithms": "erm", **SMALL, "out": tmp_path / "out"} | changes
    with pytest.raises(error, match=message):
        sweep(**asked)
    assert not (tmp_path / "out").exists()
