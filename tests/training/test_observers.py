import inspect

import pytest
from _internals import CompositeObserver, Observer

CALLBACKS = [name for name, _ in inspect.getmembers(Observer, inspect.isfunction)]


@pytest.mark.parametrize("name", CALLBACKS)
def test_every_callback_reaches_every_observer_in_order(name):
    calls = []

    class Listener(Observer):
        def __init__(self, title):
            self.title = title

    def listen(self, *arguments):
        calls.append((self.title, arguments))

    setattr(Listener, name, listen)
    arguments = tuple(inspect.signature(getattr(Observer, name)).parameters)[1:]
    getattr(CompositeObserver([Listener("a"), Listener("b")]), name)(*arguments)
    assert calls == [("a", arguments), ("b", arguments)]


def test_there_are_callbacks():
    assert {"begin", "step", "record", "note", "loaded", "progress"} <= set(CALLBACKS)
