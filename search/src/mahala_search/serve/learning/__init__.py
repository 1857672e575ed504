"""Learning from the log."""
