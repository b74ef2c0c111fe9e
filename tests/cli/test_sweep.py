"""``shiftproof sweep``: fixed hyper-parameters, some test domains, and the search of Table 1."""

import csv
import io
import json

import pytest
from _internals import PRESETS, SELECTORS, Variant, algorithm_names, variants_of

from shiftproof import ALGORITHMS

ROW = "two-stage[penalty=iga]"
# The paper's search, a few digits and steps of it.
SEARCH = [
    "sweep", "colored-mnist-irm", "--preset", "table1", "--algorithms", "two-stage",
    "--hparam", "penalty=iga", "--test-domain", "10%", "--trials", 1,
    "--selection", "best-minimum", "--data-option", "per_domain=200", "--steps", 3,
    "--workers", 1, "--device", "cpu",
]  # fmt: skip


def search(out, *more, draws):
    return [*SEARCH, "--n-hparams", draws, "--out", out, *more]


def runs_in(folder):
    """Return (job.json, config.json, last record) of each run."""
    return [
        (
            json.loads((run / "job.json").read_text()),
            json.loads((run / "config.json").read_text()),
            json.loads((run / "records.jsonl").read_text().splitlines()[-1]),
        )
        for run in sorted((folder / "runs").iterdir())
    ]


def best_by_hand(runs):
    """Return (seed, test accuracy) of the draw that the paper would choose."""
    found = []
    for job, _, record in runs:
        a = record["accuracy"]
        score = min((a["90%/in"] + a["80%/in"]) / 2, a["10%/in"])
        found.append((score, job["hparams_seed"], a["10%/in"]))
    return max(found)[1:]


def table_of(shiftproof, folder):
    """Return the rows of the report with a number, by algorithm and test domain."""
    code, out, _ = shiftproof("report", folder, "--selection", "best-minimum", "--format", "csv")
    assert code == 0
    rows = csv.DictReader(io.StringIO(out))
    return {(row["algorithm"], row["test_domain"]): row for row in rows if row["mean"]}


@pytest.mark.slow
def test_the_search_of_table_1_from_plan_to_report(shiftproof, tmp_path):
    out = tmp_path / "search"
    code, _, err = shiftproof(*search(out, "--dry-run", draws=3))
    assert code == 0, err
    assert "3 runs (by selection method: best-minimum 3)" in err
    assert not out.exists()

    code, printed, err = shiftproof(*search(out, "--quiet", draws=1))
    assert (code, "1 of 1 runs: 1 finished" in printed) == (0, True), err
    (first,) = (out / "runs").glob("*/records.jsonl")
    stamp = first.stat().st_mtime_ns
    more = ("--quiet", "--models", tmp_path / "models")
    code, printed, err = shiftproof(*search(out, *more, draws=3))
    assert (code, "3 of 3 runs: 3 finished" in printed) == (0, True), err
    assert first.stat().st_mtime_ns == stamp
    _, printed, _ = shiftproof("sweep", "--status", out)
    assert "3 of 3 runs" in printed
    assert f"{ROW} on colored-mnist-irm without 10%" in printed

    runs = runs_in(out)
    assert sorted(job["hparams_seed"] for job, _, _ in runs) == [0, 1, 2]
    for job, config, record in runs:
        assert (job["variant"], job["algorithm"]) == (ROW, "two-stage")
        assert config["hparams"]["penalty"] == "iga"
        assert (config["test_domains"], config["holdout"]) == (["10%"], 0)
        assert record["accuracy"].keys() == {"90%/in", "80%/in", "10%/in", "gray"}
    assert len({config["hparams"]["penalty_weight"] for _, config, _ in runs}) == 3

    seed, accuracy = best_by_hand(runs)
    ((place, cell),) = table_of(shiftproof, out).items()
    assert place == (ROW, "10%")
    assert float(cell["mean"]) == pytest.approx(100 * accuracy)
    assert cell["missing"] == ""
    _, text, _ = shiftproof("report", out, "--selection", "best-minimum")
    assert SELECTORS.get("best-minimum").title in text
    line = next(line for line in text.splitlines() if line.startswith(ROW))
    assert line.removeprefix(ROW).split() == ["–", "–", f"{100 * accuracy:.1f}", "–"]
    (model,) = json.loads((tmp_path / "models" / "models.json").read_text())["models"]
    assert (model["algorithm"], model["hparams_seed"]) == (ROW, seed)
    assert (model["accuracy"], model["step"]) == (accuracy, 3)

    other = [word if word != "penalty=iga" else "penalty=none" for word in SEARCH]
    code, _, err = shiftproof(*other, "--n-hparams", 1, "--out", out, "--quiet")
    assert code == 0, err
    assert {row for row, _ in table_of(shiftproof, out)} == {ROW, "two-stage[penalty=none]"}


