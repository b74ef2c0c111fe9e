"""Weight averaging: the maths against explicit means, the window against its rule, and the run."""

import json
import os
import signal
from functools import partial

import pytest
import torch
from _internals import (
    LossValley,
    Observer,
    Records,
    Span,
    Trainer,
    averaged_tensors,
    build_algorithm,
    configure,
    evaluate,
    load_state,
    per_sample_risk,
    train,
)
from hypothesis import given, settings, strategies as st

from shiftproof import Domain, DomainDataset

AVERAGING = ["ema", "swad", "best"]
STEPS, EVERY = 40, 3
# Risks by evaluation (there are 14, after steps 1, 4, …, 37, 40) with a window found, closed after
# the fourth and seen to be closed at the tenth; never closed; and never opened.
ENDS = [5, 4, 2, 2.3, *[3.5] * 6, 1, 1, 1, 1]
STAYS_OPEN = [5, 4, 2, 2.3, *[3.5] * 5, 2, *[3.5] * 4]
NO_VALLEY = list(range(14, 0, -1))


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    domains = []
    for index, name in enumerate(("north", "east", "south")):
        x = torch.randn(60, 4, generator=generator) + index
        domains.append(Domain(name, x, (x.sum(1) > 4 * index).long()))
    return DomainDataset("toy", tuple(domains), ("a", "b"), "table", "mlp", 10)


def make_config(dataset, algorithm="erm", **change):
    hparams = {"hidden": 8, "batch_size": 6, "dropout": 0.5, "lr": 0.01}
    settings = {
        "test_domains": ["south"],
        "steps": STEPS,
        "eval_every": EVERY,
        **change,
        "hparams": hparams | change.get("hparams", {}),
    }
    return configure(dataset, algorithm, **settings)


