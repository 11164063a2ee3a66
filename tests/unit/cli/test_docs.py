"""Help texts in the docs match the program."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from joiner_cli.commands import app

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```console\n\$ joiner (?P<arguments>[^\n]*--help)\n(?P<output>.*?)```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "docs" / "command.md"]


def help_text(arguments: str) -> str:
    result = CliRunner().invoke(app, arguments.split(), terminal_width=100, env={"COLUMNS": "100"}, prog_name="joiner")
    return "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_help_blocks_match_the_program(page: Path) -> None:
    blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))

    assert blocks, f"{page} shows no help"
    for block in blocks:
        assert block["output"] == help_text(block["arguments"])
