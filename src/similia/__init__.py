"""Teach an existing similarity from feedback, one judgement at a time."""

__version__ = "0.1.0"
