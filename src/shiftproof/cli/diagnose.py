"""`shiftproof diagnose`: measure the shifts between domains, and recommend what to train."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from shiftproof.cli import options
from shiftproof.cli.messages import in_options
from shiftproof.cli.options import option, parse_assignments
from shiftproof.cli.preflight import check_data, check_settings

if TYPE_CHECKING:
    from shiftproof.shift.advise import Choice

EXAMPLE = (
    "Example: [bold]shiftproof diagnose patients.csv --label ill --domain hospital"
    " --picture shift.png[/]"
)
RANDOM, AUTO = "random", "auto"


def diagnose(
    data: options.Data,
    domains: Annotated[
        str | None, option("Data", "Domains to compare; default all.", metavar="A,B,…")
    ] = None,
    test_domain: Annotated[
        list[str] | None, option("Data", "Domain to leave out, as in training; repeatable.")
    ] = None,
    most: Annotated[int, option("Data", "Maximum number of samples to measure.")] = 10_000,
    seed: Annotated[int, option("Data", "Seed of subsampling, folds and permutations.")] = 0,
    label: options.LabelColumn = None,
    domain: options.DomainColumn = None,
    task: options.Task = "auto",
    image: options.ImageColumn = None,
    drop: options.DropColumns = None,
    categorical: options.CategoricalColumns = None,
    by: options.By = None,
    pool_below: options.PoolBelow = 0,
    image_size: options.ImageSize = None,
    data_option: options.DataOption = None,
    data_seed: options.DataSeed = None,
    workers: options.Workers = None,
    freeze: Annotated[
        bool,
        option(
            "Model",
            "Measure the features of a backbone (images). --backbone and --weights imply it.",
            "--freeze",
        ),
    ] = False,
    backbone: options.Backbone = None,
    weights: options.Weights = None,
    raw: Annotated[bool, option("Model", "Measure photographs as 16×16 pixels.", "--raw")] = False,
    run: Annotated[
        Path | None,
        option(
            "Model",
            "Folder of a run trained on this data; also measures its representation and risks.",
            metavar="DIR",
        ),
    ] = None,
    device: options.Device = "auto",
    precision: options.Precision = "fp32",
    picture: Annotated[
        Path | None, option("Output", "Draw domains, features and classes.", metavar="PNG")
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Output",
            "File to write. A file named diagnosis.json in a folder of runs becomes part of their"
            " page (see [bold]shiftproof report[/]).",
            metavar="JSON",
        ),
    ] = None,
    details: Annotated[
        bool, option("Output", "Print everything that was measured.", "--details")
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure which shifts the data has and where they are, and recommend what to train."""
    check_data(data, label, domain, image, drop, categorical, by=by)
    check_settings(task=task, device=device)

    from shiftproof import api
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.reporting.diagnosis_picture import check_picture

    if picture is not None:
        check_picture(picture)  # before anything is measured
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    loading: dict[str, Any] = {
        "label": label,
        "domain": domain,
        "task": task,
        "image": image,
        "drop": drop or [],
        "categorical": categorical or [],
        "by": by,
        "pool_below": pool_below,
        "options": parse_assignments("--data-option", data_option),
        "image_size": image_size,
    }
    with LoadingBar(quiet=quiet or as_json) as progress:
        found = api.diagnose(
            data,
            domains=[name.strip() for name in domains.split(",")] if domains else (),
            test_domains=test_domain or (),
            freeze=freeze,
            backbone=backbone,
            weights=weights,
            raw=raw,
            run=run,
            most=most,
            seed=seed,
            data_seed=data_seed,
            device=device,
            precision=precision,
            workers=workers,
            progress=progress,
            **loading,
        )
    named = [data, *_data_options(**loading), *_network_options(found.frozen, backbone, weights)]
    command, beside = (
        _train_command(named, choice, found.advice.test_domains or ["each"]) if choice else ""
        for choice in (found.advice.choice, found.advice.beside)
    )
    found = replace(found, about=replace(found.about, command=command, beside=beside))
    if picture is not None:
        found.picture(picture)
    if out is not None:
        found.save(out)
    if as_json:
        shown = {**found.to_dict(), "picture": None if picture is None else str(picture)}
        print(json.dumps(shown, ensure_ascii=False, allow_nan=False))
        return
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    print(in_options(found.to_text(width, details=details)), end="")
    if picture is not None:
        print(f"Picture: {picture}")
    if out is not None:
        print(f"Saved to {out}")


def _data_options(
    options: Mapping[str, str], image_size: int | None, pool_below: int, task: str, **columns: Any
) -> list[str]:
    """Return the options that select the same data in `shiftproof train`."""
    columns["pool-below"] = str(pool_below) if pool_below else None
    columns["task"] = None if task == AUTO else task
    size = {} if image_size is None else {"image_size": image_size}
    columns["data-option"] = [f"{name}={value}" for name, value in {**options, **size}.items()]
    words = []
    for name, given in columns.items():
        for value in given if isinstance(given, list) else [given] * (given is not None):
            words += [f"--{name}", value]
    return words


def _network_options(
    frozen: Mapping[str, str], backbone: str | None, weights: str | None
) -> list[str]:
    """Return the options that make `shiftproof train` use the measured features, if any."""
    if not frozen:
        return []
    words = ["--freeze", "--backbone", backbone or frozen["backbone"]]
    if weights or frozen["weights"] == RANDOM:
        words += ["--weights", weights or RANDOM]
    return words + (["--precision", "bf16"] if frozen["precision"] == "bf16" else [])


def _train_command(data: Sequence[str], choice: Choice, held_out: Sequence[str]) -> str:
    """Return the command that trains the recommended algorithm; `data` are its data arguments.

    >>> from shiftproof.shift.advise import Choice
    >>> _train_command(["my data.csv"], Choice("idm", "why", {"order": "1"}), ["each"])
    "shiftproof train 'my data.csv' --algorithm idm --hparam order=1 --test-domain each"
    """
    words = ["--algorithm", choice.algorithm]
    for name, value in choice.hparams.items():
        words += ["--hparam", f"{name}={value}"]
    for domain in held_out:
        words += ["--test-domain", domain]
    return shlex.join(["shiftproof", "train", *data, *words])
