"""``shiftproof diagnose`` from end to end, and with its users' mistakes."""

import json
import math
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from PIL import Image

SHARED = Path(__file__).parents[3] / "shared/data"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="no shared data here")
WARDS = ["wards.csv", "--label", "ill", "--domain", "ward"]


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def wards():
    """Three wards whose marker speaks for the illness in two of them and against it in one."""
    rng = np.random.default_rng(0)
    rows = ["ward,age,marker,ill"]
    for ward, trust in (("a", 0.9), ("b", 0.8), ("c", 0.1)):
        for n in range(80):
            ill = n % 2
            marker = ill if rng.random() < trust else 1 - ill
            rows.append(f"{ward},{rng.normal(50, 10):.1f},{marker},{ill}")
    Path("wards.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture
def pets():
    rng = np.random.default_rng(0)
    for domain, light in (("north", 0), ("south", 0), ("west", 60)):
        for label, level in (("cat", 40), ("dog", 120)):
            place = Path("pets", domain, label)
            place.mkdir(parents=True)
            for n in range(7):
                pixels = rng.normal(level + light, 20, size=(40, 48, 3)).clip(0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(place / f"{n}.png")


def test_help_shows_an_example(shiftproof):
    code, out, _ = shiftproof("diagnose", "--help")
    assert code == 0
    assert "Example: shiftproof diagnose patients.csv" in " ".join(out.split())


def test_a_table_in_words_and_as_a_picture(shiftproof, wards):
    code, out, err = shiftproof("diagnose", *WARDS, "--picture", "shift.png")
    assert code == 0, err
    assert out.startswith("wards.csv: 3 domains (a 80, b 80, c 80), 2 classes (0, 1), 2 columns\n")
    for heading in ("What to do", "What shifts", "Accuracy lost if held out"):
        assert f"\n{heading}" in out
    assert len(out.splitlines()) <= 26  # with the line of the picture
    assert "  concept shift    found: " in out
    assert "- compare with idm-auto: It matches gradients, because concept shift was found" in out
    assert "all numbers: --details" in out
    assert (
        "    shiftproof train wards.csv --label ill --domain ward --algorithm best --test-domain"
        " each\n"
    ) in out
    assert (
        "    shiftproof train wards.csv --label ill --domain ward --algorithm idm-auto"
        " --test-domain each\n"
    ) in out
    assert out.endswith("Picture: shift.png\n")
    assert matplotlib.image.imread("shift.png").shape[1] > 900


def test_json_with_a_run_and_one_ward_left_out(shiftproof, wards):
    run = ["--algorithm", "erm", "--steps", "5", "--holdout", "0.5", "--out", "run"]
    assert shiftproof("train", *WARDS, *run, "--test-domain", "c", "--quiet")[0] == 0
    code, out, err = shiftproof(
        "diagnose", *WARDS, "--run", "run", "--test-domain", "b", "--most", "90", "--json"
    )
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert found.keys() == {
        "data", "inputs", "notes", "domains", "classes", "counts", "left_out", "level", "shift",
        "domain_entropy", "prediction", "pairs", "features", "moved_classes", "drops", "trials",
        "model", "advice", "picture", "numbers",
    }  # fmt: skip
    # Half of ward a was trained on; ward c was held out, and is cut to fit.
    assert found["domains"] == ["a", "c"]
    assert [sum(row) for row in found["counts"]] == [40, 50]
    assert found["left_out"] == 30
    assert found["domain_entropy"] == pytest.approx(math.log(2))
    for name, symbol in (("covariate", "I(R;D)"), ("concept", "I(Y;D|R)")):
        estimate = found["model"]["shift"][name]
        assert estimate["symbol"] == symbol
        assert estimate["interval"][0] <= estimate["value"] <= estimate["interval"][1]
        assert estimate["p_value"] is None or 0 < estimate["p_value"] <= 1
    assert found["model"]["risk_shift"]["symbol"] == "I(L;D)"
    assert [pair["first"] + pair["second"] for pair in found["pairs"]] == ["ac"]
    assert {feature["name"] for feature in found["features"]} == {"age", "marker"}
    assert found["advice"]["findings"][2]["state"] == "found"
    assert found["advice"]["command"].endswith("--test-domain b")
    assert found["picture"] is None
    assert "only samples that the run was not trained on are measured" in found["notes"]


def test_photographs_as_pixels_and_as_features_of_a_run(shiftproof, pets):
    code, out, err = shiftproof("diagnose", "pets", "--raw", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["inputs"] == "pixels of 3 × 16 × 16 images"
    assert len(found["features"]) == 768
    assert "--freeze" not in found["advice"]["command"]
    network = ["--backbone", "test_resnet", "--weights", "random", "--image-size", "32"]
    code, _, err = shiftproof(
        "train", "pets", "--freeze", *network, "-a", "erm", "--test-domain", "west", "--steps", "2",
        "--holdout", "0.4", "--hparam", "batch_size=4", "--out", "run", "--quiet",
    )  # fmt: skip
    assert code == 0, err
    code, out, err = shiftproof(
        "diagnose",
        "pets",
        "--image-size",
        "32",
        "--run",
        "run",
        "--json",
        "--domains",
        "south,west",
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["domains"] == ["south", "west"]
    assert found["inputs"].endswith("features of test_resnet.r160_in1k")
    assert found["model"]["name"] == "erm in run"
    command = found["advice"]["command"]
    assert command.startswith(
        "shiftproof train pets --image-size 32 --freeze --backbone"
        " test_resnet.r160_in1k --weights random --algorithm "
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv"], "no such file or folder: nowhere.csv"),
        (["wards.csv", "--label", "il", "--domain", "ward"], "'il'; did you mean 'ill'?"),
        ([*WARDS, "--drop", "agee"], "did you mean 'age'"),
        ([*WARDS, "--domains", "a,d"], "unknown domain of wards.csv 'd'"),
        ([*WARDS, "--domains", "a"], "but 1 is selected; wards.csv has"),
        ([*WARDS, "--test-domain", "a", "--test-domain", "b"], "but 1 is selected"),
        ([*WARDS, "--raw"], "are for images, and wards.csv has none"),
        ([*WARDS, "--weights", "x.pt"], "are for images, and wards.csv has none"),
        ([*WARDS, "--run", "nowhere"], "nowhere holds no run"),
        ([*WARDS, "--most", "9"], "9 samples are too few for 3 domains"),
        ([*WARDS, "--seed", "-1"], "--seed must be at least 0, not -1"),
        ([*WARDS, "--picture", "shift.pdf"], "writes a PNG"),
        ([*WARDS, "--picture", "no/shift.png"], "there is no folder no"),
        (["one.csv", "--label", "ill", "--domain", "ward"], "one domain only"),
        (["same.csv", "--label", "ill", "--domain", "ward"], "one class only"),
        (["thin.csv", "--label", "ill", "--domain", "ward"], "domain 'b' has 3 samples, fewer"),
        (["pets"], "holds photographs: give --weights and --backbone to measure"),
        (["pets", "--raw", "--freeze"], "give one of the two"),
        (["pets", "--weights", "lost.pt"], "there is no file 'lost.pt'"),
        (["pets", "--backbone", "mlp"], "--backbone must be a pretrained network"),
        (["pets", "--label", "x"], "--label is for tables"),
        (["colored-mnist", "--test-domain", "10"], "did you mean '10%'"),
    ],
)
def test_a_mistake_is_one_line(shiftproof, wards, pets, arguments, words):
    header, *rows = Path("wards.csv").read_text().splitlines()
    Path("one.csv").write_text("\n".join([header, *rows[:80]]))
    Path("same.csv").write_text("\n".join([header, *rows[::2]]))
    Path("thin.csv").write_text("\n".join([header, *rows[:83]]))
    code, out, err = shiftproof("diagnose", *arguments, "--quiet")
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


@needs_shared
def test_the_hospitals(shiftproof):
    code, out, err = shiftproof(
        "diagnose", SHARED / "heart-disease/heart.csv", "--label", "disease", "--domain",
        "hospital", "--json",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    states = {finding["shift"]: finding["state"] for finding in found["advice"]["findings"]}
    assert states["covariate"] == states["label"] == "found"
    assert found["advice"]["choice"]["algorithm"] == "best"
    assert found["advice"]["beside"] is None
    assert len(found["drops"]) == 4
    assert any("may be category codes" in remark for remark in found["advice"]["remarks"])
    # Cholesterol was written as 0 in Switzerland.
    assert found["features"][0]["name"] == "chol"
    assert "switzerland" in found["features"][0]["farthest"]
    healthy = found["moved_classes"][0]["shares"]
    assert dict(zip(found["domains"], healthy, strict=True))["switzerland"] == pytest.approx(
        8 / 123
    )
