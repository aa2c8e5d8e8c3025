"""Feedback streams: scored, then learnt in chunks; counted; and questions to ask."""

from similia.stream.checkpoint import Checkpoint
from similia.stream.feedback import FeedbackReport, feedback_report
from similia.stream.learning import Learning, learn_file
from similia.stream.lessons import Tally, base_of, learn_stream, lessons_for
from similia.stream.questions import Suggestions, candidate_questions, suggest_questions

__all__ = [
    "Checkpoint",
    "FeedbackReport",
    "Learning",
    "Suggestions",
    "Tally",
    "base_of",
    "candidate_questions",
    "feedback_report",
    "learn_file",
    "learn_stream",
    "lessons_for",
    "suggest_questions",
]
