"""JSON lines: the same values as `json.loads` of each line."""

import json
import random

import pytest
from _internals import json_lines


def one_by_one(data: bytes):
    found = []
    for line in data.splitlines(keepends=True):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        found.append((value, line.endswith(b"\n")))
    return found


ODD = (
    b"", b"\n", b"{}", b"{}\n{", b'{"a": 1}\n{"a": 2}', b' {"a": 1} \n[1,\n2]\n', b"\xff\n{}\n",
    b'{"a": "\xc3\xa9\xe2\x80\xa8"}\n', b'{"a": 1},{"a": 2}\n', b"{}\r\n{}\r{}\n",
    b"\xef\xbb\xbf{}\n",
    b'{"a": {"b": 1}, "c": 1}\n{"a": {"b": 1}, }\n', b'{"a": {"b": 1}, "c": 2, "a": 3}\n' * 2,
    b'{"a": {"b": 1}}\n{"a": {"b": 1}}\n', b'{"a": 1, "c": 2}\n{"a": 1, "c": 2} x\n',
    b'{"a": 1, "c": 2}\n{"a": 1, "c": 2', b'{"a": 1, "c": 2}\n{"a": 1, 5: 2}\n',
    b"[" * 100_000 + b"\n", b"[1,\n2]\n", b"{}\n[\n]\n{}\n", b"{}\n" * 3,
    b"[1\n2]\n1,2\n", b"[1\n2]\n1,0,2\n", b"1]\n", b"{}]\n[{}\n", b'{"a": [{}\n{}]}\n{},{}\n',
    b'{"a": 1, "c": [\n2]}\n', b'{"a": 1}\n\n{"a": 1}\n', b'{"a": "\\ud800"}\n', b"null\n1\n",
)  # fmt: skip


@pytest.mark.parametrize("data", ODD)
def test_odd_files_are_read_as_line_by_line(data):
    assert list(json_lines(data)) == one_by_one(data)


def test_damaged_files_are_read_as_line_by_line():
    rng = random.Random(0)
    lines = [{"a": {"b": n // 3}, "step": n, "c": [0.1 * n, None, "é"]} for n in range(6)]
    whole = "".join(json.dumps(line, ensure_ascii=n % 2 > 0) + "\n" for n, line in enumerate(lines))
    for _ in range(300):
        data = bytearray(whole.encode())
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b'\n\r"{},:]0 \xff')
        assert list(json_lines(bytes(data))) == one_by_one(bytes(data))