@pytest.fixture
def risks_are(monkeypatch):
    """Give the validation risk of each evaluation (the true one is still measured)."""
    measure = Trainer._validation_risk

    def patch(risks):
        def risk(trainer):
            measure(trainer)
            number = -(-(trainer.step - 1) // EVERY)
            return float(risks[number])

        monkeypatch.setattr(Trainer, "_validation_risk", risk)

    return patch


class StopAfter(Observer):
    def __init__(self, step):
        self.at = step

    def step(self, step, measured):
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def followed(trainer):
    """Train to the end; return the records, and the weights after each step in float64."""
    records, weights = [], []
    while trainer.step < trainer.config.steps:
        trainer.advance()
        weights.append([tensor.double() for tensor in averaged_tensors(trainer.algorithm)])
        if trainer.evaluation_due():
            records.append(trainer.measure())
    return records, weights


def window_by_rule(risks, start_patience, end_patience, tolerance):
    """Return SWAD's window as (first, last, whether it closed), by its definition, or None."""
    starts = [
        s
        for s in range(len(risks) - start_patience + 1)
        if risks[s] == min(risks[s : s + start_patience])
    ]
    if not starts:
        return None
    s = starts[0]
    limit = tolerance * (sum(risks[s : s + start_patience]) / start_patience)
    ends = [
        e
        for e in range(s, len(risks) - end_patience)
        if all(risk > limit for risk in risks[e + 1 : e + 1 + end_patience])
    ]
    return (s, ends[0], True) if ends else (s, len(risks) - 1, False)


def window_of(valley):
    return valley.whole and (valley.whole.first, valley.whole.last, valley.ended)


def segment(number):
    return Span([torch.tensor([float(number)])], number, number)


@pytest.mark.parametrize(
    ("risks", "expected"),
    [
        pytest.param([5, 4, 2, 2, 2, *[3] * 6, 1], (2, 4, True), id="found and ended"),
        pytest.param([5, 4, 2, 2, 2, *[3] * 5], (2, 9, False), id="five above do not end it"),
        pytest.param([5, 4, 2, 2, 2, *[3] * 5, 2, *[3] * 5], (2, 15, False), id="never ends"),
        pytest.param([9, 8, 7, 6, 5, 4, 3, 2, 1], None, id="no valley"),
        pytest.param([1, 2], None, id="too short for one"),
        pytest.param([1, 2, 3], (0, 2, False), id="first evaluation already best"),
        pytest.param([3, 3, 3, 1], (0, 3, False), id="ties open it at the first"),
        pytest.param([10, 10, 10, *[13] * 7], (0, 9, False), id="at the limit is within"),
        pytest.param([1, 9, 9, *[9] * 4], (0, 0, True), id="above from the start"),
        pytest.param([3, 1, 2, 0, 5, 5], (3, 5, False), id="a lower one within patience"),
    ],
)
def test_the_window_of_known_curves(risks, expected):
    assert window_by_rule(risks, 3, 6, 1.3) == expected
    valley = LossValley()
    for number, risk in enumerate(risks):
        valley = valley.after(segment(number), risk)
    assert window_of(valley) == expected


@settings(deadline=None)
@given(
    # Multiples of 12, so that every mean is exact and ties with the limit are ties.
    risks=st.lists(st.integers(1, 5).map(lambda k: 12 * k), max_size=24),
    start_patience=st.integers(1, 4),
    extra=st.integers(0, 4),
    tolerance=st.sampled_from([1.0, 1.25, 1.5, 2.0]),
)
def test_the_window_is_the_rules_after_every_evaluation(risks, start_patience, extra, tolerance):
    patience = (start_patience, start_patience + extra, tolerance)
    valley = LossValley(*patience)
    for number, risk in enumerate(risks):
        before, was = valley, window_of(valley)
        valley = valley.after(segment(number), risk)
        assert window_of(before) == was
        assert window_of(valley) == window_by_rule(risks[: number + 1], *patience)


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=14, max_size=14),
    curve=st.sampled_from([ENDS, STAYS_OPEN]),
)
def test_the_mean_over_the_window_counts_every_step_alike(lengths, curve):
    generator = torch.Generator().manual_seed(sum(lengths))
    values = torch.randn(sum(lengths), 3, generator=generator, dtype=torch.float64)
    valley, step = LossValley(), 0
    for length, risk in zip(lengths, curve, strict=True):
        mean = values[step : step + length].mean(dim=0)
        valley = valley.after(Span([mean], step, step + length - 1), risk)
        step += length
    start, end, _ = window_by_rule(curve, 3, 6, 1.3)
    first, past = sum(lengths[:start]), sum(lengths[: end + 1])
    assert valley.whole[1:] == (first, past - 1)
    expected = values[first:past].mean(dim=0)
    torch.testing.assert_close(valley.whole.weights[0], expected, rtol=0, atol=1e-14)


def test_ema_is_an_explicit_loop_over_the_weights(dataset):
    trainer = Trainer(make_config(dataset, average="ema"), dataset)
    records, weights = followed(trainer)
    average = weights[0]
    for n, new in enumerate(weights[1:], start=1):
        decay = min(0.999, (1 + n) / (10 + n))
        average = [decay * a + (1 - decay) * w for a, w in zip(average, new, strict=True)]
    for found, expected, raw in zip(
        trainer.average.span.weights, average, weights[-1], strict=True
    ):
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
        assert (found.double() - raw).abs().max() > 1e-3
    assert [r["weights"] for r in records[:2]] == [
        {"average": "ema", "steps": [1, 1]},
        {"average": "ema", "steps": [1, 4]},
    ]


