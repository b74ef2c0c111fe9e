"""Means, error bars and missing runs, against loops that follow the protocol word for word."""

import itertools
import math
import random
from dataclasses import replace

import pytest
from _internals import (
    SELECTORS,
    DataError,
    Evaluation,
    MissingRun,
    OutputShift,
    Run,
    aggregate,
    aggregate_estimate as estimate,
)

STEPS = (1, 301, 601)
SIZES = {"pacs": 4, "vlcs": 4, "colored-mnist": 3, "mine": 3}


def random_sweep(rng):
    """Several datasets and algorithms, with ties, missing runs, and runs that did not finish."""
    datasets = rng.sample(sorted(SIZES), rng.randint(1, 3))
    algorithms = rng.sample(["erm", "irm", "coral", "idm", "unheard-of"], rng.randint(1, 3))
    draws, trials = range(rng.randint(1, 3)), range(rng.randint(1, 3))
    absent, coarse = rng.choice([0, 0.05, 0.3, 0.6]), rng.random() < 0.5

    def accuracy():
        return rng.randint(0, 3) / 4 if coarse else rng.random()

    def shift(domains):
        amounts = (rng.choice([0.0, 0.01, 0.1]) for _ in range(2))
        return OutputShift(2, (0.65,) * domains, *amounts, rng.choice([0.05, 0.2, 0.9]))

    runs = []
    for dataset, algorithm in itertools.product(datasets, algorithms):
        positions = range(SIZES[dataset])
        tests = [c for size in (1, 2) for c in itertools.combinations(positions, size)]
        for held_out, draw, trial in itertools.product(tests, draws, trials):
            if rng.random() < absent:
                continue
            evaluations = tuple(
                Evaluation(
                    step,
                    *(tuple(accuracy() for _ in positions) for _ in range(3)),
                    shift(len(positions)),
                )
                for step in STEPS
            )
            status = rng.choices(["finished", "diverged", "running"], [8, 1, 1])[0]
            names = tuple(f"{dataset}-{i}" for i in positions)
            runs.append(Run(dataset, algorithm, names, held_out, draw, trial, status, evaluations))
    rng.shuffle(runs)
    return runs


# --- the reference: deliberately naive, and sharing nothing with what it checks ----------------


def record_at(run, step):
    for evaluation in run.evaluations:
        if evaluation.step == step:
            return evaluation
    raise AssertionError(f"no step {step}")


def reference_score(selector, find, tests, step, domains):
    """The score of one step of one draw, or None."""
    single = find((tests,))
    if single is None:
        return None
    record = record_at(single, step)
    if selector == "training-domain":
        total = 0.0
        for v in range(domains):
            if v != tests:
                total += record.outside[v]
        return total / (domains - 1)
    if selector == "oracle":
        return record.outside[tests] if step == STEPS[-1] else None
    if selector == "best-minimum":
        total = 0.0
        for v in range(domains):
            if v != tests:
                total += record.inside[v]
        lower = min(total / (domains - 1), record.inside[tests])
        return lower if step == STEPS[-1] else None
    if selector == "invariance":
        worst = max(record.risk[v] for v in range(domains) if v != tests)
        if worst <= 0.99 * 0.65 and record.shift.concept_p >= 0.2:
            return 1, -worst
        whole = record.shift.covariate + record.shift.concept
        return 0, -(worst + math.log(2) * math.sqrt(whole / 2))
    total = 0.0
    for v in range(domains):
        if v != tests:
            pair = find(tuple(sorted((tests, v))))
            if pair is None:
                return None
            total += record_at(pair, step).inside[v]
    return total / (domains - 1)


def reference_accuracy(runs, selector, dataset, algorithm, tests, trial):
    """What is reported for a test domain in a trial, or None."""
    wanted = (dataset, algorithm, trial)
    runs = [r for r in runs if (r.dataset, r.algorithm, r.trial_seed) == wanted]
    best, reported = None, None
    for draw in range(3):

        def find(held_out, draw=draw):
            for r in runs:
                if r.hparams_seed == draw and r.test_domains == held_out:
                    return r if r.status == "finished" else None
            return None

        best_of_draw, accuracy_of_draw = None, None
        for step in STEPS:
            score = reference_score(selector, find, tests, step, SIZES[dataset])
            if score is not None and (best_of_draw is None or score > best_of_draw):  # earliest
                best_of_draw = score
                accuracy_of_draw = record_at(find((tests,)), step).inside[tests]
        if best_of_draw is not None and (best is None or best_of_draw >= best):  # highest seed
            best, reported = best_of_draw, accuracy_of_draw
    return reported


def reference_mean_and_error(values):
    if not values:
        return None
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / len(values)
    return 100 * mean, 100 * math.sqrt(variance) / math.sqrt(len(values))


def numbers(found):
    return None if found is None else (found.mean, found.error)


def close(found, wanted):
    return found == wanted or found == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(50))
