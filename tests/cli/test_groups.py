"""The help pages of groups, which we print ourselves."""

import pytest
from _internals import app


@pytest.mark.parametrize("path", [[], ["data"]], ids=["shiftproof", "data"])
@pytest.mark.parametrize("ask", ["--help", "-h", None])
def test_help_lists_every_command_with_its_summary(shiftproof, path, ask):
    group = app
    for name in path:
        group = group.commands[name]
    code, out, err = shiftproof(*path, *([ask] if ask else []))
    words = " ".join(out.replace("│", " ").split())
    assert code == (0 if ask else 2)  # without a command, help is the answer to a usage error
    assert err == ""
    assert f"Usage: {' '.join(['shiftproof', *path])} [OPTIONS] COMMAND" in words
    assert "--help, -h Show this message" in words
    for name, command in group.commands.items():
        assert f"{name} {command.get_short_help_str(200)}" in words
