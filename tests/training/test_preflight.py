"""What a user is told before the first step: each is named with its domain and count."""

import numpy as np
import pytest
import torch
from _internals import DataError, Observer, configure, train

from shiftproof import Domain, DomainDataset


class Notes(Observer):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def dataset(**labels):
    """Domains with these labels, of classes 0 to 2."""
    domains = tuple(
        Domain(name, torch.rand(len(y), 3), torch.tensor(y, dtype=torch.int64))
        for name, y in labels.items()
    )
    return DomainDataset("toy", domains, ("ant", "bee", "fly"), "table", "mlp", 0, notes=("hear",))


def told(data, tmp_path, test=(), **options):
    observer = Notes()
    given = {"hparams": {"batch_size": 5}, "steps": 1, "device": "cpu", "evaluate": ["train-in"]}
    config = configure(data, "erm", test_domains=test, **{**given, **options})
    train(config, data, tmp_path / "run", observer)
    assert all("\n" not in note for note in observer.notes)
    return observer.notes


def test_of_sound_data_only_its_own_notes_are_told(tmp_path):
    y = [0, 1, 2] * 10
    assert told(dataset(a=y, b=y, c=y), tmp_path, ["c"]) == ["hear"]


def test_a_domain_smaller_than_a_batch(tmp_path):
    y = [0, 1, 2] * 10
    # Of 5 samples, ⌊5/5⌋ are held out.
    _, note = told(dataset(a=y, b=y[:5]), tmp_path)
    assert note.startswith("domain 'b' has 4 training samples, fewer than the batch size of 5")


def test_a_training_domain_of_one_class(tmp_path):
    y = [0, 1, 2] * 10
    (_, note) = told(dataset(a=y, b=[1] * 20), tmp_path)
    assert note.startswith("domain 'b' has training samples of one class only ('bee', 16 samples)")
    assert told(dataset(a=y, b=y, c=[1] * 20), tmp_path / "held out", ["c"]) == ["hear"]


def test_labels_never_seen_in_training(tmp_path):
    y = [0, 1] * 10
    _, note = told(dataset(a=y, b=y, c=[*y, 2, 2, 2]), tmp_path, ["c"])
    assert note.startswith("domain 'c' has 3 samples with labels never seen in training ('fly')")


def test_a_part_that_never_acts(tmp_path):
    y = [0, 1, 2] * 10
    observer = Notes()
    data = dataset(a=y, b=y)
    config = configure(data, "idm", steps=3, hparams={"gradient_warmup": 3, "batch_size": 4},
                       evaluate=["train-in"], device="cpu")  # fmt: skip
    train(config, data, tmp_path, observer)
    assert observer.notes[1].startswith(
        "a part of idm starts at step 3, which is never reached in 3 steps"
    )


Y = [0, 1, 2] * 4


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (
            lambda: configure(
                DomainDataset("t", dataset(a=Y, b=Y).domains, ("ant",), "table", "mlp", 0), "erm"
            ),
            "t has one class only (ant); at least two are needed",
        ),
        (
            lambda: configure(dataset(a=Y), "erm"),
            "toy has 1 domain (a), with 1 left for training; at least two are needed",
        ),
        (
            lambda: configure(dataset(a=Y, b=Y), "erm", test_domains=["a"]),
            "toy has 2 domains (a, b), with 1 left for training; at least two are needed",
        ),
        (lambda: Domain("a", torch.zeros(0, 2), torch.zeros(0)), "domain 'a' is empty"),
    ],
)
def test_what_stops_a_run_names_the_count(mistake, says):
    with pytest.raises(DataError) as caught:
        mistake()
    assert str(caught.value) == says


def test_a_preparation_is_fitted_to_what_is_trained_on_alone(tmp_path):
    """The heart of no leaking: the samples that fit() sees are the training domains' in parts."""
    from _internals import Trainer, split_domain

    seen = []

    class Halved:
        notes = ("fitted",)

        def apply(self, x):
            return x.astype(np.float32) / 2

        def to_json(self):
            return {}

    class Half:
        def fit(self, x):
            seen.append(x)
            return Halved()

        def from_json(self, value):
            return Halved()

        def digest(self):
            return b"half"

    y = [0, 1, 2] * 10
    base = dataset(a=y, b=y, c=y)
    data = DomainDataset(
        "toy", base.domains, base.classes, "table", "mlp", 0, preparation=Half(), notes=("hear",)
    )
    config = configure(data, "erm", test_domains=["b"], data_seed=3, steps=1, device="cpu")
    trainer = Trainer(config, data)
    expected = [
        base.domains[k].x[torch.from_numpy(split_domain(30, 0.2, 3, k).in_)] for k in (0, 2)
    ]
    assert np.array_equal(seen[0], torch.cat(expected).numpy())
    assert torch.equal(trainer.dataset.domains[1].x, base.domains[1].x / 2)
    assert trainer.dataset.notes == ("hear", "fitted")
    assert trainer.dataset.fingerprint == data.fingerprint != base.fingerprint
    assert trainer.sampler.batch(0).x.max() <= 0.5