def test_every_number_of_a_random_sweep(seed):
    runs = random_sweep(random.Random(seed))
    if not runs:
        pytest.skip("nothing left of this one")
    algorithms = {r.algorithm for r in runs}
    for name in SELECTORS:
        results = aggregate(runs, SELECTORS.get(name)())
        assert set(results.algorithms) == algorithms
        assert {d.dataset for d in results.datasets} == {r.dataset for r in runs}
        for algorithm in algorithms:
            dataset_means = []
            for of_dataset in results.datasets:
                dataset = of_dataset.dataset
                column_means, by_trial = [], {}
                for tests in range(SIZES[dataset]):
                    values = []
                    for trial in range(3):
                        value = reference_accuracy(runs, name, dataset, algorithm, tests, trial)
                        if value is not None:
                            values.append(value)
                            by_trial.setdefault(trial, []).append(value)
                    cell = reference_mean_and_error(values)
                    assert close(numbers(of_dataset.cells[algorithm, tests].estimate), cell)
                    column_means.append(cell and cell[0])
                row = None if None in column_means else sum(column_means) / len(column_means)
                assert close(of_dataset.row_average(algorithm), row)
                averages = [sum(values) / len(values) for values in by_trial.values()]
                average = reference_mean_and_error(averages)
                assert close(numbers(of_dataset.average(algorithm)), average)
                dataset_means.append(average and average[0])
            overall = None if None in dataset_means else sum(dataset_means) / len(dataset_means)
            assert close(results.average(algorithm), overall)


@pytest.mark.parametrize("seed", range(10))
def test_missing_are_the_runs_of_the_grid_that_cannot_be_used(seed):
    runs = random_sweep(random.Random(seed))
    usable = {r.key for r in runs if r.status == "finished"}
    status = {r.key: r.status for r in runs}
    for name in SELECTORS:
        for d in aggregate(runs, SELECTORS.get(name)()).datasets:
            here = [r for r in runs if r.dataset == d.dataset]
            sizes = (1, 2) if name == "leave-one-domain-out" else (1,)
            for (algorithm, position), cell in d.cells.items():
                wanted = {
                    MissingRun(
                        d.dataset, algorithm, tuple(d.domains[i] for i in tests), draw, trial, why
                    )
                    for size in sizes
                    for tests in itertools.combinations(range(SIZES[d.dataset]), size)
                    for draw in {r.hparams_seed for r in here}
                    for trial in {r.trial_seed for r in here}
                    if position in tests
                    and (key := (d.dataset, algorithm, tests, draw, trial)) not in usable
                    and (why := status.get(key, "missing"))
                }
                assert set(cell.missing) == wanted
                assert len(cell.missing) == len(wanted)


def one_run(**changes):
    evaluation = Evaluation(1, (0.5, 0.25), (0.5, 0.5))
    run = Run("mine", "erm", ("a", "b"), (0,), 0, 0, "finished", (evaluation,))
    return replace(run, **changes)


def test_a_plan_says_what_is_missing_in_place_of_the_grid():
    runs = [one_run(), one_run(test_domains=(1,), hparams_seed=1)]
    oracle = SELECTORS.get("oracle")()
    (by_grid,) = aggregate(runs, oracle).datasets
    assert [len(cell.missing) for cell in by_grid.row("erm")] == [1, 1]
    planned = [run.key for run in runs]
    (by_plan,) = aggregate(runs, oracle, expected=planned).datasets
    assert [cell.missing for cell in by_plan.row("erm")] == [(), ()]
    absent = one_run(algorithm="idm", trial_seed=4).key
    results = aggregate(runs, oracle, expected=[*planned, absent])
    assert results.algorithms == ("erm", "idm")
    gone = MissingRun("mine", "idm", ("a",), 0, 4, "missing")
    assert results.datasets[0].cells["idm", 0].missing == (gone,)


def test_a_run_that_did_not_evaluate_what_is_read_is_missing_and_says_so():
    blind = one_run(evaluations=(Evaluation(1, (0.5, None), (None, None)),))
    (d,) = aggregate([blind], SELECTORS.get("oracle")()).datasets
    assert d.cells["erm", 0].missing == (MissingRun("mine", "erm", ("a",), 0, 0, "not evaluated"),)
    assert d.cells["erm", 0].estimate is None


def test_a_run_that_diverged_is_named_and_leaves_nothing_to_wait_for():
    runs = [one_run(), one_run(hparams_seed=1, status="diverged")]
    (d,) = aggregate(runs, SELECTORS.get("oracle")()).datasets
    cell = d.cells["erm", 0]
    assert [run.reason for run in cell.missing] == ["diverged"]
    assert not cell.incomplete
    assert not d.complete("erm")  # nobody held out the other domain
    assert not d.covers("erm")


def test_datasets_and_algorithms_come_in_the_order_of_published_tables():
    runs = [
        one_run(dataset=dataset, algorithm=algorithm)
        for dataset in ("zoo", "pacs", "colored-mnist", "vlcs")
        for algorithm in ("idm", "abc", "irm", "erm")
    ]
    results = aggregate(runs, SELECTORS.get("oracle")())
    assert results.algorithms == ("erm", "irm", "idm", "abc")
    assert [d.dataset for d in results.datasets] == ["colored-mnist", "vlcs", "pacs", "zoo"]


def test_one_dataset_with_two_lists_of_domains_is_an_error():
    with pytest.raises(DataError, match=r"disagree on the domains of mine: .a., .b. and .a., .c."):
        aggregate([one_run(), one_run(trial_seed=1, domains=("a", "c"))], SELECTORS.get("oracle")())


def test_the_error_bar_is_the_population_deviation_over_the_root_of_the_trials():
    found = estimate([0.1, 0.2, 0.6])
    assert found.mean == pytest.approx(30)
    assert found.error == pytest.approx(100 * math.sqrt((0.04 + 0.01 + 0.09) / 3) / math.sqrt(3))
    assert estimate([0.3]).error == 0
    assert estimate([]) is None
