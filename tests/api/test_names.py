"""The public names: which they are, what importing them costs, and that nothing hides them."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import shiftproof

PUBLIC = {
    *("load", "diagnose", "expect", "train", "train_each", "sweep", "report", "load_model"),
    *("compare_sites", "evaluate", "export", "features", "predict", "recalibrate", "study"),
    *("ShiftproofClassifier", "ShiftproofRegressor", "InterDomainMatching", "pdm", "TrainedModel"),
    *("Algorithm", "Losses", "Batch", "Task", "Observer"),
    *("Domain", "DomainDataset", "DatasetCard", "DatasetSource"),
    *("hparam", "Float", "Int", "Choice", "ALGORITHMS", "DATASETS", "METRICS", "Metric"),
    *("ShiftproofError", "__version__"),
}


def in_a_new_process(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout


def test_exactly_these_are_public() -> None:
    assert set(shiftproof.__all__) == PUBLIC
    assert len(shiftproof.__all__) == len(PUBLIC)
    assert dir(shiftproof) == sorted(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_name_is_there(name: str) -> None:
    assert getattr(shiftproof, name) is getattr(shiftproof, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'shiftproof' has no attribute 'trian'"):
        shiftproof.trian  # noqa: B018


# Importing a submodule binds its name in the package; a verb of the same name must stay.
def test_a_star_import_brings_them_all_and_no_submodule_hides_one() -> None:
    modules = ["shiftproof.reporting.page", "shiftproof.api.train", "shiftproof.matching.pdm"]
    found = in_a_new_process(
        "from shiftproof import *\n"
        "print(sorted(n for n in dir() if n == '__version__' or n[0] != '_'))\n"
        f"import {', '.join(modules)}, sys, shiftproof, shiftproof.api.report\n"
        f"assert all(name in sys.modules for name in {modules})\n"
        "print(*(type(getattr(shiftproof, name)).__name__"
        " for name in ('report', 'train', 'load', 'sweep', 'pdm')))"
    )
    names, types = found.splitlines()
    assert names == repr(sorted(PUBLIC))
    assert set(types.split()) == {"function"}


def test_importing_is_quick_and_imports_nothing_heavy() -> None:
    script = (
        "import sys, time; start = time.process_time(); import shiftproof\n"
        "print(time.process_time() - start)\n"
        "print(sorted({'torch', 'numpy', 'pandas', 'click', 'rich'} & set(sys.modules)))"
    )
    runs = [in_a_new_process(script).splitlines() for _ in range(5)]
    assert {heavy for _, heavy in runs} == {"[]"}
    assert min(float(seconds) for seconds, _ in runs) < 0.1


def test_submodules_can_still_be_imported_by_name() -> None:
    assert inspect.ismodule(importlib.import_module("shiftproof.reporting"))
    from _internals import MOST_LINES

    assert MOST_LINES == 25


def test_train_each_takes_what_train_takes() -> None:
    of_train = dict(inspect.signature(shiftproof.train).parameters)
    del of_train["test_domains"]
    assert of_train == inspect.signature(shiftproof.train_each).parameters
