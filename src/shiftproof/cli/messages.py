"""Convert parameter names in messages to options of the running command.

In the library, a message names a parameter in backticks, by its Python name (see
`shiftproof.core.errors`).  Here each such name becomes what the user typed, or can type::

    `holdout`                        --holdout
    `test_domains`                   --test-domain
    `weights="random"`               --weights random
    `freeze=True`                    --freeze
    `gradient_warmup`                --hparam gradient_warmup
    `hparams={"single_logit": False}`  --hparam single_logit=no

The options are read from the command itself, so they cannot differ from its help.  Names that the
command does not know (a column, a class, a shell command) keep their backticks.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

# The running command, of click's type; set in `shiftproof.cli`.
running: ContextVar[Any] = ContextVar("running", default=None)

# Parameters with other names on the command line; the first name that the command has is used.
OTHER_NAMES = {
    "algorithm": ("algorithms",),
    "algorithms": ("algorithm",),
    "datasets": ("data",),
    "folder": ("out",),
    "model": ("run",),
}
_QUOTED = re.compile(r"`(?P<name>[A-Za-z_]\w*)(?:=(?P<value>[^`]+))?`")


def in_options(text: str, command: Any = None) -> str:
    """Return a message with its parameters as options of `command`, by default the running one.

    Without a command, the message is returned unchanged.
    """
    command = command or running.get()
    if command is None:
        return text
    return _QUOTED.sub(lambda quoted: _spoken(command, quoted), text)


def _spoken(command: Any, quoted: re.Match[str]) -> str:
    name, value = quoted["name"], quoted["value"]
    parameters = {parameter.name: parameter for parameter in command.params}
    for candidate in (name, *OTHER_NAMES.get(name, ())):
        if candidate in parameters:
            return _assigned(parameters[candidate], value)
    for setting, names in (("hparams", _hyper_parameters), ("options", _data_options)):
        if setting in parameters and name in names():
            given = "" if value is None else f"={_quoted(_word(_literal(value)))}"
            return f"{max(parameters[setting].opts, key=len)} {name}{given}"
    return quoted[0]


def _assigned(parameter: Any, text: str | None) -> str:
    """Return a parameter of a command, with its Python value written as in a shell."""
    value = None if text is None else _literal(text)
    if parameter.param_type_name == "argument":
        name = str(parameter.metavar or parameter.name).upper()
        return name if text is None else _quoted(_word(value))
    if text is None:
        return str(max(parameter.opts, key=len))
    return " ".join(map(_quoted, _words(parameter, value)))


def option_words(command: Any, values: Mapping[str, Any]) -> list[str]:
    """Return the words that set these values, by setting, in a command."""
    parameters = {parameter.name: parameter for parameter in command.params}
    return [word for name, value in values.items() for word in _words(parameters[name], value)]


def _words(option: Any, value: Any) -> list[str]:
    name = max(option.opts, key=len)
    if value is True and option.is_flag:
        return [name]
    if isinstance(value, Mapping):
        words = [f"{key}={_word(item)}" for key, item in value.items()]
    else:
        words = list(map(_word, value if isinstance(value, list | tuple) else [value]))
    if not option.multiple:
        words = [",".join(words)]
    return [word for pair in zip([name] * len(words), words, strict=True) for word in pair]


def _literal(text: str) -> Any:
    """Return the value of a Python literal, or any other text, such as `…`, unchanged."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _quoted(word: str) -> str:
    # A placeholder is not typed, so it needs no quotes.
    return word if "…" in word else shlex.quote(word)


# The imports take a while, and only names that are not parameters of the command need them.
def _hyper_parameters() -> set[str]:
    """Return the names that `--hparam` accepts, of all algorithms and networks."""
    from shiftproof.learners.algorithms import ALGORITHMS
    from shiftproof.models import MODELS

    algorithms = (algorithm.Hparams for _, algorithm in ALGORITHMS.items())
    return _declared(*algorithms, *(network for _, network in MODELS.items()))


def _data_options() -> set[str]:
    """Return the names that `--data-option` accepts, of all datasets, images and tables."""
    from shiftproof.data import DATASETS
    from shiftproof.data.images.files import ImageView
    from shiftproof.data.load import TableOptions

    return _declared(ImageView, TableOptions, *(source for _, source in DATASETS.items()))


def _declared(*kinds: type) -> set[str]:
    from shiftproof.core.space import specs

    return {name for kind in kinds for name in specs(kind)}