@pytest.mark.parametrize(
    ("risks", "outcome"),
    [
        (ENDS, {"average": "swad", "steps": [5, 10], "valley": "ended"}),
        (STAYS_OPEN, {"average": "swad", "steps": [5, 40], "valley": "open"}),
        (NO_VALLEY, {"average": "raw", "valley": "not found"}),
    ],
)
def test_swad_averages_the_weights_of_every_step_in_the_window(dataset, risks_are, risks, outcome):
    risks_are(risks)
    trainer = Trainer(make_config(dataset, average="swad"), dataset)
    records, weights = followed(trainer)
    assert [r["validation_risk"] for r in records] == risks
    assert records[-1]["weights"] == outcome
    if outcome["average"] == "raw":
        assert trainer.average.span is None
        return
    first, last = outcome["steps"]
    for found, *each in zip(trainer.average.span.weights, *weights[first - 1 : last], strict=True):
        expected = torch.stack(each).mean(dim=0)
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


def test_before_the_window_is_found_the_raw_weights_are_scored(dataset, risks_are):
    risks_are(ENDS)
    records, _ = followed(Trainer(make_config(dataset, average="swad"), dataset))
    raw, _ = followed(Trainer(make_config(dataset), dataset))
    valleys = [r["weights"]["valley"] for r in records]
    assert valleys == ["not found"] * 4 + ["open"] * 5 + ["ended"] * 5
    assert [r["weights"].get("steps") for r in records] == [
        *[None] * 4, [5, 13], [5, 16], [5, 19], [5, 22], [5, 25], *[[5, 10]] * 5,
    ]  # fmt: skip
    assert [r["risk"] for r in records[:4]] == [r["risk"] for r in raw[:4]]
    assert all(r["risk"] != s["risk"] for r, s in zip(records[4:], raw[4:], strict=True))


def test_swad_judges_by_the_raw_weights_risk_of_the_training_domains_alike(dataset):
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    uneven = (*dataset.domains, Domain("west", x, torch.arange(200) % 2))
    dataset = DomainDataset("toy", uneven, dataset.classes, "table", "mlp", 10)
    everything = ["train-in", "train-out", "test-in", "test-out"]
    make = partial(make_config, dataset, evaluate=everything)
    records, _ = followed(Trainer(make(average="swad"), dataset))
    raw, _ = followed(Trainer(make(), dataset))
    expected = [sum(r["risk"][f"{n}/out"] for n in ("north", "east", "west")) / 3 for r in raw]
    assert [r["validation_risk"] for r in records] == pytest.approx(expected, rel=1e-12)
    risks = [r["validation_risk"] for r in records]
    steps = [r["step"] for r in records]
    start, end, closed = window_by_rule(risks, 3, 6, 1.3)
    assert records[-1]["weights"] == {
        "average": "swad",
        "steps": [steps[start - 1] + 1 if start else 1, steps[end]],
        "valley": "ended" if closed else "open",
    }


@pytest.mark.parametrize(
    ("risks", "chosen"),
    [
        pytest.param(ENDS, 31, id="of equal ones the earliest"),
        pytest.param(STAYS_OPEN, 7, id="in the middle"),
        pytest.param(NO_VALLEY, 40, id="the last"),
        pytest.param(NO_VALLEY[::-1], 1, id="the first"),
    ],
)
def test_best_keeps_the_raw_weights_of_the_lowest_risk(dataset, risks_are, risks, chosen):
    risks_are(risks)
    trainer = Trainer(make_config(dataset, average="best"), dataset)
    records, weights = followed(trainer)
    assert records[-1]["weights"] == {"average": "best", "steps": [chosen, chosen]}
    for found, expected in zip(trainer.average.span.weights, weights[chosen - 1], strict=True):
        assert torch.equal(found.double(), expected)


def test_best_is_the_argmin_of_the_recorded_risks_and_scores_as_the_run_did_then(dataset):
    # A rate so high that the risk is lowest neither at the start nor at the end.
    make = partial(make_config, dataset, hparams={"lr": 0.3})
    records, _ = followed(Trainer(make(average="best"), dataset))
    raw, _ = followed(Trainer(make(), dataset))
    risks = [record["validation_risk"] for record in records]
    best = raw[risks.index(min(risks))]
    assert 1 < best["step"] < STEPS
    assert records[-1]["weights"]["steps"] == [best["step"]] * 2
    assert (records[-1]["accuracy"], records[-1]["risk"]) == (best["accuracy"], best["risk"])
    assert records[-1]["risk"] != raw[-1]["risk"]


