"""The help pages of groups, which we print ourselves."""

import subprocess
import sys

import pytest
import typer
from _internals import app


@pytest.mark.parametrize("path", [[], ["data"]], ids=["shiftproof", "data"])
@pytest.mark.parametrize("ask", ["--help", "-h", None])
def test_help_lists_every_command_with_its_summary(shiftproof, path, ask):
    group = typer.main.get_command(app)
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


def test_the_help_of_a_group_does_without_typers_own():
    script = (
        "import sys; sys.argv = ['shiftproof', '--help']\n"
        "from shiftproof.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('IMPORTED', 'typer.rich_utils' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("IMPORTED False\n")
