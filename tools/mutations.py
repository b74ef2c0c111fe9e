"""Change the package in forty places, one at a time, and see whether a test fails.

`python -m tools.mutations [--tests …] [--only N …] [--out FILE]` works in a copy of the checkout.
Each mutation is one replaced text that occurs exactly once in the package, so that it survives a
move to another file.  It is caught if the tests beside its module fail, or those of its room, or
the recorded commands.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = 900

# (text, replacement), by room.
MUTATIONS: dict[str, list[tuple[str, str]]] = {
    "core": [
        (
            "if not isinstance(value, dict) or not set(required) <= value.keys():",
            "if not isinstance(value, dict):",
        ),
        (".st_size > _LARGEST:", ".st_size < 0:"),
        ("        os.replace(aside, path)\n", "        path.write_bytes(data)\n"),
    ],
    "data": [
        (
            "return Split(in_=order[held_out:], out=order[:held_out])",
            "return Split(in_=order[held_out:], out=order[: held_out + 1])",
        ),
        (
            "None if weights is None else [own / own.mean() for own in weights]",
            "None if weights is None else [own / own.sum() for own in weights]",
        ),
        ("counter=[0, 0, 0, step]", "counter=[0, 0, 0, step // 2]"),
        (
            "root = np.sqrt(np.maximum(values, values.max() * 1e-12))",
            "root = np.maximum(values, values.max() * 1e-12)",
        ),
        (
            "found[rows] = standardized(x[rows], categorical, how)",
            "found[rows] = standardized(x, categorical, how)[rows]",
        ),
    ],
    "matching": [
        ("middles = (edges[1:] + edges[:-1]) / 2", "middles = edges[1:] - 1e-9"),
        ("cut = trim / min(sizes)", "cut = trim / max(sizes)"),
        (
            "self.scale = 1.0 if corrected else (1 - gamma) ** order",
            "self.scale = 1.0 if corrected else (1 - gamma)",
        ),
        ("moved = self.gamma * masses + 1", "moved = self.gamma * masses"),
        ("kept = self.training and _is_finite(x)", "kept = _is_finite(x)"),
    ],
    "penalties": [
        ("return centred.T @ centred / (len(x) - 1)", "return centred.T @ centred / len(x)"),
        ("unbiased = len(groups) / (len(groups) - 1)", "unbiased = 1.0"),
        (
            "(slope[:, ::2].mean(dim=1) * slope[:, 1::2].mean(dim=1)).mean()",
            "slope.mean(dim=1).square().mean()",
        ),
        (
            "distances = (squares - 2 * x @ y.T).clamp_min(0)",
            "distances = (squares - x @ y.T).clamp_min(0)",
        ),
    ],
    "learners": [
        (
            "self.weights = weights\n        self.targets",
            "self.weights = weights**0.5\n        self.targets",
        ),
        ("penalty[-1] = 0  # intercepts are not penalised", "pass"),
        (
            "(variance[kept] + alphas[:, None, None])",
            "(variance[kept] + 2 * alphas[:, None, None])",
        ),
        (
            "return coefficients, theta[:, :, -1] - coefficients @ self.centre",
            "return coefficients, theta[:, :, -1] + coefficients @ self.centre",
        ),
        (
            "if len(risks) - 1 - int(np.argmin(risks)) >= PATIENCE:",
            "if len(risks) - 1 - int(np.argmax(risks)) >= PATIENCE:",
        ),
    ],
    "training": [
        ("return min(0.999, (1 + n) / (10 + n))", "return (1 + n) / (10 + n)"),
        (
            "if len(recent) < self.start_patience or min(risks) < risks[0]:",
            "if len(recent) < self.start_patience:",
        ),
        (
            "blend(weights, later.weights, self.steps / (self.steps + later.steps))",
            "blend(weights, later.weights, 0.5)",
        ),
        (
            '            "rng": torch.get_rng_state(),\n',
            '            "rng": torch.Generator().get_state(),\n',
        ),
        (
            "return None if len(bad) == 0 else self.step - len(losses) + int(bad[0]) + 1",
            "return None if len(bad) == 0 else self.step - len(losses) + int(bad[0])",
        ),
        ("                weight.copy_(before)\n", "                pass\n"),
    ],
    "inference": [
        ("freedom = estimates.shape[-1] - 1", "freedom = estimates.shape[-1] - 2"),
        (
            "found.append(min(1.0, 2 * k * min(below, 1 - below)))",
            "found.append(min(1.0, k * min(below, 1 - below)))",
        ),
        (
            "return Predictive(weights, own.means, taus**2 + own.errors, taus)",
            "return Predictive(weights, own.means, taus**2, taus)",
        ),
        (
            "return math.ceil(1 / (1 - level) - 1 - 1e-9)",
            "return math.ceil(1 / (1 - level) - 1e-9)",
        ),
        ("mass = 1 / domains\n", "mass = 1 / len(scores)\n"),
        ("tail = (1 - level) / 2\n", "tail = 1 - level\n"),
    ],
    "shift": [
        (
            "placed[~own] = 1 - (ranks[~own] - rankdata(scores[~own])) / own.sum()",
            "placed[~own] = (ranks[~own] - rankdata(scores[~own])) / own.sum()",
        ),
        (
            "(1 - q) / np.maximum((domains - 1) * q, 1e-12)",
            "(1 - q) / np.maximum(domains * q, 1e-12)",
        ),
        (
            "z = float(ndtri(1 - (1 - level) / 2 / (2 * len(tried))))",
            "z = float(ndtri(1 - (1 - level) / 2))",
        ),
        ("float(weights @ ((odds > 0) + 0.5 * (odds == 0)))", "float(weights @ (odds > 0))"),
        ("quota = room // (len(sizes) - place)", "quota = room // len(sizes)"),
    ],
    "sweeps": [
        (
            "error = 100 * np.std(values) / math.sqrt(len(values))",
            "error = 100 * np.std(values, ddof=1) / math.sqrt(len(values))",
        ),
        ("if means and len(means) == len(columns) else None", "if means else None"),
        ("return any(run.reason != DIVERGED for run in self.missing)", "return bool(self.missing)"),
        (
            "key=lambda seed: (chosen[seed].score, seed)",
            "key=lambda seed: (chosen[seed].score, -seed)",
        ),
        (
            "highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[position]))",
            "highest = min(1.0, (len(p_values) - rank) * p_values[position])",
        ),
    ],
}


def places(root: Path) -> Iterator[tuple[str, Path, str, str]]:
    """Yield the room, file, text and replacement of every mutation."""
    sources = {path: path.read_text() for path in sorted((root / "src/shiftproof").rglob("*.py"))}
    for room, mutations in MUTATIONS.items():
        for text, replacement in mutations:
            holders = [path for path, source in sources.items() if text in source]
            if len(holders) != 1 or sources[holders[0]].count(text) != 1:
                sys.exit(f"{text!r} occurs in {[str(path) for path in holders]}, not once")
            yield room, holders[0], text, replacement


def suites(root: Path, path: Path) -> list[list[str]]:
    """Return the groups of tests to run for a mutated file, the nearest first."""
    tests = root / "tests"
    inside = path.relative_to(root / "src/shiftproof")
    beside = tests / inside.parent / f"test_{inside.name}"
    groups = [[str(beside)] if beside.exists() else [], [str(path)]]
    groups.append([str(tests / inside.parts[0])])
    groups.append([str(tests / "recorded")] if (tests / "recorded").exists() else [])
    return [group for group in groups if group]


def fails(root: Path, tests: list[str]) -> bool:
    """Whether a group of tests fails."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return run.returncode not in (0, 5)  # 5: no test in the file


def main() -> None:
    """Run the mutations and print which test group caught each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the mutations to run")
    parser.add_argument("--out", type=Path, help="a file for the results, a JSON line each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "build")
        )
        (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        caught = total = 0
        for number, (room, path, text, replacement) in enumerate(places(copy)):
            if arguments.only and number not in arguments.only:
                continue
            source = path.read_text()
            path.write_text(source.replace(text, replacement))
            by = next((group[0] for group in suites(copy, path) if fails(copy, group)), None)
            path.write_text(source)
            caught, total = caught + (by is not None), total + 1
            result = {
                "mutation": number, "room": room, "file": str(path.relative_to(copy)),
                "text": text.strip(), "replacement": replacement.strip(),
                "caught_by": by and str(Path(by).relative_to(copy)),
            }  # fmt: skip
            print(json.dumps(result), flush=True)
            if arguments.out:
                with arguments.out.open("a") as out:
                    out.write(json.dumps(result) + "\n")
        print(f"{caught} of {total} caught")


if __name__ == "__main__":
    main()