@pytest.mark.parametrize("average", AVERAGING)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_records_scores_are_those_of_the_average(dataset, risks_are, average, precision):
    risks_are(ENDS)
    # This network has batch norm in what it predicts with.
    config = make_config(
        dataset, "arm", average=average, precision=precision, hparams={"match_upstream": True}
    )
    trainer = Trainer(config, dataset)
    records, weights = followed(trainer)
    assert any("running_var" in name for name, _ in trainer.algorithm.named_buffers())
    fresh = build_algorithm(config, config.task(dataset))
    for tensor, value in zip(averaged_tensors(fresh), trainer.average.span.weights, strict=True):
        tensor.copy_(value)
    fresh.eval()
    for part in trainer.evaluation:
        x, y = part.domain.x[part.index], part.domain.y[part.index]
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = fresh.predict(x).float()
        risk = per_sample_risk(logits, y).double().mean().item()
        assert records[-1]["risk"][part.name] == pytest.approx(risk, rel=1e-5)
    # And the raw weights are back, to the bit.
    for tensor, value in zip(averaged_tensors(trainer.algorithm), weights[-1], strict=True):
        assert torch.equal(tensor.double(), value)


def same(first, second):
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


@pytest.mark.parametrize("average", AVERAGING)
@pytest.mark.parametrize("curve", [ENDS, STAYS_OPEN])
def test_a_stopped_run_goes_on_bit_for_bit(dataset, tmp_path, risks_are, average, curve):
    risks_are(curve)
    config = make_config(dataset, "idm", average=average)
    straight = tmp_path / "straight"
    train(config, dataset, straight)
    for stops in ([1], [6, 7], [14, 15, 16], [12, 29, 39]):
        parts = tmp_path / f"stopped at {stops}"
        for stop in stops:
            part = train(config, dataset, parts, StopAfter(stop))
            assert (part.status, part.step) == ("stopped", stop)
            torch.manual_seed(stop)
        assert train(config, dataset, parts).status == "finished"
        assert (straight / "records.jsonl").read_bytes() == (parts / "records.jsonl").read_bytes()
        states = [load_state(path / "checkpoint.safetensors") for path in (straight, parts)]
        for state in states:
            del state["seconds"]
        assert "average" in states[0]
        assert same(*states)
        ends = [json.loads((path / "done.json").read_bytes()) for path in (straight, parts)]
        assert ends[0]["weights"] == ends[1]["weights"]


def test_a_state_shares_nothing_with_the_trainer_that_took_it_up(dataset):
    config = make_config(dataset, average="ema")
    first, second = Trainer(config, dataset), Trainer(config, dataset)
    first.advance()
    second.load(first.state())
    before = [weight.clone() for weight in second.average.span.weights]
    first.advance()
    assert same(second.average.span.weights, before)


@pytest.mark.parametrize("average", AVERAGING)
@pytest.mark.parametrize(
    "algorithm", ["idm", "fishr", "groupdro", "sagnet", "selfreg", "mtl", "dann"]
)
def test_training_does_not_notice(dataset, tmp_path, average, algorithm):
    make = partial(make_config, dataset, algorithm, steps=13)
    plain = train(make(), dataset, tmp_path / "plain")
    averaged = train(make(average=average), dataset, tmp_path / "averaged")
    assert (plain.status, averaged.status) == ("finished", "finished")
    states = [
        load_state(path.folder / "checkpoint.safetensors")["algorithm"]
        for path in (plain, averaged)
    ]
    assert same(*states)
    scores = {"accuracy", "risk", "validation_risk", "weights"}
    for one, other in zip(plain.records, averaged.records, strict=True):
        assert {k: v for k, v in one.items() if k not in scores} == {
            k: v for k, v in other.items() if k not in scores
        }
    assert averaged.final["weights"]["average"] in (average, "raw")


