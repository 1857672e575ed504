"""Learning from the log, in a process of its own."""
