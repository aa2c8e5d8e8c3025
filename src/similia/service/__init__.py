"""A service that takes feedback, learns at once, ranks, and never loses a judgement."""
