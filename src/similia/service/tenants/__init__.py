"""Tenants: log, learner and items behind one object."""
