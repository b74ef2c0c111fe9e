import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from _internals import DataError, InvalidValue, UnknownName, read_table, table_dataset

from shiftproof import ShiftproofError

HEART = Path(__file__).parents[4] / "shared/data/heart-disease/heart.csv"
SMALL = "age,label,domain\n1,a,x\n2,b,x\n3,a,y\n4,b,y\n"


def load_table(path, label=None, domain=None):
    return table_dataset(read_table(path), path.name, label, domain)


@pytest.fixture
def write(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def rows_of(dataset):
    """(domain, class, cells) of every row: domain by domain, in order."""
    return [
        (domain.name, dataset.classes[y], x)
        for domain in dataset.domains
        for x, y in zip(domain.x.tolist(), domain.y.tolist(), strict=True)
    ]


# What a file may look like.


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (SMALL, "table.csv"),
        ("\ufeff" + SMALL, "table.csv"),
        (SMALL.replace("\n", "\r\n"), "table.txt"),
        (SMALL.replace(",", ";"), "table.csv"),
        (SMALL.replace(",", "\t"), "table.tsv"),
        (SMALL.replace(",", " , "), "table.csv"),
        (SMALL, "without-suffix"),
        (SMALL.replace("\n", "\n\n"), "blank-lines.csv"),
        (SMALL.rstrip(), "no-last-line-end.csv"),
        (SMALL.replace("a,", '"a",').replace("age", '"age"'), "quotes.csv"),
        (gzip.compress(SMALL.encode(), mtime=0), "table.csv.gz"),
        (gzip.compress(SMALL.replace(",", "\t").encode(), mtime=0), "named-wrongly.csv"),
    ],
)
def test_the_same_table_in_any_dress(write, content, name):
    dataset = load_table(write(content, name))
    assert rows_of(dataset) == [
        ("x", "a", [1.0]),
        ("x", "b", [2.0]),
        ("y", "a", [3.0]),
        ("y", "b", [4.0]),
    ]
    assert (dataset.name, dataset.regime, dataset.backbone) == (name, "table", "mlp")
    assert dataset.notes == ()


def test_parquet_whose_metadata_are_no_text_is_read_without_them(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"a": [1, 2]}).replace_schema_metadata({b"pandas": b'{"columns": "\xb0"}'})
    pq.write_table(table, path)
    assert read_table(path).to_pydict() == {"a": [1, 2]}


def test_parquet_holds_what_the_frame_held(tmp_path):
    frame = read_frame_of(SMALL).assign(ward=pd.Categorical(["n", "s", "n", "s"]))
    frame.set_index("domain").to_parquet(tmp_path / "a.parquet")
    frame.iloc[::-1].to_parquet(tmp_path / "b.parquet")  # an index without a name is no column
    wanted = table_dataset(frame, "t").fingerprint
    assert load_table(tmp_path / "a.parquet").fingerprint == wanted
    other = read_table(tmp_path / "b.parquet")
    assert other.column_names == list(frame.columns)
    assert table_dataset(other.take([3, 2, 1, 0]), "t").fingerprint == wanted


def read_frame_of(text):
    return pd.read_csv(io.StringIO(text))


def test_large_whole_numbers_stay_apart_in_parquet_and_csv(tmp_path, write):
    big = [2**53, 2**53 + 1, None, 2**53, 2**53 + 1, 2**53]
    frame = pd.DataFrame({"label": pd.array(big, dtype="Int64"), "domain": list("xxxyyy")})
    frame["age"] = [1, 2, 3, 4, 5, 6]
    frame.to_parquet(tmp_path / "a.parquet")
    expected = (str(2**53), str(2**53 + 1))
    assert load_table(tmp_path / "a.parquet").classes == expected
    assert load_table(write(frame.to_csv(index=False))).classes == expected
    longer = "age,label,domain\n" + "".join(f"1,{10**30 + i % 2},{i % 3}\n" for i in range(9))
    assert load_table(write(longer)).classes == (str(10**30), str(10**30 + 1))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2", "3"], [1, 2, 3]),
        (["1.5", "-2e3", "+.5"], [1.5, -2000, 0.5]),
        (["1", "", "3"], [1, None, 3]),
        (["1", "?", "nAn"], [1, None, None]),
        (["NULL", "n/a", "3"], [None, None, 3]),
        (["1", "None", "-"], [1, None, None]),
        (["a", "None", "NA"], ["a", "None", None]),
        (["007", "1", "2"], ["007", "1", "2"]),
        (["1,5", "2", "3"], ["1,5", "2", "3"]),
        (["1", "x", "3"], ["1", "x", "3"]),
        (["0.1", "1e-320", "123456789.123456789"], [0.1, 1e-320, 123456789.123456789]),
        (["1" * 5000, "2", "3"], ["1" * 5000, "2", "3"]),
    ],
)
def test_values(write, cells, expected):
    quoted = "\n".join(f'"{cell}",1' for cell in cells)
    assert read_table(write(f"a,b\n{quoted}\n"))["a"].to_pylist() == expected


