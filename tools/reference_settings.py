"""An extension of griffe: the API reference shows the keywords that `core.settings` adds.

The reference is made from the source, where `train(data, settings)` has two parameters.  Functions
with the decorator `keywords` are therefore imported, and shown with their real signature and
docstring.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class RealSignatures(griffe.Extension):
    """Replaces parameters and docstrings of functions that take settings."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace those of one function."""
        if not any(str(one.value).startswith("keywords(") for one in func.decorators):
            return
        real = getattr(import_module(func.module.path), func.name)
        func.parameters = griffe.Parameters(
            *map(_parameter, inspect.signature(real).parameters.values())
        )
        func.docstring = griffe.Docstring(inspect.getdoc(real) or "", parent=func)


def _parameter(one: inspect.Parameter) -> griffe.Parameter:
    given = one.default is not inspect.Parameter.empty
    return griffe.Parameter(
        one.name,
        annotation=None if one.annotation is inspect.Parameter.empty else str(one.annotation),
        kind=griffe.ParameterKind[one.kind.name.lower()],
        default=repr(one.default) if given else None,
    )
