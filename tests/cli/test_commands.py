import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer

import similia
from similia.cli import inputs, main
from similia.cli import options as opt
from similia.cli.main import app
from similia.cli.printing import duration
from similia.registry import ALL_LEARNERS, LEARNERS, learner_class, summary
from similia.trust.generations import Generations
from tests.cli_reference import help_of
from tests.fixtures.make import FOLDER

COMMANDS = [command.name for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, run):
    assert f"Usage: similia {command}" in run(command, "--help").stdout
    assert command in run("--help").stdout


def test_version_is_shown(run):
    assert run("--version").stdout == f"similia {similia.__version__}\n"


def test_learners_are_listed(run):
    listed = json.loads(run("learners", "--json").stdout)
    assert [learner["name"] for learner in listed] == list(ALL_LEARNERS)
    assert all(learner["description"].endswith(".") for learner in listed)
    assert all(name in run("learners").stdout for name in ALL_LEARNERS)


@pytest.mark.parametrize("name", LEARNERS)
def test_info_shows_every_kind_of_model(name, run):
    path = FOLDER / f"{name}-float32.safetensors"
    found = json.loads(run("info", path, "--json").stdout)
    assert found["class_name"] == name
    assert found["attributes"]["n_features_in_"] == 4
    short, whole = run("info", path).stdout, run("info", path, "--verbose").stdout
    assert short.startswith(f"{name}: {found['attributes']['n_seen_']} judgement")
    assert whole.startswith(short)
    assert "format: 1\n" in whole
    assert "n_updates_" not in short
    assert "n_updates_" in whole


