"""Feedback as it arrives: learnt in chunks, each scored first; evaluated, compared, asked for."""

from similia.stream.checkpoint import Checkpoint
from similia.stream.contest import Entry, contest
from similia.stream.evaluating import (
    Adaptation,
    calibration_on,
    evaluate_model,
    learning_curves,
    singular_values,
)
from similia.stream.feedback import FeedbackReport, MajorityVote, feedback_report, majority
from similia.stream.judged import evaluate_file, order_evaluations
from similia.stream.learning import Learning, learn_file
from similia.stream.lessons import Tally, base_of, learn_stream, lessons_for
from similia.stream.promoting import promote_file, split_file
from similia.stream.questions import Questions, candidate_questions, suggest_questions
from similia.stream.warmup import warm_up

__all__ = [
    "Adaptation",
    "Checkpoint",
    "Entry",
    "FeedbackReport",
    "Learning",
    "MajorityVote",
    "Questions",
    "Tally",
    "base_of",
    "calibration_on",
    "candidate_questions",
    "contest",
    "evaluate_file",
    "evaluate_model",
    "feedback_report",
    "learn_file",
    "learn_stream",
    "learning_curves",
    "lessons_for",
    "majority",
    "order_evaluations",
    "promote_file",
    "singular_values",
    "split_file",
    "suggest_questions",
    "warm_up",
]