def test_a_comma_in_a_file_of_semicolons_is_the_decimal_point(write):
    frame = read_table(write("a;b\n1,5;x, y\n-2;z\n,25;z\n"))
    assert frame["a"].to_pylist() == [1.5, -2, 0.25]
    assert frame["b"].to_pylist() == ["x, y", "z", "z"]


# Labels and domains.


def test_classes_and_domains_are_sorted_as_numbers_if_they_are(write):
    content = "age,label,domain\n" + "".join(
        f"{i},{label},{domain}\n"
        for i, (label, domain) in enumerate([("10.0", 2010), ("9.0", 999), ("-1", 2010), (9, 999)])
    )
    dataset = load_table(write(content))
    assert (dataset.classes, dataset.domain_names) == (("-1", "9", "10"), ("999", "2010"))
    assert rows_of(dataset) == [
        ("999", "9", [1.0]),
        ("999", "9", [3.0]),
        ("2010", "10", [0.0]),
        ("2010", "-1", [2.0]),
    ]
    mixed = load_table(write(content.replace("-1", "b")))
    assert mixed.classes == ("10", "9", "b")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([True, False], ("False", "True")),
        ([1, 0], ("0", "1")),
        ([1.0, 0.0], ("0", "1")),
        (["yes", "no"], ("no", "yes")),
        (["007", "7"], ("007", "7")),
        ([0.5, 1.5], ("0.5", "1.5")),
        (pd.Categorical([7, 3]), ("3", "7")),
    ],
)
def test_any_type_may_label(labels, classes):
    frame = pd.DataFrame({"age": [1, 2, 3, 4], "domain": list("xxyy")})
    frame["label"] = pd.Series([*labels, *labels])
    dataset = table_dataset(frame, "t")
    assert dataset.classes == classes
    expected = [classes.index(name) for name in map(str, labels)] if classes[0] != "0" else [1, 0]
    assert dataset.domains[0].y.tolist() == expected
    assert dataset.domains[0].y.dtype == torch.int64


def test_rows_without_a_label_or_domain_are_left_out_and_counted(write):
    rows = ["1,a,x", "2,,x", "3,b,y", "4,?,y", "5,NA,y", "6,a,", "7,b,x", "8,,z", "9,,"]
    dataset = load_table(write("\n".join(["age,label,domain", *rows])))
    assert [(d, c, x[0]) for d, c, x in rows_of(dataset)] == [
        ("x", "a", 1),
        ("x", "b", 7),
        ("y", "b", 3),
    ]
    assert dataset.notes == (
        "left out 4 rows without a label: 'x' 1, 'y' 2, 'z' all 1",
        "left out 2 rows without a domain",
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"label": "lable"}, UnknownName, "unknown column of t 'lable'; did you mean 'label'"),
        ({"domain": "qqq"}, UnknownName, "known: age, label, domain"),
        ({"drop": ["aeg"]}, UnknownName, "did you mean 'age'"),
        ({"label": "domain"}, InvalidValue, "name the same column"),
        ({"drop": ["label"]}, InvalidValue, "`drop` names 'label', which is the label"),
        ({"drop": ["age"]}, DataError, "no column to learn from"),
    ],
)
def test_wrong_columns(arguments, error, message):
    with pytest.raises(error, match=message):
        table_dataset(read_frame_of(SMALL), "t", **arguments)


def test_columns_are_named_one_by_one_or_separated_by_commas():
    x = np.arange(12.0)
    frame = pd.DataFrame({"a": x % 5, "b": x % 3, "a,b": x % 2, "c": x % 7})
    frame["label"], frame["domain"] = [0, 1] * 6, ["p", "q"] * 6
    for drop, kept in (
        (["a", "c"], ["b", "a,b"]),
        (["a, c"], ["b", "a,b"]),
        (["a,b"], ["a", "b", "c"]),  # a column of this name is meant
        (["a,b", "b,a"], ["c"]),
    ):
        columns = table_dataset(frame, "t", drop=drop).preparation.columns
        assert [column.name for column in columns] == kept
    columns = table_dataset(frame, "t", categorical=["b,c"]).preparation.columns
    assert [c.name for c in columns if c.kind == "category"] == ["b", "c"]
    with pytest.raises(UnknownName, match="'d'"):
        table_dataset(frame, "t", drop=["a,d"])


