"""Selection as in IRM's study: the highest of the lower of training and test accuracy."""

import random

import pytest
from _internals import SELECTORS, Evaluation, Run

DOMAINS = ("90%", "80%", "10%")
NONE = (None, None, None)


def run(inside, hparams_seed=0, tests=(2,), outside=NONE, status="finished"):
    """``inside``: the in accuracies of each evaluation in turn, at steps 10, 20, …"""
    evaluations = tuple(
        Evaluation(10 * number, values, outside) for number, values in enumerate(inside, 1)
    )
    return Run("x", "erm", DOMAINS, tests, hparams_seed, 0, status, evaluations)


def select(runs, test_domain=2):
    return SELECTORS.get("best-minimum")().select(runs, test_domain)


def test_the_draw_whose_worse_side_is_best():
    colour = run([(0.90, 0.80, 0.10)], 0)  # 0.85 and 0.10
    chance = run([(0.50, 0.50, 0.52)], 1)  # 0.50 and 0.52
    shape = run([(0.70, 0.72, 0.67)], 2)  # 0.71 and 0.67
    against = run([(0.55, 0.45, 0.90)], 3)  # 0.50 and 0.90
    assert select([colour, chance, shape, against]) == (shape, 10, 0.67, 0.67)
    # Where the training domains are the worse side they decide, and the test domain is reported.
    assert select([colour, against]) == (against, 10, pytest.approx(0.5), 0.90)


def test_the_last_step_alone_is_looked_at():
    early = run([(0.9, 0.9, 0.9), (0.1, 0.1, 0.1)], 0)
    late = run([(0.0, 0.0, 0.0), (0.2, 0.2, 0.2)], 1)
    assert select([early, late]) == (late, 20, pytest.approx(0.2), 0.2)


def test_nothing_of_an_out_part_is_read():
    assert select([run([(0.7, 0.5, 0.4)], outside=(1.0, 1.0, 1.0))]).score == 0.4
    assert select([run([(0.7, 0.5, 0.4)], outside=NONE)]).score == 0.4


@pytest.mark.parametrize("position", range(3))
def test_without_one_of_the_accuracies_there_is_no_score(position):
    inside = tuple(None if i == position else 0.5 for i in range(3))
    assert select([run([inside])]) is None
    assert select([run([])]) is None


def test_only_runs_that_hold_out_this_domain_alone():
    other = run([(0.9, 0.9, 0.9)], tests=(0,))
    pair = run([(0.9, 0.9, 0.9)], tests=(1, 2))
    assert select([other, pair]) is None


@pytest.mark.parametrize("seed", range(5))
def test_against_a_loop_over_random_runs(seed):
    rng = random.Random(seed)
    runs = [
        run([tuple(rng.randint(0, 4) / 4 for _ in range(3)) for _ in range(2)], draw, (tests,))
        for draw in range(6)
        for tests in range(3)
    ]
    for tests in range(3):
        best, expected = -1.0, None
        for each in runs:  # by rising seeds, of which the highest of equals is taken
            last = each.evaluations[-1].inside
            others = [last[i] for i in range(3) if i != tests]
            score = min((others[0] + others[1]) / 2, last[tests])
            if each.test_domains == (tests,) and score >= best:
                best, expected = score, (each.hparams_seed, last[tests])
        found = select(rng.sample(runs, len(runs)), tests)
        assert (found.score, (found.run.hparams_seed, found.accuracy)) == (best, expected)


def test_what_it_says_of_itself():
    selector = SELECTORS.get("best-minimum")
    assert "sees the test domain" in selector.title
    assert selector.needs.evaluate == ("train-in", "test-in", "extra")
    assert selector.needs.evaluate_pairs == ()
    assert not selector.needs.every_step
