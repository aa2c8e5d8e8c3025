"""``similia info`` and ``similia learners``: what a file holds, and what there is to learn with."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from similia.cli import options as opt
from similia.cli.printing import counted

Verbose = Annotated[
    bool, Option("--verbose", "-v", help="Also print parameters, learnt values, arrays, versions.")
]


def info(model: opt.ModelPath, verbose: Verbose = False, as_json: opt.AsJson = False) -> None:
    """Describe a saved model or index, or a folder of generations."""
    if (model / "history.json").exists():
        _generations(model, as_json)
        return
    from similia.persistence import describe, read_shares
    from similia.registry import DEFAULT

    found = describe(model)
    shares = read_shares(model) if found.class_name == DEFAULT else {}
    if as_json:
        opt.print_json(found.to_dict() | shares)
        return
    numbers = {n: v for n, v in found.attributes.items() if n not in found.tensors}
    opt.say(f"{found.class_name}{_learnt_in_words(numbers)}")
    if shares:
        opt.say("ranks by:")
        opt.print_fields(_shares_in_words(**shares), "  ")
    if assumed := found.attributes.get("assumed_"):
        opt.say(f"assumed: {assumed}")
    if not verbose:
        opt.note("Parameters, learnt values, arrays and versions: --verbose.")
        return
    opt.say(f"format: {found.format}")
    for title, fields in (
        ("parameters", found.parameters),
        ("learnt", numbers),
        ("arrays", found.tensors),
        ("written with", found.versions),
    ):
        opt.say(f"{title}:")
        opt.print_fields(fields, "  ")


def _learnt_in_words(learnt: dict[str, Any]) -> str:
    """How much a learner has learnt, if the file holds one."""
    if "n_seen_" not in learnt:
        return ""
    judgements = counted(learnt["n_seen_"], "judgement")
    return f": {judgements} learnt, {learnt.get('n_updates_', 0)} of them changed it"


def _shares_in_words(
    start: dict[str, float], weights: dict[str, float], trust: dict[str, float]
) -> dict[str, str]:
    """What ranked before any feedback, and what was learnt since."""

    def listed(weights: dict[str, float]) -> str:
        return ", ".join(f"{name} {weight:+.3g}" for name, weight in weights.items())

    clicks, W = trust["clicks"], trust["W"]
    counts = f"count {clicks:.0%}" if clicks else "do not count yet"
    return {
        "start": listed(start),
        "now": listed(weights),
        "lists": f"{counts} (by how much better they are predicted than by the start)",
        "W": f"weight {W:.3g}" if W else "does not count yet (comparisons teach it)",
    }


def _generations(folder: Path, as_json: bool) -> None:
    from similia.trust.generations import Generations

    found = Generations(folder)
    if as_json:
        opt.print_json({"current": found.current, "history": found.events})
        return
    opt.say(f"generation {found.current} is in use" + (" (the base)" * (not found.current)))
    for event in found.events:
        opt.say(
            f"  {event['time']}  {event['event']:<9}  {event['from']} -> {event['to']}  "
            f"{event.get('reason', '')}".rstrip()
        )


def learners(as_json: opt.AsJson = False) -> None:
    """List the learners."""
    from similia.registry import ALL_LEARNERS, summary

    lines = {name: summary(name) for name in ALL_LEARNERS}
    if as_json:
        opt.print_json([{"name": name, "description": line} for name, line in lines.items()])
    else:
        opt.print_fields(lines)
        opt.note("\nParameters of each: python -c 'import similia; help(similia.OASIS)'")
