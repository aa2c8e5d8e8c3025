"""Feedback as it comes: learnt in chunks, each scored first; evaluated, compared, asked for."""

from similia.stream.base_scorer import base_of
from similia.stream.checkpoint import Checkpoint
from similia.stream.contest import Entry, contest
from similia.stream.judged import evaluate_file, order_evaluations
from similia.stream.lessons import lessons_for
from similia.stream.progressive import learn_stream
from similia.stream.promoting import SplitFile, promote_file, split_file
from similia.stream.questions import candidate_questions
from similia.stream.tally import Tally
from similia.stream.warmup import warm_up

__all__ = [
    "Checkpoint",
    "Entry",
    "SplitFile",
    "Tally",
    "base_of",
    "candidate_questions",
    "contest",
    "evaluate_file",
    "learn_stream",
    "lessons_for",
    "order_evaluations",
    "promote_file",
    "split_file",
    "warm_up",
]
