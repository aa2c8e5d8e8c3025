"""The command line: each command parses, calls one library function and prints.

Slow imports happen inside the commands, so that ``similia --help`` is instant.
"""


def run() -> None:
    """Run the command line; Ctrl-C ends it quietly even while modules are imported."""
    try:
        from similia.cli.main import main

        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
