"""Learning from a stream of lines."""
