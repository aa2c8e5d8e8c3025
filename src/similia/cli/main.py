"""The application: all commands, and errors in one line."""

import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from similia.cli import (
    apply,
    clicks,
    compare,
    demo,
    evaluate,
    index,
    info,
    interleave,
    learn,
    plot,
    promote,
    serve,
    suggest,
)
from similia.cli.options import note
from similia.exceptions import BadRowError, MissingExtraError

#: exit code when an unusable row stops a command; 1 is any other error, 2 is misuse
BAD_ROW = 3
#: exit code after Ctrl-C, as in shells
INTERRUPTED = 130


class OneLineErrors(TyperGroup):
    """Commands that report library errors in one line on standard error, with an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                return super().invoke(ctx)
        except (ValueError, OSError, MissingExtraError, MemoryError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            note(f"error: {_sentence(error)}")
            raise typer.Exit(BAD_ROW if isinstance(error, BadRowError) else 1) from None
        except KeyboardInterrupt as error:
            note(": ".join(["interrupted", *map(str, error.args)]) + ".")
            raise typer.Exit(INTERRUPTED) from None


def _show_warning(message: Warning | str, *_: Any) -> None:
    note(f"warning: {message}")


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError):
        return f"not enough memory. {error}".strip()
    # Further lines, as scikit-learn adds them, are advice to programmers.
    return " ".join(str(error).strip().split("\n", 1)[0].split())


app = typer.Typer(
    cls=OneLineErrors,
    help="Teach an existing similarity from feedback, one judgement at a time.",
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """Teach an existing similarity from feedback, one judgement at a time."""
    if version:
        from similia import __version__

        typer.echo(f"similia {__version__}")
        raise typer.Exit


app.command("learn")(learn.learn)
app.command("clicks")(clicks.clicks)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("suggest")(suggest.suggest)
app.command("apply")(apply.apply)
app.command("index")(index.index)
app.command("search")(index.search)
app.command("split")(promote.split)
app.command("promote")(promote.promote)
app.command("rollback")(promote.rollback)
app.add_typer(interleave.app, name="interleave")
app.add_typer(plot.app, name="plot")
app.command("serve")(serve.serve)
app.command("judge")(serve.judge)
app.command("feedback")(serve.feedback)
app.add_typer(serve.keys, name="keys")
app.add_typer(serve.log, name="log")
app.command("info")(info.info)
app.command("learners")(info.learners)
app.command("demo")(demo.demo)


def main() -> None:
    """Run the command line."""
    app(prog_name="similia")


if __name__ == "__main__":
    main()
