"""What follows from the log: states, snapshots, rankings."""
