"""`shiftproof predict`: predictions for samples without labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.messages import in_options
from shiftproof.cli.options import option, parse_assignments
from shiftproof.cli.preflight import check_model
from shiftproof.core.errors import InvalidValue

EXAMPLE = (
    "Example: [bold]shiftproof predict runs/first new-patients.csv --keep patient"
    " --out predictions.csv[/]"
)
SUFFIXES = (".csv", ".parquet")


def predict(
    run: options.RunOrModel,
    data: Annotated[
        str,
        typer.Argument(
            help="What the model takes: a table, a folder of images (of any depth), one image, a"
            " manifest, an array (.npy) or a dataset name. No labels are needed."
        ),
    ],
    keep: Annotated[
        list[str] | None,
        option("Data", "Column to copy to the output (tables); repeatable.", metavar="COLUMN"),
    ] = None,
    sets: Annotated[
        float | None,
        option(
            "Expectation",
            "Add the set of classes that holds the right one with this probability at a new"
            " domain, such as 0.9; needs --expected.",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        option(
            "Expectation",
            "Add the interval that holds the number with this probability at a new domain, such as"
            " 0.9; from the runs of --expected, or from training domains that were held out in"
            " training (best, linear, boosting, forest).",
        ),
    ] = None,
    expected: options.ExpectedRuns = None,
    adapt: Annotated[
        str,
        option(
            "Adaptation",
            "Correct the probabilities for the class shares of the new site, estimated from its"
            " rows: [bold]auto[/] if held-out training domains say that it helps, [bold]labels[/]"
            " in any case, or [bold]none[/]. Each domain is a site, if there is a domain column.",
        ),
    ] = "none",
    domain: options.DomainColumn = None,
    image: options.ImageColumn = None,
    data_option: options.DataOption = None,
    data_seed: options.ModelDataSeed = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    out: Annotated[
        Path | None,
        option("Output", "File to write, .csv or .parquet; default CSV on standard output."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Predict classes with probabilities, or numbers, and mark inputs unlike the training data.

    One row a sample: its row or path, the predicted class and the probability of each, or the
    predicted number, its typicality (the share of held-out training samples that are at least as
    unusual) and whether it is far from every training domain, where a prediction is a guess.
    """
    if out is not None and out.suffix not in SUFFIXES:
        raise InvalidValue(f"--out must end in {' or '.join(SUFFIXES)}, not {out.name!r}")
    if (sets is None and interval is None) and expected is not None:
        raise InvalidValue("--expected needs --sets, or --interval for numbers")
    if sets is not None and expected is None:
        raise InvalidValue("--sets and --expected go together")
    if sets is not None and adapt != "none":
        raise InvalidValue("--sets are for predictions that are not adapted; leave out --adapt")
    check_model(run, data)
    from shiftproof.core.files import refuse_data_itself, write_atomically

    if out is not None:
        refuse_data_itself(out, data)
    from shiftproof import api
    from shiftproof.api.expect import (
        check_adaptation,
        classes_in,
        finished_runs,
        runs_in,
        targets_in,
    )
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.samples import SampleRequest
    from shiftproof.inference.compared import check_classes, check_targets
    from shiftproof.inference.conformal import domain_sets, domains_needed
    from shiftproof.inference.number_intervals import Width, checked_interval, half_width
    from shiftproof.reporting.adaptation import adaptation_lines
    from shiftproof.reporting.number_predictions import numbers_frame, numbers_summary
    from shiftproof.reporting.predictions import frame_bytes, predictions_frame, predictions_summary
    from shiftproof.training.outputs import of_classes, of_numbers

    if interval is not None:
        checked_interval(interval)
    held_out = {} if expected is None else runs_in(finished_runs(expected))
    model = api.load_model(run, device)
    if model.target and (sets is not None or adapt != "none"):
        raise InvalidValue(
            f"--sets and --adapt are for classes, and the model predicts a number, {model.target}"
        )
    if interval is not None and not model.target:
        raise InvalidValue("--interval is for numbers, and the model predicts classes: use --sets")
    if expected is not None:
        check_adaptation(expected, model)
        check_classes(classes_in(expected), model.classes)
        check_targets(targets_in(expected), model.targets)
        if model.update is not None:
            raise InvalidValue("--sets are for trained models; this one is recalibrated")
    widths: tuple[Width, ...] = ()
    if interval is not None and expected is not None:
        answered = of_numbers(held_out, "--interval").values()
        widths = tuple(
            half_width([own.of_target(place) for own in answered], interval)
            for place in range(len(model.targets))
        )
    elif interval is not None:
        widths = model.half_width(interval)
    if interval is not None and not all(width.promised for width in widths):
        typer.echo(
            f"note: intervals of {interval:g} need {domains_needed(interval)} held-out domains, and"
            f" there are {len(held_out) or len(model.domains)}: at a new domain they may hold the"
            " number less often",
            err=True,
        )
    request = SampleRequest(
        data,
        domain=domain,
        image=image,
        keep=tuple(keep or ()),
        usual=model.columns,
        options=parse_assignments("--data-option", data_option),
    )
    seed = model.config.data_seed if data_seed is None else data_seed
    with LoadingBar(quiet=quiet) as progress:
        parts = request.read(model.form, seed, progress)
        numbers = [
            (
                part,
                model.predict_numbers(
                    part.inputs, sites=part.domains, workers=workers, progress=progress
                ),
            )
            for part in parts
            if model.target
        ]
        done = [
            (
                part,
                model.predict(
                    part.inputs,
                    adapt=adapt,
                    sites=part.domains,
                    workers=workers,
                    progress=progress,
                ),
            )
            for part in parts
            if not model.target
        ]
    for note in (note for part in parts for note in part.notes):
        typer.echo(f"note: {in_options(note)}", err=True)
    found = None
    if sets is not None:
        answers = list(of_classes(held_out, "--sets").values())
        found = [domain_sets(answers, own.probability_array, sets) for _, own in done]
        if not all(each.promised for each in found):
            typer.echo(
                f"note: sets of {sets:g} need {domains_needed(sets)} held-out domains, and there"
                f" are {len(held_out)}: at a new domain they may hold the right class less often",
                err=True,
            )
    members = None if found is None else [each.members for each in found]
    if model.target:
        frame = numbers_frame(numbers, [width.half for width in widths], model.targets)
    else:
        frame = predictions_frame(done, model.classes, members)
    if out is None:
        sys.stdout.write(frame_bytes(frame, ".csv").decode())
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, frame_bytes(frame, out.suffix))
    if model.standardized:
        typer.echo(f"adaptation: rows are {model.standardized}, by those given here", err=True)
    for _, own in done:
        for line in adaptation_lines(own.adapted, model.classes):
            typer.echo(line, err=True)
    summary = numbers_summary(frame, model.targets) if model.target else predictions_summary(frame)
    typer.echo(summary + (f"; they are in {out}" if out else ""), err=True)
