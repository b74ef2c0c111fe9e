"""predict --adapt, recalibrate and compare-sites: a new site with other class shares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shiftproof as library

SITES = {"north": 0.3, "south": 0.5, "east": 0.6, "west": 0.4}


def patients(shares: dict[str, float], seed: int, rows: int = 150) -> pd.DataFrame:
    """Hospitals that differ in how many are ill, and in nothing else."""
    rng = np.random.default_rng(seed)
    frames = []
    for name, share in shares.items():
        ill = (rng.random(rows) < share).astype(int)
        frames.append(
            pd.DataFrame(
                {
                    "hospital": name,
                    "age": 50 + 10 * ill + rng.normal(0, 6, rows),
                    "pressure": 120 + 12 * ill + rng.normal(0, 10, rows),
                    "ill": np.where(ill, "yes", "no"),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of four hospitals, and a table of a fifth where most are ill."""
    place = tmp_path_factory.mktemp("sites")
    new = patients({"fifth": 0.9}, 1, rows=400)
    new.to_csv(place / "labelled.csv", index=False)
    new.drop(columns=["ill", "hospital"]).to_csv(place / "new.csv", index=False)
    library.train(
        patients(SITES, 0), "linear", label="ill", domain="hospital", out=place / "run",
        device="cpu",
    )  # fmt: skip
    return place


def accuracy(folder: Path, path: Path) -> float:
    truth = pd.read_csv(folder / "labelled.csv")
    return float((pd.read_csv(path).predicted == truth.ill).mean())


def test_predict_adapts_to_a_new_site(folder: Path, shiftproof: Any) -> None:
    found = {}
    for how in ("none", "auto"):
        out = folder / f"{how}.csv"
        code, _, err = shiftproof(
            "predict", folder / "run", folder / "new.csv", "--adapt", how, "--out", out
        )
        assert code == 0, err
        found[how] = accuracy(folder, out)
        assert ("adaptation, new site: corrected for its class shares" in err) == (how != "none")
        assert ("adapted" in pd.read_csv(out)) == (how != "none")
    assert found["auto"] > found["none"]


def test_adapt_takes_two_values_and_no_sets(folder: Path, shiftproof: Any) -> None:
    run, new = folder / "run", folder / "new.csv"
    code, _, err = shiftproof("predict", run, new, "--adapt", "on")
    assert (code, err) == (2, "error: --adapt must be auto or none, not 'on'\n")
    code, _, err = shiftproof(
        "predict", run, new, "--adapt", "auto", "--sets", "0.9", "--expected", run
    )
    assert code == 2
    assert "--sets cannot be combined with --adapt; leave out one of them" in err


def test_each_site_is_adapted_to_by_itself(folder: Path) -> None:
    model = library.load_model(folder / "run", "cpu")
    table = pd.concat([patients({"a": 0.9}, 2), patients({"b": 0.1}, 3)], ignore_index=True)
    inputs = model.form.read(table)
    together = model.predict(inputs, adapt="auto", sites=list(table.hospital))
    assert list(together.adapted) == ["a", "b"]
    for site in ("a", "b"):
        own = np.flatnonzero(table.hospital == site)
        alone = model.predict(inputs[own], adapt="auto")
        np.testing.assert_allclose(together.probabilities[own], alone.probabilities, atol=1e-6)
    with pytest.raises(library.ShiftproofError, match="`sites` has 1 entries for 300 inputs"):
        model.predict(inputs, adapt="auto", sites=["a"])


def test_a_model_without_held_out_domains_says_why_not(tmp_path: Path) -> None:
    run = library.train(
        patients(SITES, 0), "erm", label="ill", domain="hospital", out=tmp_path, steps=3,
        device="cpu",
    )  # fmt: skip
    found = run.model.predict(run.model.form.read(patients({"new": 0.5}, 1)), adapt="auto")
    assert "keeps no errors of held-out" in found.adapted["new site"].reason
    assert not found.adapted["new site"].corrected


