"""Where the command begins: Ctrl-C ends it quietly while everything else is being imported."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run() -> None:
    """Run the command line, which says itself what Ctrl-C interrupts."""
    from similia.cli import run as command

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()