def test_none_is_the_loop_without_averaging(dataset, tmp_path):
    config = make_config(dataset, "idm", average="none")
    assert config == make_config(dataset, "idm")
    result = train(config, dataset, tmp_path)
    with torch.random.fork_rng():
        trainer = Trainer(config, dataset)
        del trainer.average
        algorithm, lines, measured = trainer.algorithm, [], []
        for step in range(1, STEPS + 1):
            measured.append(algorithm.update(trainer.sampler.batch(step - 1)))
            if step % EVERY != 1 and step != STEPS:
                continue
            record = {"step": step} | {
                name: torch.stack([m[name] for m in measured]).mean().item() for name in measured[0]
            }
            scores = {part.name: evaluate(algorithm, part) for part in trainer.evaluation}
            record["accuracy"] = {
                name: score.measured["accuracy"] for name, score in scores.items()
            }
            record["risk"] = {name: score.risk for name, score in scores.items()}
            lines.append(record)
            measured = []
    assert Records(tmp_path / "records.jsonl").read() == lines
    assert "average" not in load_state(result.folder / "checkpoint.safetensors")
    assert "weights" not in json.loads((tmp_path / "done.json").read_bytes())


@pytest.mark.parametrize("curve", [ENDS, NO_VALLEY])
def test_the_end_of_a_run_says_which_weights_it_scored(dataset, tmp_path, risks_are, curve):
    risks_are(curve)
    result = train(make_config(dataset, average="swad"), dataset, tmp_path)
    ended = json.loads((tmp_path / "done.json").read_bytes())
    assert ended["weights"] == result.final["weights"]
    assert ended["weights"]["valley"] == ("ended" if curve is ENDS else "not found")


def test_raw_weights_that_diverge_end_the_run_though_the_average_is_sound(
    dataset, tmp_path, risks_are
):
    risks_are([*ENDS[:11], float("inf"), 1, 1])
    result = train(make_config(dataset, average="swad"), dataset, tmp_path)
    assert (result.status, result.step) == ("diverged", 34)
    assert result.records[-2]["weights"]["valley"] == "ended"
    assert "weights" not in json.loads((tmp_path / "done.json").read_bytes())


QUICK = [
    "train", "colored-mnist-irm", "--algorithm", "erm", "--test-domain", "10%",
    "--data-option", "per_domain=60", "--hparam", "hidden=8", "--hparam", "batch_size=16",
    "--steps", "12", "--eval-every", "2", "--quiet",
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--average", "emma"], "unknown average 'emma'; did you mean 'ema'?"),
        (["--average", "sawd"], "did you mean 'swad'"),
        (["--average", "swad", "--evaluate", "test-in"], "--evaluate must include it (now: test"),
        (["--average", "swad", "--eval-every", "0"], "--eval-every must be above 0"),
        (["--average", "best", "--eval-every", "0"], "--average best needs the risk on"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(shiftproof, tmp_path, options, words):
    code, _, err = shiftproof(*QUICK, "--out", tmp_path / "run", *options)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_the_command_says_what_it_scored(shiftproof, tmp_path):
    code, out, _ = shiftproof(*QUICK, "--out", tmp_path / "ema", "--average", "ema")
    assert code == 0
    assert "scored: the ema average of steps 1 to 12\n" in out
    code, out, _ = shiftproof(*QUICK, "--out", tmp_path / "swad", "--average", "swad")
    assert code == 0
    assert "scored: the " in out
    assert "(valley " in out
    code, out, _ = shiftproof(*QUICK, "--out", tmp_path / "json", "--average", "ema", "--json")
    assert json.loads(out)["final"]["weights"] == {"average": "ema", "steps": [1, 12]}
    code, out, _ = shiftproof(*QUICK, "--out", tmp_path / "none")
    assert code == 0
    assert "weights" not in out
