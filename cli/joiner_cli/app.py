"""The entry point of the installed `joiner` command.

The commands are imported inside ``run_reported``, so that errors of their imports are reported, too.
"""

from joiner_cli.unexpected_errors import run_reported


def main() -> None:
    """Run the command of this command line."""
    run_reported(_run_commands)


def _run_commands() -> None:
    from joiner_cli.commands import app

    app()
