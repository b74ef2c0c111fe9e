"""Selectors on runs small enough to select from by eye."""

import math

import pytest
from _internals import EVALUATIONS, SELECTORS, Evaluation, Needs, OutputShift, Run

DOMAINS = ("a", "b", "c")
ANY = (0.5, 0.5, 0.5)
NO_SHIFT = OutputShift(2, (0.69, 0.69, 0.69), concept=0.0, covariate=0.0, concept_p=1.0)


def run(test_domains, steps, hparams_seed=0, status="finished"):
    """``steps``: {step: (in accuracies, out accuracies)}, or with risks and shift as well."""
    evaluations = tuple(
        Evaluation(step, *parts) if len(parts) > 2 else Evaluation(step, *parts, ANY, NO_SHIFT)
        for step, parts in steps.items()
    )
    return Run("x", "erm", DOMAINS, test_domains, hparams_seed, 0, status, evaluations)


def select(name, runs, test_domain=0):
    return SELECTORS.get(name)().select(runs, test_domain)


def test_training_domain_takes_the_best_mean_of_the_others_out_parts():
    chosen = select(
        "training-domain",
        [
            run((0,), {1: ((0.1, 0, 0), (1.0, 0.5, 0.5)), 2: ((0.2, 0, 0), (0.0, 0.4, 0.9))}),
            run((0,), {1: ((0.3, 0, 0), (1.0, 0.6, 0.6))}, hparams_seed=1),
            run((1,), {1: ((0.9, 0, 0), (1.0, 1.0, 1.0))}, hparams_seed=2),
            run((0, 1), {1: ((0.9, 0, 0), (1.0, 1.0, 1.0))}, hparams_seed=3),
        ],
    )
    assert (chosen.run.hparams_seed, chosen.step, chosen.score) == (0, 2, 0.65)
    assert chosen.accuracy == 0.2


def test_leave_one_domain_out_scores_other_domains_where_they_were_held_out_too():
    single = run((1,), {1: ((0, 0.1, 0), ANY), 5: ((0, 0.2, 0), ANY), 9: ((0, 0.3, 0), ANY)})
    with_a = run((0, 1), {1: ((0.9, 0, 0), ANY), 5: ((0.6, 1, 1), ANY), 9: ((0.5, 1, 1), ANY)})
    with_c = run((1, 2), {1: ((1, 1, 0.1), ANY), 5: ((0, 0, 0.8), ANY)})
    chosen = select("leave-one-domain-out", [single, with_a, with_c], test_domain=1)
    # Step 9 lacks one of the pairs; 0.9 and 0.1 against 0.6 and 0.8.
    assert chosen == (single, 5, pytest.approx(0.7), 0.2)


def test_leave_one_domain_out_needs_every_pair():
    single, pair = run((0,), {1: (ANY, ANY)}), run((0, 1), {1: (ANY, ANY)})
    assert select("leave-one-domain-out", [single, pair]) is None
    other = run((0, 2), {1: (ANY, ANY)})
    assert select("leave-one-domain-out", [single, pair, other]).run is single
    unfinished = run((0, 2), {1: (ANY, ANY)}, status="running")
    assert select("leave-one-domain-out", [single, pair, unfinished]) is None
    elsewhere = run((0, 2), {1: (ANY, ANY)}, hparams_seed=1)
    assert select("leave-one-domain-out", [single, pair, elsewhere]) is None


def test_oracle_looks_at_the_last_step_alone():
    early = run((2,), {1: ((0, 0, 0.1), (0, 0, 1.0)), 2: ((0, 0, 0.2), (1, 1, 0.5))})
    late = run((2,), {1: ((0, 0, 0.3), (0, 0, 0.0)), 2: ((0, 0, 0.4), (0, 0, 0.6))}, 1)
    assert select("oracle", [early, late], 2) == (late, 2, 0.6, 0.4)


@pytest.mark.parametrize("name", list(SELECTORS))
def test_of_equal_steps_the_earliest_and_of_equal_draws_the_highest_seed(name):
    steps = dict.fromkeys((1, 101, 201), (ANY, ANY))
    held_out = [(0,), (0, 1), (0, 2)]
    runs = [run(tests, steps, seed) for seed in (3, 7, 5) for tests in held_out]
    chosen = select(name, runs)
    assert chosen.run.hparams_seed == 7
    assert chosen.step == (1 if SELECTORS.get(name).needs.every_step else 201)
    assert select(name, runs[::-1]) == chosen


@pytest.mark.parametrize("name", list(SELECTORS))
@pytest.mark.parametrize("status", ["running", "failed", "diverged"])
def test_only_finished_runs_are_selected(name, status):
    high, low = ({1: ((level,) * 3, (level,) * 3)} for level in (0.9, 0.1))
    held_out = [(0,), (0, 1), (0, 2)]
    bad = [run(tests, high, 1, status) for tests in held_out]
    good = [run(tests, low, 0) for tests in held_out]
    assert select(name, bad) is None
    assert select(name, bad + good).accuracy == 0.1


def test_a_score_that_is_no_number_is_no_score():
    """Nothing is greater than NaN, so as the first it would stay the best."""
    unknown = (math.nan,) * 3
    odd = {1: ((0.9,) * 3, unknown), 2: ((0.2,) * 3, (0.5,) * 3)}
    chosen = select("training-domain", [run((0,), odd), run((0,), {1: (ANY, unknown)}, 9)])
    assert (chosen.run.hparams_seed, chosen.step, chosen.accuracy) == (0, 2, 0.2)
    assert select("oracle", [run((0,), {1: (ANY, unknown)})]) is None


@pytest.mark.parametrize("name", list(SELECTORS))
def test_what_a_selector_needs_is_enough_and_all_of_it_is(name):
    """Runs that evaluated what is declared give a selection; with a set less they do not."""
    selector = SELECTORS.get(name)()
    needs = selector.needs
    assert set(needs.evaluate + needs.evaluate_pairs) <= set(EVALUATIONS)

    def runs(single, pairs):
        found = []
        for tests in needs.held_out(3):
            sets = single if len(tests) == 1 else pairs
            parts = [
                tuple(
                    0.5 if f"{'test' if i in tests else 'train'}-{part}" in sets else None
                    for i in range(3)
                )
                for part in ("in", "out")
            ]
            parts += [parts[1], NO_SHIFT if "invariance" in sets else None]
            found.append(run(tests, {1: parts, 2: parts}))
        return found

    assert selector.select(runs(needs.evaluate, needs.evaluate_pairs), 1).accuracy == 0.5
    for left_out in set(needs.evaluate) - {"extra"}:  # which is reported, and never read
        fewer = set(needs.evaluate) - {left_out}
        assert selector.select(runs(fewer, needs.evaluate_pairs), 1) is None
    for left_out in needs.evaluate_pairs:
        fewer = set(needs.evaluate_pairs) - {left_out}
        assert selector.select(runs(needs.evaluate, fewer), 1) is None


def test_the_runs_to_plan():
    assert Needs(("test-in",)).held_out(3) == [(0,), (1,), (2,)]
    with_pairs = Needs(("test-in",), evaluate_pairs=("test-in",)).held_out(3)
    assert with_pairs == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]


def test_registered_under_their_own_names():
    expected = ["best-minimum", "invariance", "leave-one-domain-out", "oracle", "training-domain"]
    assert [*SELECTORS] == expected
    assert all(selector.name == name for name, selector in SELECTORS.items())
