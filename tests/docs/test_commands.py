"""The reference of the commands is that of the commands."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_tool_writes():
    path = ROOT / "tools" / "command_reference.py"
    spec = importlib.util.spec_from_file_location("command_reference", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert page == tool.reference(), "run python tools/command_reference.py"
    for command in ("study", "train", "data check"):
        assert f"\n## {command}\n" in page
