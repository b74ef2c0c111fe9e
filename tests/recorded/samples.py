"""The small data that the recorded commands work on, the same on every machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from PIL import Image

GOLDEN = Path(__file__).parents[1] / "golden" / "formats" / "2"
HOSPITALS = ("north", "south", "east", "west")


def write_csv(path: Path, rows: list[list[str]]) -> None:
    path.write_text("\n".join(",".join(row) for row in rows) + "\n", "utf-8")


def patients(seed: int, hospitals: tuple[str, ...] = HOSPITALS, rows: int = 30) -> list[list[str]]:
    """Return a table: two numbers with gaps, a category, and labels of three kinds.

    The marker's meaning shifts from hospital to hospital, the age's does not.
    """
    rng = np.random.RandomState(seed)
    table = [["patient", "hospital", "age", "marker", "ward", "ill", "stage", "days", "weight"]]
    for h, hospital in enumerate(hospitals):
        for n in range(rows):
            age, marker = rng.normal(60, 10), rng.normal()
            score = (age - 60) / 10 + (0.5 - h / 3) * marker + 0.7 * rng.normal()
            table.append(
                [
                    f"{hospital[0]}{n}",
                    hospital,
                    "" if n % 11 == 5 else f"{age:.1f}",
                    f"{marker + h / 2:.3f}",
                    ("icu", "general", "surgery")[(n + h) % 3],
                    "yes" if score > 0 else "no",
                    ("low", "middle", "high")[int(score > -0.5) + int(score > 0.6)],
                    f"{6 + 2 * score + 0.5 * rng.normal():.2f}",
                    ("1", "2")[n % 2],
                ]
            )
    return table


def vectors(seed: int) -> dict[str, np.ndarray]:
    """Return embeddings of three sites with two classes."""
    rng = np.random.RandomState(seed)
    y = np.arange(72) % 2
    domain = np.repeat(["p", "q", "r"], 24)
    x = rng.normal(size=(72, 6)) + y[:, None] * np.array([1.5, 1, 0, 0, 0, 0])
    return {"x": x.astype(np.float32), "y": np.array(["benign", "tumour"])[y], "domain": domain}


def images(folder: Path) -> None:
    """Write three domains of two classes that differ in brightness."""
    rng = np.random.RandomState(0)
    for domain in ("attic", "barn", "cellar"):
        for label, level in (("cat", 60), ("dog", 180)):
            inside = folder / domain / label
            inside.mkdir(parents=True)
            for n in range(6):
                pixels = rng.normal(level, 15, size=(12, 14, 3)).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(inside / f"{n}.png")


def pacs(folder: Path) -> None:
    """Write a part of PACS as it is published: two domains, two classes, three pictures each."""
    rng = np.random.RandomState(1)
    for domain in ("art_painting", "sketch"):
        for label in ("dog", "house"):
            inside = folder / domain / label
            inside.mkdir(parents=True)
            for n in range(3):
                pixels = rng.randint(256, size=(10, 10, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(inside / f"pic_{n:03}.jpg")


def write_samples(folder: Path) -> None:
    """Fill a folder with all data that the commands name."""
    table = patients(0)
    write_csv(folder / "patients.csv", table)
    write_csv(folder / "new.csv", patients(1, ("coast",), 40))
    unlabelled = [[*row[:5]] for row in patients(2, ("coast",), 12)]
    write_csv(folder / "unlabelled.csv", unlabelled)
    write_csv(folder / "one-hospital.csv", [row for row in table if row[1] in ("hospital", "east")])
    write_csv(folder / "one-class.csv", [r for r in table if r[5] in ("ill", "yes")])
    write_csv(folder / "no-rows.csv", table[:1])
    (folder / "nothing.csv").write_text("")
    (folder / "ragged.csv").write_text("hospital,age,ill\nnorth,1,yes,3\nsouth,2\n")
    gaps = [row[:] for row in table]
    gaps[4][5] = gaps[9][5] = ""
    write_csv(folder / "gaps.csv", gaps)
    infinite = [row[:] for row in table]
    infinite[7][3] = "inf"
    write_csv(folder / "infinite.csv", infinite)
    same = [["hospital", "age", "ill"], *([h, str(n), h] for h in HOSPITALS for n in range(9))]
    write_csv(folder / "label-is-hospital.csv", same)
    np.savez(folder / "vectors.npz", **vectors(0))
    np.save(folder / "few.npy", vectors(1)["x"][:6])
    broken = vectors(0)
    broken["x"][3, 2] = np.nan
    np.savez(folder / "nan.npz", **broken)
    images(folder / "pets")
    pacs(folder / "PACS")
    pictures = sorted((folder / "pets").rglob("*.png"))
    rows = [[str(p.relative_to(folder)), p.parent.name, p.parent.parent.name] for p in pictures]
    write_csv(folder / "manifest.csv", [["file", "animal", "place"], *rows])
    shutil.copytree(folder / "pets", folder / "flawed")
    (folder / "flawed" / "attic" / "cat" / "0.png").write_bytes(b"no image")
    shutil.copy(folder / "pets/attic/cat/1.png", folder / "flawed/barn/cat/copy.png")
    (folder / "flawed" / "notes.txt").write_text("mine\n")
    (folder / "empty").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "notes.txt").write_text("mine\n")
    (folder / "broken-model").mkdir()
    (folder / "broken-model" / "model.safetensors").write_bytes(b"no model" * 20)
    (folder / "text.txt").write_text("no table\n")
    shutil.copytree(GOLDEN / "sweep", folder / "old-sweep")
