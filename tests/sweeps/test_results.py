import json
import zlib

import pytest
from _internals import DataError, Evaluation, read_planned_run, read_sweep, write_json
from stored_runs import write_hashes, write_stored_run

from shiftproof import ShiftproofError

DOMAINS = ["dark", "a/b", "noisy"]


def write_run(folder, *, test_domains=("a/b",), seeds=(3, 1), done="finished", algorithm="idm"):
    names = ["dataset", "algorithm", "domains", "test_domains", "hparams_seed", "trial_seed"]
    job = dict(zip(names, ("mine", algorithm, DOMAINS, test_domains, *seeds), strict=True))
    config = {"dataset": "mine-features", "algorithm": algorithm, "test_domains": test_domains}
    records = [
        {"step": 1, "accuracy": {"dark/out": 0.5, "a/b/in": 0.25, "a/b/out": 0.75, "gray": 1.0}},
        {"step": 11, "accuracy": {"dark/out": 0.625}},
    ]
    write_stored_run(folder, config, records, job, done or "finished")
    with open(folder / "records.jsonl", "a") as file:
        file.write('{"step": 21, "accu')  # cut short
    if done:
        write_hashes(folder)
    else:
        (folder / "done.json").unlink()
    return folder


FAILED = {"title": "a run", "reason": "no memory", "trace": ""}


def test_a_run_of_ours(tmp_path):
    folder = write_run(tmp_path / "run")
    outcome = read_planned_run(folder)
    assert outcome.evaluations == (
        Evaluation(1, (None, 0.25, None), (0.5, 0.75, None), extras=(("gray", 1.0),)),
        Evaluation(11, (None, None, None), (0.625, None, None)),
    )
    assert outcome.key == ("mine", "idm", (1,), 3, 1)  # as the sweep calls it
    assert (outcome.status, outcome.folder) == ("finished", folder)
    assert read_sweep(tmp_path) == [outcome]


def test_how_a_run_ended(tmp_path):
    write_run(tmp_path / "0", seeds=(0, 0), done=None)
    write_run(tmp_path / "1", seeds=(1, 0), done="diverged")
    write_json(write_run(tmp_path / "2", seeds=(2, 0), done=None) / "failed.json", FAILED)
    (write_run(tmp_path / "deep/3", seeds=(3, 0), done=None) / "config.json").unlink()
    (write_run(tmp_path / "deep/4", seeds=(4, 0), done=None) / "config.json").unlink()
    write_json(tmp_path / "deep/4/failed.json", FAILED)
    runs = read_sweep(tmp_path)
    assert [run.hparams_seed for run in runs] == [0, 1, 2, 3, 4]
    assert [run.status for run in runs] == ["running", "diverged", "failed", "running", "failed"]
    assert [len(run.evaluations) for run in runs] == [2, 2, 2, 0, 0]


def test_two_of_the_same_are_an_error_that_names_both(tmp_path):
    write_run(tmp_path / "one", test_domains=("dark", "noisy"))
    write_run(tmp_path / "two", test_domains=("noisy", "dark"))
    with pytest.raises(DataError, match=r"one and .*two are the same run .*dark, noisy") as error:
        read_sweep(tmp_path)
    assert "\n" not in str(error.value)


def spoil(folder, name, text):
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("job.json", "{", "job.json is missing or damaged"),
        (
            "job.json",
            '{"format": 2, "dataset": "x"}',
            "expected a JSON object with dataset, algorithm, domains",
        ),
        ("config.json", "[]", "config.json is missing or damaged"),
        (
            "config.json",
            '{"dataset": "x", "algorithm": "idm", "test_domains": ["light"]}',
            "holds out 'light', not one of dark, a/b, noisy",
        ),
        (
            "config.json",
            '{"dataset": "x", "algorithm": "idm", "test_domains": ["dark"]}',
            "of different runs",
        ),
        (
            "config.json",
            '{"dataset": "x", "algorithm": "erm", "test_domains": ["a/b"]}',
            "of different runs",
        ),
    ],
)
def test_damaged_files_are_named(tmp_path, name, text, message):
    path = write_run(tmp_path / "run", done=None) / name
    changes = json.loads(text) if text.startswith('{"') else None
    if name == "config.json" and changes:
        path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))
    else:
        path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        read_sweep(tmp_path)
    assert "\n" not in str(error.value)


def test_folders_that_hold_no_sweep(tmp_path):
    with pytest.raises(DataError, match=r"holds no sweep: no job\.json .* no results\.jsonl"):
        read_sweep(tmp_path)
    with pytest.raises(DataError, match=r"there is no .*nowhere; give the folder of a sweep"):
        read_sweep(tmp_path / "nowhere")
    write_run(tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/results.jsonl").write_text("")
    with pytest.raises(DataError, match="mixes runs of Shiftproof"):
        read_sweep(tmp_path)


@pytest.mark.parametrize(
    "odd",
    [
        {"step": "1"}, {"step": True}, {"accuracy": [0.5]}, {"accuracy": {"dark/out": "0.5"}},
        {"risk": {"dark/out": None}}, {"r2": {"dark/out": True}}, {"shift": {"classes": "2"}},
        {"step": 2**63}, {"accuracy": {"dark/out": 1.5}}, {"accuracy": {"dark/out": -0.25}},
        {"accuracy": {"dark/out": float("nan")}}, {"risk": {"dark/out": float("inf")}},
        {"accuracy": {"dark/out": 0.5, "a/b/out": float("nan")}}, {"r2": {"dark/out": -(10**400)}},
        {"risk": {"dark/out": 0.5, "a/b/out": float("nan")}}, {"mae": {"dark/out": 1e308}},
    ],
)  # fmt: skip
def test_a_record_with_values_of_other_types_is_one_line(tmp_path, odd):
    write_run(tmp_path / "run")
    good = {"step": 1, "accuracy": {"dark/out": 0.5}, "risk": {"dark/out": 1}}
    lines = [good, good | {"step": 2} | odd]
    texts = [json.dumps(line) for line in lines]
    checked = [f'{text[:-1]}, "crc32": {zlib.crc32(text.encode())}}}\n' for text in texts]
    (tmp_path / "run/records.jsonl").write_text("".join(checked))
    write_hashes(tmp_path / "run")
    with pytest.raises(ShiftproofError, match="is damaged in line 2") as error:
        read_planned_run(tmp_path / "run")
    assert "\n" not in str(error.value)
    assert "checksum" not in str(error.value) or "nan" in str(odd).lower() or "inf" in str(odd)
