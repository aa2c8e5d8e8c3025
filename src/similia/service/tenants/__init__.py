"""A tenant: its log, learner and items behind one object."""
