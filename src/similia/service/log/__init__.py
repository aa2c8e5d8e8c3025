"""The log: rows, databases, group commit."""
