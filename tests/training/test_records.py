import pytest
from _internals import Records, RunConflict


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "records.jsonl"
    for step in (1, 3, 5):
        Records(path).append({"step": step, "accuracy": {"ü/in": 0.1 * step}})
    return path


def test_records_come_back_exactly(path):
    assert Records(path).read() == [{"step": s, "accuracy": {"ü/in": 0.1 * s}} for s in (1, 3, 5)]


def test_a_line_cut_short_is_not_a_record(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    assert [r["step"] for r in Records(path).read()] == [1, 3]


@pytest.mark.parametrize(("step", "left"), [(0, []), (3, [1, 3]), (4, [1, 3]), (9, [1, 3, 5])])
def test_rewinding_drops_what_comes_after(path, step, left):
    assert [r["step"] for r in Records(path).rewind(step)] == left
    assert [r["step"] for r in Records(path).read()] == left


def test_rewinding_a_torn_file_leaves_only_whole_lines(path):
    untouched = path.read_bytes()
    path.write_bytes(untouched + b'{"step": 7, "acc')
    Records(path).rewind(100)
    assert path.read_bytes() == untouched


def test_a_value_that_json_cannot_hold_is_refused(path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Records(path).append({"step": 7, "loss": float("nan")})


def test_no_file_no_records(tmp_path):
    assert Records(tmp_path / "none").read() == []
    assert Records(tmp_path / "none").rewind(5) == []


@pytest.mark.parametrize("damage", [b"{not json}\n", b"7\n", b"{}\n"])
def test_a_damaged_line_is_named(path, damage):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], damage, *lines[1:]]))
    with pytest.raises(RunConflict, match="damaged in line 2"):
        Records(path).read()
