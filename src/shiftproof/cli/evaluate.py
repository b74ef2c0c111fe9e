"""`shiftproof evaluate`: how good a trained model is on labelled samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli import options
from shiftproof.cli.messages import in_options
from shiftproof.cli.options import parse_assignments
from shiftproof.cli.preflight import check_model

if TYPE_CHECKING:
    from shiftproof.inference.metrics import DomainMetrics
    from shiftproof.inference.number_metrics import NumberMetrics

EXAMPLE = "Example: [bold]shiftproof evaluate runs/first new-hospital.csv --label ill[/]"


def evaluate(
    run: options.RunOrModel,
    data: Annotated[
        str,
        typer.Argument(
            help="What the model takes, with labels: a table, a folder of images"
            " (DIR/domain/class/*.jpg), a manifest, arrays (.npz with x, y, domain) or a dataset"
            " name. Columns are called as in training by default."
        ),
    ],
    label: options.LabelColumn = None,
    domain: options.DomainColumn = None,
    image: options.ImageColumn = None,
    expected: options.ExpectedRuns = None,
    metric: options.Metric = None,
    data_option: options.DataOption = None,
    data_seed: options.ModelDataSeed = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare predictions with labels, domain by domain.

    With --expected, say whether each domain lies inside the range expected from held-out domains.
    """
    check_model(run, data)
    from rich.console import Console

    from shiftproof import api
    from shiftproof.api.expect import check_adaptation, finished_runs, targets_in
    from shiftproof.cli.progress import LoadingBar
    from shiftproof.data.samples import SampleRequest
    from shiftproof.inference.compared import check_classes, check_targets, compare
    from shiftproof.inference.metrics import domain_metrics
    from shiftproof.inference.number_metrics import number_metrics
    from shiftproof.reporting.number_predictions import number_card_table, numbers_table
    from shiftproof.reporting.predictions import assessment_table, card_table

    model = api.load_model(run, device)
    asked = {}
    if expected is not None:
        check_targets(targets_in(finished_runs(expected)), model.targets)
        asked = {
            target: api.expect(expected, metric=metric, target=target or None)
            for target in model.targets or ("",)
        }
        check_classes(next(iter(asked.values())).classes, model.classes)
        check_adaptation(expected, model)
    request = SampleRequest(
        data,
        label=label,
        domain=domain,
        image=image,
        usual=model.columns,
        options=parse_assignments("--data-option", data_option),
        labelled=True,
    )
    seed = model.config.data_seed if data_seed is None else data_seed
    with LoadingBar(quiet=quiet or as_json) as progress:
        parts = request.read(model.form, seed, progress)
        if model.target:
            numbers, notes = number_metrics(model, parts, workers=workers, progress=progress)
        else:
            outcomes, notes = domain_metrics(model, parts, workers=workers, progress=progress)
    for note in notes:
        typer.echo(f"note: {in_options(note)}", err=True)
    adaptation = {"adaptation": model.standardized} if model.standardized else {}
    assessed: Sequence[DomainMetrics | NumberMetrics] = numbers if model.target else outcomes
    compared = []
    if asked:
        named = len(model.targets) > 1
        pairs = [
            compare(
                asked[target],
                f"{own.domain}, {target}" if named else own.domain,
                own.outputs,
            )
            for own in assessed
            if own.scores
            for target in [getattr(own, "target", "")]
        ]
        compared = [found for found in pairs if found is not None]
    if as_json:
        found = {
            **(
                {"targets": list(model.targets)}
                if model.targets
                else {"classes": list(model.classes)}
            ),
            "domains": [outcome.to_json() for outcome in assessed],
            **adaptation,
        }
        if asked:
            found["expected"] = [each.to_dict() for each in compared]
        print(json.dumps(found, ensure_ascii=False))
        return
    if model.target:
        Console().print(numbers_table(numbers, model.standardized))
        Console().print(number_card_table(numbers))
    else:
        Console().print(assessment_table(outcomes, model.standardized))
        Console().print(card_table(outcomes))
    for comparison in compared:
        print(comparison.sentence)