def test_recalibrate_writes_an_updated_model(folder: Path, shiftproof: Any) -> None:
    code, printed, err = shiftproof(
        "recalibrate", folder / "run", folder / "labelled.csv", "--out", folder / "updated"
    )
    assert code == 0, err
    assert "recalibration from 400 labelled rows: new intercepts" in printed
    assert "These are results of adaptation to this site." in printed
    code, _, err = shiftproof(
        "predict", folder / "updated", folder / "new.csv", "--out", folder / "u.csv"
    )
    assert code == 0, err
    code, _, _ = shiftproof(
        "predict", folder / "run", folder / "new.csv", "--out", folder / "n.csv"
    )
    assert accuracy(folder, folder / "u.csv") > accuracy(folder, folder / "n.csv")
    for command in (
        ("predict", folder / "updated", folder / "new.csv", "--adapt", "auto"),
        ("export", folder / "updated", "--to", "onnx", "--out", folder / "x.onnx"),
        ("recalibrate", folder / "updated", folder / "labelled.csv"),
    ):
        code, _, err = shiftproof(*command)
        assert code == 2
        assert "recalibrated" in err


def test_recalibrate_in_python_reads_a_table(folder: Path) -> None:
    table = pd.read_csv(folder / "labelled.csv")
    found = library.recalibrate(folder / "run", table)
    assert found.result.method == "intercept"
    with pytest.raises(library.ShiftproofError, match="'maybe' is not a class"):
        library.recalibrate(folder / "run", table.assign(ill="maybe"))
    with pytest.raises(library.ShiftproofError, match="unknown column of the data frame 'sick'"):
        library.recalibrate(folder / "run", table, label="sick")


def test_compare_sites_is_one_screen(folder: Path, shiftproof: Any) -> None:
    code, printed, err = shiftproof("compare-sites", folder / "run", folder / "new.csv")
    assert code == 0, err
    assert "most like: east" in printed  # the hospital with the most ill patients
    assert "expected accuracy without adaptation" in printed
    assert len(printed.splitlines()) < 24
    code, printed, _ = shiftproof("compare-sites", folder / "run", folder / "new.csv", "--json")
    found = json.loads(printed)
    assert found["nearest"] == "east"
    value, low, high = found["accuracy"]
    assert low < value < high


def test_values_outside_the_range_of_training_are_named(folder: Path) -> None:
    table = patients({"new": 0.5}, 5)
    table["pressure"] += 500
    found = library.compare_sites(folder / "run", table)
    assert found.new_values == {"pressure": 1.0}
    assert next(iter(found.shifts)) == "pressure"


def test_standardize_goes_from_train_to_evaluate(folder: Path, shiftproof: Any) -> None:
    table, run, new = folder / "sites.csv", folder / "standardized", folder / "labelled.csv"
    patients(SITES, 0, rows=60).to_csv(table, index=False)
    given = ("--label", "ill", "--domain", "hospital", "--algorithm", "linear", "--device", "cpu")
    code, out, _ = shiftproof(
        "train", table, *given, "--standardize", "domain", "--test-domain", "west", "--out", run
    )
    assert code == 0
    assert "linear, standardized by domain on sites" in out
    assert "adaptation: the rows of the test domain are used" in " ".join(out.split())
    code, out, _ = shiftproof("evaluate", run, new, "--json")
    assert json.loads(out)["adaptation"] == "standardized by domain"
    code, _, err = shiftproof("predict", run, new, "--out", folder / "standardized.csv")
    assert code == 0
    assert "adaptation: rows are standardized by domain, using the rows given here" in err
    # One line for what is wrong, in the words of the command.
    for how, said in (("auto", "unknown standardize 'auto'"), ("domian", "'domain'")):
        code, _, err = shiftproof("train", table, *given, "--standardize", how)
        assert code == 2
        assert said in err
        assert err.count("\n") == 1
    pd.read_csv(new).head(5).to_csv(folder / "few.csv", index=False)
    code, _, err = shiftproof("predict", run, folder / "few.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "fifth: 5 rows" in err
    code, _, err = shiftproof("export", run, "--to", "onnx", "--out", folder / "graph.onnx")
    assert code == 2
    assert "needs all rows of a site" in err
