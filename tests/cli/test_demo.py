import json
import sys

import matplotlib.image
import pytest
from _internals import ColoredMNISTForIRM, cli_main as main, demo_sentence, sweeps_demo as plan


@pytest.fixture
def tiny(monkeypatch):
    """The demonstration with 100 digits a domain and a few steps: its workings, not its point."""
    monkeypatch.setattr(plan, "STEPS", 12)
    monkeypatch.setattr(
        plan, "load_demo_data", lambda s: ColoredMNISTForIRM(per_domain=100).load(s)
    )


def run(monkeypatch, capfd, *arguments):
    monkeypatch.setattr(sys, "argv", ["shiftproof", "demo", *map(str, arguments)])
    try:
        main()
        code = 0
    except SystemExit as exit_:
        code = exit_.code or 0
    out, err = capfd.readouterr()
    return code, out, err


def test_table_sentence_and_picture(tiny, monkeypatch, capfd, tmp_path):
    code, out, err = run(monkeypatch, capfd, "--out", tmp_path, "--seed", 3)
    assert code == 0
    for word in ("ERM", "IDM", "train", "test (reversed)", "gray", "75%", "seed 3", "Picture:"):
        assert word in out
    assert "ERM: step 12" in err
    picture = matplotlib.image.imread(tmp_path / "seed-3/demo.png")
    assert picture.shape[0] > 500
    assert picture.shape[1] > 900
    assert picture[..., :3].std() > 0.05
    page = (tmp_path / "seed-3/report.html").read_text()
    assert page.count("data:image/png;base64,") == 4 * 8  # digits of each domain
    assert "limit of the digit alone" in page


def test_json_for_programs(tiny, monkeypatch, capfd, tmp_path):
    code, out, err = run(monkeypatch, capfd, "--out", tmp_path, "--json")
    outcome = json.loads(out)
    assert (code, err) == (0, "")
    for name in ("erm", "idm"):
        assert outcome[name].keys() == {"train", "test", "gray", "seconds"}
        assert 0 <= outcome[name]["test"] <= 1
    assert outcome["seconds"] >= outcome["erm"]["seconds"] > 0


def test_a_finished_demonstration_is_shown_afresh(tiny, monkeypatch, capfd, tmp_path):
    first = run(monkeypatch, capfd, "--out", tmp_path)
    second = run(monkeypatch, capfd, "--out", tmp_path)
    assert first[0] == second[0] == 0
    assert second[2].count("step 12") == first[2].count("step 12") == 2


def test_the_reversed_domain_takes_no_part_in_training():
    dataset = plan.load_demo_data(0)
    config = plan.demo_config("idm", dataset, 0, "cpu")
    assert config.test_domains == ("10%",)
    assert config.task(dataset).num_domains == 2
    for digits, training in [(dataset.domains[2], t) for t in dataset.domains[:2]]:
        ours = {image.numpy().tobytes() for image in digits.x.amax(1)}
        seen = sum(image.numpy().tobytes() in ours for image in training.x.amax(1))
        assert seen < 10  # MNIST has a few digits that are the same at 14×14


def test_the_sentence_follows_the_numbers():
    good = {"erm": plan.Accuracies(0.9, 0.1, 0.6), "idm": plan.Accuracies(0.7, 0.69, 0.7)}
    assert "collapsed to 10%" in demo_sentence(good)
    assert "kept 69%" in demo_sentence(good)
    bad = {"erm": plan.Accuracies(0.9, 0.6, 0.6), "idm": plan.Accuracies(0.7, 0.5, 0.7)}
    assert "reached 60%" in demo_sentence(bad)
    assert "reached only 50%" in demo_sentence(bad)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_erm_fails_and_idm_holds_on_the_reversed_domain(monkeypatch, capfd, tmp_path, seed):
    code, out, _ = run(monkeypatch, capfd, "--out", tmp_path, "--seed", seed, "--json")
    outcome = json.loads(out)
    assert code == 0
    assert outcome["erm"]["test"] < 0.30
    assert outcome["idm"]["test"] > 0.65
