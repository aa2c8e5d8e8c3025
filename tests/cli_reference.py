"""The part of docs/cli.md that is generated from the help of every command."""

import re

from typer.testing import CliRunner

from similia.cli.main import app

MARK = "<!-- what follows is made from the commands' own help: python -m tests.test_docs -->\n"


def help_of(*words: str) -> str:
    environment = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "TERM": "dumb", "NO_COLOR": "1"}
    arguments = [*words, "--help"]
    result = CliRunner().invoke(app, arguments, prog_name="similia", env=environment)
    assert result.exit_code == 0, result.output
    return re.sub(r"[ \t]+$", "", result.stdout, flags=re.MULTILINE).strip()


def commands(group=app, prefix=()):
    """Yield the words of every command, groups before their members."""
    for command in group.registered_commands:
        yield (*prefix, command.name)
    for inner in group.registered_groups:
        yield (*prefix, inner.name)
        yield from commands(inner.typer_instance, (*prefix, inner.name))


def reference(page: str) -> str:
    """The page, with the help of every command after the mark."""
    written = page.split(MARK)[0]
    parts = [f"{written}{MARK}", f"```\n{help_of()}\n```\n"]
    for words in commands():
        parts.append(f"### similia {' '.join(words)}\n\n```\n{help_of(*words)}\n```\n")
    return "\n".join(parts)