def test_a_value_has_one_name_however_it_is_written():
    one = {"penalty_weight": "1e1", "lr": "0.01", "hidden": "16", "single_logit": "yes"}
    two = {"single_logit": "true", "hidden": "16.0", "lr": "1e-2", "penalty_weight": "10"}
    assert variants_of(["irm"], one) == variants_of(["irm"], two)
    (row,) = variants_of(["irm"], one)
    assert row.name == "irm[hidden=16,lr=0.01,penalty_weight=10.0,single_logit=True]"
    assert row.hparams == {"hidden": 16, "lr": 0.01, "penalty_weight": 10.0, "single_logit": True}
    assert [row.name for row in variants_of(["erm", "idm"], {"lr": "1"})] == [
        "erm[lr=1.0]",
        "idm[lr=1.0]",
    ]
    assert variants_of(["erm", "idm"], {}) == [Variant.plain("erm"), Variant.plain("idm")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--hparam", "penlty=iga"], "'penlty'; did you mean 'penalty'"),
        (["--hparam", "penalty=igo"], "penalty must be one of none, irm, vrex, iga, fishr, idm"),
        (["--hparam", "penalty"], "--hparam takes name=value, not 'penalty'"),
        (["--hparam", "trim=1", "--hparam", "trim=2"], "--hparam gives trim twice"),
        (["--test-domain", "10"], "unknown domain of colored-mnist-irm '10'; did you mean '10%'"),
        (["--selection", "best-minimun"], "did you mean 'best-minimum'"),
        (["--preset", "table-1"], "did you mean 'table1'"),
        (
            ["--selection", "oracle"],
            "--selection oracle needs held-out samples, but the preset table1 holds none out; use"
            " best-minimum or leave-one-domain-out",
        ),
        (
            ["--selection", "best-minimum,training-domain"],
            "--selection training-domain needs held-out samples",
        ),
        (["--selection", "invariance"], "--selection invariance needs held-out samples"),
        (["--algorithms", "erm", "--hparam", "penalty=iga"], "hyper-parameter of erm on mlp"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_mistakes_are_one_line_before_anything_runs(shiftproof, tmp_path, changes, message):
    kept = [word for word in SEARCH if word not in ("--hparam", "penalty=iga")]
    code, out, err = shiftproof(*kept, "--n-hparams", 1, "--out", tmp_path / "x", *changes)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "x").exists()


def test_data_that_the_preset_is_not_for(shiftproof, tmp_path):
    asked = ["--preset", "table1", "--selection", "best-minimum", "--quiet"]
    asked += ["--n-hparams", 1, "--trials", 1, "--algorithms", "two-stage", "--out", tmp_path / "x"]
    code, _, err = shiftproof("sweep", "rotated-mnist", *asked)
    assert (code, err.count("\n")) == (2, 1)
    assert "single_logit of the preset table1 is for two classes, and rotated-mnist has 10" in err
    code, _, err = shiftproof("sweep", "colored-mnist-irm", *asked)
    assert (code, err.count("\n")) == (2, 1)
    assert "with 90% held out, those of colored-mnist-irm have 25000 and 10000 samples" in err
    assert err.endswith("; hold out others with --test-domain, or set --hparam batch_size\n")


def test_several_datasets_must_all_have_the_test_domain(shiftproof, table, tmp_path):
    asked = ["--preset", "lite", "--n-hparams", 1, "--trials", 1, "--steps", 2, "--dry-run"]
    asked += ["--domain", "place", "--selection", "oracle", "--algorithms", "erm"]
    code, _, err = shiftproof("sweep", table, "colored-mnist", *asked, "--test-domain", "west")
    assert code == 2
    assert "unknown domain of colored-mnist 'west'" in err.splitlines()[-1]


def test_help_names_every_preset_and_selector(shiftproof):
    _, out, _ = shiftproof("sweep", "--help")
    words = " ".join(out.replace("│", " ").split())
    for name in (*PRESETS, *SELECTORS, "--hparam", "--test-domain"):
        assert name in words


@pytest.fixture
def table(tmp_path):
    rows = [
        f"{place},{n % 7},{n % 3},{n % 2}"
        for place in ("north", "south", "west")
        for n in range(40)
    ]
    path = tmp_path / "toy.csv"
    path.write_text("\n".join(["place,a,b,label", *rows]) + "\n")
    return path


def test_all_algorithms_are_those_for_minibatches():
    assert set(ALGORITHMS) - set(algorithm_names("all")) == {
        "two-stage",
        "linear",
        "boosting",
        "forest",
        "best",
        "estimator",
    }
