"""Attacks on commands beside those of `targets.commands`: one file, option or key is wrong."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

import similia
from similia.cli.main import app
from tests.fuzz import hostile
from tests.fuzz.targets import check_command, forge

OPTIONS = ["--seed", "--level", "--hold-out", "--k", "--to", "--columns", "--position", "--measure"]
OPTIONS += [
    "--learner",
    "--base",
    "--view",
    "--text",
    "--id-column",
    "--depth",
    "--clip",
    "--hours",
]


def files(rng, folder):
    """A sound file of each kind, by name."""
    made = {name: folder / name for name in ("X.npy", "m.safetensors", "items.index")}
    X, rows = rng.normal(size=(10, 4)), rng.integers(10, size=(40, 3))
    np.save(made["X.npy"], X)
    similia.save(similia.OASIS().learn(X, rows), made["m.safetensors"])
    similia.build_index(X).save(made["items.index"])
    shown = np.arange(40)
    columns = {
        "judged.csv": dict(zip(("query", "better", "worse"), rows.T, strict=True)),
        "graded.csv": {"query": rows[:, 0], "item": shown % 10, "relevance": rows[:, 1] % 3},
        "log.csv": {
            "impression": shown // 4,
            "query": shown // 4,
            "item": shown % 10,
            "position": shown % 4 + 1,
            "click": shown % 3 == 0,
        },
        "lists.csv": {
            "search": shown // 4,
            "item": shown % 10,
            "team": np.where(shown % 2, "challenger", "champion"),
            "champion": np.zeros(40, int),
            "challenger": ["m"] * 40,
            "click": (shown % 3 == 0).astype(int),
        },
        "searches.csv": {"search": np.arange(5), "query": np.arange(5)},
    }
    for name, table in columns.items():
        made[name] = folder / name
        rows = zip(*table.values(), strict=True)
        lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
        made[name].write_text("\n".join(lines) + "\n")
    made["judged.parquet"] = folder / "judged.parquet"
    pq.write_table(pa.table(columns["judged.csv"]), made["judged.parquet"])
    made["ids.txt"] = folder / "ids.txt"
    made["ids.txt"].write_text("".join(f"{n}\n" for n in range(10)))
    return made


def words(rng, made, folder):
    """A command with sound arguments."""
    X, model, judged = made["X.npy"], made["m.safetensors"], made["judged.csv"]
    judged = hostile.pick(rng, [judged, made["judged.parquet"], made["graded.csv"]])
    home, out = folder / "home", folder / "out.csv"
    searched = ["--vectors", X, "--searches", made["searches.csv"]]
    return hostile.pick(
        rng,
        [
            ["clicks", X, made["log.csv"], "-o", out, "--correct"],
            ["compare", X, judged, "--learner", "OASIS", "--learner", "FactoredAROMA"],
            ["search", made["items.index"], X, "--model", model, "-k", "3"],
            ["search", made["items.index"], X, "--ids", made["ids.txt"], "--format", "jsonl"],
            ["split", home, X, judged, "-o", out],
            ["promote", home, X, judged, "--learner", "OASIS"],
            ["promote", home, X, judged, "--model", model, "--unseen"],
            ["rollback", home],
            ["interleave", "draft", model, "cosine", *searched, "-o", out],
            ["interleave", "judge", made["lists.csv"], "--json"],
            ["plot", "spectrum", model, "-o", folder / "plot.png"],
            ["keys", "add", "--keys", folder / "keys.json"],
            ["keys", "list", "--keys", folder / "keys.json"],
            ["info", made["items.index"]],
        ],
    )


def verbs(rng, folder):
    made = files(rng, folder)
    (folder / "keys.json").write_text(json.dumps(hostile.pick(rng, hostile.VALUES)))
    called = [words(rng, made, folder), words(rng, made, folder)]
    whole = set(made.values())
    for command in called:  # the second may go on where the first ended
        if rng.random() < 0.7:
            named = [part for part in command if part in made.values()]
            victim = hostile.pick(rng, named or list(made.values()))
            if victim.suffix in (".safetensors", ".index") and rng.random() < 0.6:
                if victim in whole:  # what is damaged cannot be forged
                    forge(rng, victim, victim)
            else:
                victim.write_bytes(hostile.damaged_bytes(rng, victim.read_bytes()))
            whole.discard(victim)
        if rng.random() < 0.3:
            value = str(hostile.pick(rng, hostile.VALUES))[:100].replace("\0", "")
            command = [*command, hostile.pick(rng, OPTIONS), value.replace("/", "_")]
        check_command(command[0], CliRunner().invoke(app, list(map(str, command))))
