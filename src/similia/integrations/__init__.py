"""Learnt similarities inside other frameworks; each module needs its own framework only."""