def test_dropped_columns_are_no_features():
    frame = read_frame_of(SMALL).assign(**{"two  words": [1, 2, 3, 5]})
    dataset = table_dataset(frame, "t", drop=["two  words"])
    assert [column.name for column in dataset.preparation.columns] == ["age"]
    dataset = table_dataset(frame, "t", drop=["age"])
    assert [column.name for column in dataset.preparation.columns] == ["two words"]


def test_labels_and_domains_must_be_such():
    frame = pd.DataFrame({"q": np.linspace(0, 1, 60), "i": range(60), "age": [1, 2] * 30})
    frame["label"], frame["domain"] = ["a", "b"] * 30, ["x"] * 30 + ["y"] * 30
    frame["lists"] = [[1]] * 60
    with pytest.raises(DataError, match="'q' of t has 60 distinct values in 60 rows, too many for"):
        table_dataset(frame, "t", label="q", task="classification")
    with pytest.raises(DataError, match="the domain column 'i' of t has 60 distinct numbers"):
        table_dataset(frame, "t", domain="i")
    with pytest.raises(DataError, match="holds neither numbers nor text"):
        table_dataset(frame, "t", label="lists")
    with pytest.raises(DataError, match="one class only, 'a', in 30 rows"):
        table_dataset(frame[frame.label == "a"], "t")
    with pytest.raises(DataError, match="one domain only, 'x', in 30 rows"):
        table_dataset(frame[frame.domain == "x"], "t")
    with pytest.raises(
        DataError, match=r"has no column named 'domain'; set `domain` to one of 'q', 'i'"
    ):
        table_dataset(frame.drop(columns="domain"), "t")
    with pytest.raises(DataError, match="the label column 'label' of t is empty"):
        table_dataset(frame.assign(label=None), "t")
    many = pd.DataFrame(
        {"label": np.arange(4000) // 2, "domain": [0, 1] * 2000, "age": [1, 2] * 2000}
    )
    with pytest.raises(DataError, match="has 2000 distinct values in 4000 rows"):
        table_dataset(many, "t", task="classification")


# Features.


def test_columns_that_are_no_features_are_left_out_and_named():
    n = 60
    frame = pd.DataFrame(
        {
            "": range(n),
            "age": [1.5, 2.5] * (n // 2),
            "patient": [f"P{i}" for i in range(n)],
            "seen": pd.date_range("2020-01-01", periods=n),
            "born": ["1990-02-03", "1980-12-31"] * (n // 2),
            "void": [None] * n,
            "lists": [[1]] * n,
            "code": ["1", "2", "3"] * (n // 3),
            "label": ["a", "b"] * (n // 2),
            "domain": ["x"] * (n // 2) + ["y"] * (n // 2),
        }
    )
    dataset = table_dataset(frame, "t")
    assert [column.name for column in dataset.preparation.columns] == ["age", "code"]
    assert dataset.notes == (
        "left out, row numbers: 'unnamed 1'",
        "left out, text with too many distinct values: 'patient'",
        "left out, dates; turn them into numbers to use them: 'seen', 'born'",
        "left out, no values: 'void'",
        "left out, neither numbers nor text: 'lists'",
        "column 'code' holds numbers as text; they are taken as categories",
        "column 'age' determines the label exactly; if it is a copy, drop it: `drop=['age']`",
    )
    with pytest.raises(DataError, match=r"no column to learn from; left out, dates.*'seen'$"):
        table_dataset(frame[["seen", "label", "domain"]], "t")


def test_copies_of_the_domain_are_named_but_not_what_is_nearly_one():
    frame = pd.DataFrame({"label": ["a", "b", "c"] * 4, "domain": list("xxxyyyzzzwww")})
    frame["site"] = frame["domain"].map({"x": 4.0, "y": np.nan, "z": 1.0, "w": 2.0})
    frame["near"] = frame["site"].fillna(7).mask(frame.index == 3, 4.0)
    frame["wing"] = frame["site"].fillna(0) > 1
    notes = table_dataset(frame, "t").notes
    assert [note.split(";")[0] for note in notes] == ["column 'site' determines the domain exactly"]
    twins = pd.DataFrame({"label": list("aabb"), "domain": list("xxyy"), "age": [1, 2, 1, 2]})
    assert "the domain determines the label exactly" in table_dataset(twins, "t").notes[0]


def test_two_columns_of_one_name_are_an_error():
    frame = read_frame_of(SMALL)
    with pytest.raises(DataError, match="t has two columns named 'age'; rename one"):
        table_dataset(pd.concat([frame, frame[["age"]]], axis=1), "t")


# The hospitals.


@pytest.mark.skipif(not HEART.exists(), reason="the shared data are not here")
def test_heart_disease():
    dataset = load_table(HEART, "disease", "hospital")
    counts = {domain.name: len(domain) for domain in dataset.domains}
    assert counts == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
    assert (dataset.classes, dataset.input_shape, dataset.notes) == (("0", "1"), (13,), ())
    with open(HEART, newline="") as file:
        rows = list(csv.DictReader(file))
    frame = pd.read_csv(HEART)
    for held_out in counts:
        parts = {name: np.arange(size) for name, size in counts.items() if name != held_out}
        ready = dataset.prepared(dataset.fit_preparation(parts))
        seen = frame[frame.hospital != held_out]
        for domain in ready.domains:
            own = [row for row in rows if row["hospital"] == domain.name]
            assert [dataset.classes[y] for y in domain.y] == [row["disease"] for row in own]
            assert domain.x.isfinite().all()
            for position, name in enumerate(dataset.preparation.columns):
                x = frame.loc[frame.hospital == domain.name, name.name].fillna(
                    seen[name.name].median()
                )
                z = (x - seen[name.name].mean()) / seen[name.name].std(ddof=0)
                np.testing.assert_allclose(domain.x[:, position], z, rtol=1e-5, atol=1e-5)


# Broken files: one line that names the place, or the right labels.

REFUSED = {
    "empty": (b"", "is empty"),
    "blank lines only": (b"\n\n  \n\n", "has a header but no rows"),
    "byte order mark only": (b"\xef\xbb\xbf", "is empty"),
    "header only": (b"age,label,domain\n", "has a header but no rows"),
    "long row": (SMALL + "5,a,x,9\n", "line 6: 4 fields where the header has 3"),
    "short row": (SMALL + "5,a\n", "line 6: 2 fields where the header has 3"),
    "all rows one field too long": ("age,label,domain\n1,a,x,\n2,b,y,\n", "line 2: 4 fields"),
    "all rows one field too short": ("age,label,domain\n1,a\n2,b\n", "line 2: 2 fields"),
    "long row after lines in quotes": ('a,b\n"1\n2\n3",4\n\n5,6,7\n', "line 6: 3 fields"),
    "unquoted separator": (SMALL + "5,a, b,x\n", "line 6: 4 fields"),
    "other separator in a row": (SMALL + "5;a;x\n", "line 6: 1 field where"),
    "quote never closed": (SMALL + '5,"a,x\n6,b,y\n', "line 6: a quote is never closed"),
    "quote in the header never closed": ('age,"label,domain\n1,a,x\n', "line 1: a quote"),
    "text after a quote": (SMALL + '5,"a"b,x\n', "line 6: ',' expected after '\"'"),
    "quote swallows rows": (SMALL + '5,"a,x\n6,"b",y\n7,a,x\n', "line 6: "),
    "zero byte": (SMALL.encode() + b"5,a\0,x\n", "zero byte in line 6"),
    "zero bytes only": (bytes(100), "zero byte in line 1"),
    "utf-16": (SMALL.encode("utf-16"), "is in UTF-16 or UTF-32; save it as CSV UTF-8"),
    "utf-16 without a mark": (SMALL.encode("utf-16-le"), "zero byte in line 1"),
    "utf-32": (SMALL.encode("utf-32"), "UTF-32; save"),
    "latin-1": (SMALL.encode() + "5,é,x\n".encode("latin-1"), "0xe9 in line 6; if it is in Latin"),
    "latin-1 header": ("âge,label,domain\n1,a,x\n".encode("latin-1"), "0xe2 in line 1"),
    "windows-1252": (SMALL.encode() + b"5,\x93a\x94,x\n", "not in UTF-8: byte 0x93 in line 6"),
    "cut inside a letter": (SMALL.encode() + "5,a,é".encode()[:-1], "not in UTF-8"),
    "random bytes": (np.random.default_rng(0).bytes(5000), "zero byte|not in UTF-8"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(50), "not in UTF-8"),
    "excel": (b"PK\x03\x04" + bytes(50), "Excel workbook; save the sheet as CSV"),
    "gzip cut short": (gzip.compress(SMALL.encode() * 50, mtime=0)[:-20], "damaged or incomplete"),
    "gzip damaged": (
        gzip.compress(SMALL.encode(), mtime=0)[:12] + b"\xff" * 30,
        "damaged or incomplete",
    ),
    "gzip of nothing": (gzip.compress(b"", mtime=0), "is empty"),
    "parquet cut short": (b"PAR1" + bytes(40), "not readable Parquet"),
    "parquet mark only": (b"PAR1", "not readable Parquet"),
    "carriage returns": (SMALL.replace("\n", "\r"), "line 1: a bare carriage return"),
    "huge field": (SMALL + "5," + "a" * 200_000 + ",x\n", "line 6: a field of more than"),
    "long label": (SMALL + "5," + "a" * 5000 + ",x\n", "text of 5000 characters"),
    "long domain": (SMALL + "5,a," + "a" * 5000 + "\n", "the domain column 'domain'"),
    "column named twice": ("age,label,domain,age\n1,a,x,1\n", "two columns named 'age'"),
    "label named twice": ("label,label,domain\n1,a,x\n", "two columns named 'label'"),
    "names that differ by spaces": ("a b,a  b,domain\n1,a,x\n", "two columns named 'a b'"),
    "no such label": (SMALL.replace("label", "y"), "no column named 'label'"),
    "no header": ("1,a,x\n2,b,y\n", "no column named 'label'; set `label` to one of"),
    "only label and domain": ("label,domain\na,x\nb,y\n", "no column to learn from"),
    "one row": ("age,label,domain\n1,a,x\n", "one class only, 'a', in 1 row"),
    "one class": ("age,label,domain\n1,a,x\n2,a,y\n", "one class only, 'a', in 2 rows"),
    "one domain": ("age,label,domain\n1,a,x\n2,b,x\n", "one domain only, 'x', in 2 rows"),
    "no label at all": ("age,label,domain\n1,,x\n2,?,y\n", "label column 'label' of .* is empty"),
    "no domain at all": ("age,label,domain\n1,a,\n2,b,NA\n", "domain column 'domain' of"),
    "never both": ("age,label,domain\n1,a,\n2,,x\n", "no row with both a label and a domain"),
    "no values": ("age,label,domain\n,a,x\n,b,y\n", "no column to learn from; left out, no values"),
    "infinite": (
        SMALL + "inf,a,x\n",
        "column 'age' of .* has 1 infinite value, the first in row 5",
    ),
    "out of range": (SMALL + "1e999,a,x\n-Infinity,a,x\n", "2 infinite values"),
    "classes or amounts": (
        "age,label,domain\n" + "".join(f"{i % 3},{i % 7 / 2},{i % 2}\n" for i in range(50)),
        "7 distinct numbers, some with fractions, in 50 rows, which may be classes or amounts",
    ),
    "newlines in the header": ('"a\nb","c\nd","e"\n1,2,3\n', "one of 'a b', 'c d', 'e'"),
    "not a table": ("Dear reader,\nthis is a letter, not a table.\n", "no column named 'label'"),
    "json": ('{"label": [1, 2],\n "domain": [3, 4]}\n', "line 1|line 2|no column named"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_broken_files_are_refused_in_one_line(write, case):
    content, message = REFUSED[case]
    with pytest.raises(ShiftproofError, match=message) as caught:
        load_table(write(content))
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


def test_what_is_no_file(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="is a folder, not a table"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path / ("x" * 300))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)"):
        read_table(tmp_path / "secret.csv")


ODD = {
    "plain": SMALL,
    "lines and separators in quotes": 'age,label,domain\n1,"a,\nb",x\n2,c,"y;z"\n3,"""d""",x\n',
    "mixed types": "age,label,domain\n1,1,1\nold,1.5,x\n2.5,b,x\ntrue,TRUE,1\n",
    "zero padding": "age,label,domain\n1,01,001\n2,1,1\n3,1,001\n",
    "signs of every kind": "age,label,domain\n1,β,日本\n2,🙂,é\n3,—,日本\n4,β,é\n",
    "label is the domain": "age,label,domain\n1,a,a\n2,b,b\n3,a,a\n",
    "spaces": "age , label,domain \n1, a ,x\n2,b , y\n3,a, x\n",
    "quotes inside": 'age,label,domain\n5" pipe,a,x\n6" pipe,b,y\n',
    "blank lines": "\n\nage,label,domain\n\n1,a,x\n\n\n2,b,y\n\n",
    "formulas and comments": "age,label,domain\n#1,=a,x\n2,@b,#y\n",
    "separators only": "age,label,domain\n1,a,x\n,,\n2,b,y\n,,\n",
    "keywords": "age,label,domain\n1,None,true\n2,none,false\n3,nil,-\n",
    "long feature": "age,label,domain\n" + "z" * 100_000 + ",a,x\n2,b,y\n",
    "many columns": ",".join([*(f"c{i}" for i in range(500)), "label", "domain"])
    + "\n"
    + "".join(",".join([*map(str, range(500)), c, d]) + "\n" for c, d in ("ax", "by", "ay")),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_files_get_the_right_labels(write, case):
    dataset = load_table(write(ODD[case]))
    rows = [[" ".join(cell.split()) for cell in row] for row in csv.reader(io.StringIO(ODD[case]))]
    rows = [row for row in rows if row]
    label, domain = rows[0].index("label"), rows[0].index("domain")
    expected = [(row[domain], row[label]) for row in rows[1:] if row[domain] and row[label]]
    # Domains come in their own order, rows in that of the file.
    expected.sort(key=lambda pair: dataset.domain_names.index(pair[0]))
    assert [(d, c) for d, c, _ in rows_of(dataset)] == expected


@pytest.mark.parametrize("seed", range(40))
def test_damaged_tables_are_refused_or_read_as_csv_reads_them(write, seed):
    """Random bytes of a good file changed, removed or doubled."""
    rng = np.random.default_rng(seed)
    names = [["a", "b", "c"][i] for i in rng.integers(0, 3, 30)]
    sites = [["x", "y"][i] for i in rng.integers(0, 2, 30)]
    lines = [
        "age,name,label,domain",
        *(f'{i},"n {i % 4}",{c},{d}' for i, (c, d) in enumerate(zip(names, sites, strict=True))),
    ]
    data = bytearray("\n".join(lines), "utf-8")
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(data)))
        data[place : place + int(rng.integers(0, 2))] = rng.choice(
            [b"", b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"q", b";", b"\t"]
        )
    refusal = ""
    try:
        dataset = load_table(write(bytes(data)), "label", "domain")
    except ShiftproofError as error:
        refusal = str(error)
    if refusal:
        assert len(refusal.splitlines()) == 1
        return
    rows = csv.DictReader(io.StringIO(data.decode(), newline=""), restkey="extra")
    expected = []
    for row in rows:
        assert "extra" not in row
        label, domain = (" ".join(row[column].split()) for column in ("label", "domain"))
        if label and domain:
            expected.append((domain, label))
    expected.sort(key=lambda pair: dataset.domain_names.index(pair[0]))
    assert [(d, c) for d, c, _ in rows_of(dataset)] == expected


def test_a_few_words_among_numbers_are_named(write):
    ages = ["41", "unknown", "63", "", "57", "38", "44", "52"]
    rows = "".join(f"{age},{'ab'[n % 2]},{n // 2 % 2}\n" for n, age in enumerate(ages))
    dataset = load_table(write("age,domain,label\n" + rows))
    (note,) = [note for note in dataset.notes if "age" in note]
    assert "because 1 value of 7 cannot be read as a number, the first in row 2;" in note
    assert "unknown" not in note  # a value of one patient is for the table, not for a diagnosis


def test_domains_spelt_almost_alike_are_named(write):
    places = ("East", "east", "West")
    rows = "".join(f"{n},{places[n % 3]},{('yes', 'no')[n % 2]}\n" for n in range(12))
    dataset = load_table(write("a,domain,label\n" + rows))
    assert any("domains 'East', 'east' differ in case" in note for note in dataset.notes)


def test_a_label_of_many_numbers_is_doubted(write):
    rows = "".join(f"{n % 7},{'ab'[n % 2]},{n % 25}\n" for n in range(100))
    path = write("a,domain,label\n" + rows)
    with pytest.raises(DataError, match="25 distinct whole numbers in 100 rows, which may be"):
        load_table(path)
    dataset = table_dataset(read_table(path), "t", task="classification")
    assert any("the label has 25 distinct numbers" in note for note in dataset.notes)