def test_info_of_no_model_is_one_line(run, tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        result = run("info", path, code=1)
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1


def test_summaries_are_the_first_lines_of_the_documentation():
    for name in ALL_LEARNERS:
        assert summary(name) == inspect.getdoc(learner_class(name)).split("\n")[0]


def test_light_commands_import_no_learner(tmp_path):
    model = FOLDER / "OASIS-float32.safetensors"
    learner = similia.load(model)
    generations = Generations(tmp_path)
    with generations.changing():
        generations.promote(learner, {})
        generations.promote(learner, {})
    for words in (["learners"], ["info", model], ["info", tmp_path], ["rollback", tmp_path]):
        program = (
            f"import sys; sys.argv = ['similia', *{[str(word) for word in words]}]\n"
            "from similia.cli import run\n"
            "try: run()\n"
            "except SystemExit as end: print(end.code, file=sys.stderr)\n"
            "print({'sklearn', 'scipy'} & set(sys.modules), file=sys.stderr)"
        )
        found = python(program)
        assert found.stderr.endswith("0\nset()\n"), found.stderr


@pytest.mark.parametrize("name", ["factoredaroma", "FACTOREDAROMA", "FactoredAROMA"])
def test_learners_are_known_in_any_capitals(name, run, files):
    output = files / "model.safetensors"
    run("learn", files / "X.npy", files / "feedback.csv", "--learner", name, "-o", output)
    assert similia.persistence.describe(output).class_name == "FactoredAROMA"


def test_a_near_miss_is_answered_by_a_proposal(run, files):
    words = ["learn", files / "X.npy", files / "feedback.csv", "-o", files / "m"]
    refused = run(*words, "--learner", "factordaroma", code=1)
    assert refused.stderr.endswith("got 'factordaroma'. Did you mean FactoredAROMA?\n")
    assert "Did you mean" not in run(*words, "--learner", "zzz", code=1).stderr


def test_an_unknown_id_points_to_items(run, files):
    path = files / "ids.csv"
    path.write_text("query,better,worse\n0,d7647,1\n", encoding="utf-8")
    words = ["learn", files / "X.npy", path, "-o", files / "m"]
    refused = run(*words, code=3)
    assert "'d7647'" in refused.stderr
    assert refused.stderr.endswith("name it by --items.\n")
    assert "--items" not in run(*words, "--items", files / "X.npy", code=3).stderr


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 ms"),
        (0.0854, "85 ms"),
        (0.9996, "1.0 s"),
        (2.44, "2.4 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (3599.7, "1 h"),
        (7440, "2 h 4 min"),
    ],
)
def test_times_are_in_human_units(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_tab_completes_commands_and_learners(shell):
    program = "from similia.cli import run; run()"
    script = python(program, _SIMILIA_COMPLETE=f"source_{shell}")
    assert "_SIMILIA_COMPLETE=complete_" in script.stdout, script.stderr
    for line, expected in (
        ("similia le", "learners"),
        ("similia learn --learner Fac", "FactoredAROMA"),
    ):
        asked = {
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - 1),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        found = python(program, _SIMILIA_COMPLETE=f"complete_{shell}", **asked)
        assert expected in found.stdout, found.stderr


def test_misuse_has_code_2(run):
    run("info", code=2)
    run("nonsense", code=2)


def python(code, **variables):
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_help_imports_nothing_heavy():
    heavy = "{'numpy', 'sklearn', 'scipy', 'matplotlib', 'safetensors'}"
    found = python(f"import similia.cli.main, sys; print({heavy} & set(sys.modules))")
    assert found.stdout == "set()\n", found.stderr


def test_entry_point_reports_errors_without_traceback(tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "similia.cli.main", "info", tmp_path / "none"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert found.stderr == f"error: {tmp_path / 'none'}: No such file or directory.\n"


def test_what_a_file_says_is_shown_and_not_obeyed(run, files):
    ids = [f"\x1b]0;owned\x07{i}\u202e" for i in range(40)]
    (files / "X.npy.ids").write_text("\n".join(ids), encoding="utf-8")
    path = files / "bad.csv"
    path.write_text("query,better,worse\n\x1b[2Jx,y,z\n", encoding="utf-8")
    refused = run("learn", files / "X.npy", path, "-o", files / "m.safetensors", code=3)
    assert "\\x1b[2Jx" in refused.stderr
    assert "\x1b" not in refused.output


def test_a_warning_that_quotes_a_file_is_shown_and_not_obeyed(capsys):
    main._show_warning(UserWarning("\x1b[2Jx"))
    assert capsys.readouterr().err == "warning: \\x1b[2Jx\n"


@pytest.mark.parametrize("first", "=+-@")
def test_printed_csv_has_no_formulas_and_is_read_again(first, run, files):
    ids = [f"{first}cmd|'/C calc'!{i}" for i in range(40)]
    (files / "X.npy.ids").write_text("\n".join(ids), encoding="utf-8")
    model, asked = files / "m.safetensors", files / "asked.csv"
    rows = [f'"{ids[i]}","{ids[i + 1]}","{ids[i + 2]}"' for i in range(9)]
    (files / "f.csv").write_text("\n".join(["query,better,worse", *rows]), encoding="utf-8")
    run("learn", files / "X.npy", files / "f.csv", "-o", model, "--learner", "FactoredAROMA")
    asked.write_text(run("suggest", model, files / "X.npy", "-n", 5).stdout, encoding="utf-8")
    lines = asked.read_text(encoding="utf-8").splitlines()[1:]
    assert [line[:2] for line in lines] == [f"'{first}"] * 5
    assert run("learn", files / "X.npy", asked, "-o", model, "--json").exit_code == 0


def test_ctrl_c_while_modules_are_imported_ends_quietly(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("similia.cli.main.main", interrupt)
    with pytest.raises(SystemExit) as ended:
        similia.cli.run()
    assert ended.value.code == 130


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("module", "code"), [("similia.registry", -signal.SIGINT), ("typer", 130)])
def test_ctrl_c_at_the_start_shows_no_traceback(module, code):
    found = python(f"""
import os, signal, sys
from similia_start import run

class Interrupt:
    def find_spec(self, name, *_):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["similia", "learners"]
run()
""")
    assert (found.returncode, found.stdout, found.stderr) == (code, "", "")


def test_a_group_of_parameters_is_taken_option_by_option():
    found = {}

    @inputs.grouped
    def command(
        sides: inputs.Sides, feedback: opt.Feedback, views: inputs.FurtherViews, n: int = 3
    ):
        found.update(sides=sides, feedback=feedback, views=views, n=n)

    names = list(inspect.signature(command).parameters)
    shared = [
        field.name for group in (inputs.Sides, inputs.FurtherViews) for field in fields(group)
    ]
    options = [name for name in shared if name != "vectors"]
    assert names == ["vectors", "feedback", "n", *options]
    given = dict.fromkeys(shared) | {"vectors": Path("x.npy"), "texts": ["title=t.txt"]}
    command(feedback=Path("f.csv"), n=4, **given)
    assert found["sides"] == inputs.Sides(vectors=Path("x.npy"))
    assert (found["feedback"], found["n"]) == (Path("f.csv"), 4)
    assert found["views"]
    assert found["views"].files().texts == {"title": Path("t.txt")}
    assert not inputs.FurtherViews()


@pytest.mark.parametrize("name", main.COMMANDS)
def test_examples_in_help_are_commands_that_parse(name):
    group = typer.main.get_command(app)
    text = help_of(name).split("Examples:\n")[1]
    lines = [shlex.split(line) for line in text.splitlines()]
    assert len(lines) == 3
    for program, command, *words in lines:
        assert (program, command) == ("similia", name)
        group.commands[command].make_context(command, words)


def test_help_lists_options_in_groups_and_each_once():
    text = help_of("learn")
    titles = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert titles[:2] == ["Arguments", "Options"]
    assert {"Judgements", "Views", "Long runs", "Many workers"} <= set(titles)
    listed = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    options = typer.main.get_command(app).commands["learn"].params
    named = {option.opts[0] for option in options if option.param_type_name == "option"}
    assert named <= set(re.findall(r"--[\w-]+", text))
