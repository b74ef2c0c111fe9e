"""What is fitted at once to a table is trained, used and judged by a process without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

# Runs the commands in turn.
COMMANDS = """
import json, sys
from shiftproof.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["shiftproof", *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""
# Makes torch, torchvision and timm unimportable.
REFUSED = """
import sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision", "timm"):
            raise ModuleNotFoundError(f"{name} is not to be imported here", name=name)

sys.meta_path.insert(0, Refusal())
"""


def run(code: str, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-c", code, json.dumps(commands)]
    return subprocess.run(given, capture_output=True, text=True)


def without_torch(*commands: list[str]) -> str:
    done = run(REFUSED + COMMANDS, *commands)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["ward"] = np.array(["north", "south"])[rng.integers(0, 2, 120)]
    frame.loc[::9, "b"] = np.nan
    frame["site"] = np.repeat(["p", "q", "r"], 40)
    frame["ill"] = np.where(x[:, 0] + 0.5 * rng.normal(size=120) > 0, "yes", "no")
    frame["days"] = 3 * x[:, 0] + rng.normal(size=120)
    path = tmp_path_factory.mktemp("table") / "patients.csv"
    frame.to_csv(path, index=False)
    return path


FEW = {"linear": "penalty=1", "boosting": "trees=5", "forest": "trees=5"}


def verbs(label, other, table, tmp_path):
    """Return the commands that train, predict and evaluate with each learner."""
    rows = ["--label", label, "--domain", "site", "--drop", other]
    commands = []
    for name, setting in FEW.items():
        asked = ["--algorithm", name, "--hparam", setting, "--out", str(tmp_path / name), "--quiet"]
        commands.append(["train", str(table), *rows, *asked, "--test-domain", "r"])
        found = str(tmp_path / f"{name}.csv")
        commands.append(["predict", str(tmp_path / name), str(table), "--out", found, "--quiet"])
        commands.append(["evaluate", str(tmp_path / name), str(table), "--label", label, "--quiet"])
    return commands


def test_train_predict_and_evaluate_import_no_torch(table, tmp_path):
    """One process for all learners and both kinds of label: what it costs is to start."""
    each = [
        *("train", str(table), "--label", "ill", "--domain", "site", "--drop", "days"),
        *("--algorithm", "linear", "--hparam", "penalty=1", "--test-domain", "each"),
        *("--out", str(tmp_path / "each"), "--quiet"),
    ]
    said = without_torch(
        *verbs("ill", "days", table, tmp_path / "ill"),
        *verbs("days", "ill", table, tmp_path / "days"),
        each,
    )
    assert said.count("the run is in") == 2 * len(FEW)
    for label in ("ill", "days"):
        truth = pd.read_csv(table)[label]
        for name in FEW:
            assert (tmp_path / label / name / "done.json").is_file()
            assert (tmp_path / label / name / "model.safetensors").is_file()
            predicted = pd.read_csv(tmp_path / label / f"{name}.csv")["predicted"]
            # It has learnt something: better than chance, or than the mean.
            if label == "ill":
                assert (predicted == truth).mean() > 0.7
            else:
                assert (predicted - truth).abs().mean() < (truth - truth.mean()).abs().mean()
    assert "3 runs; they are in" in said
    assert len(list((tmp_path / "each").glob("*/model.safetensors"))) == 3


@pytest.mark.parametrize("algorithm", ["idm", "erm"])
def test_a_network_without_torch_names_the_extra(algorithm, table, tmp_path):
    rows = ["--label", "ill", "--domain", "site", "--out", str(tmp_path / "run"), "--quiet"]
    done = run(REFUSED + COMMANDS, ["train", str(table), *rows, "--algorithm", algorithm])
    assert done.returncode == 2
    assert done.stderr == (
        "error: this needs torch, which is not installed; run pip install 'shiftproof[torch]'\n"
    )


def test_names_that_need_torch_name_the_extra():
    code = REFUSED + (
        "import shiftproof\n"
        "for name in ('InterDomainMatching', 'pdm', 'Algorithm'):\n"
        "    try:\n"
        "        getattr(shiftproof, name)\n"
        "    except shiftproof.ShiftproofError as error:\n"
        "        print(isinstance(error, ImportError), \"'shiftproof[torch]'\" in str(error))\n"
    )
    done = run(code)
    assert done.stdout == "True True\n" * 3, done.stderr


# Prints what was imported and the memory used.
IMPORTED = """
import re
print([name for name in ("torch", "skops", "sklearn") if name in sys.modules])
print(int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


def imported(*commands: list[str]) -> tuple[str, int]:
    """Return which libraries a process has imported at its end, and its memory in MiB."""
    done = run(COMMANDS + IMPORTED, *commands)
    assert done.returncode == 0, done.stderr
    *_, names, memory = done.stdout.splitlines()
    return names, int(memory)


def test_torch_and_skops_are_not_imported_where_they_are_installed(table, tmp_path):
    """Training needs scikit-learn; predicting does not need it either."""
    pytest.importorskip("torch")
    columns = ["--label", "ill", "--domain", "site", "--drop", "days", "--test-domain", "r"]
    training = []
    for name in (*FEW, "best"):
        few = ["--hparam", FEW.get(name, "budget=5")]
        out = ["--out", str(tmp_path / name), "--quiet"]
        training.append(["train", str(table), *columns, "--algorithm", name, *few, *out])
    assert imported(*training)[0] == "['sklearn']"
    predicting = [
        ["predict", str(tmp_path / name), str(table), "--out", str(tmp_path / "p.csv"), "--quiet"]
        for name in (*FEW, "best")
    ]
    names, memory = imported(*predicting)
    assert names == "[]"
    assert memory < 300
