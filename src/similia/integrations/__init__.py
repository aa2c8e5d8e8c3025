"""Learnt similarities in other frameworks; each module needs only its own."""
