"""The application: all commands, and errors in one line."""

import warnings
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

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


#: groups of options in the order of help, before all others
FIRST_GROUPS = ("Arguments", "Options", "Tables of items", "Vectors", "Views", "Judgements")


class GroupedHelp(TyperCommand):
    """A command whose help lists its options in groups, and then examples as they are typed."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options of the command itself, then each group of others."""
        groups: dict[str, list[Any]] = {title: [] for title in FIRST_GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                own = "Arguments" if parameter.param_type_name == "argument" else "Options"
                group = getattr(parameter, "rich_help_panel", None) or own
                groups.setdefault(group, []).append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


#: commands in the order of help, with examples
COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "learn": (
        learn.learn,
        """
        similia learn items.csv clicks.csv
        similia learn queries.npy log.csv --items items.npy -o model.safetensors
        similia learn items.csv more.csv --from model.safetensors -o newer.safetensors""",
    ),
    "clicks": (
        clicks.clicks,
        """
        similia clicks items.npy log.csv
        similia clicks items.npy log.csv --position rank --correct -o corrected.csv
        similia clicks items.npy queries.jsonl --events events.jsonl -o log.csv""",
    ),
    "evaluate": (
        evaluate.evaluate,
        """
        similia evaluate model.safetensors items.csv judged.csv
        similia evaluate model.safetensors items.npy judged.qrels --measure nDCG@10
        similia evaluate model.safetensors --beir scifact --json""",
    ),
    "compare": (
        compare.compare,
        """
        similia compare items.npy judgements.csv
        similia compare items.npy judgements.csv --learner OASIS,C=0.1 --learner Blend
        similia compare items.npy judged.csv --measure nDCG@10 --hold-out 0.5""",
    ),
    "suggest": (
        suggest.suggest,
        """
        similia suggest model.safetensors items.npy -n 20
        similia suggest model.safetensors queries.npy --items items.npy --queries ids.txt
        similia suggest model.safetensors items.npy --format jsonl""",
    ),
    "apply": (
        apply.apply,
        """
        similia apply model.safetensors queries.npy -o moved.npy
        similia apply model.safetensors items.npy --as items -o moved.npy
        similia apply model.safetensors queries.npy --scale-like cosine -o moved.npy""",
    ),
    "index": (
        index.index,
        """
        similia index items.npy -o items.index
        similia index items.npy --backend faiss -o items.index
        similia index items.npy --model metric.safetensors -o items.index""",
    ),
    "search": (
        index.search,
        """
        similia search items.csv -q "red lamp" --model model.safetensors
        similia search items.index queries.npy --model model.safetensors -k 20
        similia search items.index - --model generations --format jsonl""",
    ),
    "split": (
        promote.split,
        """
        similia split generations items.npy judgements.csv -o learn.csv
        similia split generations items.npy judgements.csv --hold-out 0.5 -o learn.csv
        similia split generations items.npy pairs.npy --kind pairs -o learn.npy""",
    ),
    "promote": (
        promote.promote,
        """
        similia promote generations items.csv judged.csv --model model.safetensors
        similia promote generations items.npy judged.csv --measure nDCG@10 --continue
        similia promote generations items.npy judged.csv --model model.safetensors --unseen""",
    ),
    "rollback": (
        promote.rollback,
        """
        similia rollback generations
        similia rollback generations --to 3
        similia rollback generations --to 0""",
    ),
    "serve": (
        serve.serve,
        """
        similia serve items.csv
        similia serve --config service.toml --show-settings
        similia serve items.npy --host 0.0.0.0 --store postgresql://similia@db/similia""",
    ),
    "judge": (
        serve.judge,
        """
        similia judge items.csv
        similia judge items.npy --queries queries.npy --query-texts queries.txt
        similia judge items.npy --images pictures --no-browser --port 8000""",
    ),
    "feedback": (
        serve.feedback,
        """
        similia feedback log.csv
        similia feedback log.csv --queries text --url https://rank.example.org --tenant shop
        similia feedback queries.jsonl --events events.jsonl""",
    ),
    "info": (
        info.info,
        """
        similia info model.safetensors
        similia info model.safetensors --verbose
        similia info generations --json""",
    ),
}
for _name, (_command, _examples) in COMMANDS.items():
    _lines = "\n".join(f"  {line.strip()}" for line in _examples.strip().splitlines())
    app.command(_name, cls=GroupedHelp, epilog=f"\b\nExamples:\n{_lines}")(_command)
app.add_typer(interleave.app, name="interleave")
app.add_typer(plot.app, name="plot")
app.add_typer(serve.keys, name="keys")
app.add_typer(serve.log, name="log")
app.command("learners")(info.learners)
app.command("demo")(demo.demo)


def main() -> None:
    """Run the command line."""
    app(prog_name="similia")


if __name__ == "__main__":
    main()
